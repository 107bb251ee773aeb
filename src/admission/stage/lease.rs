//! Leases of hot keys: capacity that is charged ahead in the store's log, dated at the lease's end,
//! and spent here at memory speed. Never over: a unit is spent before the instant at which it is
//! dated, so every window that holds the spending holds the charge. At most one lease period
//! conservative: what is spent frees its room up to a period late, and what nobody spends is handed
//! back when the lease ends.
//!
//! Only for targets whose every ceiling is a sliding log: no other algorithm can date a charge.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::lease_pool::{Lease, LeasePool};
use super::lease_size::{Demand, Room, size};
use crate::model::{Algorithm, ChargeId, Cost, LeaseRule, Micros, Target, Timestamp};

/// A target's lease, and what decides about the next.
#[derive(Debug)]
pub(super) struct LeaseState {
    rule: LeaseRule,
    pool: LeasePool,
    demand: Demand,
    asking: AtomicBool,
    /// How often what was charged for leases was forgotten.
    resets: AtomicU64,
}

/// What spending left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent {
    /// Units left in the lease.
    pub left: Cost,
    /// Whether the next lease should be fetched now, so that nobody has to wait for it.
    pub is_low: bool,
}

impl LeaseState {
    /// For `target`, when its policy and its ceilings allow it.
    pub(super) fn of(target: &Target) -> Option<Arc<Self>> {
        let rule = target.policy.lease?;
        let fit = !target.ceilings.is_empty()
            && target
                .ceilings
                .iter()
                .all(|c| c.algorithm == Algorithm::SlidingLog && c.quota.limit() > 0);
        fit.then(|| {
            Arc::new(LeaseState {
                rule,
                pool: LeasePool::default(),
                demand: Demand::default(),
                asking: AtomicBool::new(false),
                resets: AtomicU64::new(0),
            })
        })
    }

    /// Spends `cost` units at `now`, if a lease has them. What is spent counts as demand later, for
    /// many checks at once: who spends writes to nothing but the lease.
    pub(super) fn spend(&self, cost: Cost, now: Timestamp) -> Option<Spent> {
        let quarter = Micros::new(self.rule.period.get() / 4);
        let spent = self.pool.spend(cost, now, |lease, left| Spent {
            left,
            is_low: left < lease.granted / 4 || now + quarter >= lease.ends_at,
        });
        if spent.is_none() {
            self.demand.asked(cost, now, self.rule.period);
        }
        spent
    }

    fn needs_another(&self, now: Timestamp) -> bool {
        let quarter = Micros::new(self.rule.period.get() / 4);
        let Some(lease) = self.pool.current() else {
            return true;
        };
        let left = lease.left();
        let spent = lease.newly_spent(left);
        self.demand.asked(spent, now, self.rule.period);
        left < lease.granted / 4 || now + quarter >= lease.ends_at
    }

    /// Takes `lease` for the one to spend from; the one before, if any, which is to be ended.
    pub(super) fn replace(&self, lease: Arc<Lease>) -> Option<Arc<Lease>> {
        self.pool.replace(lease)
    }

    /// The lease in force.
    pub(super) fn current(&self) -> Option<Arc<Lease>> {
        self.pool.current()
    }

    /// Takes `lease` out of use; the units that nobody spent.
    pub(super) fn end(&self, lease: &Arc<Lease>) -> Cost {
        self.pool.remove(lease);
        let rest = lease.close();
        self.demand.add(lease.newly_spent(rest));
        rest
    }

    /// What was charged for the lease, or a part of it, is gone: nothing may be spent from it, nor
    /// from the one that is being asked for.
    pub(super) fn lose(&self) {
        self.resets.fetch_add(1, Ordering::AcqRel);
        if let Some(current) = self.current() {
            self.end(&current);
        }
    }

    /// The next lease's size, when one is worth it now and nobody is asking for it: one of `nodes`
    /// asks, and `rooms` are the ceilings' as far as all are known.
    pub(super) fn claim(
        self: &Arc<Self>,
        now: Timestamp,
        nodes: u32,
        rooms: impl FnOnce() -> Option<Vec<Room>>,
    ) -> Option<LeaseClaim> {
        if self.asking.load(Ordering::Acquire) || !self.needs_another(now) {
            return None;
        }
        let demand = self.demand.per_period();
        if demand == 0 {
            return None;
        }
        let units = size(demand, &self.rule, rooms()?, nodes)?;
        let asking = &self.asking;
        let claimed = asking.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        claimed.ok()?;
        Some(LeaseClaim {
            resets: self.resets.load(Ordering::Acquire),
            state: Arc::clone(self),
            units,
            period: self.rule.period,
        })
    }
}

/// The right to ask for a target's next lease: one at a time.
pub(super) struct LeaseClaim {
    state: Arc<LeaseState>,
    resets: u64,
    /// Units to ask for.
    pub units: Cost,
    /// How far ahead they are dated.
    pub period: Micros,
}

impl LeaseClaim {
    /// Whether what is charged for it still counts: the subject was not reset meanwhile.
    pub(super) fn is_good(&self) -> bool {
        self.state.resets.load(Ordering::Acquire) == self.resets
    }

    /// The lease that a charge of these units under `id`, sent at `sent_at`, bought. It ends a
    /// thousandth of its period before the charge's date: clocks that run so much apart still
    /// agree that it was spent before.
    pub(super) fn lease(&self, id: ChargeId, sent_at: Timestamp) -> Arc<Lease> {
        let margin = Micros::new(self.period.get() / 1_000);
        let ends_at = sent_at + self.period.saturating_sub(margin);
        Arc::new(Lease::new(id, self.units, ends_at))
    }
}

impl Drop for LeaseClaim {
    fn drop(&mut self) {
        self.state.asking.store(false, Ordering::Release);
    }
}
