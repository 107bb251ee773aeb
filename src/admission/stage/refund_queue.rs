//! Charges that wait to be given back. Never sends anything itself, and never holds more than its
//! bound.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::target_state::TargetState;
use crate::model::ChargeId;

/// A charge to give back, whole.
pub(super) struct Unused {
    pub state: Arc<TargetState>,
    pub id: ChargeId,
    pub due: Instant,
    /// Its ceilings remember it until then at the latest.
    pub forgotten_at: Instant,
    /// Whether it may still come to be charged.
    pub may_run_late: bool,
}

/// Those that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct RefundQueue {
    waiting: Mutex<Waiting>,
    /// Notified when one comes.
    pub arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    charges: VecDeque<Unused>,
    /// A task gives them back.
    is_served: bool,
}

impl RefundQueue {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.lock().charges.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds those that have room among `max`; how many had none, and whether a task must be started.
    pub(super) fn push(
        &self,
        charges: impl IntoIterator<Item = Unused>,
        max: usize,
    ) -> (u64, bool) {
        let mut waiting = self.lock();
        let mut dropped = 0;
        for charge in charges {
            match waiting.charges.len() < max {
                true => waiting.charges.push_back(charge),
                false => dropped += 1,
            }
        }
        self.arrived.notify_one();
        let starts = !waiting.is_served && !waiting.charges.is_empty();
        waiting.is_served |= starts;
        (dropped, starts)
    }

    /// The next that is due, or when one will be; `None` when none waits.
    pub(super) fn next(&self, now: Instant) -> Option<Result<Unused, Option<Instant>>> {
        let mut waiting = self.lock();
        let due = waiting.charges.iter().position(|charge| charge.due <= now);
        if let Some(charge) = due.and_then(|at| waiting.charges.remove(at)) {
            return Some(Ok(charge));
        }
        let soonest = waiting.charges.iter().map(|charge| charge.due).min();
        soonest.map(|soonest| Err(Some(soonest)))
    }

    /// Ends the task that serves it, unless one has come that waits.
    pub(super) fn rest(&self) -> bool {
        let mut waiting = self.lock();
        waiting.is_served = !waiting.charges.is_empty();
        !waiting.is_served
    }
}
