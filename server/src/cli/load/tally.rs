//! What was seen: counts, latencies, sources, errors. Bounded whatever the number of tasks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::{CreationError, Histogram};

use crate::cli::backend::BackendError;
use tidegate::model::{Decision, Source};

/// The longest latency that is told apart, in microseconds: 10 minutes.
const LATENCY_US_MAX: u64 = 600_000_000;

/// How many different errors are kept by their text.
const ERROR_KINDS_MAX: usize = 8;

/// Tallies that tasks share at most; one takes about 200 kB.
const SHARDS_MAX: usize = 16;

/// Counts at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub admitted: u64,
    pub denied: u64,
    pub errors: u64,
    /// Of the admitted and the denied.
    pub degraded: u64,
}

impl Counts {
    /// All checks.
    pub const fn checks(&self) -> u64 {
        self.admitted + self.denied + self.errors
    }

    fn add(&mut self, other: Counts) {
        self.admitted += other.admitted;
        self.denied += other.denied;
        self.errors += other.errors;
        self.degraded += other.degraded;
    }
}

/// What some tasks saw, or the sum of all.
#[derive(Debug)]
pub(super) struct Tally {
    counts: Counts,
    latencies_us: Histogram<u64>,
    by_source: BTreeMap<Source, u64>,
    errors: BTreeMap<String, u64>,
}

impl Tally {
    fn new() -> Result<Self, CreationError> {
        Ok(Tally {
            counts: Counts::default(),
            latencies_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?,
            by_source: BTreeMap::new(),
            errors: BTreeMap::new(),
        })
    }

    /// Notes an answer and how long it took.
    pub fn note(&mut self, answer: Result<Decision, BackendError>, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latencies_us.saturating_record(us.max(1));
        match answer {
            Ok(decision) => {
                match decision.is_admitted() {
                    true => self.counts.admitted += 1,
                    false => self.counts.denied += 1,
                }
                let facts = decision.facts();
                self.counts.degraded += u64::from(facts.degraded);
                *self.by_source.entry(facts.source).or_default() += 1;
            }
            Err(error) => {
                self.counts.errors += 1;
                let text = match error {
                    BackendError::BadRequest(failure) => failure.cause().to_owned(),
                    BackendError::Unavailable(cause) => cause,
                };
                self.error(text, 1);
            }
        }
    }

    fn error(&mut self, text: String, count: u64) {
        let full = self.errors.len() >= ERROR_KINDS_MAX && !self.errors.contains_key(&text);
        let text = if full {
            "other errors".to_owned()
        } else {
            text
        };
        *self.errors.entry(text).or_default() += count;
    }

    fn add(&mut self, other: &Tally) {
        self.counts.add(other.counts);
        // Both have the same bounds, which is all that could fail.
        let _ = self.latencies_us.add(&other.latencies_us);
        for (source, count) in &other.by_source {
            *self.by_source.entry(*source).or_default() += count;
        }
        for (text, count) in &other.errors {
            self.error(text.clone(), *count);
        }
    }

    /// The counts.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The latency below which this part of all checks stayed, in milliseconds.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.latencies_us.value_at_quantile(quantile) as f64 / 1e3
    }

    /// The longest latency, in milliseconds.
    pub fn latency_ms_max(&self) -> f64 {
        self.latencies_us.max() as f64 / 1e3
    }

    /// How many decisions a part made.
    pub fn by_source(&self, source: Source) -> u64 {
        self.by_source.get(&source).copied().unwrap_or(0)
    }

    /// Errors by their text.
    pub fn errors(&self) -> impl Iterator<Item = (&str, u64)> {
        self.errors
            .iter()
            .map(|(text, count)| (text.as_str(), *count))
    }
}

/// The tallies that all tasks share, spread so that they seldom meet.
#[derive(Debug)]
pub(super) struct Tallies(Vec<Mutex<Tally>>);

impl Tallies {
    /// Tallies for so many tasks.
    pub fn new(tasks: u64) -> Result<Self, CreationError> {
        let shards = usize::try_from(tasks).unwrap_or(SHARDS_MAX);
        (0..shards.clamp(1, SHARDS_MAX))
            .map(|_| Tally::new().map(Mutex::new))
            .collect::<Result<_, _>>()
            .map(Tallies)
    }

    /// A task's tally, which it may share with others.
    pub fn of(&self, task: u64) -> MutexGuard<'_, Tally> {
        let shard = (task % self.0.len() as u64) as usize;
        lock(&self.0[shard])
    }

    /// The counts of all tasks now.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for tally in &self.0 {
            sum.add(lock(tally).counts);
        }
        sum
    }

    /// The sum of all.
    pub fn sum(&self) -> Result<Tally, CreationError> {
        let mut sum = Tally::new()?;
        for tally in &self.0 {
            sum.add(&lock(tally));
        }
        Ok(sum)
    }
}

/// A tally is counts only: one that a panicking task left behind is still worth its numbers.
fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Result<Decision, BackendError> {
        Err(BackendError::Unavailable(text.to_owned()))
    }

    #[test]
    fn errors_are_kept_by_their_text_within_a_bound() {
        let tallies = Tallies::new(1_000).unwrap();
        for n in 0..100 {
            tallies.of(0).note(error(&format!("e{n}")), Duration::ZERO);
        }
        tallies.of(16).note(error("e0"), Duration::ZERO);
        let sum = tallies.sum().unwrap();
        assert_eq!(sum.counts().checks(), 101);
        assert_eq!(tallies.counts(), sum.counts());
        let kept: BTreeMap<_, _> = sum.errors().collect();
        assert_eq!(kept.values().sum::<u64>(), 101);
        assert_eq!(kept.len(), ERROR_KINDS_MAX + 1);
        assert_eq!(kept["e0"], 2);
    }

    #[test]
    fn latencies_are_told_to_three_digits_up_to_their_bound() {
        let mut tally = Tally::new().unwrap();
        for ms in 1..=100 {
            tally.note(error(""), Duration::from_millis(ms));
        }
        tally.note(error(""), Duration::from_secs(3_600));
        assert!((tally.latency_ms(0.5) - 51.0).abs() < 0.1);
        assert!((tally.latency_ms_max() - 600_000.0).abs() / 600_000.0 < 1e-3);
    }
}
