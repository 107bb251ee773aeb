//! What this node knows of one ceiling: its denials, its meters, and what the store last said.

use std::sync::atomic::{AtomicU64, Ordering};

use super::denial_cache::{DenialBounds, Denials};
use super::node_ceiling::NodeCeiling;
use super::share::{LastKnown, Share};
use crate::model::{Ceiling, Cost, Retry, Timestamp};
use crate::store::CeilingOutcome;

/// One ceiling, as this node knows it.
#[derive(Debug)]
pub(super) struct CeilingState {
    pub ceiling: Ceiling,
    pub denials: Denials,
    pub node: NodeCeiling,
    pub share: Share,
    // What the store last said; the two may be of different answers for a moment, and are for
    // people and for sizes only.
    remaining: AtomicU64,
    whole_at_us: AtomicU64,
}

/// Before the store said anything.
const UNKNOWN: u64 = u64::MAX;

impl CeilingState {
    pub(super) fn new(ceiling: Ceiling) -> Self {
        CeilingState {
            ceiling,
            denials: Denials::default(),
            node: NodeCeiling::new(&ceiling),
            share: Share::default(),
            remaining: AtomicU64::new(UNKNOWN),
            whole_at_us: AtomicU64::new(0),
        }
    }

    /// What was left when the store last answered.
    pub(super) fn last_known(&self) -> Option<LastKnown> {
        let remaining = self.remaining.load(Ordering::Relaxed);
        (remaining != UNKNOWN).then(|| LastKnown {
            remaining,
            whole_at: Timestamp::from_micros(self.whole_at_us.load(Ordering::Relaxed)),
        })
    }

    /// How long it denies `cost`, as far as that is sure.
    pub(super) fn denies(
        &self,
        cost: Cost,
        now: Timestamp,
        bounds: &DenialBounds,
    ) -> Option<Retry> {
        if cost > self.ceiling.cost_max() {
            return self.last_known().map(|_| Retry::Never);
        }
        self.denials.find(cost, now, bounds).map(Retry::After)
    }

    /// Whether it had less than `cost` when the store last answered, and may have so still; or never
    /// has so much, and the store hasn't said yet what it has.
    pub(super) fn may_deny(&self, cost: Cost, now: Timestamp) -> bool {
        match self.last_known() {
            Some(left) => left.remaining < cost && now < left.whole_at,
            None => cost > self.ceiling.cost_max(),
        }
    }

    /// Learns from the store's answer.
    pub(super) fn learn(&self, outcome: &CeilingOutcome, answered_at: Timestamp) {
        let whole_at = answered_at + outcome.reset_after;
        self.remaining.store(outcome.remaining, Ordering::Relaxed);
        self.whole_at_us
            .store(whole_at.as_micros(), Ordering::Relaxed);
        self.share.renew();
    }

    /// Forgets what may be wrong after a refund of `units`.
    pub(super) fn refunded(&self, units: Cost) {
        self.denials.forget();
        self.node.release();
        self.node.give_back(units);
    }

    /// Forgets all that was seen.
    pub(super) fn reset(&self) {
        self.denials.forget();
        self.node.clear();
        self.remaining.store(UNKNOWN, Ordering::Relaxed);
    }
}
