//! One hot key of 1,000,000/min, 1,000 tasks over four limiters: checks a second against one call
//! a check.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate::Check;
use tidegate::admission::LocalStage;
use tidegate_chaos::cluster::ClusterSpec as TestOptions;

use crate::fleet::{Fleet, PATIENCE, leased, policy, six_nodes, stages};

const TASKS: usize = 1_000;
/// So short that most checks are admitted.
const ROUND: Duration = Duration::from_secs(4);
/// The key's whole window: it is full after a few seconds, and most checks are denied.
const WINDOW: Duration = Duration::from_secs(60);

/// Each stage by itself, while there is room.
pub async fn run() {
    table(stages(), ROUND).await;
}

/// A whole window without the stages, and with those that matter.
pub async fn run_window() {
    let mut stages = stages();
    stages.retain(|(name, _)| ["none", "all but leases", "all"].contains(name));
    table(stages, WINDOW).await;
}

async fn table(stages: Vec<(&'static str, LocalStage)>, round: Duration) {
    println!("hot key of 1000000/min, {TASKS} tasks, 4 limiters, {round:?} each");
    println!(
        "{:16} {:>12} {:>12} {:>10} {:>8}",
        "stages", "checks/s", "admitted/s", "calls", "ratio"
    );
    let mut base = None;
    for (name, stage) in stages {
        // A cluster of its own: no log of the round before.
        let cluster = six_nodes(TestOptions::default()).await;
        let policies = [leased(
            policy("p", "1000000/min"),
            Duration::from_millis(200),
        )];
        let fleet = Fleet::new(&cluster, &policies, &stage, PATIENCE).await;
        let (checks, admitted, took) = storm(&fleet, round).await;
        let rate = checks as f64 / took.as_secs_f64();
        let base = *base.get_or_insert(rate);
        println!(
            "{name:16} {rate:>12.0} {:>12.0} {:>10} {:>7.1}x",
            admitted as f64 / took.as_secs_f64(),
            fleet.calls(),
            rate / base
        );
    }
}

async fn storm(fleet: &Fleet, round: Duration) -> (u64, u64, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let (checks, admitted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let running: Vec<_> = (0..TASKS)
        .map(|task| {
            let node = Arc::clone(&fleet.nodes[task % fleet.nodes.len()]);
            let (stop, checks, admitted) = (stop.clone(), checks.clone(), admitted.clone());
            tokio::spawn(async move {
                let check = Check::new("p", "hot");
                let (mut n, mut yes) = (0_u64, 0_u64);
                while !stop.load(Ordering::Relaxed) {
                    let decision = node.check(&check).await.expect("a decision");
                    n += 1;
                    yes += u64::from(decision.is_admitted());
                    if n.is_multiple_of(64) {
                        // A local answer never waits, and the others want their turn.
                        tokio::task::yield_now().await;
                    }
                }
                checks.fetch_add(n, Ordering::Relaxed);
                admitted.fetch_add(yes, Ordering::Relaxed);
            })
        })
        .collect();
    tokio::time::sleep(round).await;
    stop.store(true, Ordering::Relaxed);
    for one in running {
        one.await.expect("a task");
    }
    let counts = (
        checks.load(Ordering::Relaxed),
        admitted.load(Ordering::Relaxed),
    );
    (counts.0, counts.1, begun.elapsed())
}
