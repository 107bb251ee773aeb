//! A scenario's figures over its repetitions, in the form of `tidegate chaos --json`.

use serde::Serialize;

use super::{Report, RunReport, ScenarioReport};

/// A time over the repetitions, in milliseconds, one decimal kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle repetition's; the slower one of two.
    pub p50: f64,
    /// The slowest repetition's.
    pub max: f64,
}

impl Spread {
    /// Of times in microseconds; `None` when there are none.
    pub fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let ms = |us: &u64| (us / 100) as f64 / 10.0;
        Some(Spread {
            p50: times.get(times.len() / 2).map(ms)?,
            max: times.last().map(ms)?,
        })
    }
}

/// What scripts read. Counts are sums over the repetitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The scenario.
    pub name: String,
    /// `containers`, `processes`, or an address.
    pub cluster: String,
    /// How often it ran.
    pub repetitions: usize,
    /// How many more could not be carried out.
    pub not_run: usize,
    /// Checks asked.
    pub checks: u64,
    /// Admitted.
    pub admitted: u64,
    /// Denied.
    pub denied: u64,
    /// Decided without the store.
    pub degraded: u64,
    /// Answered by an error.
    pub errors: u64,
    /// Units certainly admitted above a limit.
    pub wrongly_admitted: u64,
    /// The most that the fault itself may let through: what was acknowledged and can be lost.
    pub wrongly_admitted_bound: u64,
    /// The most that can have been admitted above a limit, by timing alone.
    pub wrongly_admitted_possible: u64,
    /// Checks denied although there was room for certain.
    pub wrongly_denied: u64,
    /// Charges whose fate nobody knows.
    pub unknown: u64,
    /// Calls that never came back.
    pub stuck: u64,
    /// Calls that came back after their deadline.
    pub past_deadline: u64,
    /// From the fault to full service, on the shard that took longest; absent when no repetition
    /// recovered.
    pub recovery_ms: Option<Spread>,
    /// The same, shard by shard; absent where a repetition's never came back.
    pub recovery_by_shard_ms: Vec<Option<Spread>>,
    /// Repetitions in which a shard never came back.
    pub not_recovered: usize,
    /// The longest time between two answers of the store on one shard, as one instance saw it.
    pub without_service_ms: Option<Spread>,
    /// From the fault until a replica had taken over: the servers' own share of the recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover_ms: Option<Spread>,
    /// From then until every instance was served by it: the limiter's share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_takeover_ms: Option<Spread>,
    /// Charges that a failover had lost and that instances put back.
    pub restored: u64,
    /// Whether instances repaired what a failover had lost.
    pub repair: bool,
    /// The promises that were broken, in words, each once.
    pub broken: Vec<String>,
    /// How many repetitions missed a goal.
    pub missed: usize,
}

impl Report {
    /// The figures of each scenario.
    pub fn summaries(&self) -> Vec<Summary> {
        self.scenarios.iter().map(Summary::of).collect()
    }
}

impl Summary {
    /// The figures of one scenario.
    pub fn of(scenario: &ScenarioReport) -> Self {
        let runs = &scenario.runs;
        let sum = |of: fn(&RunReport) -> u64| runs.iter().map(of).sum();
        let recoveries: Vec<u64> = runs.iter().filter_map(RunReport::recovery).collect();
        let gaps = runs.iter().map(|run| {
            let gaps = run.judgement.shards.iter().map(|shard| shard.longest_gap);
            gaps.max().unwrap_or(0)
        });
        let mut broken: Vec<String> = runs.iter().flat_map(|run| run.broken.clone()).collect();
        broken.sort();
        broken.dedup();
        Summary {
            name: scenario.name.clone(),
            cluster: scenario.cluster.clone(),
            repetitions: runs.len(),
            not_run: scenario.not_run.len(),
            checks: sum(|run| run.judgement.checks),
            admitted: sum(|run| run.judgement.admitted),
            denied: sum(|run| run.judgement.denied),
            degraded: sum(|run| run.judgement.degraded),
            errors: sum(|run| run.judgement.errors),
            wrongly_admitted: sum(|run| run.judgement.wrongly_admitted),
            wrongly_admitted_bound: sum(|run| run.wrongly_admitted_bound),
            wrongly_admitted_possible: sum(|run| run.judgement.wrongly_admitted_possible),
            wrongly_denied: sum(|run| run.judgement.wrongly_denied),
            unknown: sum(|run| run.judgement.unknown),
            stuck: sum(|run| run.judgement.stuck),
            past_deadline: sum(|run| run.judgement.past_deadline),
            not_recovered: runs.len() - recoveries.len(),
            recovery_ms: Spread::of(recoveries),
            recovery_by_shard_ms: by_shard(runs),
            without_service_ms: Spread::of(gaps.collect()),
            takeover_ms: Spread::of(runs.iter().filter_map(|run| run.takeover).collect()),
            after_takeover_ms: Spread::of(
                runs.iter().filter_map(|run| run.after_takeover).collect(),
            ),
            restored: sum(|run| run.restored),
            repair: scenario.repair,
            broken,
            missed: runs.iter().filter(|run| !run.missed.is_empty()).count(),
        }
    }
}

fn by_shard(runs: &[RunReport]) -> Vec<Option<Spread>> {
    let counts = runs.iter().map(|run| run.judgement.shards.len());
    let of_shard = |shard: usize| {
        let recovery = |run: &RunReport| run.judgement.shards.get(shard)?.recovery;
        let all: Option<Vec<u64>> = runs.iter().map(recovery).collect();
        Spread::of(all?)
    };
    (0..counts.min().unwrap_or(0)).map(of_shard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_in_milliseconds_with_one_decimal() {
        let spread = Spread::of(vec![2_750_040, 1_000, 2_999_999]).unwrap();
        assert_eq!((spread.p50, spread.max), (2_750.0, 2_999.9));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
