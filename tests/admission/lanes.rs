//! Lanes: together when there are many, alone when there is one, first come, first served.

use std::time::Duration;

use tidegate::admission::{LocalStage, OutageReason};
use tidegate::model::{OnOutage, Policies, Refund, Source};
use tidegate::{Check, Decision};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::world::{DEADLINE, MS, Node, World, check, global, on_outage, settle, source};

fn lanes_only() -> LocalStage {
    let mut stage = LocalStage::off();
    stage.lanes = true;
    stage
}

/// Starts checks, each in the lane before the next begins.
async fn start(node: &Node, checks: impl IntoIterator<Item = Check>) -> Vec<JoinHandle<Decision>> {
    let mut started = Vec::new();
    for check in checks {
        let limiter = node.limiter.clone();
        started.push(tokio::spawn(
            async move { limiter.check(&check).await.unwrap() },
        ));
        tokio::task::yield_now().await;
    }
    started
}

async fn all(started: Vec<JoinHandle<Decision>>) -> Vec<Decision> {
    let mut decisions = Vec::new();
    for one in started {
        decisions.push(one.await.unwrap());
    }
    decisions
}

#[tokio::test(start_paused = true)]
async fn checks_that_arrive_while_a_call_is_out_ride_together_in_the_next() {
    let world = World::new(&[global("1000/min")], 1, &lanes_only());
    world.node().weather(|w| w.delay = MS);
    let decisions = all(start(world.node(), (0..200).map(|_| check("a"))).await).await;
    assert!(decisions.iter().all(Decision::is_admitted));
    assert_eq!(world.executed().len(), 200);
    assert_eq!(world.node().calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_finds_its_lane_idle_does_not_wait() {
    let world = World::new(&[global("1000/min")], 1, &lanes_only());
    let begun = Instant::now();
    for _ in 0..50 {
        assert!(world.node().check(&check("a")).await.is_admitted());
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_first_that_came_are_the_ones_that_are_admitted() {
    let world = World::new(&[global("50/min")], 1, &lanes_only());
    world.node().weather(|w| w.delay = 2 * MS);
    let decisions = all(start(world.node(), (0..80).map(|_| check("a"))).await).await;
    let admitted: Vec<_> = decisions.iter().map(Decision::is_admitted).collect();
    let expected: Vec<_> = (0..80).map(|n| n < 50).collect();
    assert_eq!(admitted, expected);
    let remaining = |d: &Decision| d.facts().ceilings[0].remaining;
    let told: Vec<_> = decisions.iter().take(50).map(remaining).collect();
    let exact: Vec<_> = (0..50).rev().collect();
    assert_eq!(told, exact, "each its own exact answer");
}

#[tokio::test(start_paused = true)]
async fn each_keeps_its_own_id_and_cost() {
    let world = World::new(&[global("100/min")], 1, &lanes_only());
    world.node().weather(|w| w.delay = 2 * MS);
    let checks = (1..=9).map(|n| {
        let one = check("a").cost(n);
        if n % 2 == 0 {
            one.id(format!("mine-{n}"))
        } else {
            one
        }
    });
    let decisions = all(start(world.node(), checks).await).await;
    for (n, decision) in (1..=9).zip(&decisions) {
        assert_eq!(decision.facts().cost, n);
        if n % 2 == 0 {
            assert_eq!(decision.facts().id.as_str(), format!("mine-{n}"));
        }
    }
    let ids: std::collections::HashSet<_> =
        decisions.iter().map(|d| d.facts().id.clone()).collect();
    assert_eq!(ids.len(), 9);
    assert_eq!(world.used(&check("a")).await, [45]);
    for decision in &decisions {
        let refund = Refund::new("p", "a", decision.facts().id.as_str());
        world.node().limiter.refund(&refund).await.unwrap();
    }
    assert_eq!(world.used(&check("a")).await, [0], "each can be given back");
}

#[tokio::test(start_paused = true)]
async fn with_a_far_store_nobody_waits_for_more_than_a_round_trip() {
    let mut stage = LocalStage::off();
    stage.lanes = true;
    let world = World::new(&[global("100000/min")], 1, &stage);
    world.node().weather(|w| w.delay = 20 * MS);
    let mut started = Vec::new();
    for _ in 0..300 {
        let limiter = world.node().limiter.clone();
        started.push(tokio::spawn(async move {
            let begun = Instant::now();
            let decision = limiter.check(&check("a")).await.unwrap();
            (begun.elapsed(), decision)
        }));
        if started.len() % 4 == 0 {
            tokio::time::sleep(MS).await;
        }
    }
    let mut slowest = Duration::ZERO;
    for one in started {
        let (took, decision) = one.await.unwrap();
        assert_eq!(source(&decision), Source::Store);
        slowest = slowest.max(took);
    }
    assert!(slowest <= 44 * MS, "{slowest:?} for a round trip of 40 ms");
    let calls = world.node().calls();
    assert!(calls <= 80, "{calls} for 300 checks in 75 ms");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_finds_its_lane_full_gets_the_outage_choice_and_is_counted() {
    for choice in [OnOutage::Deny, OnOutage::Admit] {
        let mut stage = lanes_only();
        stage.lane_waiting_max = 10;
        let world = World::new(&[on_outage(global("1000/min"), choice)], 1, &stage);
        world.node().weather(|w| w.delay = 20 * MS);
        let decisions = all(start(world.node(), (0..30).map(|_| check("a"))).await).await;
        let outage: Vec<_> = decisions
            .iter()
            .filter(|d| source(d) == Source::Outage)
            .collect();
        assert_eq!(outage.len(), 19, "one is out, ten wait");
        for decision in outage {
            assert!(decision.facts().degraded);
            assert_eq!(decision.is_admitted(), choice == OnOutage::Admit);
        }
        let stats = world.node().stats();
        assert!(stats.degraded.contains(&(OutageReason::LaneFull, 19)));
        assert_eq!(stats.waiting, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn all_lanes_together_are_bounded_too() {
    let mut stage = lanes_only();
    stage.waiting_max = 10;
    let world = World::new(&[global("1000/min")], 1, &stage);
    world.node().weather(|w| w.delay = 20 * MS);
    let checks = (0..60).map(|n| check(&format!("k{}", n % 3)));
    let decisions = all(start(world.node(), checks).await).await;
    let outage = decisions.iter().filter(|d| source(d) == Source::Outage);
    assert_eq!(outage.count(), 47, "three are out, ten wait");
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_are_denied_without_a_call_when_the_answer_denies_the_first() {
    let mut stage = lanes_only();
    stage.denial_cache = true;
    stage.batch_wait_max = 10 * MS;
    let world = World::new(&[global("1/min")], 1, &stage);
    assert!(world.node().check(&check("a")).await.is_admitted());
    world.node().weather(|w| w.delay = MS);
    let decisions = all(start(world.node(), (0..100).map(|_| check("a"))).await).await;
    assert!(decisions.iter().all(|d| !d.is_admitted()));
    assert_eq!(world.node().calls(), 2);
    let cached = decisions
        .iter()
        .filter(|d| source(d) == Source::DenialCache)
        .count();
    assert_eq!(cached, 99);
}

#[tokio::test(start_paused = true)]
async fn a_new_limit_does_not_wait_for_the_lane_of_the_old() {
    let world = World::new(&[global("1/min")], 1, &lanes_only());
    assert!(world.node().check(&check("a")).await.is_admitted());
    world.node().weather(|w| w.delay = 10 * MS);
    let old = start(world.node(), [check("a"), check("a")]).await;
    let raised = Policies::new([global("2/min")]).unwrap();
    world.node().limiter.replace_policies(raised).unwrap();
    let decision = world.node().check(&check("a")).await;
    assert!(decision.is_admitted());
    assert!(all(old).await.iter().all(|d| !d.is_admitted()));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_in_the_lane_is_kept() {
    let world = World::new(&[global("1000/min")], 1, &lanes_only());
    world.node().weather(|w| w.is_cut = true);
    let begun = Instant::now();
    let first = start(world.node(), [check("a")]).await;
    tokio::time::sleep(10 * MS).await;
    let second = start(world.node(), [check("a")]).await;
    settle().await;
    assert!(all(first).await[0].facts().degraded);
    assert!(begun.elapsed() <= DEADLINE);
    assert!(all(second).await[0].facts().degraded);
    assert!(begun.elapsed() <= DEADLINE + 10 * MS);
}
