//! Calls that are not made, and ceilings that hold all the same.

use std::time::{Duration, Instant};

use tidegate::admission::LocalStage;
use tidegate::model::Source;

use crate::support::{
    Fleet, PATIENCE, at_once, check, eventually, leased, most_in_a_window, policy, six_nodes, stats,
};

/// All nodes ask about one subject from `tasks` tasks each, `each` times; when they were admitted.
async fn storm(fleet: &Fleet, tasks: usize, each: usize) -> Vec<Instant> {
    let mut running = Vec::new();
    for node in &fleet.nodes {
        for _ in 0..tasks {
            let node = node.clone();
            running.push(tokio::spawn(async move {
                let mut admitted = Vec::new();
                for _ in 0..each {
                    let decision = node.check(&check("hot")).await.unwrap();
                    assert!(!decision.facts().degraded, "{decision:?}");
                    if decision.is_admitted() {
                        admitted.push(Instant::now());
                    }
                }
                admitted
            }));
        }
    }
    let mut admitted = Vec::new();
    for one in running {
        admitted.extend(one.await.unwrap());
    }
    admitted
}

#[tokio::test(flavor = "multi_thread")]
async fn four_nodes_admit_one_hot_keys_limit_exactly_with_a_twentieth_of_the_calls() {
    let cluster = six_nodes().await;
    let (policies, stage) = ([policy("2000/h")], LocalStage::default());
    let fleet = Fleet::new(&cluster, 4, &policies, &stage, PATIENCE).await;
    let admitted = storm(&fleet, 100, 30).await;
    assert_eq!(admitted.len(), 2_000);
    let calls = fleet.calls();
    assert!(calls * 20 <= 12_000, "{calls} calls for 12,000 checks");
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_alone_carry_a_hot_key_in_a_twentieth_of_the_calls() {
    let cluster = six_nodes().await;
    let mut stage = LocalStage::off();
    stage.lanes = true;
    let fleet = Fleet::new(&cluster, 4, &[policy("1000000/h")], &stage, PATIENCE).await;
    let admitted = storm(&fleet, 250, 12).await;
    assert_eq!(admitted.len(), 12_000);
    let calls = fleet.calls();
    assert!(calls * 20 <= 12_000, "{calls} calls for 12,000 checks");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_never_admit_more_than_the_limit_in_any_window() {
    let cluster = six_nodes().await;
    let policies = [leased(policy("3000/2s"), 100)];
    let fleet = Fleet::new(&cluster, 4, &policies, &LocalStage::default(), PATIENCE).await;
    let begun = Instant::now();
    let mut admitted = Vec::new();
    while begun.elapsed() < Duration::from_secs(5) {
        admitted.extend(storm(&fleet, 8, 20).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let leases: u64 = fleet.nodes.iter().map(|n| stats(n).leases_granted).sum();
    assert!(leases > 0);
    // An admission is seen a little after it counted, so one of two may be in the next window.
    let seen_late = Duration::from_millis(50);
    let most = most_in_a_window(admitted, Duration::from_secs(2) - seen_late);
    assert!(most <= 3_000, "{most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attacker_costs_a_hundredth_of_its_checks() {
    let cluster = six_nodes().await;
    let policies = [policy("100/h")];
    let fleet = Fleet::new(&cluster, 4, &policies, &LocalStage::default(), PATIENCE).await;
    let admitted = storm(&fleet, 10, 1_000).await;
    assert_eq!(admitted.len(), 100);
    let calls = fleet.calls();
    assert!(calls * 100 <= 40_000, "{calls} calls for 40,000 checks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_on_one_node_is_news_to_the_others_well_before_their_trust_ends() {
    let cluster = six_nodes().await;
    let mut stage = LocalStage::default();
    stage.denial_trust_max = tidegate::model::Micros::from_secs(3_600);
    let fleet = Fleet::new(&cluster, 3, &[policy("1/h")], &stage, PATIENCE).await;
    assert!(
        fleet.nodes[0]
            .check(&check("a"))
            .await
            .unwrap()
            .is_admitted()
    );
    // A subscription tells when it begins, and what was denied before is then asked again.
    for node in &fleet.nodes {
        eventually("the denial to be remembered", async || {
            let denied = node.check(&check("a")).await.unwrap();
            denied.facts().source == Source::DenialCache
        })
        .await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    for node in &fleet.nodes {
        node.check(&check("a")).await.unwrap();
        let again = at_once(node.check(&check("a"))).await.expect("remembered");
        assert_eq!(again.unwrap().facts().source, Source::DenialCache);
    }
    fleet.nodes[0].reset(&check("a")).await.unwrap();
    eventually("the second node to ask again", async || {
        fleet.nodes[1]
            .check(&check("a"))
            .await
            .unwrap()
            .is_admitted()
    })
    .await;
    let third = fleet.nodes[2].check(&check("a")).await.unwrap();
    assert!(!third.is_admitted());
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_know_how_many_they_are() {
    let cluster = six_nodes().await;
    let policies = [policy("1/h")];
    let mut fleet = Fleet::new(&cluster, 3, &policies, &LocalStage::default(), PATIENCE).await;
    fleet.lose_one();
    eventually("the third to be forgotten", async || {
        fleet.nodes.iter().all(|n| stats(n).nodes == 2)
    })
    .await;
}
