//! Instants and durations in whole microseconds. Never reads a clock and never wraps.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A duration in whole microseconds; arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u64);

impl Micros {
    /// No time at all.
    pub const ZERO: Micros = Micros(0);

    /// `us` microseconds.
    pub const fn new(us: u64) -> Self {
        Micros(us)
    }

    /// `s` whole seconds; saturates.
    pub const fn from_secs(s: u64) -> Self {
        Micros(s.saturating_mul(1_000_000))
    }

    /// `ms` whole milliseconds; saturates.
    pub const fn from_millis(ms: u64) -> Self {
        Micros(ms.saturating_mul(1_000))
    }

    /// The count of microseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up: what `Retry-After` carries.
    pub const fn ceil_secs(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Whole milliseconds, rounded up: what `PX` carries.
    pub const fn ceil_millis(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Seconds as a float, for display and metrics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The difference, or zero when `other` is longer.
    pub const fn saturating_sub(self, other: Micros) -> Micros {
        Micros(self.0.saturating_sub(other.0))
    }

    /// The sum, or the longest duration.
    pub const fn saturating_add(self, other: Micros) -> Micros {
        Micros(self.0.saturating_add(other.0))
    }
}

impl From<Duration> for Micros {
    /// Rounds a part of a microsecond up, so that a wait is never too short.
    fn from(d: Duration) -> Self {
        Micros(u64::try_from(d.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(m: Micros) -> Self {
        Duration::from_micros(m.0)
    }
}

impl fmt::Display for Micros {
    /// Seconds with six decimals, trailing zeros cut: `12.340561`, `59.1`, `60`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, us) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if us == 0 {
            return write!(f, "{secs}");
        }
        let digits = format!("{us:06}");
        write!(f, "{secs}.{}", digits.trim_end_matches('0'))
    }
}

/// An instant: whole microseconds since the Unix epoch; arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant `us` microseconds after the Unix epoch.
    pub const fn from_micros(us: u64) -> Self {
        Timestamp(us)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Timestamp) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// The instant `by` before this one, or the epoch.
    pub const fn back(self, by: Micros) -> Timestamp {
        Timestamp(self.0.saturating_sub(by.0))
    }
}

impl Add<Micros> for Timestamp {
    type Output = Timestamp;
    fn add(self, d: Micros) -> Timestamp {
        Timestamp(self.0.saturating_add(d.0))
    }
}

impl Sub<Micros> for Timestamp {
    type Output = Timestamp;
    fn sub(self, d: Micros) -> Timestamp {
        self.back(d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_shown_in_seconds_with_its_microseconds() {
        assert_eq!(Micros::new(12_340_561).to_string(), "12.340561");
        assert_eq!(Micros::new(59_100_000).to_string(), "59.1");
        assert_eq!(Micros::from_secs(60).to_string(), "60");
        assert_eq!(Micros::new(5).to_string(), "0.000005");
    }

    #[test]
    fn a_wait_is_rounded_up_and_never_to_zero() {
        assert_eq!(Micros::new(1).ceil_secs(), 1);
        assert_eq!(Micros::new(1_500_000).ceil_secs(), 2);
        assert_eq!(Micros::from(Duration::from_nanos(1)).get(), 1);
    }

    #[test]
    fn instants_saturate() {
        assert_eq!(
            Timestamp::from_micros(3).since(Timestamp::from_micros(9)),
            Micros::ZERO
        );
        assert_eq!(
            Timestamp::from_micros(u64::MAX) + Micros::new(1),
            Timestamp::from_micros(u64::MAX)
        );
    }
}
