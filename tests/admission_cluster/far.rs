//! A store that is far away: only what needs it waits for it, and for one round trip.

use std::time::{Duration, Instant};

use tidegate::admission::LocalStage;
use tidegate::model::Source;
use tidegate_chaos::cluster::ClusterSpec as TestOptions;
use tidegate_chaos::proxy::Impairment;

use crate::support::{Fleet, PATIENCE, at_once, check, eventually, leased, named, policy, start};

const ONE_WAY: Duration = Duration::from_millis(40);

#[tokio::test(flavor = "multi_thread")]
async fn denied_and_leased_checks_wait_for_nothing_and_the_others_for_a_round_trip() {
    let cluster = start(TestOptions::default().proxied(true)).await;
    let leased = leased(named("leased", "1000000/h"), 2_000);
    let policies = [policy("1/h"), leased];
    let fleet = Fleet::new(&cluster, 1, &policies, &LocalStage::default(), PATIENCE).await;
    let node = &fleet.nodes[0];
    for n in 0..cluster.node_count() {
        // The fleet's; charge, peek, refund and replay of one log.
        eventually("the policies' scripts", async || {
            let scripts = cluster.info(n, &["INFO", "memory"], "number_of_cached_scripts");
            scripts.await.unwrap() == "5"
        })
        .await;
        cluster.proxy(n).unwrap().impair(Impairment {
            delay: ONE_WAY,
            ..Impairment::default()
        });
    }
    let mut least = Duration::MAX;
    for n in 0..20 {
        let begun = Instant::now();
        let decision = node.check(&check(&format!("k{n}"))).await.unwrap();
        assert_eq!(decision.facts().source, Source::Store);
        assert!(begun.elapsed() >= 2 * ONE_WAY, "{:?}", begun.elapsed());
        least = least.min(begun.elapsed());
    }
    assert!(
        least < 3 * ONE_WAY,
        "{least:?} for a round trip of {:?}",
        2 * ONE_WAY
    );
    for n in 0..cluster.node_count() {
        let errors = cluster.run(n, &["INFO", "errorstats"]).await.unwrap();
        let errors = errors.text().unwrap();
        assert!(!errors.contains("NOSCRIPT"), "a second trip: {errors}");
    }
    node.check(&check("k0")).await.unwrap();
    for _ in 0..500 {
        let denied = at_once(node.check(&check("k0"))).await.expect("at once");
        assert_eq!(denied.unwrap().facts().source, Source::DenialCache);
    }
    let hot = tidegate::Check::new("leased", "hot");
    let begun = Instant::now();
    let mut from_lease = 0;
    while from_lease < 2_000 {
        match at_once(node.check(&hot)).await {
            Some(decision) => {
                assert_eq!(decision.unwrap().facts().source, Source::Lease);
                from_lease += 1;
            }
            None => {
                node.check(&hot.clone().cost(200)).await.unwrap();
            }
        }
        assert!(begun.elapsed() < PATIENCE, "{from_lease} from leases");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_meet_in_a_lane_do_not_wait_for_each_others_round_trips() {
    let cluster = start(TestOptions::default().proxied(true)).await;
    let policies = [policy("1000000/h")];
    let fleet = Fleet::new(&cluster, 1, &policies, &LocalStage::default(), PATIENCE).await;
    for n in 0..cluster.node_count() {
        cluster.proxy(n).unwrap().impair(Impairment {
            delay: ONE_WAY,
            ..Impairment::default()
        });
    }
    let mut running = Vec::new();
    for _ in 0..100 {
        let node = fleet.nodes[0].clone();
        running.push(tokio::spawn(async move {
            let begun = Instant::now();
            assert!(node.check(&check("hot")).await.unwrap().is_admitted());
            begun.elapsed()
        }));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut took = Vec::new();
    for one in running {
        took.push(one.await.unwrap());
    }
    took.sort();
    // With one call at a time half of them would wait for most of another's round trip.
    let median = took[took.len() / 2];
    assert!(
        median < 3 * ONE_WAY,
        "{median:?} for a round trip of {:?}",
        2 * ONE_WAY
    );
}
