//! Sends a lane's pending checks to the store, many in one call, and their answers back. Never
//! waits when nothing is out, and never leaves an answer without saying whose it was.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::counters::OutageReason;
use super::dispatch::Dispatcher;
use super::local::LocalAnswer;
use super::pending::{PendingCheck, Unanswered};
use super::target_state::TargetState;
use crate::admission::answer::Answer;
use crate::store::{IdOrigin, REQUESTS_MAX, Store};

type Batch = Pin<Box<dyn Future<Output = usize> + Send>>;

/// Sends a lane's pending checks to the store until none waits and no call is out. At most one
/// runs for a lane.
pub(super) async fn drain<S: Store>(dispatcher: Arc<Dispatcher<S>>, state: Arc<TargetState>) {
    let mut turn = Turn {
        dispatcher: &dispatcher,
        state: &state,
        retired: false,
    };
    let mut calls: Vec<Batch> = Vec::new();
    let wait_max = dispatcher.options.batch_wait_max;
    let mut sent_at = Instant::now();
    let mut tick = pin!(tokio::time::sleep_until(sent_at + wait_max));
    loop {
        let out = calls.len() + usize::from(state.lane.has_lone_call());
        let is_due =
            out == 0 || (out < dispatcher.options.lane_calls_max && sent_at.elapsed() >= wait_max);
        if is_due && state.lane.waiting() > 0 {
            let batch = next_batch(&dispatcher, &state);
            if !batch.is_empty() {
                calls.push(Box::pin(send_batch(
                    Arc::clone(&dispatcher),
                    Arc::clone(&state),
                    batch,
                )));
                sent_at = Instant::now();
                tick.as_mut().reset(sent_at + wait_max);
            }
        }
        if calls.is_empty() && !state.lane.has_lone_call() {
            if state.lane.waiting() == 0 && state.lane.retire() {
                turn.retired = true;
                return;
            }
            // Somebody is just putting itself into the lane.
            tokio::task::yield_now().await;
            continue;
        }
        let mut lone_ended = pin!(state.lone_call_ended.notified());
        let answered = poll_fn(|cx| {
            if let Some(answered) = poll_calls(&mut calls, cx) {
                return Poll::Ready(answered);
            }
            if lone_ended.as_mut().poll(cx).is_ready() {
                return Poll::Ready(0);
            }
            tick.as_mut().poll(cx).map(|()| 0)
        })
        .await;
        if tick.is_elapsed() {
            tick.as_mut().reset(Instant::now() + wait_max);
        }
        if answered > 1 {
            // Those who were answered may ask again at once: let them, so that the next call
            // carries them all.
            tokio::task::yield_now().await;
        }
    }
}

/// How many checks the calls that ended answered; `None` while none ended.
fn poll_calls(calls: &mut Vec<Batch>, cx: &mut Context<'_>) -> Option<usize> {
    let mut ended = None;
    calls.retain_mut(|call| match call.as_mut().poll(cx) {
        Poll::Ready(answered) => {
            *ended.get_or_insert(0) += answered;
            false
        }
        Poll::Pending => true,
    });
    ended
}

/// Those that waited longest and still wait; what is surely denied by now is answered so and not sent.
fn next_batch<S: Store>(dispatcher: &Arc<Dispatcher<S>>, state: &TargetState) -> Vec<PendingCheck> {
    let now = dispatcher.calls.clock.now();
    // A lease may ride along, and a call has room for so many and no more.
    let room = REQUESTS_MAX - usize::from(state.lease.is_some());
    let len_max = dispatcher.options.batch_len_max.min(room);
    let mut batch = Vec::new();
    while batch.len() < len_max {
        let Some(pending) = state.lane.pop() else {
            break;
        };
        dispatcher.counters.waiting.fetch_sub(1, Ordering::AcqRel);
        let charge = &pending.charge;
        if !pending.ticket.claim() {
            state.give_back(charge.taken, charge.cost);
            continue;
        }
        let denied = dispatcher
            .denials
            .as_ref()
            .filter(|_| charge.origin != IdOrigin::Caller)
            .and_then(|bounds| state.denied(now, charge.cost, bounds));
        match denied {
            Some(retries) => {
                state.give_back(charge.taken, charge.cost);
                let answer = LocalAnswer::remembered(retries).in_full(state, now);
                // One that was cancelled meanwhile charged nothing.
                let _ = pending.ticket.deliver(Ok(answer));
            }
            None => batch.push(pending),
        }
    }
    batch
}

async fn send_batch<S: Store>(
    dispatcher: Arc<Dispatcher<S>>,
    state: Arc<TargetState>,
    batch: Vec<PendingCheck>,
) -> usize {
    let count = batch.len();
    match answers(&dispatcher, &state, &batch).await {
        Ok(answers) => {
            let mut unused = Vec::new();
            for (pending, answer) in batch.into_iter().zip(answers) {
                if let Err((Ok(answer), false)) = pending.ticket.deliver(Ok(answer))
                    && answer.charged
                {
                    unused.extend(pending.charge.own_id());
                }
            }
            dispatcher.give_back_unused(&state, unused, false);
        }
        Err(why) => {
            let mut unused = Vec::new();
            for pending in batch {
                // A caller that cancelled has decided for itself, and may not keep the charge.
                if let Err((_, false)) = pending.ticket.deliver(Err(why))
                    && why.may_have_run
                {
                    unused.extend(pending.charge.own_id());
                }
            }
            dispatcher.give_back_unused(&state, unused, true);
        }
    }
    count
}

async fn answers<S: Store>(
    dispatcher: &Arc<Dispatcher<S>>,
    state: &Arc<TargetState>,
    batch: &[PendingCheck],
) -> Result<Vec<Answer>, Unanswered> {
    let Some(permit) = dispatcher.permit(state) else {
        for pending in batch {
            state.give_back(pending.charge.taken, pending.charge.cost);
        }
        return Err(Unanswered::unsent(OutageReason::BreakerOpen));
    };
    // The last deadline: each caller watches its own.
    let deadlines = batch.iter().map(|p| p.deadline);
    let deadline = deadlines.max().unwrap_or_else(|| dispatcher.deadline_at());
    let charges = batch.iter().map(|p| p.charge.clone()).collect();
    let lease = dispatcher.claim_lease(state);
    Arc::clone(dispatcher)
        .send(Arc::clone(state), charges, lease, permit, deadline)
        .await
}

/// A drain's turn. Ended by anything but its own retirement, it leaves the lane to whoever comes
/// next, and answers those that relied on it.
struct Turn<'a, S: Store> {
    dispatcher: &'a Arc<Dispatcher<S>>,
    state: &'a TargetState,
    retired: bool,
}

impl<S: Store> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        if self.retired {
            return;
        }
        self.state.lane.abandon();
        while let Some(pending) = self.state.lane.pop() {
            self.dispatcher
                .counters
                .waiting
                .fetch_sub(1, Ordering::AcqRel);
            // A caller that cancelled has decided for itself.
            let _ = pending
                .ticket
                .deliver(Err(Unanswered::unsent(OutageReason::StoreError)));
        }
    }
}
