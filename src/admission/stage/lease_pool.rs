//! Capacity that was charged ahead, as units that many spend at once and one hands back. A unit is
//! spent or handed back, never both, and never after the lease's end.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::sync::{AtomicU64, Ordering};
use crate::model::{ChargeId, Cost, Timestamp};

/// Units charged ahead under one charge.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The charge's name.
    pub id: ChargeId,
    /// Units that were charged.
    pub granted: Cost,
    /// Spent before this instant only: the charge is dated no earlier.
    pub ends_at: Timestamp,
    left: AtomicU64,
    /// Of those that were spent, the ones that [`Lease::newly_spent`] has returned.
    seen: AtomicU64,
}

impl Lease {
    /// `granted` units under `id`.
    pub(crate) fn new(id: ChargeId, granted: Cost, ends_at: Timestamp) -> Self {
        Lease {
            id,
            granted,
            ends_at,
            left: AtomicU64::new(granted),
            seen: AtomicU64::new(0),
        }
    }

    /// Spends `cost` units at `now`; the units left, or `None` when there aren't enough.
    pub(crate) fn spend(&self, cost: Cost, now: Timestamp) -> Option<Cost> {
        if now >= self.ends_at {
            return None;
        }
        let mut left = self.left.load(Ordering::Acquire);
        loop {
            let rest = left.checked_sub(cost)?;
            match self
                .left
                .compare_exchange_weak(left, rest, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(rest),
                Err(seen) => left = seen,
            }
        }
    }

    /// Ends it: the units that nobody spent, which nobody spends any more.
    pub(crate) fn close(&self) -> Cost {
        self.left.swap(0, Ordering::AcqRel)
    }

    /// Units that were spent since this was last asked, when `rest` are left or closing it gave them.
    pub(crate) fn newly_spent(&self, rest: Cost) -> Cost {
        let spent = self.granted.saturating_sub(rest);
        let seen = self.seen.fetch_max(spent, Ordering::AcqRel);
        spent.saturating_sub(seen)
    }

    /// Units that can still be spent.
    pub(crate) fn left(&self) -> Cost {
        self.left.load(Ordering::Acquire)
    }
}

/// The lease that a target spends from.
#[derive(Debug, Default)]
pub(crate) struct LeasePool(ArcSwapOption<Lease>);

impl LeasePool {
    /// Spends `cost` units at `now`, and reads the lease that they came from.
    pub(crate) fn spend<T>(
        &self,
        cost: Cost,
        now: Timestamp,
        read: impl FnOnce(&Lease, Cost) -> T,
    ) -> Option<T> {
        let lease = self.0.load();
        let lease = lease.as_ref()?;
        lease.spend(cost, now).map(|left| read(lease, left))
    }

    /// Spends from `lease` from now on; the one before, which the caller ends.
    pub(crate) fn replace(&self, lease: Arc<Lease>) -> Option<Arc<Lease>> {
        self.0.swap(Some(lease))
    }

    /// Takes `lease` out, unless another took its place.
    pub(crate) fn remove(&self, lease: &Arc<Lease>) {
        let current = self.0.load_full();
        if current.as_ref().is_some_and(|c| Arc::ptr_eq(c, lease)) {
            self.0.compare_and_swap(&current, None);
        }
    }

    /// The lease that is spent from.
    pub(crate) fn current(&self) -> Option<Arc<Lease>> {
        self.0.load_full()
    }
}
