//! What the local stage did, as numbers. Never a subject among them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam::utils::CachePadded;

use super::breaker::BreakerState;
use crate::model::Source;
use crate::store::ShardId;

/// Threads that count side by side before two share a line.
const STRIPES: usize = 16;

/// Why a check was decided without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutageReason {
    /// The shard is left alone by its breaker.
    BreakerOpen,
    /// No answer by the check's deadline.
    Deadline,
    /// The store said that it can't.
    StoreError,
    /// Too many checks wait already.
    LaneFull,
}

impl OutageReason {
    /// All reasons.
    pub const ALL: [OutageReason; 4] = [
        OutageReason::BreakerOpen,
        OutageReason::Deadline,
        OutageReason::StoreError,
        OutageReason::LaneFull,
    ];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            OutageReason::BreakerOpen => "breaker_open",
            OutageReason::Deadline => "deadline",
            OutageReason::StoreError => "store_error",
            OutageReason::LaneFull => "lane_full",
        }
    }
}

/// A moment's reading of the local stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageStats {
    /// Checks answered, by the part that answered, in the order of [`Source::ALL`].
    pub by_source: Vec<(Source, u64)>,
    /// Checks decided without the store, by reason, in the order of [`OutageReason::ALL`].
    pub degraded: Vec<(OutageReason, u64)>,
    /// Calls that the stage made of the checks: a lane's batch is one.
    pub calls: u64,
    /// Checks that rode in those calls.
    pub checks_in_calls: u64,
    /// Checks that wait in lanes now.
    pub waiting: u64,
    /// Leases that were granted.
    pub leases_granted: u64,
    /// Units charged ahead.
    pub lease_units_granted: u64,
    /// Units of those that were handed back unspent.
    pub lease_units_returned: u64,
    /// Charges given back that nobody was admitted by: their check was cancelled, or was denied
    /// without the store while its call may have run.
    pub unused_refunded: u64,
    /// Such charges that can't be given back: no log holds their id, or too many wait.
    pub unused_kept: u64,
    /// Such charges that wait for their shard to answer.
    pub refunds_waiting: u64,
    /// Subjects whose state is held now, of all policies.
    pub subjects: u64,
    /// Nodes that share the ceilings, as far as is known.
    pub nodes: u32,
    /// Invalidations for the other nodes that were dropped because too many waited.
    pub invalidations_dropped: u64,
    /// Each shard's breaker.
    pub breakers: Vec<(ShardId, BreakerState)>,
}

#[derive(Debug, Default)]
struct Stripe {
    by_source: [AtomicU64; Source::ALL.len()],
}

/// The counters behind [`StageStats`].
#[derive(Debug)]
pub(super) struct Counters {
    stripes: Box<[CachePadded<Stripe>]>,
    degraded: [AtomicU64; OutageReason::ALL.len()],
    calls: AtomicU64,
    checks_in_calls: AtomicU64,
    pub waiting: AtomicUsize,
    leases_granted: AtomicU64,
    lease_units_granted: AtomicU64,
    pub lease_units_returned: AtomicU64,
    unused_refunded: AtomicU64,
    unused_kept: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            stripes: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            degraded: Default::default(),
            calls: AtomicU64::new(0),
            checks_in_calls: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            leases_granted: AtomicU64::new(0),
            lease_units_granted: AtomicU64::new(0),
            lease_units_returned: AtomicU64::new(0),
            unused_refunded: AtomicU64::new(0),
            unused_kept: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// A check was answered by `source`.
    pub(super) fn answered(&self, source: Source) {
        let stripe = &self.stripes[stripe() % STRIPES];
        stripe.by_source[index(source)].fetch_add(1, Ordering::Relaxed);
    }

    /// A check was decided without the store.
    pub(super) fn degraded(&self, reason: OutageReason) {
        self.degraded[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A call was sent that carried so many requests.
    pub(super) fn called(&self, requests: usize) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let sent = &self.checks_in_calls;
        sent.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// A charge that nobody was admitted by was given back.
    pub(super) fn charge_refunded(&self) {
        self.unused_refunded.fetch_add(1, Ordering::Relaxed);
    }

    /// So many such charges can't be given back.
    pub(super) fn charges_kept(&self, charges: u64) {
        self.unused_kept.fetch_add(charges, Ordering::Relaxed);
    }

    /// A lease of `units` was granted.
    pub(super) fn lease_granted(&self, units: u64) {
        self.leases_granted.fetch_add(1, Ordering::Relaxed);
        self.lease_units_granted.fetch_add(units, Ordering::Relaxed);
    }

    /// What was counted; the caller adds what it knows itself.
    pub(super) fn read(&self) -> StageStats {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let of_source = |source: Source| {
            let by_stripe = self
                .stripes
                .iter()
                .map(|s| get(&s.by_source[index(source)]));
            (source, by_stripe.sum())
        };
        StageStats {
            by_source: Source::ALL.map(of_source).into(),
            degraded: OutageReason::ALL
                .map(|reason| (reason, get(&self.degraded[reason as usize])))
                .into(),
            calls: get(&self.calls),
            checks_in_calls: get(&self.checks_in_calls),
            waiting: self.waiting.load(Ordering::Relaxed) as u64,
            leases_granted: get(&self.leases_granted),
            lease_units_granted: get(&self.lease_units_granted),
            lease_units_returned: get(&self.lease_units_returned),
            unused_refunded: get(&self.unused_refunded),
            unused_kept: get(&self.unused_kept),
            ..StageStats::default()
        }
    }
}

const fn index(source: Source) -> usize {
    match source {
        Source::DenialCache => 0,
        Source::Lease => 1,
        Source::NodeCeiling => 2,
        Source::Store => 3,
        Source::Outage => 4,
    }
}

/// This thread's stripe: threads take turns as they first count.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.try_with(|mine| *mine).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_counted_under_their_own_name() {
        let counters = Counters::default();
        for (n, source) in Source::ALL.into_iter().enumerate() {
            for _ in 0..=n {
                counters.answered(source);
            }
        }
        let expected: Vec<_> = Source::ALL.into_iter().zip(1..).collect();
        assert_eq!(counters.read().by_source, expected);
    }

    #[test]
    fn threads_add_up() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|_| counters.answered(Source::Lease)));
            }
        });
        let lease = counters.read().by_source[1];
        assert_eq!(lease, (Source::Lease, 2_000));
    }
}
