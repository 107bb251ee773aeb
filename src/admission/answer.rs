//! A check on its way, and what is said to it: the same two types whoever answers. Never decides.

use std::sync::Arc;

use crate::model::{
    Ceiling, CeilingStatus, ChargeId, Check, Cost, Decision, DecisionFacts, Denial, Grant, Micros,
    PolicyName, Region, Retry, Scope, Source, Subject, Target, UNITS_MAX,
};
use crate::store::{ChargeRequest, IdOrigin, Outcome};

/// A check whose names are known to be good.
#[derive(Debug)]
pub(crate) struct Request {
    pub policy: PolicyName,
    pub subject: Subject,
    pub region: Option<Region>,
    pub cost: Cost,
    pub id: ChargeId,
    pub origin: IdOrigin,
}

/// A check's names, looked up in the configuration numbered `revision`.
pub(crate) struct Resolved {
    pub request: Request,
    pub target: Target,
    pub revision: u64,
}

impl Resolved {
    pub(super) fn parts(self) -> (Request, Arc<Target>) {
        (self.request, Arc::new(self.target))
    }
}

/// What is said to a check, by whichever source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub source: Source,
    pub admitted: bool,
    /// When a denied check may come again, if that is known.
    pub retry: Option<Retry>,
    /// How long an admitted one has to wait.
    pub delay: Option<Micros>,
    /// Whether the store charged it just now.
    pub charged: bool,
    /// The ceilings whose state is known.
    pub ceilings: Vec<CeilingStatus>,
}

impl Request {
    /// The units that `check` asks for. A cost beyond every limit is denied for ever, however far
    /// beyond; the bound keeps the store's numbers exact.
    pub(crate) fn cost_of(check: &Check) -> Cost {
        check.cost.min(UNITS_MAX + 1)
    }

    /// What is asked of the store.
    pub(super) fn charge(&self) -> ChargeRequest {
        ChargeRequest {
            id: self.id.clone(),
            origin: self.origin,
            cost: self.cost,
            held_for: None,
        }
    }

    /// The answer in the caller's words.
    pub(super) fn decision(self, answer: Answer) -> Decision {
        let facts = DecisionFacts {
            policy: self.policy,
            subject: self.subject,
            region: self.region,
            cost: self.cost,
            id: self.id,
            degraded: answer.source == Source::Outage,
            source: answer.source,
            ceilings: answer.ceilings,
        };
        if answer.admitted {
            let delay = answer.delay;
            Decision::Admitted(Grant { facts, delay })
        } else {
            let retry = answer.retry;
            Decision::Denied(Denial { facts, retry })
        }
    }
}

impl Answer {
    /// No ceiling applies, so nothing is counted.
    pub(super) const UNLIMITED: Answer = Answer::new(Source::Store, true, None, Vec::new());

    const fn new(
        source: Source,
        admitted: bool,
        retry: Option<Retry>,
        ceilings: Vec<CeilingStatus>,
    ) -> Self {
        Answer {
            source,
            admitted,
            retry,
            delay: None,
            charged: false,
            ceilings,
        }
    }

    /// Said by `source` without the store: denied when it names a `retry`.
    #[cfg(feature = "local-stage")]
    pub(super) fn local(
        source: Source,
        retry: Option<Retry>,
        ceilings: Vec<CeilingStatus>,
    ) -> Self {
        Answer::new(source, retry.is_none(), retry, ceilings)
    }

    /// Said by the policy's outage choice.
    pub(super) fn in_outage(admitted: bool, retry: Option<Retry>) -> Self {
        Answer::new(Source::Outage, admitted, retry, Vec::new())
    }

    /// Said by the store.
    pub(super) fn by_store(target: &Target, outcome: &Outcome) -> Self {
        let statuses = target.ceilings.iter().zip(&outcome.ceilings);
        let statuses = statuses.map(|(ceiling, after)| CeilingStatus {
            remaining: after.remaining,
            reset_after: after.reset_after,
            retry: after.retry,
            ..whole(target, ceiling)
        });
        let retry = outcome.ceilings.iter().filter_map(|c| c.retry).max();
        Answer {
            delay: outcome.ceilings.iter().filter_map(|c| c.delay).max(),
            charged: retry.is_none() && !outcome.repeated,
            ..Answer::new(Source::Store, retry.is_none(), retry, statuses.collect())
        }
    }
}

/// How `ceiling` of `target` stands when nothing was charged to it.
pub(super) fn whole(target: &Target, ceiling: &Ceiling) -> CeilingStatus {
    let region = match ceiling.scope {
        Scope::Global => None,
        Scope::Region => target.region.clone(),
    };
    let quota = ceiling.quota;
    CeilingStatus {
        region,
        ..CeilingStatus::new(ceiling.scope, quota.limit(), quota.window())
    }
}
