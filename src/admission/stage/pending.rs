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
    pub(super) fn request(&self) -> ChargeRequest {
        ChargeRequest {
            id: self.id.clone(),
            origin: self.origin,
            cost: self.cost,
            held_for: None,
        }
    }
}

/// An answer, or why the store can't give one.
pub(super) type Reply = Result<Answer, OutageReason>;

/// A check that waits for its call.
pub(super) struct PendingCheck {
    pub charge: Charge,
    pub deadline: Instant,
    pub ticket: Arc<Ticket<Reply>>,
}
