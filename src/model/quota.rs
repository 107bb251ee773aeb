//! How much in how long: a limit, its window, and the burst of the bucket algorithms.
//! Zero never means unlimited here; that has a word of its own ([`super::Allowance`]).

use std::fmt;
use std::str::FromStr;

use super::time::Micros;

/// The largest limit, burst or stored count: 10^12 units, so that every number stays an exact
/// integer in a Lua double and within the 15 digits of a structured header field.
pub const UNITS_MAX: u64 = 1_000_000_000_000;

/// The shortest window: one millisecond, the resolution of a key's expiry.
pub const WINDOW_MIN: Micros = Micros::from_millis(1);

/// The longest window, and the longest time in which a full bucket may drain: 366 days.
pub const WINDOW_MAX: Micros = Micros::from_secs(366 * 86_400);

/// Units per window, with the burst that the bucket algorithms allow at once.
///
/// Invariant: `limit <= UNITS_MAX`, `WINDOW_MIN <= window <= WINDOW_MAX`,
/// `1 <= burst <= UNITS_MAX` unless the limit is 0 (then 0), and a full bucket drains within
/// `WINDOW_MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    window: Micros,
    burst: u64,
}

/// Why a [`Quota`] can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// More units than can be counted exactly.
    #[error("a limit of {0} is too large: the most is {UNITS_MAX}")]
    LimitTooLarge(u64),
    /// The window is outside its bounds.
    #[error("a window of {0} s is out of bounds: from 0.001 s to 366 days (31622400 s)")]
    WindowOutOfBounds(Micros),
    /// The burst is outside its bounds.
    #[error("a burst of {0} is out of bounds: from 1 to {UNITS_MAX} (and 0 with a limit of 0)")]
    BurstOutOfBounds(u64),
    /// A full bucket would take longer than [`WINDOW_MAX`] to drain.
    #[error("a burst of {burst} at {limit} per {window} s takes more than 366 days to drain")]
    DrainsTooSlowly {
        /// The burst asked for, in units.
        burst: u64,
        /// The limit, in units a window.
        limit: u64,
        /// The window.
        window: Micros,
    },
}

impl Quota {
    /// `limit` units per `window`; the burst is the limit.
    ///
    /// # Errors
    /// When the limit is over [`UNITS_MAX`] or the window outside [`WINDOW_MIN`]..=[`WINDOW_MAX`].
    pub fn new(limit: u64, window: impl Into<Micros>) -> Result<Self, QuotaError> {
        let window = window.into();
        if limit > UNITS_MAX {
            return Err(QuotaError::LimitTooLarge(limit));
        }
        if window < WINDOW_MIN || window > WINDOW_MAX {
            return Err(QuotaError::WindowOutOfBounds(window));
        }
        Ok(Quota {
            limit,
            window,
            burst: limit,
        })
    }

    /// The same quota with `burst` units at once (token and leaky bucket).
    ///
    /// # Errors
    /// When the burst is 0 or over [`UNITS_MAX`], or would drain for more than [`WINDOW_MAX`].
    pub fn with_burst(self, burst: u64) -> Result<Self, QuotaError> {
        if burst > UNITS_MAX || (burst == 0) != (self.limit == 0) {
            return Err(QuotaError::BurstOutOfBounds(burst));
        }
        let drain = u128::from(burst) * u128::from(self.window.get());
        if drain > u128::from(WINDOW_MAX.get()) * u128::from(self.limit.max(1)) {
            let Quota { limit, window, .. } = self;
            return Err(QuotaError::DrainsTooSlowly {
                burst,
                limit,
                window,
            });
        }
        Ok(Quota { burst, ..self })
    }

    /// Units per window; 0 denies all.
    pub const fn limit(self) -> u64 {
        self.limit
    }

    /// The window.
    pub const fn window(self) -> Micros {
        self.window
    }

    /// Units that may come at once from an idle bucket.
    pub const fn burst(self) -> u64 {
        self.burst
    }
}

/// Why a rate such as `1000/min` can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// Not of the form `N/unit`.
    #[error(
        "`{0}` is not a rate: write N/s, N/min, N/h, N/d, or N/90s, N/15min (N a whole number), or `unlimited`"
    )]
    Malformed(String),
    /// The numbers are out of bounds.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}

impl FromStr for Quota {
    type Err = RateError;

    /// Reads `N/s`, `N/min`, `N/h`, `N/d` and multiples such as `N/90s`, `N/15min`.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let malformed = || RateError::Malformed(text.to_owned());
        let (limit, per) = text.split_once('/').ok_or_else(malformed)?;
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(limit) {
            return Err(malformed());
        }
        let limit = limit.parse().unwrap_or(u64::MAX);
        let unit_at = per
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(malformed)?;
        let (count, unit) = per.split_at(unit_at);
        let count = match count {
            "" => 1,
            n => n.parse().unwrap_or(u64::MAX),
        };
        let secs = match unit {
            "s" => 1,
            "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(malformed()),
        };
        Ok(Quota::new(
            limit,
            Micros::from_secs(count.saturating_mul(secs)),
        )?)
    }
}

impl fmt::Display for Quota {
    /// The shortest form, which [`FromStr`] reads back when the window is whole seconds:
    /// `1000/min`, `5/90s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.window.get();
        if !us.is_multiple_of(1_000_000) {
            return write!(f, "{}/{}s", self.limit, self.window);
        }
        let secs = us / 1_000_000;
        let (count, unit) = [(86_400, "d"), (3_600, "h"), (60, "min")]
            .into_iter()
            .find(|(n, _)| secs.is_multiple_of(*n))
            .map_or((secs, "s"), |(n, unit)| (secs / n, unit));
        match count {
            1 => write!(f, "{}/{unit}", self.limit),
            n => write!(f, "{}/{n}{unit}", self.limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(text: &str) -> Quota {
        text.parse().unwrap()
    }

    #[test]
    fn a_rate_carries_its_unit_and_reads_back() {
        for text in [
            "4000/s", "1000/min", "5/h", "7/d", "9/90s", "3/15min", "0/min",
        ] {
            assert_eq!(quota(text).to_string(), text);
        }
        assert_eq!(quota("4000/s").window(), Micros::from_secs(1));
        assert_eq!(quota("3/15min").window(), Micros::from_secs(900));
    }

    #[test]
    fn a_malformed_rate_is_refused_with_its_text() {
        for text in [
            "", "5", "5/", "/s", "-1/s", "5/m", "1.5/s", "5/0s", "5/s ", "+5/s", "5/-1s",
        ] {
            let error = text.parse::<Quota>().unwrap_err();
            assert!(
                error.to_string().contains(text) || text == "5/0s",
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn bounds_are_kept_and_said() {
        assert!(matches!(
            "1000000000001/s".parse::<Quota>(),
            Err(RateError::Quota(QuotaError::LimitTooLarge(_)))
        ));
        assert!(matches!(
            "1/367d".parse::<Quota>(),
            Err(RateError::Quota(QuotaError::WindowOutOfBounds(_)))
        ));
        assert!(matches!(
            "1/99999999999999999999d".parse::<Quota>(),
            Err(RateError::Quota(_))
        ));
        assert!(quota("1/d").with_burst(367).is_err());
        assert!(quota("1/d").with_burst(366).is_ok());
        assert!(quota("5/s").with_burst(0).is_err());
    }
}
