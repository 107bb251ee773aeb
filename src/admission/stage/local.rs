//! What is said to a check without a round trip: by a lease, a remembered denial, or the node
//! ceiling.

use super::target_state::{Retries, TargetState};
use crate::admission::answer::Answer;
use crate::model::{Cost, Micros, Retry, Source, Timestamp};

/// A local answer, before the ceilings are listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalAnswer {
    pub source: Source,
    /// What each ceiling denies; none when it is admitted.
    retries: Retries,
    /// Units left in the lease that admitted it.
    lease_left: Cost,
}

/// Yes or no, without the reasons that a [`crate::Decision`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalDecision {
    /// Who said it.
    pub source: Source,
    /// When to come again; absent when the check may go on.
    pub retry: Option<Retry>,
}

impl LocalDecision {
    /// Admitted by a lease.
    pub(super) const fn leased() -> Self {
        LocalDecision {
            source: Source::Lease,
            retry: None,
        }
    }

    /// Denied as the store denied it before.
    pub(super) const fn denied(retry: Option<Retry>) -> Self {
        LocalDecision {
            source: Source::DenialCache,
            retry,
        }
    }

    /// Whether the check may go on.
    pub const fn is_admitted(&self) -> bool {
        self.retry.is_none()
    }
}

impl LocalAnswer {
    /// Admitted by a lease, which has so many units left.
    pub(super) fn from_lease(left: Cost) -> Self {
        LocalAnswer {
            source: Source::Lease,
            retries: Retries::default(),
            lease_left: left,
        }
    }

    /// Denied as the store denied it before.
    pub(super) fn remembered(retries: Retries) -> Self {
        LocalAnswer {
            source: Source::DenialCache,
            retries,
            lease_left: 0,
        }
    }

    /// Denied by the node ceiling numbered `ceiling`, for as long as this node would not ask the
    /// store: that one may name a longer wait then.
    pub(super) fn over_node_ceiling(ceiling: usize, wait: Micros) -> Self {
        LocalAnswer {
            source: Source::NodeCeiling,
            retries: Retries::of(ceiling, Retry::After(wait)),
            lease_left: 0,
        }
    }

    /// With the ceilings as the store last answered.
    pub(super) fn in_full(self, state: &TargetState, now: Timestamp) -> Answer {
        let mut ceilings = state.statuses(&self.retries, now);
        if self.source == Source::Lease {
            for ceiling in &mut ceilings {
                let remaining = ceiling.remaining.saturating_add(self.lease_left);
                ceiling.remaining = remaining.min(ceiling.limit);
            }
        }
        Answer::local(self.source, self.retries.longest(), ceilings)
    }
}
