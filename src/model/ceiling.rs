//! A quota at a scope, and the algorithm that counts against it.

use std::fmt;
use std::str::FromStr;

use super::quota::{Quota, RateError};

/// How a ceiling counts. See [`crate::algorithm`] for each one's costs and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Every charge is remembered: exact in every window.
    SlidingLog,
    /// Two counters, the previous weighted by its overlap: an estimate in constant space.
    SlidingCounter,
    /// One counter a clock-aligned window: up to twice the limit across a boundary.
    FixedWindow,
    /// A bucket that fills at the rate and holds the burst (GCRA).
    TokenBucket,
    /// A queue that empties at the rate and holds the burst; an admitted check may have to wait.
    LeakyBucket,
}

impl Algorithm {
    /// All five, in the order of the documentation.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ];

    /// The name in policy files and script names.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::SlidingLog => "sliding_log",
            Algorithm::SlidingCounter => "sliding_counter",
            Algorithm::FixedWindow => "fixed_window",
            Algorithm::TokenBucket => "token_bucket",
            Algorithm::LeakyBucket => "leaky_bucket",
        }
    }

    /// Whether a burst of its own means something to it.
    pub const fn has_burst(self) -> bool {
        matches!(self, Algorithm::TokenBucket | Algorithm::LeakyBucket)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no algorithm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no algorithm: sliding_log, sliding_counter, fixed_window, token_bucket or leaky_bucket"
)]
pub struct UnknownAlgorithm(String);

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;
    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        Algorithm::ALL
            .into_iter()
            .find(|a| a.name() == text)
            .ok_or_else(|| UnknownAlgorithm(text.to_owned()))
    }
}

/// What a ceiling is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All regions together.
    Global,
    /// One region.
    Region,
}

impl Scope {
    /// `global` or `region`.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Global => "global",
            Scope::Region => "region",
        }
    }
}

/// A quota, or the word for none. A limit of zero is a quota and denies all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allowance {
    /// No ceiling at all.
    Unlimited,
    /// At most this quota.
    Limited(Quota),
}

impl From<Quota> for Allowance {
    fn from(quota: Quota) -> Self {
        Allowance::Limited(quota)
    }
}

impl FromStr for Allowance {
    type Err = RateError;

    /// Reads `unlimited`, or a rate as [`Quota`] does.
    fn from_str(text: &str) -> Result<Self, RateError> {
        match text {
            "unlimited" => Ok(Allowance::Unlimited),
            rate => Ok(Allowance::Limited(rate.parse()?)),
        }
    }
}

/// A policy's rule for one scope, before regions and subjects that differ are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeilingRule {
    /// How it counts.
    pub algorithm: Algorithm,
    /// How much.
    pub allowance: Allowance,
    /// Leaky bucket only: whether an admitted check is told to wait for its turn. Without, the
    /// queue only bounds the burst (nginx's `nodelay`).
    pub delay: bool,
}

impl CeilingRule {
    /// A ceiling counted by `algorithm`; a leaky bucket tells admitted checks to wait.
    pub const fn new(algorithm: Algorithm, allowance: Allowance) -> Self {
        CeilingRule {
            algorithm,
            allowance,
            delay: true,
        }
    }
}

/// One ceiling as it applies to one check: the values of its region and subject looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ceiling {
    /// What it is over.
    pub scope: Scope,
    /// How it counts.
    pub algorithm: Algorithm,
    /// How much.
    pub quota: Quota,
    /// Leaky bucket only: whether an admitted check is told to wait for its turn.
    pub delay: bool,
}

impl Ceiling {
    /// The most that one check may ever cost here: the burst of a bucket, else the limit.
    pub const fn cost_max(&self) -> u64 {
        if self.algorithm.has_burst() {
            self.quota.burst()
        } else {
            self.quota.limit()
        }
    }
}
