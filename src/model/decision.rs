//! The answer to a check. A denial is a value, not an error; absent means "doesn't apply".

use super::ceiling::Scope;
use super::check::{ChargeId, Cost};
use super::policy::PolicyName;
use super::subject::{Region, Subject};
use super::time::Micros;

/// Which part of the limiter answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    Store,
    /// A denial remembered from the store.
    DenialCache,
    /// This node's own ceiling: no conforming client could have sent this.
    NodeCeiling,
    /// Capacity that was charged ahead.
    Lease,
    /// The policy's outage choice.
    Outage,
}

impl Source {
    /// All sources, in the order in which a check meets them.
    pub const ALL: [Source; 5] = [
        Source::DenialCache,
        Source::Lease,
        Source::NodeCeiling,
        Source::Store,
        Source::Outage,
    ];

    /// The name in answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Store => "store",
            Source::DenialCache => "denial_cache",
            Source::NodeCeiling => "node_ceiling",
            Source::Lease => "lease",
            Source::Outage => "outage",
        }
    }
}

/// When the same request, alone, would be admitted. There are no other answers, so a match may be
/// exhaustive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Retry {
    /// After this long, and not one microsecond earlier.
    After(Micros),
    /// Never: it costs more than the ceiling ever allows.
    Never,
}

impl Retry {
    /// The wait, unless there is none that helps.
    pub const fn after(self) -> Option<Micros> {
        match self {
            Retry::After(wait) => Some(wait),
            Retry::Never => None,
        }
    }
}

/// One ceiling after the check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CeilingStatus {
    /// What it is over.
    pub scope: Scope,
    /// The region, when it is one region's.
    pub region: Option<Region>,
    /// Units per window.
    pub limit: u64,
    /// The window.
    pub window: Micros,
    /// Units left now.
    pub remaining: u64,
    /// Until the ceiling is whole again if nothing more comes.
    pub reset_after: Micros,
    /// When this ceiling would admit; absent when it had room.
    pub retry: Option<Retry>,
}

impl CeilingStatus {
    /// A whole ceiling of `limit` units in each `window`.
    pub fn new(scope: Scope, limit: u64, window: Micros) -> Self {
        CeilingStatus {
            scope,
            region: None,
            limit,
            window,
            remaining: limit,
            reset_after: Micros::ZERO,
            retry: None,
        }
    }
}

/// The ceiling that decided, or that is closest to deciding.
pub type Binding = Scope;

/// What every decision says, admitted or denied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionFacts {
    /// The policy asked.
    pub policy: PolicyName,
    /// Who was limited.
    pub subject: Subject,
    /// Where.
    pub region: Option<Region>,
    /// Units asked for.
    pub cost: Cost,
    /// The charge's name, for a repeat or a refund.
    pub id: ChargeId,
    /// Whether it was decided without the store, by the policy's outage choice.
    pub degraded: bool,
    /// Which part of the limiter answered.
    pub source: Source,
    /// Each ceiling that applies, global first; empty when all are unlimited or when an outage
    /// left their state unknown.
    pub ceilings: Vec<CeilingStatus>,
}

impl DecisionFacts {
    /// The store's word on one unit, under no ceiling.
    pub fn new(policy: PolicyName, subject: Subject, id: ChargeId) -> Self {
        DecisionFacts {
            policy,
            subject,
            region: None,
            cost: 1,
            id,
            degraded: false,
            source: Source::Store,
            ceilings: Vec::new(),
        }
    }
}

/// The check may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// What every decision says.
    pub facts: DecisionFacts,
    /// Leaky bucket only: how long to wait before going on, so that the backend sees a steady
    /// rate.
    pub delay: Option<Micros>,
}

impl Grant {
    /// Without a delay.
    pub fn new(facts: DecisionFacts) -> Self {
        Grant { facts, delay: None }
    }
}

/// The check must not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// What every decision says.
    pub facts: DecisionFacts,
    /// When to come again; absent when that is unknown (an outage).
    pub retry: Option<Retry>,
}

impl Denial {
    /// Until `retry`, if that is known.
    pub fn new(facts: DecisionFacts, retry: Option<Retry>) -> Self {
        Denial { facts, retry }
    }
}

/// The answer to a check. There are no other answers, so a match may be exhaustive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may go on.
    Admitted(Grant),
    /// It must not.
    Denied(Denial),
}

impl Decision {
    /// Whether the check may go on.
    pub const fn is_admitted(&self) -> bool {
        matches!(self, Decision::Admitted(_))
    }

    /// What every decision says.
    pub const fn facts(&self) -> &DecisionFacts {
        match self {
            Decision::Admitted(grant) => &grant.facts,
            Decision::Denied(denial) => &denial.facts,
        }
    }

    /// How long to wait before the same request, alone, would be admitted; absent when admitted,
    /// when that is never, or when it is unknown.
    pub fn retry_after(&self) -> Option<Micros> {
        match self {
            Decision::Admitted(_) => None,
            Decision::Denied(denial) => denial.retry.and_then(Retry::after),
        }
    }

    /// Whether the same request can never be admitted: it costs more than a ceiling allows.
    pub fn is_never(&self) -> bool {
        matches!(
            self,
            Decision::Denied(Denial {
                retry: Some(Retry::Never),
                ..
            })
        )
    }

    /// The ceiling that decided. On a denial the one that denies for longest (`Never` before
    /// all); when admitted the one with the least remaining per limit, ties to the longest reset.
    pub fn binding(&self) -> Option<&CeilingStatus> {
        let ceilings = &self.facts().ceilings;
        if let Some(denying) = ceilings
            .iter()
            .filter(|c| c.retry.is_some())
            .max_by_key(|c| c.retry)
        {
            return Some(denying);
        }
        ceilings.iter().min_by(|a, b| {
            let left = |x: &CeilingStatus, y: &CeilingStatus| {
                u128::from(x.remaining) * u128::from(y.limit)
            };
            left(a, b)
                .cmp(&left(b, a))
                .then(b.reset_after.cmp(&a.reset_after))
        })
    }
}
