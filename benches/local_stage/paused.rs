//! One shard paused under load: what its callers and the others' take, before, meanwhile, after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tidegate::Check;
use tidegate::admission::LocalStage;
use tidegate::model::{Source, Subject, Target};
use tidegate::store::{ShardId, Store};
use tidegate_chaos::cluster::ClusterSpec as TestOptions;

use crate::fleet::{Fleet, Node, ms, policy, quantile, six_nodes};

const DEADLINE: Duration = Duration::from_millis(50);
const PHASE: Duration = Duration::from_secs(5);
const TASKS: usize = 48;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    phase: u8,
    is_paused_shard: bool,
    source: Source,
    is_admitted: bool,
    took: Duration,
}

pub async fn run() {
    let cluster = six_nodes(TestOptions::default()).await;
    let policies = [policy("p", "100000000/h")];
    let fleet = Fleet::new(&cluster, &policies, &LocalStage::default(), DEADLINE).await;
    let shard = shard_of(&fleet.nodes[0], "key-0");
    let primary = cluster.primary_of("tg:{key-0}:p:g").await.expect("a node");
    let phase = Arc::new(AtomicU8::new(0));
    let running: Vec<_> = (0..TASKS)
        .map(|task| {
            tokio::spawn(load(
                fleet.nodes[task % 4].clone(),
                task,
                shard,
                phase.clone(),
            ))
        })
        .collect();
    tokio::time::sleep(PHASE).await;
    // The replica too: nobody takes over.
    for node in [primary, primary + 3] {
        cluster.pause(node).await.expect("a pause");
    }
    phase.store(1, Ordering::Relaxed);
    tokio::time::sleep(PHASE).await;
    for node in [primary, primary + 3] {
        cluster.resume(node).await.expect("an end of it");
    }
    phase.store(2, Ordering::Relaxed);
    tokio::time::sleep(PHASE).await;
    phase.store(3, Ordering::Relaxed);
    let mut seen = Vec::new();
    for one in running {
        seen.extend(one.await.expect("a task"));
    }
    report(&seen);
}

fn shard_of(node: &Node, subject: &str) -> ShardId {
    let subject = Subject::new(subject).expect("a subject");
    let policies = node.policies();
    let policy = Arc::clone(policies.get("p").expect("the policy"));
    node.store().shard_of(&Target {
        ceilings: policy.ceilings(&subject, None).expect("ceilings"),
        policy,
        subject,
        region: None,
    })
}

/// Asks about subjects of all shards, one after the other, about 200 a second.
async fn load(node: Node, task: usize, paused: ShardId, phase: Arc<AtomicU8>) -> Vec<Seen> {
    let subjects: Vec<_> = (0..30)
        .map(|n| format!("key-{}", n + 30 * (task % 8)))
        .map(|subject| (shard_of(&node, &subject) == paused, subject))
        .collect();
    let mut seen = Vec::new();
    for (is_paused_shard, subject) in subjects.iter().cycle() {
        let asked = Instant::now();
        let now = phase.load(Ordering::Relaxed);
        if now > 2 {
            break;
        }
        let check = Check::new("p", subject.as_str());
        let decision = node.check(&check).await.expect("a decision");
        seen.push(Seen {
            phase: now,
            is_paused_shard: *is_paused_shard,
            source: decision.facts().source,
            is_admitted: decision.is_admitted(),
            took: asked.elapsed(),
        });
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    seen
}

fn report(seen: &[Seen]) {
    println!("one shard of three paused under load, deadline {DEADLINE:?}, outage choice deny");
    println!(
        "{:10} {:14} {:>8} {:>9} {:>9} {:>9} {:>9} {:>10}",
        "phase", "shard", "checks", "admitted", "degraded", "p50 ms", "p99 ms", "max ms"
    );
    for (n, phase) in ["before", "paused", "after"].into_iter().enumerate() {
        for (is_paused_shard, shard) in [(true, "the paused"), (false, "the others")] {
            let ours =
                |s: &&Seen| usize::from(s.phase) == n && s.is_paused_shard == is_paused_shard;
            let ours: Vec<&Seen> = seen.iter().filter(ours).collect();
            let mut took: Vec<_> = ours.iter().map(|s| s.took).collect();
            println!(
                "{phase:10} {shard:14} {:>8} {:>9} {:>9} {:>9.3} {:>9.3} {:>10.3}",
                ours.len(),
                ours.iter().filter(|s| s.is_admitted).count(),
                ours.iter().filter(|s| s.source == Source::Outage).count(),
                ms(quantile(&mut took, 0.5)),
                ms(quantile(&mut took, 0.99)),
                ms(quantile(&mut took, 1.0)),
            );
        }
    }
    // Those that waited for the shard, not those that its breaker answered.
    let waited = |s: &&Seen| s.source == Source::Outage && s.took > DEADLINE / 2;
    let mut waited: Vec<_> = seen.iter().filter(waited).map(|s| s.took).collect();
    println!(
        "{} calls waited for the paused shard: p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
        waited.len(),
        ms(quantile(&mut waited, 0.5)),
        ms(quantile(&mut waited, 0.99)),
        ms(quantile(&mut waited, 1.0)),
    );
}
