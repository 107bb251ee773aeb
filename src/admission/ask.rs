//! How a check gets to the store and its answer back: alone when its lane is idle, else in the lane.
//! A caller that goes away takes nothing from the others: one that was not sent is never sent, one
//! that was sent has its charge given back when its answer comes, and the call itself goes on.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::time::{Instant, timeout_at};

use super::carrier::{Carried, Waiting, carry};
use super::counters::OutageReason;
use super::engine::{Engine, Rider, spawn};
use super::lane::{Left, Queued, Ticket};
use super::outage::OutageAnswer;
use super::target_state::TargetState;
use crate::store::{Outcome, Store};

/// The end of a check's way.
#[derive(Debug)]
pub(super) enum Asked {
    /// It was answered.
    Carried(Carried),
    /// It was not, and was decided so.
    Outage(OutageAnswer),
}

type Call = Pin<Box<dyn Future<Output = Result<Vec<Outcome>, OutageReason>> + Send>>;

/// Asks the store about `rider`. `outage` decides when the store can't.
pub(super) async fn ask<S: Store>(
    engine: &Arc<Engine<S>>,
    state: &Arc<TargetState>,
    rider: Rider,
    outage: impl Fn(OutageReason) -> OutageAnswer,
) -> Asked {
    let now = engine.clock.now();
    let breaker = engine.breaker(state);
    if breaker.refuses(now) {
        state.give_back(rider.taken, rider.cost);
        return Asked::Outage(outage(OutageReason::BreakerOpen));
    }
    let deadline = engine.deadline_at();
    let has_lane = engine.options.lanes;
    if has_lane && !state.lane.try_alone() {
        return wait_in_lane(engine, state, rider, deadline, outage).await;
    }
    let mut lone = Lone {
        engine,
        state,
        has_lane,
        call: None,
        rider: rider.clone(),
    };
    let Some(permit) = breaker.permit(now) else {
        state.give_back(rider.taken, rider.cost);
        return Asked::Outage(outage(OutageReason::BreakerOpen));
    };
    lone.call = Some(Box::pin(Arc::clone(engine).charge(
        Arc::clone(state),
        vec![rider],
        engine.claim_lease(state),
        permit,
        deadline,
    )));
    match lone.finish().await.map(|mut outcomes| outcomes.pop()) {
        Ok(Some(outcome)) => Asked::Carried(Carried::Decided(outcome)),
        Ok(None) => Asked::Outage(outage(OutageReason::StoreError)),
        Err(reason) => Asked::Outage(outage(reason)),
    }
}

/// A call of one check. Dropped before its end, the call goes on without its caller, and what it
/// charged is given back.
struct Lone<'a, S: Store> {
    engine: &'a Arc<Engine<S>>,
    state: &'a Arc<TargetState>,
    has_lane: bool,
    call: Option<Call>,
    rider: Rider,
}

impl<S: Store> Lone<'_, S> {
    async fn finish(mut self) -> Result<Vec<Outcome>, OutageReason> {
        let outcome = poll_fn(|cx| match &mut self.call {
            Some(call) => call.as_mut().poll(cx),
            None => Poll::Ready(Err(OutageReason::StoreError)),
        })
        .await;
        self.call = None;
        outcome
    }
}

impl<S: Store> Drop for Lone<'_, S> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else {
            end_alone(self.state, self.has_lane);
            return;
        };
        let (engine, state) = (Arc::clone(self.engine), Arc::clone(self.state));
        let (has_lane, rider) = (self.has_lane, self.rider.clone());
        let lane = EndAlone(Arc::clone(&state), has_lane);
        spawn(async move {
            let _lane = lane;
            if let Ok(outcomes) = call.await
                && outcomes.iter().any(|o| o.is_admitted() && !o.repeated)
            {
                engine.give_back_of_the_gone(&state, vec![rider]);
            }
        });
    }
}

/// Ends a lone call's turn when dropped, whatever became of the call.
struct EndAlone(Arc<TargetState>, bool);

impl Drop for EndAlone {
    fn drop(&mut self) {
        end_alone(&self.0, self.1);
    }
}

fn end_alone(state: &TargetState, has_lane: bool) {
    if has_lane && state.lane.end_alone() {
        state.beside_ended.notify_one();
    }
}

async fn wait_in_lane<S: Store>(
    engine: &Arc<Engine<S>>,
    state: &Arc<TargetState>,
    rider: Rider,
    deadline: Instant,
    outage: impl Fn(OutageReason) -> OutageAnswer,
) -> Asked {
    let ticket = Ticket::new();
    let waiting = Waiting {
        rider: rider.clone(),
        deadline,
        ticket: Arc::clone(&ticket),
    };
    let all = engine.counters.waiting.fetch_add(1, Ordering::AcqRel);
    let queued = if all < engine.options.waiting_max {
        state.lane.push(waiting, engine.options.lane_waiting_max)
    } else {
        Err(waiting)
    };
    match queued {
        Ok(Queued::Carried) => {}
        Ok(Queued::NeedsCarrier) => spawn(carry(Arc::clone(engine), Arc::clone(state))),
        Err(_) => {
            engine.counters.waiting.fetch_sub(1, Ordering::AcqRel);
            state.give_back(rider.taken, rider.cost);
            return Asked::Outage(outage(OutageReason::LaneFull));
        }
    }
    let mut place = Place {
        engine,
        state,
        ticket,
        rider,
        has_left: false,
    };
    let answer = timeout_at(deadline, poll_fn(|cx| place.ticket.poll(cx))).await;
    place.has_left = true;
    let answer = match answer {
        Ok(answer) => answer,
        Err(_) => {
            let decided = outage(OutageReason::Deadline);
            match place.ticket.leave(decided.admitted) {
                Left::Answered(answer) => answer,
                Left::Unsent | Left::InFlight => return Asked::Outage(decided),
            }
        }
    };
    match answer {
        Carried::Failed(reason) => Asked::Outage(outage(reason)),
        answer => Asked::Carried(answer),
    }
}

/// A caller's place in a lane. Dropped before the answer was read, it leaves the lane; an answer
/// that was there unread has its charge given back.
struct Place<'a, S: Store> {
    engine: &'a Arc<Engine<S>>,
    state: &'a Arc<TargetState>,
    ticket: Arc<Ticket<Carried>>,
    rider: Rider,
    has_left: bool,
}

impl<S: Store> Drop for Place<'_, S> {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        if let Left::Answered(answer) = self.ticket.leave(false)
            && answer.is_charged()
        {
            let rider = self.rider.clone();
            self.engine.give_back_of_the_gone(self.state, vec![rider]);
        }
    }
}
