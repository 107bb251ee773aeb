//! The store 80 ms away: what denied, leased and other checks take.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::Check;
use tidegate::admission::LocalStage;
use tidegate::model::Source;
use tidegate_chaos::cluster::ClusterSpec as TestOptions;
use tidegate_chaos::proxy::Impairment;

use crate::fleet::{Fleet, PATIENCE, leased, ms, policy, quantile, six_nodes};

const ONE_WAY: Duration = Duration::from_millis(40);
const ROUND: Duration = Duration::from_secs(6);

pub async fn run() {
    let cluster = six_nodes(TestOptions::default().proxied(true)).await;
    let policies = [
        policy("denied", "10/h"),
        leased(policy("leased", "10000000/h"), Duration::from_secs(1)),
        policy("other", "10000000/h"),
    ];
    let fleet = Fleet::new(&cluster, &policies, &LocalStage::default(), PATIENCE).await;
    for n in 0..cluster.node_count() {
        let impairment = Impairment {
            delay: ONE_WAY,
            ..Impairment::default()
        };
        cluster.proxy(n).expect("a proxy").impair(impairment);
    }
    println!("store {:?} away", 2 * ONE_WAY);
    println!(
        "{:10} {:14} {:>8} {:>9} {:>9} {:>9}",
        "policy", "answered by", "checks", "p50 ms", "p99 ms", "max ms"
    );
    for name in ["denied", "leased", "other"] {
        let took = drive(&fleet, name).await;
        for source in Source::ALL {
            let of_source = took.iter().filter(|t| t.0 == source);
            let mut took: Vec<_> = of_source.map(|t| t.1).collect();
            if took.is_empty() {
                continue;
            }
            println!(
                "{name:10} {:14} {:>8} {:>9.3} {:>9.3} {:>9.3}",
                source.name(),
                took.len(),
                ms(quantile(&mut took, 0.5)),
                ms(quantile(&mut took, 0.99)),
                ms(quantile(&mut took, 1.0)),
            );
        }
    }
}

/// 20 tasks ask about one subject, each every 5 ms or so.
async fn drive(fleet: &Fleet, policy: &'static str) -> Vec<(Source, Duration)> {
    let running: Vec<_> = (0..20)
        .map(|task| {
            let node = Arc::clone(&fleet.nodes[task % fleet.nodes.len()]);
            tokio::spawn(async move {
                let (begun, mut took) = (Instant::now(), Vec::new());
                let check = Check::new(policy, "hot");
                while begun.elapsed() < ROUND {
                    let asked = Instant::now();
                    let decision = node.check(&check).await.expect("a decision");
                    took.push((decision.facts().source, asked.elapsed()));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for one in running {
        took.extend(one.await.expect("a task"));
    }
    took
}
