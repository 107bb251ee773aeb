//! governor's GCRA for one key: a rate, and one number of state. It is given the time: the state
//! is handed over relative to the check's instant, so that governor's own clock stands still at
//! zero. Never reads a clock, and never owes more than a full burst, however a clock steps.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};

use crate::model::{Cost, Micros, Timestamp};

/// So many units at once, then one more each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeterRate {
    burst: NonZeroU32,
    interval_ns: u64,
}

impl MeterRate {
    /// `burst` units at once and one each `interval_ns`; `None` when governor can't count so much:
    /// over 2^32 - 1 units, or less than a nanosecond a unit.
    pub(super) fn new(burst: u64, interval_ns: u64) -> Option<Self> {
        let burst = NonZeroU32::new(u32::try_from(burst).ok()?)?;
        let full = interval_ns.checked_mul(u64::from(burst.get()))?;
        (interval_ns > 0 && full < u64::MAX / 4).then_some(MeterRate { burst, interval_ns })
    }

    fn quota(self) -> Option<governor::Quota> {
        let quota = governor::Quota::with_period(Duration::from_nanos(self.interval_ns))?;
        Some(quota.allow_burst(self.burst))
    }

    fn full_ns(self) -> u64 {
        self.interval_ns * u64::from(self.burst.get())
    }
}

/// Why a meter denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// There is room after this wait, if nothing else comes.
    For(Micros),
    /// It asks for more than the burst.
    TooMuch,
}

/// How much was taken lately: the instant at which nothing is owed any more, in nanoseconds since
/// the epoch.
#[derive(Debug, Default)]
pub(super) struct Meter(AtomicU64);

impl Meter {
    /// Takes `cost` units if there is room for them at `now`.
    pub(super) fn take(&self, rate: MeterRate, now: Timestamp, cost: Cost) -> Result<(), NoRoom> {
        let (Some(quota), Ok(cost)) = (rate.quota(), u32::try_from(cost)) else {
            return Err(NoRoom::TooMuch);
        };
        let Some(cost) = NonZeroU32::new(cost) else {
            return Ok(());
        };
        let at = MeterAt {
            meter: self,
            now_ns: nanos(now),
            owed_ns_max: rate.full_ns(),
        };
        let limiter =
            governor::RateLimiter::<_, _, _, NoOpMiddleware<Nanos>>::new(quota, at, StoppedClock);
        match limiter.check_n(cost) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(until)) => Err(NoRoom::For(until.wait_time_from(Nanos::new(0)).into())),
            Err(_) => Err(NoRoom::TooMuch),
        }
    }

    /// Gives back `cost` units that were taken and not used.
    pub(super) fn give_back(&self, rate: MeterRate, cost: Cost) {
        let given = rate.interval_ns.saturating_mul(cost);
        let lower = |owed: u64| Some(owed.saturating_sub(given));
        // The closure never declines, so there is no error to look at.
        let _ = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, lower);
    }

    /// Forgets what was taken.
    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// As if a whole burst had been taken at `now`.
    pub(super) fn exhaust(&self, rate: MeterRate, now: Timestamp) {
        let owed = nanos(now).saturating_add(rate.full_ns());
        self.0.store(owed, Ordering::Release);
    }
}

fn nanos(at: Timestamp) -> u64 {
    at.as_micros().saturating_mul(1_000)
}

/// A meter seen from an instant: what governor takes for the state of a limiter that started now.
struct MeterAt<'a> {
    meter: &'a Meter,
    now_ns: u64,
    owed_ns_max: u64,
}

impl MeterAt<'_> {
    fn exchange(&self, before: u64, after: u64) -> Result<u64, u64> {
        let meter = &self.meter.0;
        meter.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire)
    }
}

impl StateStore for MeterAt<'_> {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _: &NotKeyed, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut before = self.meter.0.load(Ordering::Acquire);
        loop {
            let mut owed = before.saturating_sub(self.now_ns);
            if owed > self.owed_ns_max {
                // A clock that stepped back would owe the step; a full burst is the most, and is
                // counted from here.
                owed = self.owed_ns_max;
                let capped = self.now_ns.saturating_add(owed);
                if let Err(seen) = self.exchange(before, capped) {
                    before = seen;
                    continue;
                }
                before = capped;
            }
            let (outcome, owed) = decide(Some(Nanos::new(owed)))?;
            let after = self.now_ns.saturating_add(owed.as_u64());
            match self.exchange(before, after) {
                Ok(_) => return Ok(outcome),
                Err(seen) => before = seen,
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + us)
    }

    #[test]
    fn a_burst_then_one_an_interval_and_not_one_microsecond_before() {
        let (meter, rate) = (Meter::default(), MeterRate::new(3, 1_000_000).unwrap());
        assert_eq!(meter.take(rate, at(0), 3), Ok(()));
        assert_eq!(
            meter.take(rate, at(0), 1),
            Err(NoRoom::For(Micros::new(1_000)))
        );
        assert_eq!(
            meter.take(rate, at(999), 1),
            Err(NoRoom::For(Micros::new(1)))
        );
        assert_eq!(meter.take(rate, at(1_000), 1), Ok(()));
        assert_eq!(meter.take(rate, at(1_000), 4), Err(NoRoom::TooMuch));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_but_no_more_than_a_burst() {
        let (meter, rate) = (Meter::default(), MeterRate::new(3, 1_000_000).unwrap());
        meter.take(rate, at(0), 3).unwrap();
        meter.give_back(rate, 2);
        assert_eq!(meter.take(rate, at(0), 2), Ok(()));
        meter.give_back(rate, 1_000);
        assert_eq!(meter.take(rate, at(0), 3), Ok(()));
        assert!(meter.take(rate, at(0), 1).is_err());
    }

    #[test]
    fn a_clock_that_steps_back_owes_at_most_a_burst() {
        let (meter, rate) = (Meter::default(), MeterRate::new(3, 1_000_000).unwrap());
        meter.take(rate, at(9_000_000_000), 3).unwrap();
        assert_eq!(
            meter.take(rate, at(0), 1),
            Err(NoRoom::For(Micros::new(1_000)))
        );
        assert_eq!(meter.take(rate, at(1_000), 1), Ok(()));
    }

    #[test]
    fn a_rate_beyond_governors_numbers_is_no_rate() {
        assert_eq!(MeterRate::new(0, 1), None);
        assert_eq!(MeterRate::new(1, 0), None);
        assert_eq!(MeterRate::new(u64::from(u32::MAX) + 1, 1), None);
        assert!(MeterRate::new(u64::from(u32::MAX), 1).is_some());
    }
}
