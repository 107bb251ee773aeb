//! The local stage's switches and bounds. Never a bound without a number.

use std::time::Duration;

use super::breaker::BreakerOptions;
use crate::model::Micros;
use crate::store::REQUESTS_MAX;

/// What a [`crate::Limiter`] does before it asks a shared store, and how far it goes. Every stage
/// can be switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalStage {
    /// Whether denials are remembered.
    pub denial_cache: bool,
    /// Whether floods that no conforming client could send are cut.
    pub node_ceiling: bool,
    /// Whether checks of one target that arrive together ride in one call.
    pub lanes: bool,
    /// Whether policies with a `lease` get one.
    pub leases: bool,
    /// Subjects whose state is held at most, counted per policy (1..=100,000,000; about 700 bytes
    /// each). The one least used goes first; what goes is asked of the store anew.
    pub subjects_max: u64,
    /// How long an unused subject's state is held.
    pub subject_idle_max: Duration,
    /// Regions of one subject whose state is held at most (1..=1,024).
    pub regions_per_subject_max: usize,
    /// How long a denial is believed without asking again, at most: the bound within which a
    /// refund, a reset or a raised limit on another node is seen even when its invalidation got lost.
    pub denial_trust_max: Micros,
    /// The same for a denial that left room for a smaller cost: others may use that room, and so
    /// move the instant at which the denied one would be admitted.
    pub denial_moving_trust_max: Micros,
    /// Different costs whose denial is remembered for each ceiling (1..=64).
    pub denial_costs_max: usize,
    /// Checks that wait in one lane at most (1..=1,000,000).
    pub lane_waiting_max: usize,
    /// Checks that wait in all lanes together at most.
    pub waiting_max: usize,
    /// Checks that ride in one call at most (1..=256, which is what a store takes). A lease that is
    /// asked for along with them takes one place.
    pub batch_len_max: usize,
    /// How long a check waits for the call before its own to end. With a near store that is always
    /// sooner; with a far one it keeps the answer within one round trip.
    pub batch_wait_max: Duration,
    /// Calls of one lane that are out at once, at most (1..=4,096).
    pub lane_calls_max: usize,
    /// Charges at most that wait to be given back, since nobody was admitted by them: of checks that
    /// were cancelled, or denied without the store while their call may have run (1..=10,000,000).
    /// Beyond, they stay charged until their window has passed, and are counted.
    pub refunds_waiting_max: usize,
    /// The shards' breakers.
    pub breaker: BreakerOptions,
}

impl Default for LocalStage {
    fn default() -> Self {
        LocalStage {
            denial_cache: true,
            node_ceiling: true,
            lanes: true,
            leases: true,
            subjects_max: 100_000,
            subject_idle_max: Duration::from_secs(600),
            regions_per_subject_max: 64,
            denial_trust_max: Micros::from_secs(5),
            denial_moving_trust_max: Micros::from_millis(100),
            denial_costs_max: 8,
            lane_waiting_max: 4_096,
            waiting_max: 65_536,
            batch_len_max: 256,
            batch_wait_max: Duration::from_millis(1),
            lane_calls_max: 128,
            refunds_waiting_max: 16_384,
            breaker: BreakerOptions::default(),
        }
    }
}

/// A bound that is out of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("the local stage's {name} is out of bounds: from {min} to {max}")]
pub struct LocalStageError {
    /// Which.
    pub name: &'static str,
    /// The least it may be.
    pub min: u64,
    /// The most it may be.
    pub max: u64,
}

impl LocalStage {
    /// Every stage switched off; deadlines, breakers and outage choices stay.
    pub fn off() -> Self {
        LocalStage {
            denial_cache: false,
            node_ceiling: false,
            lanes: false,
            leases: false,
            ..LocalStage::default()
        }
    }

    /// Whether every bound is within its own.
    ///
    /// # Errors
    /// The first that is not.
    pub fn validate(&self) -> Result<(), LocalStageError> {
        let idle_ms = u64::try_from(self.subject_idle_max.as_millis()).unwrap_or(u64::MAX);
        let wait_us = u64::try_from(self.batch_wait_max.as_micros()).unwrap_or(u64::MAX);
        let bounds = [
            ("subjects_max", self.subjects_max, 1, 100_000_000),
            ("subject_idle_max (ms)", idle_ms, 1, 86_400_000),
            (
                "regions_per_subject_max",
                self.regions_per_subject_max as u64,
                1,
                1_024,
            ),
            ("denial_costs_max", self.denial_costs_max as u64, 1, 64),
            (
                "lane_waiting_max",
                self.lane_waiting_max as u64,
                1,
                1_000_000,
            ),
            ("waiting_max", self.waiting_max as u64, 1, 10_000_000),
            (
                "batch_len_max",
                self.batch_len_max as u64,
                1,
                REQUESTS_MAX as u64,
            ),
            ("batch_wait_max (us)", wait_us, 1, 1_000_000),
            ("lane_calls_max", self.lane_calls_max as u64, 1, 4_096),
            (
                "refunds_waiting_max",
                self.refunds_waiting_max as u64,
                1,
                10_000_000,
            ),
            (
                "breaker failures_max",
                u64::from(self.breaker.failures_max),
                1,
                1_000,
            ),
        ];
        for (name, value, min, max) in bounds {
            if value < min || value > max {
                return Err(LocalStageError { name, min, max });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_bounds_and_zero_never_means_unlimited() {
        assert_eq!(LocalStage::default().validate(), Ok(()));
        assert_eq!(LocalStage::off().validate(), Ok(()));
        let none_wait = LocalStage {
            lane_waiting_max: 0,
            ..LocalStage::default()
        };
        assert_eq!(none_wait.validate().unwrap_err().name, "lane_waiting_max");
    }
}
