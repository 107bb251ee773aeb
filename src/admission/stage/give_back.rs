//! Gives charges back that nobody was admitted by: their check was cancelled, or answered without the
//! store while its call may have run. They wait for their shard to answer. Never admits anything.
//!
//! A call that had no answer may still run: a stalled server reads what waits in its connection when
//! it goes on. Over one connection the refund comes after it; over another it may come before, and
//! then finds nothing. So a charge that isn't found is looked for once more, [`SECOND_LOOK_AFTER`]
//! later. What runs later than that stays charged until its window has passed.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::dispatch::{Dispatcher, spawn};
use super::refund_queue::Unused;
use super::target_state::TargetState;
use crate::model::ChargeId;
use crate::store::{Refunded, Store};

/// How long after a refund that found nothing the charge is looked for again.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(1);

/// Refunds at most that are out at once.
const AT_ONCE_MAX: usize = 64;

/// How long a refund waits that its shard didn't answer.
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(100);

impl<S: Store> Dispatcher<S> {
    /// Gives the charges of these ids back, now or when their shard answers. `may_run_late` says
    /// that their call had no answer. Only a log finds a charge by its id: without one they are kept.
    pub(super) fn give_back_unused(
        self: &Arc<Self>,
        state: &Arc<TargetState>,
        ids: Vec<ChargeId>,
        may_run_late: bool,
    ) {
        if ids.is_empty() {
            return;
        }
        let now = Instant::now();
        let Some(window) = state.longest_log() else {
            self.counters.charges_kept(ids.len() as u64);
            return;
        };
        let forgotten_at = now + Duration::from(window) + SECOND_LOOK_AFTER;
        let charges = ids.into_iter().map(|id| Unused {
            state: Arc::clone(state),
            id,
            due: now,
            forgotten_at,
            may_run_late,
        });
        let (dropped, starts) = self.refunds.push(charges, self.options.refunds_waiting_max);
        self.counters.charges_kept(dropped);
        if starts {
            spawn(serve(Arc::clone(self)));
        }
    }

    /// One try; the charge comes back when it is to be tried again.
    async fn try_to_give_back(&self, mut charge: Unused) -> Option<Unused> {
        let now = Instant::now();
        if now > charge.forgotten_at {
            return None;
        }
        let shard_answers = !self.breaker(&charge.state).denies(self.calls.clock.now());
        let refunded = match shard_answers {
            true => self.refund(&charge.state, charge.id.clone(), None).await,
            false => None,
        };
        match refunded {
            Some(Refunded::Units(_)) => {
                self.counters.charge_refunded();
                None
            }
            Some(Refunded::NotFound) if charge.may_run_late => {
                charge.may_run_late = false;
                charge.due = Instant::now() + SECOND_LOOK_AFTER;
                Some(charge)
            }
            Some(Refunded::NotFound) => None,
            None => {
                charge.due = Instant::now() + TRIED_AGAIN_AFTER;
                Some(charge)
            }
        }
    }
}

/// Gives back what waits until nothing does.
async fn serve<S: Store>(dispatcher: Arc<Dispatcher<S>>) {
    let mut tries = JoinSet::new();
    loop {
        let next = match tries.len() < AT_ONCE_MAX {
            true => dispatcher.refunds.next(Instant::now()),
            false => Some(Err(None)),
        };
        let due = match next {
            Some(Ok(charge)) => {
                let dispatcher = Arc::clone(&dispatcher);
                tries.spawn(async move { dispatcher.try_to_give_back(charge).await });
                continue;
            }
            Some(Err(due)) => due,
            None if !tries.is_empty() => None,
            None if dispatcher.refunds.rest() => return,
            None => continue,
        };
        let slept = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // One that panicked is gone; it stays charged until its window has passed.
            Some(tried) = tries.join_next() => if let Ok(Some(again)) = tried {
                // Its own place is free again, or was taken by one that came meanwhile.
                let max = dispatcher.options.refunds_waiting_max;
                let (dropped, _) = dispatcher.refunds.push([again], max);
                dispatcher.counters.charges_kept(dropped);
            },
            () = dispatcher.refunds.arrived.notified() => {}
            () = slept => {}
        }
    }
}
