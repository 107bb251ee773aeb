//! The local stage: what answers without a round trip, and what carries the rest to the store.
//!
//! A check meets, in this order: its target's lease (capacity that is charged already), the
//! denials that the store told of, the node's own ceiling, its lane, the shard's breaker. A check
//! with its caller's own id goes straight to the lane: the store may know the id from another node
//! and then answers as it did before, whatever is denied now.
//!
//! Never admits what nobody charged, but for a policy's outage choice, and then the decision says
//! so. Never denies what the store would admit to a client that keeps to its ceilings.
//!
//! Needs a tokio runtime: deadlines are its timers.

mod ask;
mod breaker;
mod breakers;
mod carrier;
mod counters;
mod denial_cache;
mod engine;
pub(crate) mod fleet;
mod front;
mod lane;
mod lease;
mod local;
mod meter;
mod node_ceiling;
mod options;
mod outage;
mod share;
mod subjects;
mod sync;
mod target_state;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use breaker::{BreakerOptions, BreakerState};
pub use counters::{OutageReason, StageStats};
pub use local::Verdict;
pub use options::{LocalStage, LocalStageError};

use self::ask::Asked;
use self::carrier::Carried;
use self::engine::{Engine, Rider, spawn};
use self::front::Front;
use self::local::Local;
use self::subjects::Subjects;
use self::target_state::Taken;
use crate::clock::Clock;
use crate::model::{ChargeId, Cost, Source, Target, Timestamp};
use crate::store::{IdOrigin, IdSource, Outcome, Store};

pub(crate) use fleet::{Cause, FleetView, Invalidation, decode, encode};
pub(crate) use front::{Names, Seat};
pub(crate) use local::LocalAnswer;
pub(crate) use outage::OutageAnswer;
pub(crate) use target_state::TargetState;

/// The local stage of one limiter.
pub(crate) struct Admission<S> {
    engine: Arc<Engine<S>>,
    subjects: Subjects,
    front: Front,
}

/// What a limiter gives its stage.
pub(crate) struct Parts<S> {
    pub store: Arc<S>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<IdSource>,
    pub fleet: Arc<FleetView>,
    pub options: LocalStage,
    pub deadline: Duration,
}

/// The first word on a check.
pub(crate) enum First {
    /// Its answer.
    Answered(LocalAnswer),
    /// It needs the store.
    Ask(Pass),
}

/// A check's leave to ask the store.
#[derive(Debug)]
pub(crate) struct Pass(Local);

/// The last word on a check that needed the store.
pub(crate) enum Answer {
    /// The store's.
    Store(Outcome),
    /// The local stage's after all.
    Local(LocalAnswer),
    /// The policy's outage choice.
    Outage(OutageAnswer),
}

impl<S: Store> Admission<S> {
    pub(crate) fn new(parts: Parts<S>) -> Self {
        static STAGES: AtomicU64 = AtomicU64::new(0);
        let seed = RandomState::new().hash_one("subjects");
        Admission {
            subjects: Subjects::new(&parts.options, seed),
            front: Front::new(STAGES.fetch_add(1, Ordering::Relaxed), seed),
            engine: Arc::new(Engine::new(
                parts.store,
                parts.clock,
                parts.ids,
                parts.fleet,
                parts.options,
                parts.deadline,
            )),
        }
    }

    /// Looks at the state of `names` if this thread used it lately and the configuration numbered
    /// `revision` still has it so. `look` must not ask the stage for another.
    pub(crate) fn look<T>(
        &self,
        names: &Names<'_>,
        revision: u64,
        now: Timestamp,
        look: impl FnOnce(&Seat) -> T,
    ) -> Option<T> {
        self.front.look(names, revision, now, look)
    }

    /// The state of `target`, which this thread will find by `names` from now on.
    pub(crate) fn state(
        &self,
        names: &Names<'_>,
        target: &Target,
        revision: u64,
        now: Timestamp,
    ) -> Arc<TargetState> {
        let state = self.subjects.state(target, revision);
        self.front.seat(names, now, &state);
        state
    }

    /// Decides a check that has no id of its caller's, if that needs no round trip.
    pub(crate) fn decide(&self, state: &Arc<TargetState>, cost: Cost, now: Timestamp) -> First {
        let engine = &self.engine;
        let node_ceiling = engine.options.node_ceiling;
        match local::decide(state, cost, now, engine.denials.as_ref(), node_ceiling) {
            Local::Answered { answer, renews } => {
                if renews {
                    self.renew(state);
                }
                engine.counters.answered(answer.source);
                First::Answered(answer)
            }
            pass => First::Ask(Pass(pass)),
        }
    }

    /// As [`Admission::decide`], as far as a lease or a remembered denial answers, and without
    /// saying more than yes or no.
    pub(crate) fn verdict(
        &self,
        state: &Arc<TargetState>,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Verdict> {
        let engine = &self.engine;
        if let Some(lease) = &state.lease
            && let Some(spent) = lease.spend(cost, now)
        {
            if spent.is_low {
                self.renew(state);
            }
            engine.counters.answered(Source::Lease);
            return Some(Verdict {
                source: Source::Lease,
                retry: None,
            });
        }
        let denied = state.denied(now, cost, engine.denials.as_ref()?)?;
        engine.counters.answered(Source::DenialCache);
        Some(Verdict {
            source: Source::DenialCache,
            retry: denied.longest(),
        })
    }

    /// Leave for a check with its caller's own id.
    pub(crate) fn pass_callers_own() -> Pass {
        Pass(Local::Ask(Taken::default()))
    }

    /// Asks the store, and decides by the policy's outage choice when it can't answer in time.
    pub(crate) async fn ask(
        &self,
        state: &Arc<TargetState>,
        (id, origin, cost): (ChargeId, IdOrigin, Cost),
        pass: Pass,
    ) -> Answer {
        let (taken, _turn) = match pass.0 {
            Local::Ask(taken) => (taken, None),
            Local::AskOrDeny { ceiling, wait } => match AskingTurn::take(state) {
                Some(turn) => (Taken::default(), Some(turn)),
                None => {
                    let now = self.engine.clock.now();
                    return self.counted(Answer::Local(local::beyond_node_ceiling(
                        state, ceiling, wait, now,
                    )));
                }
            },
            Local::Answered { answer, .. } => return self.counted(Answer::Local(answer)),
        };
        let rider = Rider {
            id,
            origin,
            cost,
            taken,
        };
        let engine = &self.engine;
        let outage = |reason| {
            let now = engine.clock.now();
            engine.degraded(reason, now);
            outage::decide(engine, state, cost, now)
        };
        let answer = match ask::ask(engine, state, rider, outage).await {
            Asked::Carried(Carried::Decided(outcome)) => Answer::Store(outcome),
            Asked::Carried(Carried::Local(answer)) => Answer::Local(answer),
            Asked::Carried(Carried::Failed(reason)) => Answer::Outage(outage(reason)),
            Asked::Outage(answer) => Answer::Outage(answer),
        };
        self.counted(answer)
    }

    fn counted(&self, answer: Answer) -> Answer {
        self.engine.counters.answered(match &answer {
            Answer::Store(_) => Source::Store,
            Answer::Local(answer) => answer.source,
            Answer::Outage(_) => Source::Outage,
        });
        answer
    }

    /// Fetches the target's next lease beside the checks.
    fn renew(&self, state: &Arc<TargetState>) {
        let engine = &self.engine;
        let Some(claim) = engine.claim_lease(state) else {
            return;
        };
        let Some(permit) = engine.breaker(state).permit(engine.clock.now()) else {
            return;
        };
        let (deadline, state) = (engine.deadline_at(), Arc::clone(state));
        let charge = Arc::clone(engine).charge(state, Vec::new(), Some(claim), permit, deadline);
        spawn(async move {
            // Without a lease the next checks ask the store themselves.
            let _ = charge.await;
        });
    }

    /// The store gave a charge of `target` back, or forgot it: so does this node, and the others
    /// are told.
    pub(crate) fn forget(&self, target: &Target, cause: Cause) {
        let (policy, subject) = (target.policy.name.as_str(), target.subject.as_str());
        self.subjects.each(policy, subject, |state| {
            let is_it = state.target.region == target.region;
            match cause {
                Cause::Refunded(units) if is_it => state.refunded(units),
                Cause::Reset if is_it => state.reset(),
                // A lease of another region was charged to the global ceiling too.
                Cause::Reset => state.lose_lease(),
                Cause::Refunded(_) => {}
            }
        });
        self.engine.announce(target, cause);
    }

    /// Another node's news.
    pub(crate) fn heard(&self, news: &Invalidation) {
        let (policy, subject) = (news.policy.as_str(), news.subject.as_str());
        self.subjects
            .each(policy, subject, |state| apply(state, news.cause));
    }

    /// News may have been missed: nothing that is denied is believed any more.
    pub(crate) fn missed_news(&self) {
        for state in self.subjects.all() {
            apply(&state, Cause::Refunded(0));
        }
    }

    /// What is known of the fleet.
    pub(crate) fn fleet(&self) -> &Arc<FleetView> {
        &self.engine.fleet
    }

    /// Ends all leases and hands back what nobody spent; how many there were.
    pub(crate) fn end_leases(&self) -> usize {
        let states = self.subjects.all().into_iter();
        let leases = states.filter_map(|state| {
            let lease = state.lease.as_ref()?.current()?;
            Some((state, lease))
        });
        leases
            .map(|(state, lease)| self.engine.end_lease(&state, lease))
            .count()
    }

    /// What was done so far.
    pub(crate) fn stats(&self) -> StageStats {
        StageStats {
            subjects: self.subjects.len(),
            nodes: self.engine.nodes(),
            news_dropped: self.engine.fleet.dropped(),
            breakers: self.engine.breakers.states(),
            ..self.engine.counters.read()
        }
    }
}

fn apply(state: &TargetState, cause: Cause) {
    match cause {
        Cause::Refunded(units) => state.refunded(units),
        Cause::Reset => state.reset(),
    }
}

/// The turn of the one check of a target that asks the store though the node ceiling refuses.
struct AskingTurn(Arc<TargetState>);

impl AskingTurn {
    fn take(state: &Arc<TargetState>) -> Option<Self> {
        let free = !state.asking.swap(true, Ordering::AcqRel);
        free.then(|| AskingTurn(Arc::clone(state)))
    }
}

impl Drop for AskingTurn {
    fn drop(&mut self) {
        self.0.asking.store(false, Ordering::Release);
    }
}
