//! What one node may send for a ceiling. A client that keeps to the limit in every window has sent
//! `A(s,t) <= L + (L/W)(t-s)` between any two instants (it fits whole windows, and a part of one),
//! so a meter with burst L and rate L/W never denies it; a flood it cuts before it costs a call.
//! Never admits, and never holds a client's tokens for what the store denied longer than the
//! store itself would deny.

use std::sync::atomic::{AtomicU64, Ordering};

use super::meter::{Meter, MeterRate, NoRoom};
use crate::model::{Algorithm, Ceiling, Cost, Micros, Timestamp};

/// Which ceilings' meters a check's units were taken from: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken(u8);

impl Taken {
    /// Also from the ceiling numbered `n`.
    pub(super) fn add(&mut self, n: usize) {
        self.0 |= 1 << n;
    }

    /// Whether from the ceiling numbered `n`.
    pub(super) fn holds(self, n: usize) -> bool {
        self.0 & (1 << n) != 0
    }
}

/// One ceiling's part of what this node may send.
#[derive(Debug)]
pub(super) struct NodeCeiling {
    /// Absent when the ceiling is too large or too small to be metered: then all may pass.
    rate: Option<MeterRate>,
    meter: Meter,
    /// Units of denied checks that come back when the store's denial ends.
    held: AtomicU64,
    held_until: AtomicU64,
}

impl NodeCeiling {
    /// For `ceiling`.
    pub(super) fn new(ceiling: &Ceiling) -> Self {
        NodeCeiling {
            rate: rate(ceiling),
            meter: Meter::default(),
            held: AtomicU64::new(0),
            held_until: AtomicU64::new(0),
        }
    }

    /// Takes `cost` units at `now`; says whether it did, for only what was taken may come back.
    /// It lets pass what it can't meter, and a cost beyond the ceiling: the store's "never" says
    /// that better.
    ///
    /// # Errors
    /// How long until this node would let them pass, when no conforming client could have sent
    /// them on top of what it sent.
    pub(super) fn take(&self, now: Timestamp, cost: Cost) -> Result<bool, Micros> {
        let Some(rate) = self.rate else {
            return Ok(false);
        };
        let held_until = self.held_until.load(Ordering::Acquire);
        if held_until != 0 && held_until <= now.as_micros() {
            self.release();
        }
        match self.meter.take(rate, now, cost) {
            Ok(()) => Ok(true),
            Err(NoRoom::TooMuch) => Ok(false),
            Err(NoRoom::For(wait)) => Err(wait),
        }
    }

    /// The units of a check that was not admitted come back at once.
    pub(super) fn give_back(&self, cost: Cost) {
        if let Some(rate) = self.rate {
            self.meter.give_back(rate, cost);
        }
    }

    /// The units of a check that the store denied until `retry_at`, and with it every cost: they
    /// come back then, so that the flood goes on being cut until then.
    pub(super) fn give_back_at(&self, retry_at: Timestamp, cost: Cost) {
        if self.rate.is_none() {
            return;
        }
        self.held.fetch_add(cost, Ordering::AcqRel);
        self.held_until
            .store(retry_at.as_micros().max(1), Ordering::Release);
    }

    /// What was held comes back now.
    pub(super) fn release(&self) {
        self.held_until.store(0, Ordering::Release);
        let held = self.held.swap(0, Ordering::AcqRel);
        if held > 0 {
            self.give_back(held);
        }
    }

    /// Forgets all that was sent.
    pub(super) fn clear(&self) {
        self.held_until.store(0, Ordering::Release);
        self.held.store(0, Ordering::Release);
        self.meter.clear();
    }
}

/// The rate that no conforming client exceeds. What a client may send at once is a window's limit
/// or the bucket's burst; clock-aligned windows may meet at their boundary, so it is two of them.
fn rate(ceiling: &Ceiling) -> Option<MeterRate> {
    let (limit, quota) = (ceiling.quota.limit(), ceiling.quota);
    if limit == 0 {
        return None;
    }
    let burst = match ceiling.algorithm {
        Algorithm::SlidingLog | Algorithm::SlidingCounter => limit,
        Algorithm::FixedWindow => limit.saturating_mul(2),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => limit.max(quota.burst()),
    };
    // Rounded down: a little faster than the limit, never slower.
    let interval_ns = quota.window().get().saturating_mul(1_000) / limit;
    MeterRate::new(burst, interval_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Quota, Scope};

    fn ceiling(algorithm: Algorithm, limit: u64) -> Ceiling {
        Ceiling {
            scope: Scope::Global,
            algorithm,
            quota: Quota::new(limit, Micros::from_secs(60)).unwrap(),
            delay: false,
        }
    }

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000) + Micros::from_secs(s)
    }

    #[test]
    fn what_a_denial_took_comes_back_when_the_denial_ends() {
        let node = NodeCeiling::new(&ceiling(Algorithm::SlidingLog, 10));
        node.take(at(0), 10).unwrap();
        node.give_back_at(at(5), 10);
        assert_eq!(node.take(at(4), 10), Err(Micros::from_secs(56)));
        assert_eq!(node.take(at(5), 10), Ok(true));
    }

    #[test]
    fn aligned_windows_may_meet_at_their_boundary() {
        let node = NodeCeiling::new(&ceiling(Algorithm::FixedWindow, 10));
        assert_eq!(node.take(at(59), 10), Ok(true));
        assert_eq!(node.take(at(60), 10), Ok(true));
        assert!(node.take(at(60), 1).is_err());
    }

    #[test]
    fn a_cost_beyond_the_ceiling_is_the_stores_to_deny() {
        let node = NodeCeiling::new(&ceiling(Algorithm::SlidingLog, 10));
        assert_eq!(node.take(at(0), 11), Ok(false));
        assert_eq!(node.take(at(0), 10), Ok(true));
    }

    #[test]
    fn a_limit_of_zero_or_beyond_the_meter_is_the_stores_to_decide() {
        for limit in [0, 1 << 33] {
            let node = NodeCeiling::new(&ceiling(Algorithm::SlidingLog, limit));
            assert_eq!(node.take(at(0), 1 << 32), Ok(false), "{limit}");
        }
    }
}
