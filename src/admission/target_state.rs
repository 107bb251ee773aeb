//! What this node knows of one target: its ceilings' denials and meters, its lane, its lease.
//! Two targets of one subject share the state of their global ceiling. Never outlives a change of
//! its ceilings: then it is retired, and the next check makes another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use super::carrier::Waiting;
use super::denial_cache::{DenialBounds, Denials, Refused};
use super::lane::Lane;
use super::lease::LeaseState;
use super::node_ceiling::NodeCeiling;
use super::share::{Left, Share};
use crate::model::{Ceiling, CeilingStatus, Cost, Micros, Retry, Scope, Target, Timestamp};
use crate::store::{CeilingOutcome, Outcome};

/// What this node knows of one ceiling.
#[derive(Debug)]
pub(super) struct CeilingState {
    pub ceiling: Ceiling,
    pub denials: Denials,
    pub node: NodeCeiling,
    pub share: Share,
    // What the store last told; the two may be of different answers for a moment, and are for
    // people and for sizes only.
    remaining: AtomicU64,
    whole_at_us: AtomicU64,
}

/// Before the store told anything.
const UNTOLD: u64 = u64::MAX;

impl CeilingState {
    pub(super) fn new(ceiling: Ceiling) -> Self {
        CeilingState {
            ceiling,
            denials: Denials::default(),
            node: NodeCeiling::new(&ceiling),
            share: Share::default(),
            remaining: AtomicU64::new(UNTOLD),
            whole_at_us: AtomicU64::new(0),
        }
    }

    /// What was left when the store last told.
    pub(super) fn left(&self) -> Option<Left> {
        let remaining = self.remaining.load(Ordering::Relaxed);
        (remaining != UNTOLD).then(|| Left {
            remaining,
            whole_at: Timestamp::from_micros(self.whole_at_us.load(Ordering::Relaxed)),
        })
    }

    /// Its refusal of `cost`, as far as that is sure.
    fn refuses(&self, cost: Cost, now: Timestamp, bounds: &DenialBounds) -> Option<Retry> {
        if cost > self.ceiling.cost_max() {
            return self.left().map(|_| Retry::Never);
        }
        self.denials.find(cost, now, bounds).map(Retry::After)
    }

    /// Whether it had less than `cost` when the store last told, and may have so still; or never
    /// has so much, and the store hasn't told yet what it has.
    fn may_refuse(&self, cost: Cost, now: Timestamp) -> bool {
        match self.left() {
            Some(left) => left.remaining < cost && now < left.whole_at,
            None => cost > self.ceiling.cost_max(),
        }
    }

    fn told(&self, outcome: &CeilingOutcome, heard_at: Timestamp) {
        let whole_at = heard_at + outcome.reset_after;
        self.remaining.store(outcome.remaining, Ordering::Relaxed);
        self.whole_at_us
            .store(whole_at.as_micros(), Ordering::Relaxed);
        self.share.told();
    }

    /// Forgets what may be wrong after a refund of `units`.
    fn refunded(&self, units: Cost) {
        self.denials.forget();
        self.node.release();
        self.node.give_back(units);
    }

    /// Forgets all that was seen.
    fn reset(&self) {
        self.denials.forget();
        self.node.clear();
        self.remaining.store(UNTOLD, Ordering::Relaxed);
    }
}

/// What all targets of one subject under one policy share.
#[derive(Debug)]
pub(super) struct SubjectCore {
    /// How often all was forgotten.
    pub resets: AtomicU64,
    pub global: Option<Arc<CeilingState>>,
}

/// No configuration's number: the state is no more its target's, and who holds it looks for another.
const RETIRED: u64 = u64::MAX;

/// What this node knows of one target.
pub(crate) struct TargetState {
    pub target: Arc<Target>,
    /// In the order of the target's ceilings.
    pub(super) ceilings: Vec<Arc<CeilingState>>,
    pub(super) core: Arc<SubjectCore>,
    /// The number of the configuration that was last found to give the same ceilings, or
    /// [`RETIRED`].
    pub(super) revision: AtomicU64,
    pub(super) lane: Lane<Waiting>,
    /// Told when a call beside the carrier's ended.
    pub(super) beside_ended: Notify,
    /// Held by the one check that may go to the store though the node ceiling refuses: its exact
    /// denial is then remembered.
    pub(super) asking: AtomicBool,
    pub(super) lease: Option<Box<LeaseState>>,
}

/// Which ceilings' node meters a check's units were taken from: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken(u8);

/// What a target's ceilings refuse, in their order; no target has more than two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusals([Option<Retry>; 2]);

impl Refusals {
    /// Of the ceiling numbered `n` alone.
    pub(super) fn of(n: usize, retry: Retry) -> Self {
        Refusals(std::array::from_fn(|each| (each == n).then_some(retry)))
    }

    /// The longest.
    pub(super) fn longest(&self) -> Option<Retry> {
        self.0.iter().flatten().max().copied()
    }
}

impl TargetState {
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

    /// What to hand to [`TargetState::note`] when the answer comes.
    pub(super) fn epochs(&self) -> Vec<u64> {
        self.ceilings.iter().map(|c| c.denials.epoch()).collect()
    }

    /// Takes `cost` units from each ceiling's node meter, or from none.
    ///
    /// # Errors
    /// The ceiling that refuses, and for how long.
    pub(super) fn take(&self, now: Timestamp, cost: Cost) -> Result<Taken, (usize, Micros)> {
        let mut taken = Taken::default();
        for (n, ceiling) in self.ceilings.iter().enumerate() {
            match ceiling.node.take(now, cost) {
                Ok(true) => taken.0 |= 1 << n,
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
            if taken.0 & (1 << n) != 0 {
                ceiling.node.give_back(cost);
            }
        }
    }

    /// The refusal of `cost` that is surely the store's: by which ceilings, and for how long. None
    /// when another ceiling may refuse too, and nobody knows for how long.
    pub(super) fn denied(
        &self,
        now: Timestamp,
        cost: Cost,
        bounds: &DenialBounds,
    ) -> Option<Refusals> {
        let mut refusals = Refusals::default();
        for (ceiling, refusal) in self.ceilings.iter().zip(&mut refusals.0) {
            *refusal = ceiling.refuses(cost, now, bounds);
            if refusal.is_none() && ceiling.may_refuse(cost, now) {
                return None;
            }
        }
        refusals.longest().map(|_| refusals)
    }

    /// How long the store had last refused `cost` for, while it can't be asked.
    pub(super) fn denied_in_outage(&self, now: Timestamp, cost: Cost) -> Option<Micros> {
        let refusals = self.ceilings.iter();
        refusals
            .filter_map(|c| c.denials.find_in_outage(cost, now))
            .max()
    }

    /// The ceilings whose state is known, with their refusals.
    pub(super) fn statuses(&self, refusals: &Refusals, now: Timestamp) -> Vec<CeilingStatus> {
        let mut statuses = Vec::with_capacity(self.ceilings.len());
        for (ceiling, refusal) in self.ceilings.iter().zip(refusals.0) {
            statuses.extend(self.status(ceiling, refusal, now));
        }
        statuses
    }

    /// A ceiling as the store last told of it; absent when it never did and doesn't refuse now.
    fn status(
        &self,
        ceiling: &CeilingState,
        retry: Option<Retry>,
        now: Timestamp,
    ) -> Option<CeilingStatus> {
        let left = ceiling.left();
        if left.is_none() && retry.is_none() {
            return None;
        }
        let quota = ceiling.ceiling.quota;
        Some(CeilingStatus {
            scope: ceiling.ceiling.scope,
            region: match ceiling.ceiling.scope {
                Scope::Global => None,
                Scope::Region => self.target.region.clone(),
            },
            limit: quota.limit(),
            window: quota.window(),
            remaining: left.map_or(0, |left| left.remaining),
            reset_after: left.map_or(Micros::ZERO, |left| left.whole_at.since(now)),
            retry,
        })
    }

    /// Learns from the store's answers to `costs`, which were asked for in `epochs`.
    pub(super) fn note(
        &self,
        asked: &Asking<'_>,
        outcomes: &[Outcome],
        bounds: Option<&DenialBounds>,
    ) {
        let Some(last) = outcomes.last() else {
            return;
        };
        for (ceiling, outcome) in self.ceilings.iter().zip(&last.ceilings) {
            ceiling.told(outcome, asked.heard_at);
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
                let refused = Refused {
                    cost: *cost,
                    outcome: *outcome,
                    sent_at: asked.sent_at,
                    heard_at: asked.heard_at,
                };
                ceiling.denials.remember(&refused, *epoch, bounds);
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
        heard_at: Timestamp,
    ) {
        let no_unit_before = outcome
            .ceilings
            .iter()
            .filter(|c| cost == 1 && c.remaining == 0)
            .filter_map(|c| c.retry.and_then(Retry::after))
            .max();
        for (n, ceiling) in self.ceilings.iter().enumerate() {
            match no_unit_before {
                _ if taken.0 & (1 << n) == 0 => {}
                Some(wait) => ceiling.node.give_back_at(heard_at + wait, cost),
                None => ceiling.node.give_back(cost),
            }
        }
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

    /// What was charged for the lease, or a part of it, is gone: nothing may be spent from it.
    pub(super) fn lose_lease(&self) {
        self.core.resets.fetch_add(1, Ordering::AcqRel);
        if let Some(lease) = &self.lease
            && let Some(current) = lease.current()
        {
            lease.end(&current);
        }
    }
}

/// When and what was asked of the store.
pub(super) struct Asking<'a> {
    pub costs: &'a [Cost],
    pub epochs: &'a [u64],
    pub sent_at: Timestamp,
    pub heard_at: Timestamp,
}
