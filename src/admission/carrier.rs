//! Carries a lane's waiting checks to the store, many in one call, and their answers back. Never
//! waits when nothing is out, and never leaves an answer without saying whose it was.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::breaker::Permit;
use super::counters::OutageReason;
use super::engine::{Engine, Rider};
use super::lane::Ticket;
use super::local::{self, LocalAnswer};
use super::target_state::TargetState;
use crate::store::{IdOrigin, Outcome, Store};

/// What a lane answers.
#[derive(Debug)]
pub(super) enum Carried {
    /// The store's outcome.
    Decided(Outcome),
    /// A denial that was remembered while it waited.
    Local(LocalAnswer),
    /// The store can't be asked.
    Failed(OutageReason),
}

impl Carried {
    /// Whether it tells of a charge that was made now.
    pub(super) fn is_charged(&self) -> bool {
        matches!(self, Carried::Decided(outcome) if outcome.is_admitted() && !outcome.repeated)
    }
}

/// One check in a lane.
pub(super) struct Waiting {
    pub rider: Rider,
    pub deadline: Instant,
    pub ticket: Arc<Ticket<Carried>>,
}

type Batch = Pin<Box<dyn Future<Output = usize> + Send>>;

/// Carries a lane's waiting checks to the store until none waits and no call is out. At most one
/// runs for a lane.
pub(super) async fn carry<S: Store>(engine: Arc<Engine<S>>, state: Arc<TargetState>) {
    let mut turn = Turn {
        engine: &engine,
        state: &state,
        retired: false,
    };
    let mut calls: Vec<Batch> = Vec::new();
    let wait_max = engine.options.batch_wait_max;
    let mut sent_at = Instant::now();
    let mut tick = pin!(tokio::time::sleep_until(sent_at + wait_max));
    loop {
        let out = calls.len() + usize::from(state.lane.is_beside());
        let is_due =
            out == 0 || (out < engine.options.lane_calls_max && sent_at.elapsed() >= wait_max);
        if is_due && state.lane.waiting() > 0 {
            let batch = next_batch(&engine, &state);
            if !batch.is_empty() {
                calls.push(Box::pin(carry_batch(
                    Arc::clone(&engine),
                    Arc::clone(&state),
                    batch,
                )));
                sent_at = Instant::now();
                tick.as_mut().reset(sent_at + wait_max);
            }
        }
        if calls.is_empty() && !state.lane.is_beside() {
            if state.lane.waiting() == 0 && state.lane.retire() {
                turn.retired = true;
                return;
            }
            // Somebody is just putting itself into the lane.
            tokio::task::yield_now().await;
            continue;
        }
        let mut beside_ended = pin!(state.beside_ended.notified());
        let answered = poll_fn(|cx| {
            if let Some(answered) = poll_calls(&mut calls, cx) {
                return Poll::Ready(answered);
            }
            if beside_ended.as_mut().poll(cx).is_ready() {
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

/// Those that waited longest and still wait; who is surely denied by now is told so and not sent.
fn next_batch<S: Store>(engine: &Arc<Engine<S>>, state: &TargetState) -> Vec<Waiting> {
    let now = engine.clock.now();
    let mut batch = Vec::new();
    while batch.len() < engine.options.batch_len_max {
        let Some(waiting) = state.lane.pop() else {
            break;
        };
        engine.counters.waiting.fetch_sub(1, Ordering::AcqRel);
        let rider = &waiting.rider;
        if !waiting.ticket.claim() {
            state.give_back(rider.taken, rider.cost);
            continue;
        }
        let denied = engine
            .denials
            .as_ref()
            .filter(|_| rider.origin != IdOrigin::Caller)
            .and_then(|bounds| local::remembered(state, rider.cost, now, bounds));
        match denied {
            Some(answer) => {
                state.give_back(rider.taken, rider.cost);
                // A caller that has gone meanwhile charged nothing.
                let _ = waiting.ticket.deliver(Carried::Local(answer));
            }
            None => batch.push(waiting),
        }
    }
    batch
}

async fn carry_batch<S: Store>(
    engine: Arc<Engine<S>>,
    state: Arc<TargetState>,
    batch: Vec<Waiting>,
) -> usize {
    let count = batch.len();
    let permit = engine.breaker(&state).permit(engine.clock.now());
    let riders: Vec<Rider> = batch.iter().map(|w| w.rider.clone()).collect();
    let outcomes = match permit {
        Some(permit) => call_of(&engine, &state, &batch, riders, permit).await,
        None => {
            for rider in &riders {
                state.give_back(rider.taken, rider.cost);
            }
            Err(OutageReason::BreakerOpen)
        }
    };
    match outcomes {
        Ok(outcomes) => {
            let mut of_the_gone = Vec::new();
            for (waiting, outcome) in batch.into_iter().zip(outcomes) {
                let late = waiting.ticket.deliver(Carried::Decided(outcome));
                if let Err((answer, false)) = late
                    && answer.is_charged()
                {
                    of_the_gone.push(waiting.rider);
                }
            }
            engine.give_back_of_the_gone(&state, of_the_gone);
        }
        Err(reason) => {
            for waiting in batch {
                // A caller that has gone has decided for itself.
                let _ = waiting.ticket.deliver(Carried::Failed(reason));
            }
        }
    }
    count
}

async fn call_of<S: Store>(
    engine: &Arc<Engine<S>>,
    state: &Arc<TargetState>,
    batch: &[Waiting],
    riders: Vec<Rider>,
    permit: Permit,
) -> Result<Vec<Outcome>, OutageReason> {
    // The last deadline: each caller watches its own.
    let deadlines = batch.iter().map(|w| w.deadline);
    let deadline = deadlines.max().unwrap_or_else(|| engine.deadline_at());
    let lease = engine.claim_lease(state);
    Arc::clone(engine)
        .charge(Arc::clone(state), riders, lease, permit, deadline)
        .await
}

/// A carrier's turn. Ended by anything but its own retirement, it leaves the lane to whoever comes
/// next, and answers those that relied on it.
struct Turn<'a, S: Store> {
    engine: &'a Arc<Engine<S>>,
    state: &'a TargetState,
    retired: bool,
}

impl<S: Store> Drop for Turn<'_, S> {
    fn drop(&mut self) {
        if self.retired {
            return;
        }
        self.state.lane.abandon();
        while let Some(waiting) = self.state.lane.pop() {
            self.engine.counters.waiting.fetch_sub(1, Ordering::AcqRel);
            let answer = Carried::Failed(OutageReason::StoreError);
            // A caller that has gone has decided for itself.
            let _ = waiting.ticket.deliver(answer);
        }
    }
}
