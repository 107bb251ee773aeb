//! The local stage: what answers without a round trip, and what carries the rest to the store.
//!
//! A check meets, in this order: its target's lease (capacity that is charged already), the
//! denials that the store answered with, the node's own ceiling, its lane, the shard's breaker. A
//! check with its caller's own id goes straight to the lane: the store may know the id from another
//! node and then answers as it did before, whatever is denied now.
//!
//! Never denies what the store would admit to a client that keeps to its ceilings.
//!
//! Needs a tokio runtime: deadlines are its timers.

mod ask;
mod breaker;
mod breakers;
mod ceiling_state;
mod counters;
mod denial_cache;
mod dispatch;
mod drain;
mod give_back;
mod invalidation;
mod lane;
mod lease;
mod lease_pool;
mod lease_size;
mod local;
mod meter;
mod node_ceiling;
mod options;
mod pending;
mod refund_queue;
mod share;
mod subjects;
mod sync;
mod target_state;
mod thread_cache;
mod ticket;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::dispatch::{Dispatcher, spawn};
use self::local::LocalAnswer;
use self::node_ceiling::Taken;
use self::pending::Charge;
use self::subjects::Subjects;
use self::target_state::{Retries, StoreTurn, TargetState};
use self::thread_cache::{Names, ThreadCache};
use super::answer::{Answer, Request, Resolved};
use super::calls::Calls;
use crate::model::{Check, Cost, Decision, OnOutage, Source, Target, Timestamp};
use crate::store::{IdOrigin, Store};

pub use self::breaker::{BreakerOptions, BreakerState};
pub use self::counters::{OutageReason, StageStats};
pub(crate) use self::invalidation::{Cause, FleetView, Invalidation, decode, encode};
pub use self::local::LocalDecision;
pub use self::options::{LocalStage, LocalStageError};

/// The local stage of one limiter.
pub(crate) struct Stage<S> {
    dispatcher: Arc<Dispatcher<S>>,
    subjects: Subjects,
    known_to_threads: ThreadCache,
}

/// The first word on a check.
pub(crate) enum First {
    /// Its decision.
    Decided(Decision),
    /// It needs the store.
    Ask(Request, Held),
}

/// What a check holds while it asks the store.
pub(crate) struct Held {
    state: Arc<TargetState>,
    taken: Taken,
    _turn: Option<StoreTurn>,
}

impl<S: Store> Stage<S> {
    /// Before `calls`, which `nodes_min` nodes make at least.
    pub(crate) fn new(calls: Arc<Calls<S>>, options: LocalStage, nodes_min: u32) -> Self {
        static STAGES: AtomicU64 = AtomicU64::new(0);
        let seed = RandomState::new().hash_one("subjects");
        Stage {
            subjects: Subjects::new(&options, seed),
            known_to_threads: ThreadCache::new(STAGES.fetch_add(1, Ordering::Relaxed), seed),
            dispatcher: Arc::new(Dispatcher::new(calls, options, nodes_min)),
        }
    }

    /// Decides `check` if that needs no round trip.
    pub(crate) fn first<E>(
        &self,
        check: &Check,
        revision: u64,
        resolve: impl FnOnce() -> Result<Resolved, E>,
    ) -> Result<First, E> {
        let calls = &self.dispatcher.calls;
        let (names, now) = (Names::of(check), calls.clock.now());
        // An id of the caller's own is never answered here, so it may be checked later.
        if check.id.is_none() {
            let known = self.known_to_threads.look(&names, revision, now, |known| {
                let request = Request {
                    policy: known.policy.clone(),
                    subject: known.subject.clone(),
                    region: known.region.clone(),
                    cost: Request::cost_of(check),
                    id: calls.ids.next(),
                    origin: IdOrigin::Fresh,
                };
                self.decide(&known.state, request, now)
            });
            if let Some(first) = known {
                return Ok(first);
            }
        }
        let Resolved {
            request,
            target,
            revision,
        } = resolve()?;
        let state = self.subjects.state(&target, revision);
        self.known_to_threads.keep(&names, now, &state);
        Ok(self.decide(&state, request, now))
    }

    fn decide(&self, state: &Arc<TargetState>, request: Request, now: Timestamp) -> First {
        if state.target.ceilings.is_empty() {
            return First::Decided(request.decision(Answer::UNLIMITED));
        }
        let ask = |request, taken, turn| {
            let state = Arc::clone(state);
            First::Ask(
                request,
                Held {
                    state,
                    taken,
                    _turn: turn,
                },
            )
        };
        if request.origin == IdOrigin::Caller {
            return ask(request, Taken::default(), None);
        }
        let asked = (request.cost, now);
        if let Some(known) = self.known(
            state,
            asked,
            LocalAnswer::from_lease,
            LocalAnswer::remembered,
        ) {
            return First::Decided(request.decision(known.in_full(state, now)));
        }
        let options = &self.dispatcher.options;
        if !options.node_ceiling {
            return ask(request, Taken::default(), None);
        }
        match state.take(now, request.cost) {
            Ok(taken) => ask(request, taken, None),
            Err((ceiling, wait)) => {
                let turn = options.denial_cache.then(|| StoreTurn::take(state));
                if let Some(turn) = turn.flatten() {
                    return ask(request, Taken::default(), Some(turn));
                }
                self.dispatcher.counters.answered(Source::NodeCeiling);
                let answer = LocalAnswer::over_node_ceiling(ceiling, wait);
                First::Decided(request.decision(answer.in_full(state, now)))
            }
        }
    }

    /// What a lease or a remembered denial says to `cost` units, in the caller's words. The lease
    /// comes first: what is charged already may be spent though the store has no more.
    #[inline]
    fn known<T>(
        &self,
        state: &Arc<TargetState>,
        (cost, now): (Cost, Timestamp),
        leased: impl FnOnce(Cost) -> T,
        denied: impl FnOnce(Retries) -> T,
    ) -> Option<T> {
        let dispatcher = &self.dispatcher;
        if let Some(lease) = &state.lease
            && let Some(spent) = lease.spend(cost, now)
        {
            if spent.is_low {
                self.renew_lease(state);
            }
            dispatcher.counters.answered(Source::Lease);
            return Some(leased(spent.left));
        }
        let retries = state.denied(now, cost, dispatcher.denials.as_ref()?)?;
        dispatcher.counters.answered(Source::DenialCache);
        Some(denied(retries))
    }

    /// Decides `check` if this thread knows its target, and a lease or a remembered denial answers.
    pub(crate) fn check_locally(&self, check: &Check, revision: u64) -> Option<LocalDecision> {
        if check.id.is_some() || check.cost == 0 {
            return None;
        }
        let (names, now) = (Names::of(check), self.dispatcher.calls.clock.now());
        let known = self.known_to_threads.look(&names, revision, now, |known| {
            let asked = (Request::cost_of(check), now);
            self.known(
                &known.state,
                asked,
                |_| LocalDecision::leased(),
                |retries| LocalDecision::denied(retries.longest()),
            )
        });
        known.flatten()
    }

    /// Asks the store, and decides by the policy's outage choice when it can't answer in time, or by
    /// `deadline`.
    pub(crate) async fn ask(
        &self,
        request: &Request,
        held: Held,
        deadline: Option<std::time::Instant>,
    ) -> Answer {
        let charge = Charge {
            id: request.id.clone(),
            origin: request.origin,
            cost: request.cost,
            taken: held.taken,
        };
        let answer = ask::ask(&self.dispatcher, &held.state, charge, deadline).await;
        self.dispatcher.counters.answered(answer.source);
        answer
    }

    /// What the outage choice would say to one unit.
    pub(crate) fn peek_in_outage(&self, target: &Target, revision: u64) -> Answer {
        let state = self.subjects.state(target, revision);
        let answer = self.dispatcher.outage(&state, 1, OutageReason::StoreError);
        if answer.admitted && target.policy.on_outage == OnOutage::Local {
            state.give_back_share(1, self.dispatcher.nodes());
        }
        answer
    }

    /// Fetches the target's next lease beside the checks.
    fn renew_lease(&self, state: &Arc<TargetState>) {
        let dispatcher = &self.dispatcher;
        let Some(claim) = dispatcher.claim_lease(state) else {
            return;
        };
        let Some(permit) = dispatcher.permit(state) else {
            return;
        };
        let (deadline, state) = (dispatcher.deadline_at(), Arc::clone(state));
        let charge = Arc::clone(dispatcher).send(state, Vec::new(), Some(claim), permit, deadline);
        spawn(async move {
            // Without a lease the next checks ask the store themselves.
            let _ = charge.await;
        });
    }

    /// The store gave `units` of a charge of `target` back: its denials are over, also elsewhere.
    pub(crate) fn forget_refunded(&self, target: &Target, units: Cost) {
        self.each_of(target, |state| {
            if state.target.region == target.region {
                state.refunded(units);
            }
        });
        self.dispatcher.announce(target, Cause::Refunded(units));
    }

    /// The store forgot what was charged to `target`: so does this node, and the others are told.
    pub(crate) fn forget_all(&self, target: &Target) {
        self.each_of(target, |state| {
            if state.target.region == target.region {
                state.reset();
            } else {
                // A lease of another region was charged to the global ceiling too.
                state.lose_lease();
            }
        });
        self.dispatcher.announce(target, Cause::Reset);
    }

    fn each_of(&self, target: &Target, act: impl FnMut(&TargetState)) {
        let (policy, subject) = (target.policy.name.as_str(), target.subject.as_str());
        self.subjects.each(policy, subject, act);
    }

    /// Another node refunded or reset something.
    pub(crate) fn invalidate(&self, news: &Invalidation) {
        let (policy, subject) = (news.policy.as_str(), news.subject.as_str());
        self.subjects
            .each(policy, subject, |state| match news.cause {
                Cause::Refunded(units) => state.refunded(units),
                Cause::Reset => state.reset(),
            });
    }

    /// Other nodes' invalidations may have been missed: no remembered denial is believed any more.
    pub(crate) fn invalidate_denials(&self) {
        self.subjects
            .all()
            .iter()
            .for_each(|state| state.refunded(0));
    }

    /// What is known of the fleet.
    pub(crate) fn fleet(&self) -> &Arc<FleetView> {
        &self.dispatcher.fleet
    }

    /// Ends all leases and hands back what nobody spent; how many there were.
    pub(crate) fn end_leases(&self) -> usize {
        let states = self.subjects.all().into_iter();
        let leases = states.filter_map(|state| {
            let lease = state.lease.as_ref()?.current()?;
            Some((state, lease))
        });
        leases
            .map(|(state, lease)| self.dispatcher.end_lease(&state, lease))
            .count()
    }

    /// What was done so far.
    pub(crate) fn stats(&self) -> StageStats {
        let dispatcher = &self.dispatcher;
        StageStats {
            subjects: self.subjects.len(),
            nodes: dispatcher.nodes(),
            refunds_waiting: dispatcher.refunds.len() as u64,
            invalidations_dropped: dispatcher.fleet.dropped(),
            breakers: dispatcher.breakers.states(),
            ..dispatcher.counters.read()
        }
    }
}
