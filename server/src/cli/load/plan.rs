//! What traffic is made: how much, how fast, of whom. Never more than its bounds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::RngExt as _;
use rand::distr::Uniform;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand_distr::Zipf;

use crate::cli::failure::Failure;
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
    rng: SmallRng,
    ranks: Ranks,
}

/// Who asks next, from 1.
enum Ranks {
    Uniform(Uniform<u64>),
    Zipf(Zipf<f64>),
}

impl Traffic {
    /// Checks as the plan wants them, the same from the same generator.
    ///
    /// # Errors
    /// When there are no subjects.
    pub fn new(plan: &Plan, rng: SmallRng) -> Result<Self, Failure> {
        let ranks = match plan.distribution {
            Distribution::Uniform => Uniform::new_inclusive(1, plan.subjects)
                .map(Ranks::Uniform)
                .map_err(|error| Failure::new(error.to_string()))?,
            Distribution::Zipf(exponent) => Zipf::new(plan.subjects as f64, exponent)
                .map(Ranks::Zipf)
                .map_err(|error| Failure::new(error.to_string()))?,
        };
        Ok(Traffic { rng, ranks })
    }

    /// The next check.
    pub fn next(&mut self, plan: &Plan) -> Check {
        let rank = match &self.ranks {
            Ranks::Uniform(ranks) => self.rng.sample(ranks),
            Ranks::Zipf(ranks) => self.rng.sample(ranks) as u64,
        };
        let mut check = Check::new(plan.policy.as_str(), format!("key-{rank}")).cost(plan.cost);
        check.region = plan.regions.choose(&mut self.rng).cloned();
        check
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

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

    fn plan(subjects: u64, distribution: Distribution) -> Plan {
        Plan {
            policy: "p".to_owned(),
            subjects,
            distribution,
            regions: Vec::new(),
            cost: 2,
            tasks: 1,
            extent: Extent::Checks(1),
            rate: None,
        }
    }

    fn subjects(subjects: u64, distribution: Distribution) -> impl FnMut() -> String {
        let plan = plan(subjects, distribution);
        let mut traffic = Traffic::new(&plan, SmallRng::seed_from_u64(1)).unwrap();
        move || traffic.next(&plan).subject
    }

    #[test]
    fn traffic_names_subjects_and_regions_of_the_plan_only() {
        let mut plan = plan(3, Distribution::Zipf(1.0));
        plan.regions = vec!["us".to_owned(), "eu".to_owned()];
        let mut traffic = Traffic::new(&plan, SmallRng::seed_from_u64(3)).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let check = traffic.next(&plan);
            assert_eq!((check.policy.as_str(), check.cost), ("p", 2));
            seen.insert((check.subject, check.region.unwrap()));
        }
        assert_eq!(seen.len(), 6);
    }

    /// Pearson's statistic of `draws` samples against the exact law; under the law its mean is
    /// n - 1 and its deviation sqrt(2 (n - 1)).
    fn chi_square(n: u64, exponent: f64, draws: u64) -> f64 {
        let zipf = Zipf::new(n as f64, exponent).unwrap();
        let mut rng = SmallRng::seed_from_u64(7);
        let mut seen = vec![0u64; n as usize];
        for _ in 0..draws {
            seen[rng.sample(zipf) as usize - 1] += 1;
        }
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        let expected = weights.iter().map(|weight| weight / total * draws as f64);
        seen.iter()
            .zip(expected)
            .map(|(seen, expected)| (*seen as f64 - expected).powi(2) / expected)
            .sum()
    }

    #[test]
    fn samples_follow_zipfs_law_at_any_exponent() {
        for exponent in [0.2, 0.8, 1.0, 1.3, 2.0] {
            let n = 50;
            let chi = chi_square(n, exponent, 200_000);
            let (mean, deviation) = (49.0, 98f64.sqrt());
            assert!((chi - mean).abs() < 5.0 * deviation, "{exponent}: {chi}");
        }
    }

    #[test]
    fn one_subject_is_always_the_first() {
        for distribution in [Distribution::Uniform, Distribution::Zipf(1.0)] {
            let mut next = subjects(1, distribution);
            assert!((0..1_000).all(|_| next() == "key-1"));
        }
    }

    #[test]
    fn uniform_subjects_are_all_asked_about_alike() {
        let mut next = subjects(7, Distribution::Uniform);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            let rank: usize = next().strip_prefix("key-").unwrap().parse().unwrap();
            seen[rank - 1] += 1;
        }
        assert!(seen.iter().all(|n| (850..1_150).contains(n)), "{seen:?}");
    }
}
