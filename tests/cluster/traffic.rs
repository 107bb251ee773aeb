//! Steady traffic on every shard, and what became of each charge.
//!
//! Under a fixed window a charge that runs twice counts twice, and the server forgets no id: so a
//! subject's counter lies between the charges that were answered and those plus the ones in doubt.
//! And each answer says what is left after it: no two answers about a subject may say the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate::model::{Policy, Target};
use tidegate::store::cluster::ClusterStore;
use tidegate::store::{ShardId, Store, StoreError};
use tokio::task::JoinHandle;

use crate::support::{charge, subjects_by_shard};

/// How much traffic.
#[derive(Clone, Copy)]
pub struct Load {
    /// Tasks on each shard, each with a subject of its own.
    pub tasks_per_shard: usize,
    /// Between two charges of a task.
    pub pause: Duration,
}

/// Enough to see a gap of some milliseconds, and not so much that this machine is busy with it.
pub const STEADY: Load = Load {
    tasks_per_shard: 8,
    pause: Duration::from_millis(2),
};

/// Always some charges on the wire.
pub const HEAVY: Load = Load {
    tasks_per_shard: 64,
    pause: Duration::ZERO,
};

/// One charge, from its caller's side.
pub struct Seen {
    pub shard: ShardId,
    pub target: Arc<Target>,
    pub begun: Instant,
    pub took: Duration,
    /// What was left of the first ceiling, or why there is no answer.
    pub result: Result<u64, StoreError>,
}

/// Traffic that goes on until it is ended.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Seen>>>,
    pub shards: Vec<(ShardId, Vec<Arc<Target>>)>,
}

impl Traffic {
    pub fn start(
        store: &Arc<ClusterStore>,
        policy: &Arc<Policy>,
        deadline_ms: u64,
        load: Load,
    ) -> Self {
        let shards = subjects_by_shard(store, policy, load.tasks_per_shard);
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for (shard, targets) in &shards {
            for target in targets {
                let (store, stop) = (Arc::clone(store), Arc::clone(&stop));
                let (shard, target) = (*shard, Arc::clone(target));
                tasks.push(tokio::spawn(async move {
                    let mut seen = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let begun = Instant::now();
                        let reply = store.charge(charge(&target, 1, deadline_ms)).await;
                        let took = begun.elapsed();
                        let result = reply.map(|reply| {
                            assert!(reply.outcomes[0].is_admitted());
                            reply.outcomes[0].ceilings[0].remaining
                        });
                        let target = Arc::clone(&target);
                        seen.push(Seen {
                            shard,
                            target,
                            begun,
                            took,
                            result,
                        });
                        if !load.pause.is_zero() {
                            tokio::time::sleep(load.pause).await;
                        }
                    }
                    seen
                }));
            }
        }
        Traffic {
            stop,
            tasks,
            shards,
        }
    }

    /// Ends it; what is under way is waited for. A call that is stuck fails the test.
    pub async fn end(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for task in self.tasks {
            let seen = tokio::time::timeout(Duration::from_secs(10), task).await;
            all.extend(seen.expect("a call is stuck").unwrap());
        }
        all
    }
}

/// How often each subject was charged for certain, and how often perhaps besides.
pub fn charged(all: &[Seen]) -> HashMap<String, (Arc<Target>, u64, u64)> {
    let mut subjects = HashMap::new();
    for seen in all {
        let name = seen.target.subject.as_str().to_owned();
        let entry = subjects
            .entry(name)
            .or_insert((Arc::clone(&seen.target), 0, 0));
        match &seen.result {
            Ok(_) => entry.1 += 1,
            Err(error) if error.may_have_run => entry.2 += 1,
            Err(_) => {}
        }
    }
    subjects
}

/// What was left after each answer, by subject: nobody else charges it, so it only falls.
pub fn assert_no_answer_is_anothers(all: &[Seen]) {
    let mut last: HashMap<&str, u64> = HashMap::new();
    for seen in all {
        let Ok(left) = seen.result else { continue };
        let before = last.insert(seen.target.subject.as_str(), left);
        assert!(
            before.is_none_or(|before| left < before),
            "{}: {before:?}, then {left}",
            seen.target.subject
        );
    }
}

/// Every charge that was answered is there, and none twice.
pub async fn assert_charged_once(store: &ClusterStore, all: &[Seen]) {
    for (name, (target, certain, doubtful)) in charged(all) {
        let used = crate::support::used(store, &target).await;
        assert!(
            (certain..=certain + doubtful).contains(&used),
            "{name}: {used} used, {certain} charged and {doubtful} in doubt"
        );
    }
}

pub fn errors(all: &[Seen]) -> Vec<&StoreError> {
    all.iter()
        .filter_map(|seen| seen.result.as_ref().err())
        .collect()
}

/// How long a shard gave no answer between two that it gave, at most, from `from` on.
pub fn longest_gap(all: &[Seen], shard: ShardId, from: Instant) -> Duration {
    let answered = all.iter().filter(|s| s.shard == shard && s.result.is_ok());
    let mut instants: Vec<Instant> = answered.map(|s| s.begun + s.took).collect();
    instants.push(from);
    instants.sort();
    let pairs = instants.iter().zip(instants.iter().skip(1));
    let gaps = pairs.filter(|(a, _)| **a >= from).map(|(a, b)| *b - *a);
    gaps.max().unwrap_or_default()
}

/// The 99th percentile of the times of some charges.
pub fn p99<'a>(all: impl Iterator<Item = &'a Seen>) -> Duration {
    let mut times: Vec<Duration> = all.map(|seen| seen.took).collect();
    times.sort();
    times
        .get(times.len() * 99 / 100)
        .copied()
        .unwrap_or_default()
}
