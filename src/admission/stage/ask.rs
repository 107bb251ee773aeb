//! How a check gets to the store and its answer back: alone when its lane is idle, else in the lane.
//! A caller that cancels takes nothing from the others: a check that was not sent is never sent,
//! one that was sent has its charge given back when its answer comes, and the call itself goes on.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::time::{Instant, timeout_at};

use super::counters::OutageReason;
use super::dispatch::{Dispatcher, spawn};
use super::drain::drain;
use super::lane::Queued;
use super::pending::{Charge, PendingCheck, Reply, Unanswered};
use super::target_state::TargetState;
use super::ticket::{Cancelled, Ticket};
use crate::admission::answer::Answer;
use crate::store::Store;

type Call = Pin<Box<dyn Future<Output = Result<Vec<Answer>, Unanswered>> + Send>>;

/// Asks the store about `charge`; the outage choice decides when that can't answer in time, or by
/// `deadline`.
pub(super) async fn ask<S: Store>(
    dispatcher: &Arc<Dispatcher<S>>,
    state: &Arc<TargetState>,
    charge: Charge,
    deadline: Option<std::time::Instant>,
) -> Answer {
    let cost = charge.cost;
    let now = dispatcher.calls.clock.now();
    let breaker = dispatcher.breaker(state);
    if breaker.denies(now) {
        state.give_back(charge.taken, cost);
        return dispatcher.outage(state, cost, OutageReason::BreakerOpen);
    }
    let deadline = dispatcher.deadline_by(deadline);
    let has_lane = dispatcher.options.lanes;
    if has_lane && !state.lane.try_alone() {
        return wait_in_lane(dispatcher, state, charge, deadline).await;
    }
    let mut lone = LoneCall {
        dispatcher,
        state,
        has_lane,
        call: None,
        charge: charge.clone(),
    };
    let Some(permit) = breaker.permit(now) else {
        state.give_back(charge.taken, cost);
        return dispatcher.outage(state, cost, OutageReason::BreakerOpen);
    };
    lone.call = Some(Box::pin(Arc::clone(dispatcher).send(
        Arc::clone(state),
        vec![charge],
        dispatcher.claim_lease(state),
        permit,
        deadline,
    )));
    let answer = lone.finish().await.map(|mut answers| answers.pop());
    answer
        .and_then(|answer| answer.ok_or(Unanswered::unsent(OutageReason::StoreError)))
        .unwrap_or_else(|why| dispatcher.unanswered(state, &lone.charge, why))
}

/// A call of one check. Dropped before its end, the call goes on without its caller, and what it
/// charged is given back.
struct LoneCall<'a, S: Store> {
    dispatcher: &'a Arc<Dispatcher<S>>,
    state: &'a Arc<TargetState>,
    has_lane: bool,
    call: Option<Call>,
    charge: Charge,
}

impl<S: Store> LoneCall<'_, S> {
    async fn finish(&mut self) -> Result<Vec<Answer>, Unanswered> {
        let answers = poll_fn(|cx| match &mut self.call {
            Some(call) => call.as_mut().poll(cx),
            None => Poll::Ready(Err(Unanswered::unsent(OutageReason::StoreError))),
        })
        .await;
        self.call = None;
        answers
    }
}

impl<S: Store> Drop for LoneCall<'_, S> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else {
            end_alone(self.state, self.has_lane);
            return;
        };
        let (dispatcher, state) = (Arc::clone(self.dispatcher), Arc::clone(self.state));
        let (has_lane, id) = (self.has_lane, self.charge.own_id());
        let lane = EndAlone(Arc::clone(&state), has_lane);
        spawn(async move {
            let _lane = lane;
            let (is_unused, may_run_late) = match call.await {
                Ok(answers) => (answers.iter().any(|a| a.charged), false),
                Err(why) => (why.may_have_run, true),
            };
            if is_unused {
                dispatcher.give_back_unused(&state, id.into_iter().collect(), may_run_late);
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
        state.lone_call_ended.notify_one();
    }
}

async fn wait_in_lane<S: Store>(
    dispatcher: &Arc<Dispatcher<S>>,
    state: &Arc<TargetState>,
    charge: Charge,
    deadline: Instant,
) -> Answer {
    let cost = charge.cost;
    let ticket = Ticket::new();
    let pending = PendingCheck {
        charge: charge.clone(),
        deadline,
        ticket: Arc::clone(&ticket),
    };
    let (options, waiting) = (&dispatcher.options, &dispatcher.counters.waiting);
    let queued = if waiting.fetch_add(1, Ordering::AcqRel) < options.waiting_max {
        state.lane.push(pending, options.lane_waiting_max)
    } else {
        Err(pending)
    };
    match queued {
        Ok(Queued::Drained) => {}
        Ok(Queued::NeedsDrain) => spawn(drain(Arc::clone(dispatcher), Arc::clone(state))),
        Err(_) => {
            waiting.fetch_sub(1, Ordering::AcqRel);
            state.give_back(charge.taken, cost);
            return dispatcher.outage(state, cost, OutageReason::LaneFull);
        }
    }
    let mut place = Place {
        dispatcher,
        state,
        ticket,
        charge,
        has_left: false,
    };
    let reply = timeout_at(deadline, poll_fn(|cx| place.ticket.poll(cx))).await;
    place.has_left = true;
    let reply = match reply {
        Ok(reply) => reply,
        Err(_) => {
            let choice = dispatcher.outage(state, cost, OutageReason::Deadline);
            match place.ticket.cancel(choice.admitted) {
                Cancelled::Answered(reply) => reply,
                Cancelled::Unsent | Cancelled::InFlight => return choice,
            }
        }
    };
    reply.unwrap_or_else(|why| dispatcher.unanswered(state, &place.charge, why))
}

/// A caller's place in a lane. Dropped before the answer was read, it cancels the check; an answer
/// that was there unread has its charge given back.
struct Place<'a, S: Store> {
    dispatcher: &'a Arc<Dispatcher<S>>,
    state: &'a Arc<TargetState>,
    ticket: Arc<Ticket<Reply>>,
    charge: Charge,
    has_left: bool,
}

impl<S: Store> Drop for Place<'_, S> {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let (is_unused, may_run_late) = match self.ticket.cancel(false) {
            Cancelled::Answered(Ok(answer)) => (answer.charged, false),
            Cancelled::Answered(Err(why)) => (why.may_have_run, true),
            Cancelled::Unsent | Cancelled::InFlight => (false, false),
        };
        if is_unused {
            let unused = self.charge.own_id().into_iter().collect();
            self.dispatcher
                .give_back_unused(self.state, unused, may_run_late);
        }
    }
}
