//! Zipf(1.0) over 100,000 subjects of which the most frequent ask for too much, so that 90 % of all
//! checks are within their ceilings: which part of them reaches Redis, by the stages that are on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::Check;
use tidegate::model::Source;
use tidegate_chaos::cluster::ClusterSpec as TestOptions;

use crate::fleet::{Fleet, PATIENCE, leased, policy, six_nodes, stages};

const SUBJECTS: usize = 100_000;
const CHECKS: usize = 200_000;
const TASKS: usize = 256;
const CONFORMING: f64 = 0.9;

pub async fn run() {
    let law = Zipf::new();
    let limit = law.limit_for(CONFORMING);
    println!("Zipf(1.0), {SUBJECTS} subjects, {CHECKS} checks, limit {limit}/h, {TASKS} tasks");
    println!(
        "{:16} {:>9} {:>9} {:>9} {:>16} {:>10} {:>7} {:>7} {:>7}",
        "stages",
        "admitted",
        "to store",
        "calls",
        "calls a check",
        "checks/s",
        "denial",
        "node",
        "lease"
    );
    for (name, stage) in stages() {
        let cluster = six_nodes(TestOptions::default()).await;
        let rate = format!("{limit}/h");
        let policies = [leased(policy("p", &rate), Duration::from_millis(200))];
        let fleet = Fleet::new(&cluster, &policies, &stage, PATIENCE).await;
        let begun = Instant::now();
        let admitted = ask(&fleet, &law).await;
        let took = begun.elapsed();
        println!(
            "{name:16} {admitted:>9} {:>9} {:>9} {:>15.1}% {:>10.0} {:>7} {:>7} {:>7}",
            fleet.answered_by(Source::Store),
            fleet.calls(),
            fleet.calls() as f64 * 100.0 / CHECKS as f64,
            CHECKS as f64 / took.as_secs_f64(),
            fleet.answered_by(Source::DenialCache),
            fleet.answered_by(Source::NodeCeiling),
            fleet.answered_by(Source::Lease),
        );
    }
}

async fn ask(fleet: &Fleet, law: &Arc<Zipf>) -> usize {
    let running: Vec<_> = (0..TASKS)
        .map(|task| {
            let node = Arc::clone(&fleet.nodes[task % fleet.nodes.len()]);
            let law = Arc::clone(law);
            tokio::spawn(async move {
                let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(task as u64 + 1);
                let mut admitted = 0;
                for _ in 0..CHECKS / TASKS {
                    let subject = format!("key-{}", law.draw(&mut random));
                    let decision = node.check(&Check::new("p", subject)).await;
                    admitted += usize::from(decision.expect("a decision").is_admitted());
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for one in running {
        admitted += one.await.expect("a task");
    }
    admitted
}

/// The k-th subject asks in proportion to 1/k.
struct Zipf {
    /// How much the first k ask for together, of all.
    up_to: Vec<f64>,
}

impl Zipf {
    fn new() -> Arc<Self> {
        let mut sum = 0.0;
        let mut up_to: Vec<f64> = (1..=SUBJECTS)
            .map(|k| {
                sum += 1.0 / k as f64;
                sum
            })
            .collect();
        up_to.iter_mut().for_each(|part| *part /= sum);
        Arc::new(Zipf { up_to })
    }

    /// The limit within which this part of all checks is.
    fn limit_for(&self, conforming: f64) -> u64 {
        let share = |k: usize| self.up_to[k] - if k == 0 { 0.0 } else { self.up_to[k - 1] };
        let within = |limit: u64| {
            let admitted = |k| (share(k) * CHECKS as f64).min(limit as f64);
            (0..SUBJECTS).map(admitted).sum::<f64>() / CHECKS as f64
        };
        (1..)
            .find(|limit| within(*limit) >= conforming)
            .unwrap_or(1)
    }

    fn draw(&self, random: &mut u64) -> usize {
        // Xorshift (Marsaglia 2003).
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let point = (*random >> 11) as f64 / (1_u64 << 53) as f64;
        self.up_to.partition_point(|part| *part < point)
    }
}
