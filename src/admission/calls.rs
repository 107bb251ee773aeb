//! What every call to the store has in common: its target, whose clock stamps it, and by when it
//! must be answered. Never decides, and needs no runtime: the store keeps the deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::model::{ChargeId, ClockSource, Cost, Target};
use crate::store::{
    CallClock, CallKind, ChargeCall, ChargeRequest, IdSource, Outcome, RefundCall, Refunded,
    ResetCall, Store, StoreError, StoreErrorKind,
};

/// A store, and what its calls need.
pub(crate) struct Calls<S> {
    pub store: Arc<S>,
    pub clock: Arc<dyn Clock>,
    pub ids: IdSource,
    /// How long a check may take, store included.
    pub deadline: Duration,
}

impl<S: Store> Calls<S> {
    /// When what comes now must be answered.
    pub(super) fn deadline_at(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// The same, and by `other` at the latest.
    pub(super) fn deadline_by(&self, other: Option<Instant>) -> Instant {
        let own = self.deadline_at();
        other.map_or(own, |other| own.min(other))
    }

    /// Asks for `requests` in one call; an outcome for each, in their order.
    pub(super) async fn charge(
        &self,
        target: &Arc<Target>,
        requests: Vec<ChargeRequest>,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, StoreError> {
        let asked = requests.len();
        let call = ChargeCall {
            target: Arc::clone(target),
            requests,
            clock: self.call_clock(target),
            kind,
            deadline,
        };
        let outcomes = self.store.charge(call).await?.outcomes;
        if outcomes.len() == asked {
            return Ok(outcomes);
        }
        Err(wrong_count(asked, outcomes.len()))
    }

    /// Asks for one `request`.
    pub(super) async fn charge_one(
        &self,
        target: &Arc<Target>,
        request: ChargeRequest,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<Outcome, StoreError> {
        let mut outcomes = self.charge(target, vec![request], kind, deadline).await?;
        outcomes.pop().ok_or_else(|| wrong_count(1, 0))
    }

    /// Gives back `cost` units of the charge named `id`, or all of them.
    pub(super) async fn refund(
        &self,
        target: &Arc<Target>,
        id: ChargeId,
        cost: Option<Cost>,
        deadline: Instant,
    ) -> Result<Refunded, StoreError> {
        let call = RefundCall {
            target: Arc::clone(target),
            id,
            cost,
            clock: self.call_clock(target),
            deadline,
        };
        self.store.refund(call).await
    }

    /// Forgets what was charged to `target`.
    pub(super) async fn reset(&self, target: &Arc<Target>) -> Result<(), StoreError> {
        let (target, deadline) = (Arc::clone(target), self.deadline_at());
        self.store.reset(ResetCall { target, deadline }).await
    }

    fn call_clock(&self, target: &Target) -> CallClock {
        match target.policy.clock {
            ClockSource::Store => CallClock::Store,
            ClockSource::Caller => CallClock::At(self.clock.wall()),
        }
    }
}

fn wrong_count(asked: usize, answered: usize) -> StoreError {
    let detail = format!("{answered} answers to {asked} requests");
    StoreError::unknown("charge", StoreErrorKind::Protocol, detail)
}
