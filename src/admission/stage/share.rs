//! This node's share of a ceiling while the store can't be asked (`on_outage: local`): all nodes
//! together admit at most the limit in a window. Never counts what the store admits, and the store
//! never counts what is admitted here.
//!
//! A node may admit `s = limit / nodes` units in any window: a meter with burst `b` and interval
//! `W / (s - b + 1)` lets at most `b + (s - b)` pass in one. What the store had admitted before the
//! outage counts too, as far as this node knows it: until the ceiling would have been whole again,
//! this node admits no more than its share of what was left.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::meter::{Meter, MeterRate, NoRoom};
use crate::model::{Algorithm, Ceiling, Cost, Micros, Timestamp};

/// What was left of a ceiling when the store last answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastKnown {
    /// Units left.
    pub remaining: u64,
    /// When it is whole again if nothing more came.
    pub whole_at: Timestamp,
}

/// One ceiling's share.
#[derive(Debug, Default)]
pub(super) struct Share {
    meter: Meter,
    nodes: AtomicU32,
    spent_since_known: AtomicU64,
}

impl Share {
    /// Takes `cost` units at `now`, of a ceiling shared by `nodes`.
    ///
    /// # Errors
    /// How long until this node could admit it; `None` when it never can.
    pub(super) fn take(
        &self,
        ceiling: &Ceiling,
        nodes: u32,
        left: Option<LastKnown>,
        now: Timestamp,
        cost: Cost,
    ) -> Result<(), Option<Micros>> {
        let Some(rate) = rate(ceiling, nodes) else {
            return Err(None);
        };
        let before = self.nodes.swap(nodes, Ordering::AcqRel);
        if before != nodes && before != 0 {
            // What was taken was counted in another unit: begin with nothing.
            self.meter.exhaust(rate, now);
        }
        let known = left.filter(|left| now < left.whole_at);
        if let Some(left) = known {
            let budget = left.remaining / u64::from(nodes.max(1));
            let more = |spent: u64| spent.checked_add(cost).filter(|sum| *sum <= budget);
            self.spent_since_known
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
                .map_err(|_| Some(left.whole_at.since(now)))?;
        }
        self.meter.take(rate, now, cost).map_err(|no_room| {
            if known.is_some() {
                self.spent_since_known.fetch_sub(cost, Ordering::AcqRel);
            }
            match no_room {
                NoRoom::For(wait) => Some(wait),
                NoRoom::TooMuch => None,
            }
        })
    }

    /// Another ceiling of the check denied it: the units come back.
    pub(super) fn give_back(&self, ceiling: &Ceiling, nodes: u32, cost: Cost) {
        if let Some(rate) = rate(ceiling, nodes) {
            self.meter.give_back(rate, cost);
        }
        let less = |spent: u64| Some(spent.saturating_sub(cost));
        // The closure never declines, so there is no error to look at.
        let _ = self
            .spent_since_known
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// The store said anew what is left.
    pub(super) fn renew(&self) {
        if self.spent_since_known.load(Ordering::Relaxed) != 0 {
            self.spent_since_known.store(0, Ordering::Relaxed);
        }
    }
}

/// This node's rate, half of the share at once; `None` when its share is no unit at all.
fn rate(ceiling: &Ceiling, nodes: u32) -> Option<MeterRate> {
    let quota = ceiling.quota;
    let share = quota.limit() / u64::from(nodes.max(1));
    if share == 0 {
        return None;
    }
    let window_ns = u128::from(quota.window().get()) * 1_000;
    let (burst, parts) = match ceiling.algorithm {
        // Their ceiling is a burst and a rate: the share is a part of each.
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            let burst = quota.burst() / u64::from(nodes.max(1));
            (burst, share)
        }
        _ => {
            let burst = share.div_ceil(2);
            (burst, share - burst + 1)
        }
    };
    // Rounded up: a little slower than the share, never faster.
    let interval_ns = u64::try_from(window_ns.div_ceil(u128::from(parts))).ok()?;
    let most = u64::from(u32::MAX);
    MeterRate::new(burst.min(most), interval_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Quota, Scope};

    fn ceiling(limit: u64) -> Ceiling {
        Ceiling {
            scope: Scope::Global,
            algorithm: Algorithm::SlidingLog,
            quota: Quota::new(limit, Micros::from_secs(60)).unwrap(),
            delay: false,
        }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000) + Micros::from_millis(ms)
    }

    /// The most units that a flood gets from one node in any window of three.
    fn flood(limit: u64, nodes: u32) -> u64 {
        let (share, ceiling) = (Share::default(), ceiling(limit));
        let mut admitted: Vec<u64> = Vec::new();
        for ms in (0..180_000).step_by(25) {
            while share.take(&ceiling, nodes, None, at(ms), 1).is_ok() {
                admitted.push(ms);
            }
        }
        let in_window = |end: &u64| {
            let inside = |t: &&u64| **t <= *end && **t + 60_000 > *end;
            admitted.iter().filter(inside).count() as u64
        };
        admitted.iter().map(in_window).max().unwrap_or(0)
    }

    #[test]
    fn all_nodes_together_admit_at_most_the_limit_in_any_window() {
        for (limit, nodes) in [(1, 1), (2, 1), (3, 1), (100, 1), (100, 4), (7, 2), (9, 4)] {
            let most = flood(limit, nodes) * u64::from(nodes);
            assert!(most <= limit, "{limit} by {nodes}: {most}");
            let share = limit / u64::from(nodes);
            assert!(
                most + u64::from(nodes) > share * u64::from(nodes),
                "{limit} by {nodes}"
            );
        }
        assert_eq!(flood(3, 4), 0, "no unit for each of four");
        assert_eq!(flood(0, 1), 0);
    }

    #[test]
    fn what_the_store_had_admitted_counts_until_the_ceiling_is_whole_again() {
        let (share, ceiling) = (Share::default(), ceiling(100));
        let left = Some(LastKnown {
            remaining: 20,
            whole_at: at(50_000),
        });
        let admitted = (0..50_000)
            .step_by(100)
            .filter(|ms| share.take(&ceiling, 4, left, at(*ms), 1).is_ok())
            .count();
        assert_eq!(admitted, 5);
        assert!(share.take(&ceiling, 4, left, at(50_000), 1).is_ok());
    }

    #[test]
    fn a_node_that_joins_makes_every_share_smaller_at_once() {
        let (share, ceiling) = (Share::default(), ceiling(100));
        assert!(share.take(&ceiling, 1, None, at(0), 1).is_ok());
        assert!(share.take(&ceiling, 2, None, at(0), 1).is_err());
    }
}
