//! A check's way through the local stage. Never decides: it names the check for the stage, and the
//! stage's answer for the caller.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::outcome::Asked;
use super::{CheckError, Limiter, Resolved};
use crate::admission::{Admission, Answer, First, LocalAnswer, Names, Pass, TargetState, Verdict};
use crate::model::{Check, Cost, Decision, Timestamp, UNITS_MAX};
use crate::store::{IdOrigin, Outcome, Store};

/// Where a check stands after its first look.
enum Step {
    Done(Decision),
    Ask {
        state: Arc<TargetState>,
        asked: Asked,
        origin: IdOrigin,
        pass: Pass,
    },
}

impl<S: Store> Limiter<S> {
    pub(super) async fn check_by_stage(
        &self,
        stage: &Admission<S>,
        check: &Check,
    ) -> Result<Decision, CheckError> {
        let (state, asked, origin, pass) = match self.first_step(stage, check)? {
            Step::Done(decision) => return Ok(decision),
            Step::Ask {
                state,
                asked,
                origin,
                pass,
            } => (state, asked, origin, pass),
        };
        let rider = (asked.id.clone(), origin, asked.cost);
        Ok(match stage.ask(&state, rider, pass).await {
            Answer::Store(outcome) => asked.by_store(&state.target, &outcome),
            Answer::Local(answer) => by_stage(asked, answer),
            Answer::Outage(answer) => asked.in_outage(answer.admitted, answer.retry),
        })
    }

    /// Decides a check when a remembered denial or a lease answers it on this thread: the cheapest
    /// way for a caller that needs no more than yes or no. Counted and spent like a check. `None`
    /// says nothing of the check: ask [`Limiter::check`].
    pub fn check_locally(&self, check: &Check) -> Option<Verdict> {
        let stage = self.stage.as_ref()?;
        if check.id.is_some() || check.cost == 0 {
            return None;
        }
        let cost = check.cost.min(UNITS_MAX + 1);
        let (now, revision) = (self.clock.now(), self.revision.load(Ordering::Acquire));
        let verdict = stage.look(&names(check), revision, now, |seat| {
            stage.verdict(&seat.state, cost, now)
        });
        verdict.flatten()
    }

    fn first_step(&self, stage: &Admission<S>, check: &Check) -> Result<Step, CheckError> {
        let now = self.clock.now();
        let names = names(check);
        // A check with its caller's own id is never answered here, so its id may be read later.
        if check.id.is_none() {
            let cost = check.cost.min(UNITS_MAX + 1);
            let revision = self.revision.load(Ordering::Acquire);
            let known = stage.look(&names, revision, now, |seat| {
                let asked = Asked {
                    policy: seat.policy.clone(),
                    subject: seat.subject.clone(),
                    region: seat.region.clone(),
                    cost,
                    id: self.ids.next(),
                };
                step(stage, &seat.state, asked, IdOrigin::Fresh, now)
            });
            if let Some(step) = known {
                return Ok(step);
            }
        }
        let snapshot = self.policies.load();
        let Resolved {
            target,
            region,
            id,
            origin,
            cost,
        } = self.resolve(check, &snapshot)?;
        let state = stage.state(&names, &target, snapshot.revision, now);
        let asked = Asked {
            policy: target.policy.name.clone(),
            subject: target.subject.clone(),
            region,
            cost,
            id,
        };
        Ok(step(stage, &state, asked, origin, now))
    }
}

fn names(check: &Check) -> Names<'_> {
    Names {
        policy: &check.policy,
        subject: &check.subject,
        region: check.region.as_deref(),
    }
}

fn step<S: Store>(
    stage: &Admission<S>,
    state: &Arc<TargetState>,
    asked: Asked,
    origin: IdOrigin,
    now: Timestamp,
) -> Step {
    if state.target.ceilings.is_empty() {
        let nothing_to_count = Outcome {
            ceilings: Vec::new(),
            repeated: false,
        };
        return Step::Done(asked.by_store(&state.target, &nothing_to_count));
    }
    let pass = match first(stage, state, asked.cost, origin, now) {
        First::Answered(answer) => return Step::Done(by_stage(asked, answer)),
        First::Ask(pass) => pass,
    };
    Step::Ask {
        state: Arc::clone(state),
        asked,
        origin,
        pass,
    }
}

fn first<S: Store>(
    stage: &Admission<S>,
    state: &Arc<TargetState>,
    cost: Cost,
    origin: IdOrigin,
    now: Timestamp,
) -> First {
    match origin {
        IdOrigin::Caller => First::Ask(Admission::<S>::pass_callers_own()),
        IdOrigin::Fresh | IdOrigin::Resent => stage.decide(state, cost, now),
    }
}

fn by_stage(asked: Asked, answer: LocalAnswer) -> Decision {
    asked.by_stage(answer.source, answer.retry, answer.ceilings)
}
