//! A run cut into steps of 100 ms: what was asked, what was answered, how long it took. Pure; a
//! check stands in the step of its answer, since that is when its caller saw it.

use std::fmt;

use serde::Serialize;

use super::format::micros;
use crate::oracle::{AnsweredBy, Expectations, Record, Status};

/// The length of a step in microseconds.
pub const STEP: u64 = 100_000;

/// The most steps of a timeline: ten minutes; what comes later is left out of the plot, not of
/// the figures.
const STEPS_MAX: usize = 6_000;

/// What happened in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Checks that were asked in it.
    pub checks: u64,
    /// Checks that were answered in it: admitted by the store or on its behalf.
    pub admitted: u64,
    /// Denied by the store or on its behalf.
    pub denied: u64,
    /// Decided without the store.
    pub degraded: u64,
    /// Answered by an error, or given up.
    pub errors: u64,
    /// Latencies of what was answered in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Answers of the store in it, by shard.
    pub served: Vec<u64>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Half of the answers took no longer.
    pub p50: u64,
    /// 99 of 100 answers took no longer.
    pub p99: u64,
    /// No answer took longer.
    pub max: u64,
}

impl Latency {
    /// Of these latencies, by nearest rank; `None` when there are none.
    pub fn of(mut latencies: Vec<u64>) -> Option<Self> {
        latencies.sort_unstable();
        let rank = |percent: usize| {
            let rank = (latencies.len() * percent).div_ceil(100);
            latencies.get(rank.checked_sub(1)?).copied()
        };
        Some(Latency {
            p50: rank(50)?,
            p99: rank(99)?,
            max: rank(100)?,
        })
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [self.p50, self.p99, self.max].map(micros);
        write!(f, "p50 {p50}, p99 {p99}, max {max}")
    }
}

/// A run, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// When the first step began, in microseconds since the epoch.
    pub began_at: u64,
    /// The steps, without a hole.
    pub steps: Vec<Step>,
}

impl Timeline {
    /// The timeline of a history between two instants.
    pub fn of(records: &[Record], expected: &Expectations, began_at: u64, ended_at: u64) -> Self {
        let span = usize::try_from(ended_at.saturating_sub(began_at).div_ceil(STEP));
        let count = span.unwrap_or(STEPS_MAX).clamp(1, STEPS_MAX);
        let empty = Step {
            served: vec![0; usize::from(expected.shards.count())],
            ..Step::default()
        };
        let mut steps = vec![empty; count];
        let mut latencies = vec![Vec::new(); count];
        let index = |at: u64| usize::try_from(at.checked_sub(began_at)? / STEP).ok();
        for record in records {
            if let Some(step) = index(record.sent).and_then(|i| steps.get_mut(i)) {
                step.checks += 1;
            }
            let Some(answered) = index(record.answered) else {
                continue;
            };
            let (Some(step), Some(latencies)) =
                (steps.get_mut(answered), latencies.get_mut(answered))
            else {
                continue;
            };
            step.count(record, expected.shard_of(&record.subject));
            latencies.push(record.answered.saturating_sub(record.sent));
        }
        for (step, latencies) in steps.iter_mut().zip(latencies) {
            step.latency = Latency::of(latencies);
        }
        Timeline { began_at, steps }
    }

    /// Where an instant lies, in seconds from the beginning.
    pub fn seconds(&self, at: u64) -> f64 {
        at.saturating_sub(self.began_at) as f64 / 1e6
    }
}

impl Step {
    fn count(&mut self, record: &Record, shard: u16) {
        match record.status {
            Status::Failed | Status::Stuck => self.errors += 1,
            _ if record.degraded => self.degraded += 1,
            Status::Admitted => self.admitted += 1,
            Status::Denied => self.denied += 1,
        }
        if record.by == AnsweredBy::Store
            && !record.degraded
            && let Some(served) = self.served.get_mut(usize::from(shard))
        {
            *served += 1;
        }
    }

    /// All checks that were answered in it.
    pub fn answered(&self) -> u64 {
        self.admitted + self.denied + self.degraded + self.errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let latency = Latency::of((1..=200).rev().collect()).unwrap();
        assert_eq!((latency.p50, latency.p99, latency.max), (100, 198, 200));
        let one = Latency::of(vec![7]).unwrap();
        assert_eq!((one.p50, one.p99, one.max), (7, 7, 7));
        assert_eq!(Latency::of(Vec::new()), None);
    }
}
