//! What traffic is made: how much, how fast, of whom. Never more than its bounds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::random::{Random, Zipf};
use tidegate::model::{Check, Cost};

/// The most tasks.
pub(super) const TASKS_MAX: u64 = 100_000;
/// The most subjects.
pub(super) const SUBJECTS_MAX: u64 = 1_000_000_000;
/// The most checks a second that may be asked for.
pub(super) const RATE_MAX: u64 = 100_000_000;

/// Who asks how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Distribution {
    /// All subjects alike.
    Uniform,
    /// The k-th subject in proportion to 1/k^s.
    Zipf(f64),
}

/// Text that is no distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write uniform, or zipf:S with S from 0.01 to 10, such as zipf:1.0")]
pub(super) struct DistributionError;

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Self, DistributionError> {
        if text == "uniform" {
            return Ok(Distribution::Uniform);
        }
        let exponent = text.strip_prefix("zipf:").ok_or(DistributionError)?;
        match exponent.parse::<f64>() {
            Ok(exponent) if (0.01..=10.0).contains(&exponent) => Ok(Distribution::Zipf(exponent)),
            _ => Err(DistributionError),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipf(exponent) => write!(f, "zipf:{exponent}"),
        }
    }
}

/// Checks a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PerSecond(pub u64);

impl FromStr for PerSecond {
    type Err = String;

    /// Reads `500/s`; the unit must be there.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("write checks a second, from 1/s to {RATE_MAX}/s");
        let count = text.strip_suffix("/s").ok_or_else(wrong)?;
        match count.parse() {
            Ok(rate @ 1..=RATE_MAX) => Ok(PerSecond(rate)),
            _ => Err(wrong()),
        }
    }
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// After this long.
    Time(Duration),
    /// After so many checks.
    Checks(u64),
}

/// What traffic is made.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub policy: String,
    pub subjects: u64,
    pub distribution: Distribution,
    pub regions: Vec<String>,
    pub cost: Cost,
    pub tasks: u64,
    pub extent: Extent,
    pub rate: Option<PerSecond>,
}

/// A source of checks by a plan.
pub(super) struct Traffic {
    random: Random,
    zipf: Option<Zipf>,
}

impl Traffic {
    pub fn new(plan: &Plan, random: Random) -> Self {
        let zipf = match plan.distribution {
            Distribution::Uniform => None,
            Distribution::Zipf(exponent) => Some(Zipf::new(plan.subjects, exponent)),
        };
        Traffic { random, zipf }
    }

    /// The next check.
    pub fn next(&mut self, plan: &Plan) -> Check {
        let rank = match &self.zipf {
            Some(zipf) => zipf.sample(&mut self.random),
            None => self.random.below(plan.subjects) + 1,
        };
        let mut check = Check::new(plan.policy.as_str(), format!("key-{rank}")).cost(plan.cost);
        let region = self.random.below(plan.regions.len() as u64) as usize;
        check.region = plan.regions.get(region).cloned();
        check
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_and_a_rate_carry_their_form() {
        assert_eq!("uniform".parse(), Ok(Distribution::Uniform));
        assert_eq!("zipf:1.0".parse(), Ok(Distribution::Zipf(1.0)));
        for bad in [
            "", "zipf", "zipf:", "zipf:0", "zipf:nan", "zipf:-1", "normal",
        ] {
            assert!(bad.parse::<Distribution>().is_err(), "{bad}");
        }
        assert_eq!("500/s".parse(), Ok(PerSecond(500)));
        for bad in ["500", "0/s", "5/min", "-1/s", "1.5/s"] {
            assert!(bad.parse::<PerSecond>().is_err(), "{bad}");
        }
    }

    #[test]
    fn traffic_names_subjects_and_regions_of_the_plan_only() {
        let plan = Plan {
            policy: "p".to_owned(),
            subjects: 3,
            distribution: Distribution::Zipf(1.0),
            regions: vec!["us".to_owned(), "eu".to_owned()],
            cost: 2,
            tasks: 1,
            extent: Extent::Checks(1),
            rate: None,
        };
        let mut traffic = Traffic::new(&plan, Random::seeded(3));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let check = traffic.next(&plan);
            assert_eq!((check.policy.as_str(), check.cost), ("p", 2));
            seen.insert((check.subject, check.region.unwrap()));
        }
        assert_eq!(seen.len(), 6);
    }
}
