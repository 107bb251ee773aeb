//! What every call of the local stage to the store has in common: a breaker's leave, a deadline,
//! what is learned from the answer, and the lease that may ride along.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::breaker::{Breaker, Permit};
use super::breakers::Breakers;
use super::counters::{Counters, OutageReason};
use super::denial_cache::DenialBounds;
use super::invalidation::{Cause, FleetView, Invalidation};
use super::lease::LeaseClaim;
use super::lease_pool::Lease;
use super::options::LocalStage;
use super::pending::{Charge, Unanswered};
use super::refund_queue::RefundQueue;
use super::target_state::{Asked, TargetState};
use crate::admission::answer::Answer;
use crate::admission::calls::Calls;
use crate::model::{ChargeId, Cost, Micros, OnOutage, Retry, Target, Timestamp};
use crate::store::{
    CallKind, ChargeRequest, IdOrigin, Outcome, Refunded, Store, StoreError, StoreErrorKind,
};

/// tokio's timers are up to a millisecond late, and whoever they wake waits for its turn;
/// deadlines are set so much earlier.
const TIMER_LATENESS: Duration = Duration::from_millis(2);

/// A reason for outages that was not met for so long is logged again.
const LOGGED_AGAIN_AFTER: Micros = Micros::from_secs(10);

/// The parts of a stage that outlive a check.
pub(super) struct Dispatcher<S> {
    pub calls: Arc<Calls<S>>,
    pub fleet: Arc<FleetView>,
    pub options: LocalStage,
    pub denials: Option<DenialBounds>,
    pub counters: Counters,
    pub breakers: Breakers,
    pub refunds: RefundQueue,
    nodes_min: u32,
    /// When each reason was last met, in the order of [`OutageReason::ALL`].
    met_us: [AtomicU64; OutageReason::ALL.len()],
}

impl<S: Store> Dispatcher<S> {
    pub(super) fn new(calls: Arc<Calls<S>>, options: LocalStage, nodes_min: u32) -> Self {
        Dispatcher {
            denials: DenialBounds::of(&options),
            breakers: Breakers::new(options.breaker),
            counters: Counters::default(),
            refunds: RefundQueue::default(),
            fleet: Arc::default(),
            met_us: Default::default(),
            calls,
            options,
            nodes_min,
        }
    }

    /// When a check that comes now must be answered.
    pub(super) fn deadline_at(&self) -> Instant {
        Instant::now() + self.calls.deadline.saturating_sub(self.lateness())
    }

    /// The same, and by `other` at the latest.
    pub(super) fn deadline_by(&self, other: Option<std::time::Instant>) -> Instant {
        let own = self.deadline_at();
        let other = other.and_then(|other| other.checked_sub(self.lateness()));
        other.map_or(own, |other| own.min(Instant::from_std(other)))
    }

    fn lateness(&self) -> Duration {
        TIMER_LATENESS.min(self.calls.deadline / 4)
    }

    /// How many nodes share the ceilings: as many as lived when that was last known, and never
    /// fewer than the limiter was built for.
    pub(super) fn nodes(&self) -> u32 {
        self.fleet.live().max(self.nodes_min)
    }

    /// The policy's outage choice on `cost` units: admit, deny, or decide by this node's share of
    /// each ceiling. The first of many is logged, but for what a breaker logs itself.
    pub(super) fn outage(&self, state: &TargetState, cost: Cost, reason: OutageReason) -> Answer {
        let now = self.calls.clock.now();
        self.counters.degraded(reason);
        let met = &self.met_us[reason as usize];
        let before = Timestamp::from_micros(met.swap(now.as_micros(), Ordering::Relaxed));
        if reason != OutageReason::BreakerOpen && now.since(before) >= LOGGED_AGAIN_AFTER {
            tracing::warn!(
                reason = reason.name(),
                "checks are decided without the store, by their policies' outage choices"
            );
        }
        match state.target.policy.on_outage {
            OnOutage::Admit => Answer::in_outage(true, None),
            OnOutage::Deny => Answer::in_outage(false, None),
            OnOutage::Local => match state.take_share(cost, self.nodes(), now) {
                Ok(()) => Answer::in_outage(true, None),
                Err(wait) => Answer::in_outage(false, wait.map(Retry::After)),
            },
        }
    }

    /// The breaker of `state`'s shard.
    pub(super) fn breaker(&self, state: &TargetState) -> Arc<Breaker> {
        let store = &self.calls.store;
        let breaker = self.breakers.of(store.shard_of(&state.target));
        breaker.see_recoveries(store.recoveries());
        breaker
    }

    /// That breaker's leave for one call.
    pub(super) fn permit(&self, state: &TargetState) -> Option<Permit> {
        self.breaker(state).permit(self.calls.clock.now())
    }

    /// Sends one call for `charges` and learns from the answer; an answer for each of them. It
    /// goes on to its end whoever waits for it.
    pub(super) async fn send(
        self: Arc<Self>,
        state: Arc<TargetState>,
        charges: Vec<Charge>,
        lease: Option<LeaseClaim>,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Unanswered> {
        let sent_at = self.calls.clock.now();
        let lease = lease.map(|claim| (claim, self.calls.ids.next()));
        let epochs = state.epochs();
        let requests = requests(&charges, lease.as_ref());
        let reply = self.call(&state, requests, deadline).await;
        let answered_at = self.calls.clock.now();
        permit.report(&reply, answered_at);
        let mut outcomes = match reply {
            Ok(outcomes) => outcomes,
            Err(error) => {
                for charge in &charges {
                    state.give_back(charge.taken, charge.cost);
                }
                let may_have_run = error.may_have_run;
                if let (Some((_, id)), true) = (lease, may_have_run) {
                    self.give_back_unused(&state, vec![id], may_have_run);
                }
                let reason = reason(&error);
                return Err(Unanswered {
                    reason,
                    may_have_run,
                });
            }
        };
        let lease_outcome = outcomes.split_off(charges.len()).pop();
        let costs: Vec<Cost> = charges.iter().map(|c| c.cost).collect();
        let asked = Asked {
            costs: &costs,
            epochs: &epochs,
            sent_at,
            answered_at,
        };
        state.learn(&asked, &outcomes, self.denials.as_ref());
        for (charge, outcome) in charges.iter().zip(&outcomes) {
            if !outcome.is_admitted() {
                state.give_back_denied(charge.taken, charge.cost, outcome, answered_at);
            }
        }
        if let (Some((claim, id)), Some(outcome)) = (lease, lease_outcome)
            && outcome.is_admitted()
            && claim.is_good()
        {
            state.learn(&asked, &[outcome], None);
            self.begin_lease(&state, claim.lease(id, sent_at));
        }
        let answer = |outcome| Answer::by_store(&state.target, outcome);
        Ok(outcomes.iter().map(answer).collect())
    }

    async fn call(
        &self,
        state: &TargetState,
        requests: Vec<ChargeRequest>,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, StoreError> {
        self.counters.called(requests.len());
        let (target, kind) = (&state.target, CallKind::Charge);
        let call = self
            .calls
            .charge(target, requests, kind, deadline.into_std());
        timeout_at(deadline, call).await.unwrap_or_else(|_| {
            let (kind, detail) = (StoreErrorKind::Deadline, "no answer by the deadline");
            Err(StoreError::unknown("charge", kind, detail))
        })
    }

    /// The right to ask for `state`'s next lease, when it is worth one and has none in sight.
    pub(super) fn claim_lease(&self, state: &TargetState) -> Option<LeaseClaim> {
        state.claim_lease(|| (self.calls.clock.now(), self.nodes()))
    }

    fn begin_lease(self: &Arc<Self>, state: &Arc<TargetState>, lease: Arc<Lease>) {
        let Some(leases) = &state.lease else {
            return;
        };
        self.counters.lease_granted(lease.granted);
        if let Some(before) = leases.replace(Arc::clone(&lease)) {
            self.end_lease(state, before);
        }
        let (dispatcher, state) = (Arc::clone(self), Arc::clone(state));
        spawn(async move {
            let lasts = lease.ends_at.since(dispatcher.calls.clock.now());
            tokio::time::sleep(lasts.into()).await;
            dispatcher.end_lease(&state, lease);
        });
    }

    /// Ends `lease` and hands back what nobody spent.
    pub(super) fn end_lease(self: &Arc<Self>, state: &Arc<TargetState>, lease: Arc<Lease>) {
        let rest = state.lease.as_ref().map_or(0, |leases| leases.end(&lease));
        if rest == 0 {
            return;
        }
        let (dispatcher, state) = (Arc::clone(self), Arc::clone(state));
        spawn(async move {
            let refund = dispatcher.refund(&state, lease.id.clone(), Some(rest));
            if let Some(Refunded::Units(_)) = refund.await {
                let returned = &dispatcher.counters.lease_units_returned;
                returned.fetch_add(rest, Ordering::Relaxed);
            }
        });
    }

    /// The outage choice on a check that the store gave no answer to. What it may have charged is
    /// given back, unless the check is admitted.
    pub(super) fn unanswered(
        self: &Arc<Self>,
        state: &Arc<TargetState>,
        charge: &Charge,
        why: Unanswered,
    ) -> Answer {
        let choice = self.outage(state, charge.cost, why.reason);
        if why.may_have_run && !choice.admitted {
            self.give_back_unused(state, charge.own_id().into_iter().collect(), true);
        }
        choice
    }

    /// Gives back `cost` units of a charge, or all; `None` when the store gave no answer.
    pub(super) async fn refund(
        &self,
        state: &TargetState,
        id: ChargeId,
        cost: Option<Cost>,
    ) -> Option<Refunded> {
        let deadline = self.deadline_at();
        let target = &state.target;
        let refund = self.calls.refund(target, id, cost, deadline.into_std());
        let refunded = timeout_at(deadline, refund).await.ok()?.ok()?;
        if let Refunded::Units(units) = refunded {
            state.refunded(units);
            self.announce(target, Cause::Refunded(units));
        }
        Some(refunded)
    }

    /// Tells the other nodes not to believe what they remember of `target`'s subject.
    pub(super) fn announce(&self, target: &Target, cause: Cause) {
        self.fleet.announce(Invalidation {
            policy: target.policy.name.clone(),
            subject: target.subject.clone(),
            cause,
        });
    }
}

fn requests(charges: &[Charge], lease: Option<&(LeaseClaim, ChargeId)>) -> Vec<ChargeRequest> {
    let lease = lease.map(|(claim, id)| ChargeRequest {
        id: id.clone(),
        origin: IdOrigin::Fresh,
        cost: claim.units,
        held_for: Some(claim.period),
    });
    charges.iter().map(Charge::request).chain(lease).collect()
}

fn reason(error: &StoreError) -> OutageReason {
    match error.kind {
        StoreErrorKind::Deadline => OutageReason::Deadline,
        _ => OutageReason::StoreError,
    }
}

/// Runs `work` beside, if there is a runtime to run it: while one shuts down nothing is begun.
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}
