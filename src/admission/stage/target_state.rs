//! What this node knows of one target: its ceilings' denials and meters, its lane, its lease.
//! Two targets of one subject share the state of their global ceiling. Never outlives a change of
//! its ceilings: then it is retired, and the next check makes another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use super::ceiling_state::CeilingState;
use super::denial_cache::{CeilingDenial, DenialBounds};
use super::lane::Lane;
use super::lease::{LeaseClaim, LeaseState};
use super::lease_size::Room;
use super::node_ceiling::Taken;
use super::pending::PendingCheck;
use crate::admission::answer::whole;
use crate::model::{Algorithm, CeilingStatus, Cost, Micros, Retry, Target, Timestamp};
use crate::store::Outcome;

/// No configuration's number: the state is no more its target's, and who holds it looks for another.
const RETIRED: u64 = u64::MAX;

/// What this node knows of one target.
pub(super) struct TargetState {
    pub(super) target: Arc<Target>,
    /// In the order of the target's ceilings.
    pub(super) ceilings: Vec<Arc<CeilingState>>,
    /// The number of the configuration that was last found to give the same ceilings, or
    /// [`RETIRED`].
    pub(super) revision: AtomicU64,
    pub(super) lane: Lane<PendingCheck>,
    /// Notified when a lone call beside the drain's ended.
    pub(super) lone_call_ended: Notify,
    /// Held by the one check that may go to the store though the node ceiling denies it: the
    /// store's denial, which names the true wait, is then remembered.
    store_turn: AtomicBool,
    pub(super) lease: Option<Arc<LeaseState>>,
}

/// What a target's ceilings deny, in their order; no target has more than two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Retries([Option<Retry>; 2]);

impl Retries {
    /// Of the ceiling numbered `n` alone.
    pub(super) fn of(n: usize, retry: Retry) -> Self {
        Retries(std::array::from_fn(|each| (each == n).then_some(retry)))
    }

    /// The longest.
    pub(super) fn longest(&self) -> Option<Retry> {
        self.0.iter().flatten().max().copied()
    }
}

impl TargetState {
    /// What is known before the first check: nothing.
    pub(super) fn new(target: Target, ceilings: Vec<Arc<CeilingState>>, leases: bool) -> Self {
        TargetState {
            lease: leases.then(|| LeaseState::of(&target)).flatten(),
            target: Arc::new(target),
            ceilings,
            revision: AtomicU64::new(0),
            lane: Lane::default(),
            lone_call_ended: Notify::new(),
            store_turn: AtomicBool::new(false),
        }
    }

    /// The configuration numbered `revision` has it so; false when it is retired.
    pub(super) fn is_of(&self, revision: u64) -> bool {
        let renumber = |before: u64| (before != RETIRED).then_some(revision);
        let renumbered = self
            .revision
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, renumber);
        renumbered.is_ok()
    }

    /// Whoever holds it looks for another from now on.
    pub(super) fn retire(&self) {
        self.revision.store(RETIRED, Ordering::Release);
    }

    /// What to hand to [`TargetState::learn`] when the answer comes.
    pub(super) fn epochs(&self) -> Vec<u64> {
        self.ceilings.iter().map(|c| c.denials.epoch()).collect()
    }

    /// Takes `cost` units from each ceiling's node meter, or from none.
    ///
    /// # Errors
    /// The ceiling that denies, and for how long.
    pub(super) fn take(&self, now: Timestamp, cost: Cost) -> Result<Taken, (usize, Micros)> {
        let mut taken = Taken::default();
        for (n, ceiling) in self.ceilings.iter().enumerate() {
            match ceiling.node.take(now, cost) {
                Ok(true) => taken.add(n),
                Ok(false) => {}
                Err(wait) => {
                    self.give_back(taken, cost);
                    return Err((n, wait));
                }
            }
        }
        Ok(taken)
    }

    /// A check that was not admitted gives its units back.
    pub(super) fn give_back(&self, taken: Taken, cost: Cost) {
        for (n, ceiling) in self.ceilings.iter().enumerate() {
            if taken.holds(n) {
                ceiling.node.give_back(cost);
            }
        }
    }

    /// The denial of `cost` that is surely the store's: by which ceilings, and for how long. None
    /// when another ceiling may deny it too, and nobody knows for how long.
    #[inline]
    pub(super) fn denied(
        &self,
        now: Timestamp,
        cost: Cost,
        bounds: &DenialBounds,
    ) -> Option<Retries> {
        let mut retries = Retries::default();
        for (ceiling, retry) in self.ceilings.iter().zip(&mut retries.0) {
            *retry = ceiling.denies(cost, now, bounds);
            if retry.is_none() && ceiling.may_deny(cost, now) {
                return None;
            }
        }
        retries.longest().map(|_| retries)
    }

    /// Takes `cost` units from this node's share of each ceiling, or from none, while the store
    /// can't be asked. What it last said stays true: who was denied stays denied until then.
    ///
    /// # Errors
    /// How long until this node could admit them; `None` when it never can.
    pub(super) fn take_share(
        &self,
        cost: Cost,
        nodes: u32,
        now: Timestamp,
    ) -> Result<(), Option<Micros>> {
        let ceilings = self.ceilings.iter();
        let denied = ceilings.filter_map(|c| c.denials.find_in_outage(cost, now));
        if let Some(wait) = denied.max() {
            return Err(Some(wait));
        }
        for (n, state) in self.ceilings.iter().enumerate() {
            let taken = (state.share).take(&state.ceiling, nodes, state.last_known(), now, cost);
            if let Err(wait) = taken {
                for before in self.ceilings.iter().take(n) {
                    before.share.give_back(&before.ceiling, nodes, cost);
                }
                return Err(wait);
            }
        }
        Ok(())
    }

    /// Gives back what was taken from this node's share of each ceiling.
    pub(super) fn give_back_share(&self, cost: Cost, nodes: u32) {
        for state in &self.ceilings {
            state.share.give_back(&state.ceiling, nodes, cost);
        }
    }

    /// The ceilings whose state is known, with what they deny.
    pub(super) fn statuses(&self, retries: &Retries, now: Timestamp) -> Vec<CeilingStatus> {
        let mut statuses = Vec::with_capacity(self.ceilings.len());
        for (ceiling, retry) in self.ceilings.iter().zip(retries.0) {
            statuses.extend(self.status(ceiling, retry, now));
        }
        statuses
    }

    /// A ceiling as the store last described it; absent when it never did and doesn't deny now.
    fn status(
        &self,
        ceiling: &CeilingState,
        retry: Option<Retry>,
        now: Timestamp,
    ) -> Option<CeilingStatus> {
        let known = ceiling.last_known();
        if known.is_none() && retry.is_none() {
            return None;
        }
        Some(CeilingStatus {
            remaining: known.map_or(0, |known| known.remaining),
            reset_after: known.map_or(Micros::ZERO, |known| known.whole_at.since(now)),
            retry,
            ..whole(&self.target, &ceiling.ceiling)
        })
    }

    /// The right to ask for the next lease, when it is worth one and nobody is asking. `now` gives
    /// the time and how many nodes share the ceilings.
    pub(super) fn claim_lease(&self, now: impl FnOnce() -> (Timestamp, u32)) -> Option<LeaseClaim> {
        let lease = self.lease.as_ref()?;
        let (now, nodes) = now();
        let room = |state: &Arc<CeilingState>| {
            Some(Room {
                limit: state.ceiling.quota.limit(),
                remaining: state.last_known()?.remaining,
            })
        };
        lease.claim(now, nodes, || self.ceilings.iter().map(room).collect())
    }

    /// Learns from the store's answers to `costs`, which were asked for in `epochs`.
    pub(super) fn learn(
        &self,
        asked: &Asked<'_>,
        outcomes: &[Outcome],
        bounds: Option<&DenialBounds>,
    ) {
        let Some(last) = outcomes.last() else {
            return;
        };
        for (ceiling, outcome) in self.ceilings.iter().zip(&last.ceilings) {
            ceiling.learn(outcome, asked.answered_at);
        }
        let Some(bounds) = bounds else {
            return;
        };
        let after_admission = outcomes
            .iter()
            .rposition(|o| o.is_admitted() && !o.repeated)
            .map_or(0, |n| n + 1);
        if after_admission > 0 {
            self.ceilings.iter().for_each(|c| c.denials.admitted());
        }
        let mut before = None;
        for (cost, outcome) in asked.costs.iter().zip(outcomes).skip(after_admission) {
            if before.replace(*cost) == Some(*cost) {
                continue;
            }
            for ((ceiling, outcome), epoch) in self
                .ceilings
                .iter()
                .zip(&outcome.ceilings)
                .zip(asked.epochs)
            {
                let denial = CeilingDenial {
                    cost: *cost,
                    outcome: *outcome,
                    sent_at: asked.sent_at,
                    answered_at: asked.answered_at,
                };
                ceiling.denials.remember(&denial, *epoch, bounds);
            }
        }
    }

    /// Gives back what a denied check took from the node meters: at once, or, when the store has
    /// no unit left, when it will have one.
    pub(super) fn give_back_denied(
        &self,
        taken: Taken,
        cost: Cost,
        outcome: &Outcome,
        answered_at: Timestamp,
    ) {
        let no_unit_before = outcome
            .ceilings
            .iter()
            .filter(|c| cost == 1 && c.remaining == 0)
            .filter_map(|c| c.retry.and_then(Retry::after))
            .max();
        for (n, ceiling) in self.ceilings.iter().enumerate() {
            match no_unit_before {
                _ if !taken.holds(n) => {}
                Some(wait) => ceiling.node.give_back_at(answered_at + wait, cost),
                None => ceiling.node.give_back(cost),
            }
        }
    }

    /// The longest window of its sliding logs, which find a charge by its id.
    pub(super) fn longest_log(&self) -> Option<Micros> {
        let logs = self.target.ceilings.iter();
        logs.filter(|ceiling| ceiling.algorithm == Algorithm::SlidingLog)
            .map(|ceiling| ceiling.quota.window())
            .max()
    }

    /// So many units were given back: what was denied may be admitted now.
    pub(super) fn refunded(&self, units: Cost) {
        self.ceilings.iter().for_each(|c| c.refunded(units));
    }

    /// All was forgotten in the store.
    pub(super) fn reset(&self) {
        self.ceilings.iter().for_each(|c| c.reset());
        self.lose_lease();
    }

    /// What was charged for the lease, or a part of it, is gone.
    pub(super) fn lose_lease(&self) {
        if let Some(lease) = &self.lease {
            lease.lose();
        }
    }
}

/// The turn of the one check of a target that asks the store though the node ceiling denies it.
pub(super) struct StoreTurn(Arc<TargetState>);

impl StoreTurn {
    pub(super) fn take(state: &Arc<TargetState>) -> Option<Self> {
        let is_taken = state.store_turn.load(Ordering::Acquire)
            || state.store_turn.swap(true, Ordering::AcqRel);
        (!is_taken).then(|| StoreTurn(Arc::clone(state)))
    }
}

impl Drop for StoreTurn {
    fn drop(&mut self) {
        self.0.store_turn.store(false, Ordering::Release);
    }
}

/// When and what was asked of the store.
pub(super) struct Asked<'a> {
    pub costs: &'a [Cost],
    pub epochs: &'a [u64],
    pub sent_at: Timestamp,
    pub answered_at: Timestamp,
}
