//! The meter behind both buckets: the generic cell rate algorithm (ITU-T I.371, virtual
//! scheduling), with its one instant kept exactly. Never rounds in a decision: an instant is
//! whole microseconds and a fraction over the limit, so a rate of 7 a second is 7 a second.
//!
//! Inside, amounts are ticks of 1/L microsecond (L = the limit): a unit costs `W` ticks (W = the
//! window), and L ticks drain in a microsecond.

use super::arith::{div_ceil, div_floor, mul};
use super::{Charged, Standing, Verdict, without_state};
use crate::model::{Cost, Micros, Quota, Retry, Timestamp};

/// When the bucket will have drained: the theoretical arrival time.
///
/// Invariant: `fraction < limit`, or both are 0 and nothing was ever charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// The theoretical arrival time, whole microseconds.
    pub tat: Timestamp,
    /// The rest of it, in 1/`limit` of a microsecond.
    pub fraction: u64,
    /// The limit under which it was written.
    pub limit: u64,
    /// The window under which it was written.
    pub window: Micros,
}

impl Meter {
    /// The state at `now`: itself, but when the quota's rate changed, what is used stays used, in
    /// whole units rounded up; and nothing owes more than a full bucket, which bounds a clock's
    /// step back.
    #[must_use]
    pub fn settle(self, quota: Quota, now: Timestamp) -> Self {
        let ticks = self.ticks(now);
        if quota.limit() == 0 || ticks == 0 {
            return self;
        }
        let same = (self.limit, self.window) == (quota.limit(), quota.window());
        let owed = match same {
            true => ticks,
            false => mul(div_ceil(ticks, self.window.get()), quota.window().get()),
        };
        if same && owed <= full(quota) {
            return self;
        }
        Meter::owing(owed.min(full(quota)), quota, now)
    }

    fn owing(ticks: u128, quota: Quota, now: Timestamp) -> Self {
        let limit = quota.limit().max(1);
        let rest = u64::try_from(ticks % u128::from(limit)).unwrap_or(0);
        Meter {
            tat: now + Micros::new(div_floor(ticks, limit)),
            fraction: rest,
            limit,
            window: quota.window(),
        }
    }

    /// What hasn't drained at `now`.
    fn ticks(self, now: Timestamp) -> u128 {
        if self.tat < now {
            return 0;
        }
        mul(self.tat.since(now).get(), self.limit).saturating_add(u128::from(self.fraction))
    }

    /// Whether there is room for `cost` units, and if not, exactly when there is.
    pub fn decide(self, quota: Quota, now: Timestamp, cost: Cost) -> Verdict {
        if let Some(verdict) = without_state(cost, quota.burst()) {
            return verdict;
        }
        let asked = self
            .ticks(now)
            .saturating_add(mul(cost, quota.window().get()));
        match asked.checked_sub(full(quota)) {
            None | Some(0) => Verdict::Room,
            Some(excess) => {
                Verdict::Denied(Retry::After(Micros::new(div_ceil(excess, quota.limit()))))
            }
        }
    }

    /// Adds `cost` units, drained ones being forgotten.
    #[must_use]
    pub fn charge(self, quota: Quota, now: Timestamp, cost: Cost) -> Self {
        let owed = self
            .ticks(now)
            .saturating_add(mul(cost, quota.window().get()));
        Meter::owing(owed, quota, now)
    }

    /// What is left of the burst, and when the bucket has drained.
    pub fn standing(self, quota: Quota, now: Timestamp) -> Standing {
        let free = full(quota).saturating_sub(self.ticks(now));
        Standing {
            remaining: div_floor(free, quota.window().get()),
            reset_after: self.drained_after(now),
        }
    }

    /// How long until everything charged so far has drained, rounded up.
    pub fn drained_after(self, now: Timestamp) -> Micros {
        Micros::new(div_ceil(self.ticks(now), self.limit))
    }

    /// Gives back up to `units` of a charge, as far as they can't have drained since (a charge's
    /// own units drain first: whatever else came, at least the rest of it is still there). How
    /// many, a part of a unit counting as one. Nothing under a limit of 0, which leaves the state
    /// as it was for the limit that comes after.
    pub fn refund(&mut self, quota: Quota, now: Timestamp, charged: Charged, units: Cost) -> Cost {
        if quota.limit() == 0 {
            return 0;
        }
        let window = quota.window().get();
        let drained = mul(now.since(charged.at).get(), quota.limit());
        let there = mul(charged.cost, window)
            .saturating_sub(drained)
            .min(self.ticks(now));
        let given = mul(units, window).min(there);
        if given > 0 {
            *self = Meter::owing(self.ticks(now) - given, quota, now);
        }
        div_ceil(given, window)
    }
}

/// A full bucket.
fn full(quota: Quota) -> u128 {
    mul(quota.burst(), quota.window().get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    #[test]
    fn seven_a_second_is_seven_a_second() {
        let quota: Quota = Quota::new(7, Micros::from_secs(1))
            .unwrap()
            .with_burst(1)
            .unwrap();
        let (mut meter, mut now) = (Meter::default(), 0);
        for _ in 0..7_000 {
            meter = meter.settle(quota, at(now));
            assert_eq!(meter.decide(quota, at(now), 1), Verdict::Room);
            meter = meter.charge(quota, at(now), 1);
            let Verdict::Denied(Retry::After(wait)) = meter.decide(quota, at(now), 1) else {
                panic!("the bucket holds one");
            };
            now += wait.get();
        }
        // 7,000 waits of 1/7 s, each rounded up to a microsecond: nothing adds up.
        assert!((1_000_000_000..=1_000_007_000).contains(&now), "{now}");
    }

    #[test]
    fn a_changed_rate_keeps_what_was_used() {
        let slow: Quota = "10/min".parse().unwrap();
        let fast: Quota = "20/s".parse().unwrap();
        let meter = Meter::default().settle(slow, at(5)).charge(slow, at(5), 7);
        let meter = meter.settle(fast, at(6));
        assert_eq!(meter.standing(fast, at(6)).remaining, 13);
    }

    #[test]
    fn a_step_back_owes_no_more_than_a_full_bucket() {
        let quota: Quota = "60/min".parse().unwrap();
        let full =
            Meter::default()
                .settle(quota, at(3_600_000_000))
                .charge(quota, at(3_600_000_000), 60);
        let back = full.settle(quota, at(0));
        assert_eq!(
            back.standing(quota, at(0)).reset_after,
            Micros::from_secs(60)
        );
    }

    #[test]
    fn a_refund_gives_back_only_what_has_not_drained() {
        let quota: Quota = "10/s".parse().unwrap();
        let mut meter = Meter::default()
            .settle(quota, at(0))
            .charge(quota, at(0), 10);
        let half = at(500_000);
        meter = meter.settle(quota, half).charge(quota, half, 5);
        let charged = Charged {
            at: at(0),
            cost: 10,
        };
        assert_eq!(meter.refund(quota, half, charged, 10), 5);
        assert_eq!(meter.standing(quota, half).remaining, 5);
    }
}
