//! A check that waits in a lane for its call.

use std::sync::Arc;

use tokio::time::Instant;

use super::counters::OutageReason;
use super::node_ceiling::Taken;
use super::ticket::Ticket;
use crate::admission::answer::Answer;
use crate::model::{ChargeId, Cost};
use crate::store::{ChargeRequest, IdOrigin};

/// What a check asks of the store.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub id: ChargeId,
    pub origin: IdOrigin,
    pub cost: Cost,
    /// What was taken for it from the node's meters.
    pub taken: Taken,
}

impl Charge {
    /// Its id, unless that is the caller's: such a one may be known to others who rely on it, so it is
    /// the caller's to ask for again or to refund.
    pub(super) fn own_id(&self) -> Option<ChargeId> {
        (self.origin != IdOrigin::Caller).then(|| self.id.clone())
    }

    pub(super) fn request(&self) -> ChargeRequest {
        ChargeRequest {
            id: self.id.clone(),
            origin: self.origin,
            cost: self.cost,
            held_for: None,
        }
    }
}

/// Why the store gave no answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    pub reason: OutageReason,
    /// What was asked may be charged all the same.
    pub may_have_run: bool,
}

impl Unanswered {
    /// For a reason for which it was never sent.
    pub(super) const fn unsent(reason: OutageReason) -> Self {
        Unanswered {
            reason,
            may_have_run: false,
        }
    }
}

/// An answer, or why the store gave none.
pub(super) type Reply = Result<Answer, Unanswered>;

/// A check that waits for its call.
pub(super) struct PendingCheck {
    pub charge: Charge,
    pub deadline: Instant,
    pub ticket: Arc<Ticket<Reply>>,
}
