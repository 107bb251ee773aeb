//! An attacker at 100 times its limit, over four limiters: which part of its checks reaches Redis.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::Check;
use tidegate::model::Source;
use tidegate_chaos::cluster::ClusterSpec as TestOptions;

use crate::fleet::{Fleet, PATIENCE, policy, six_nodes, stages};

/// 600 per 10 s, asked 60,000 times per 10 s.
const RATE: &str = "600/10s";
const TICK: Duration = Duration::from_millis(10);
const CHECKS_A_TICK: usize = 60;
const TICKS: u32 = 2_000;

pub async fn run() {
    println!(
        "attacker at 100 times its limit of {RATE}, for {:?}",
        TICK * TICKS
    );
    println!(
        "{:16} {:>9} {:>9} {:>9} {:>9} {:>16}",
        "stages", "checks", "admitted", "to store", "calls", "calls a check"
    );
    for (name, stage) in stages() {
        let cluster = six_nodes(TestOptions::default()).await;
        let fleet = Fleet::new(&cluster, &[policy("p", RATE)], &stage, PATIENCE).await;
        let (checks, admitted) = attack(&fleet).await;
        println!(
            "{name:16} {checks:>9} {admitted:>9} {:>9} {:>9} {:>15.2}%",
            fleet.answered_by(Source::Store),
            fleet.calls(),
            fleet.calls() as f64 * 100.0 / checks as f64
        );
    }
}

/// Sends at the rate, answers or not; a tick's checks at once, spread over the limiters.
async fn attack(fleet: &Fleet) -> (usize, usize) {
    let begun = Instant::now();
    let mut running = Vec::new();
    for tick in 0..TICKS {
        tokio::time::sleep_until((begun + TICK * tick).into()).await;
        for n in 0..CHECKS_A_TICK {
            let node = Arc::clone(&fleet.nodes[n % fleet.nodes.len()]);
            running.push(tokio::spawn(async move {
                let decision = node.check(&Check::new("p", "attacker")).await;
                decision.expect("a decision").is_admitted()
            }));
        }
    }
    let (checks, mut admitted) = (running.len(), 0);
    for one in running {
        admitted += usize::from(one.await.expect("a task"));
    }
    (checks, admitted)
}
