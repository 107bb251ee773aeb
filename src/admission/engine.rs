//! What every call of the local stage to the store has in common: a breaker's leave, a deadline,
//! what is learned from the answer, and the lease that may ride along. Never decides by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::breaker::{Breaker, Permit};
use super::breakers::Breakers;
use super::counters::{Counters, OutageReason};
use super::denial_cache::DenialBounds;
use super::fleet::{Cause, FleetView, Invalidation};
use super::lease::{Lease, LeaseClaim};
use super::local::denial_bounds;
use super::options::LocalStage;
use super::target_state::{Asking, Taken, TargetState};
use crate::clock::Clock;
use crate::model::{Algorithm, ChargeId, ClockSource, Cost, Micros, Target, Timestamp};
use crate::store::{
    CallClock, CallKind, ChargeCall, ChargeReply, ChargeRequest, IdOrigin, IdSource, Outcome,
    RefundCall, Refunded, Store, StoreError, StoreErrorKind,
};

/// tokio's timers are up to a millisecond late, and whoever they wake waits for its turn;
/// deadlines are set so much earlier.
const TIMER_LATENESS: Duration = Duration::from_millis(2);

/// A reason for outages that was not met for so long is told again.
const TOLD_AGAIN_AFTER: Micros = Micros::from_secs(10);

/// One check of a call.
#[derive(Clone, Debug)]
pub(super) struct Rider {
    pub id: ChargeId,
    pub origin: IdOrigin,
    pub cost: Cost,
    pub taken: Taken,
}

/// The parts that outlive a check.
pub(super) struct Engine<S> {
    pub store: Arc<S>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<IdSource>,
    pub fleet: Arc<FleetView>,
    pub options: LocalStage,
    pub denials: Option<DenialBounds>,
    pub counters: Counters,
    pub breakers: Breakers,
    deadline: Duration,
    /// When each reason was last met, in the order of [`OutageReason::ALL`].
    met_us: [AtomicU64; OutageReason::ALL.len()],
}

impl<S: Store> Engine<S> {
    pub(super) fn new(
        store: Arc<S>,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
        fleet: Arc<FleetView>,
        options: LocalStage,
        deadline: Duration,
    ) -> Self {
        Engine {
            denials: denial_bounds(&options),
            breakers: Breakers::new(options.breaker),
            counters: Counters::default(),
            met_us: Default::default(),
            store,
            clock,
            ids,
            fleet,
            options,
            deadline,
        }
    }

    /// When a check that comes now must be answered.
    pub(super) fn deadline_at(&self) -> Instant {
        Instant::now()
            + self
                .deadline
                .saturating_sub(TIMER_LATENESS.min(self.deadline / 4))
    }

    /// How many nodes share the ceilings: as many as lived when that was last known, and never
    /// fewer than the configuration says.
    pub(super) fn nodes(&self) -> u32 {
        self.fleet.live().max(self.options.nodes_min)
    }

    /// A check is decided without the store. The first of many is told, but for what a breaker's
    /// own line tells.
    pub(super) fn degraded(&self, reason: OutageReason, now: Timestamp) {
        self.counters.degraded(reason);
        if matches!(reason, OutageReason::BreakerOpen) {
            return;
        }
        let met = &self.met_us[reason as usize];
        let before = Timestamp::from_micros(met.swap(now.as_micros(), Ordering::Relaxed));
        if now.since(before) >= TOLD_AGAIN_AFTER {
            tracing::warn!(
                reason = reason.name(),
                "checks are decided without the store, by their policies' outage choices"
            );
        }
    }

    /// The breaker of `state`'s shard.
    pub(super) fn breaker(&self, state: &TargetState) -> Arc<Breaker> {
        let breaker = self.breakers.of(self.store.shard_of(&state.target));
        breaker.hear(self.store.recoveries());
        breaker
    }

    /// Sends one call for `riders` and learns from the answer; an outcome for each of them. It
    /// goes on to its end whoever waits for it.
    pub(super) async fn charge(
        self: Arc<Self>,
        state: Arc<TargetState>,
        riders: Vec<Rider>,
        lease: Option<LeaseClaim>,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Vec<Outcome>, OutageReason> {
        let sent_at = self.clock.now();
        let lease = lease.map(|claim| (claim, self.ids.next()));
        let epochs = state.epochs();
        let requests = requests(&riders, lease.as_ref());
        let (riding, asked) = (riders.len(), requests.len());
        let reply = self.send(&state, requests, asked, deadline).await;
        let heard_at = self.clock.now();
        permit.tell(&reply, heard_at);
        let mut outcomes = match reply {
            Ok(reply) => reply.outcomes,
            Err(error) => {
                for rider in &riders {
                    state.give_back(rider.taken, rider.cost);
                }
                return Err(reason(&error));
            }
        };
        let lease_outcome = outcomes.split_off(riding).pop();
        let costs: Vec<Cost> = riders.iter().map(|r| r.cost).collect();
        let asking = Asking {
            costs: &costs,
            epochs: &epochs,
            sent_at,
            heard_at,
        };
        state.note(&asking, &outcomes, self.denials.as_ref());
        for (rider, outcome) in riders.iter().zip(&outcomes) {
            if !outcome.is_admitted() {
                state.give_back_denied(rider.taken, rider.cost, outcome, heard_at);
            }
        }
        if let (Some((claim, id)), Some(outcome)) = (lease, lease_outcome)
            && outcome.is_admitted()
            && claim.is_good()
        {
            state.note(&asking, &[outcome], None);
            self.begin_lease(&state, claim.lease(id, sent_at));
        }
        Ok(outcomes)
    }

    async fn send(
        &self,
        state: &TargetState,
        requests: Vec<ChargeRequest>,
        asked: usize,
        deadline: Instant,
    ) -> Result<ChargeReply, StoreError> {
        self.counters.calls.fetch_add(1, Ordering::Relaxed);
        self.counters
            .checks_in_calls
            .fetch_add(asked as u64, Ordering::Relaxed);
        let call = ChargeCall {
            target: Arc::clone(&state.target),
            requests,
            clock: self.call_clock(&state.target),
            kind: CallKind::Charge,
            deadline: deadline.into_std(),
        };
        let reply = match timeout_at(deadline, self.store.charge(call)).await {
            Ok(reply) => reply?,
            Err(_) => {
                let detail = "no answer by the deadline";
                return Err(StoreError::unknown(
                    "charge",
                    StoreErrorKind::Deadline,
                    detail,
                ));
            }
        };
        if reply.outcomes.len() == asked {
            return Ok(reply);
        }
        let detail = format!("{} answers to {asked} requests", reply.outcomes.len());
        Err(StoreError::unknown(
            "charge",
            StoreErrorKind::Protocol,
            detail,
        ))
    }

    fn call_clock(&self, target: &Target) -> CallClock {
        match target.policy.clock {
            ClockSource::Store => CallClock::Store,
            ClockSource::Caller => CallClock::At(self.clock.wall()),
        }
    }

    /// The right to ask for `state`'s next lease, when it is worth one and has none in sight.
    pub(super) fn claim_lease(&self, state: &Arc<TargetState>) -> Option<LeaseClaim> {
        state.lease.as_ref()?;
        LeaseClaim::of(state, self.clock.now(), self.nodes())
    }

    fn begin_lease(self: &Arc<Self>, state: &Arc<TargetState>, lease: Arc<Lease>) {
        let Some(pool) = &state.lease else {
            return;
        };
        let counters = &self.counters;
        counters.leases_granted.fetch_add(1, Ordering::Relaxed);
        counters
            .lease_units_granted
            .fetch_add(lease.granted, Ordering::Relaxed);
        if let Some(before) = pool.replace(Arc::clone(&lease)) {
            self.end_lease(state, before);
        }
        let (engine, state) = (Arc::clone(self), Arc::clone(state));
        spawn(async move {
            let lasts = lease.ends_at.since(engine.clock.now());
            tokio::time::sleep(lasts.into()).await;
            engine.end_lease(&state, lease);
        });
    }

    /// Ends `lease` and hands back what nobody spent.
    pub(super) fn end_lease(self: &Arc<Self>, state: &Arc<TargetState>, lease: Arc<Lease>) {
        let rest = state.lease.as_ref().map_or(0, |pool| pool.end(&lease));
        if rest == 0 {
            return;
        }
        let (engine, state) = (Arc::clone(self), Arc::clone(state));
        spawn(async move {
            if engine.refund(&state, lease.id.clone(), Some(rest)).await {
                let returned = &engine.counters.lease_units_returned;
                returned.fetch_add(rest, Ordering::Relaxed);
            }
        });
    }

    /// Gives charges back whose callers have gone.
    pub(super) fn give_back_of_the_gone(
        self: &Arc<Self>,
        state: &Arc<TargetState>,
        charges: Vec<Rider>,
    ) {
        let logged = |target: &Target| {
            let mut ceilings = target.ceilings.iter();
            ceilings.any(|c| c.algorithm == Algorithm::SlidingLog)
        };
        // A caller's own id may be known to others who rely on it, so it is the caller's to refund.
        let ours: Vec<_> = charges
            .into_iter()
            .filter(|c| c.origin != IdOrigin::Caller)
            .collect();
        if ours.is_empty() {
            return;
        }
        if !logged(&state.target) {
            let lost = &self.counters.charges_of_the_gone;
            lost.fetch_add(ours.len() as u64, Ordering::Relaxed);
            return;
        }
        let (engine, state) = (Arc::clone(self), Arc::clone(state));
        spawn(async move {
            for charge in ours {
                if engine.refund(&state, charge.id, None).await {
                    let given = &engine.counters.refunds_of_the_gone;
                    given.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }

    async fn refund(&self, state: &TargetState, id: ChargeId, cost: Option<Cost>) -> bool {
        let deadline = self.deadline_at();
        let call = RefundCall {
            target: Arc::clone(&state.target),
            id,
            cost,
            clock: self.call_clock(&state.target),
            deadline: deadline.into_std(),
        };
        let refunded = timeout_at(deadline, self.store.refund(call)).await;
        let Ok(Ok(Refunded::Units(units))) = refunded else {
            return false;
        };
        state.refunded(units);
        self.announce(&state.target, Cause::Refunded(units));
        true
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

fn requests(riders: &[Rider], lease: Option<&(LeaseClaim, ChargeId)>) -> Vec<ChargeRequest> {
    let ridden = riders.iter().map(|rider| ChargeRequest {
        id: rider.id.clone(),
        origin: rider.origin,
        cost: rider.cost,
        held_for: None,
    });
    let lease = lease.map(|(claim, id)| ChargeRequest {
        id: id.clone(),
        origin: IdOrigin::Fresh,
        cost: claim.units,
        held_for: Some(claim.period),
    });
    ridden.chain(lease).collect()
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
