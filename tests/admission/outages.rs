//! What happens without the store: within the deadline, by the policy's choice, and said so.

use std::time::Duration;

use tidegate::admission::{BreakerState, LocalStage, OutageReason};
use tidegate::model::{OnOutage, Retry, Source};
use tidegate::store::ShardId;
use tokio::time::{Instant, advance};

use crate::world::{DEADLINE, MS, World, check, dual, global, on_outage, settle, source};

fn world(choice: OnOutage) -> World {
    let world = World::one(on_outage(global("100/min"), choice));
    world.node().weather(|w| w.is_cut = true);
    world
}

#[tokio::test(start_paused = true)]
async fn a_silent_shard_costs_its_callers_the_deadline_at_first_and_then_nothing() {
    let world = world(OnOutage::Deny);
    for n in 0..5 {
        let begun = Instant::now();
        let denied = world.node().check(&check(&format!("k{n}"))).await;
        assert!(denied.facts().degraded && source(&denied) == Source::Outage);
        assert!(begun.elapsed() <= DEADLINE && begun.elapsed() >= DEADLINE - 2 * MS);
    }
    let (begun, calls) = (Instant::now(), world.node().calls());
    for n in 0..500 {
        let denied = world.node().check(&check(&format!("k{n}"))).await;
        assert!(denied.facts().degraded && !denied.is_admitted());
        assert_eq!(denied.retry_after(), None);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(world.node().calls(), calls);
    let stats = world.node().stats();
    assert_eq!(stats.breakers, [(ShardId::WHOLE, BreakerState::Open)]);
    let expected = [
        (OutageReason::BreakerOpen, 500),
        (OutageReason::Deadline, 5),
    ];
    assert!(
        expected.iter().all(|e| stats.degraded.contains(e)),
        "{stats:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn it_recovers_by_itself_with_one_call_that_tries() {
    let world = world(OnOutage::Deny);
    for _ in 0..5 {
        world.node().check(&check("a")).await;
    }
    world.node().weather(|w| w.is_cut = false);
    assert!(world.node().check(&check("a")).await.facts().degraded);
    tokio::time::sleep(100 * MS).await;
    let decision = world.node().check(&check("a")).await;
    assert!(decision.is_admitted() && !decision.facts().degraded);
    assert_eq!(source(&decision), Source::Store);
}

#[tokio::test(start_paused = true)]
async fn one_shards_silence_is_its_own() {
    let world = World::one(on_outage(global("100/min"), OnOutage::Deny));
    world.node().weather(|w| w.is_cut = true);
    for _ in 0..5 {
        world.node().check(&check("1-a")).await;
    }
    world.node().weather(|w| w.is_cut = false);
    assert!(world.node().check(&check("1-a")).await.facts().degraded);
    assert!(world.node().check(&check("2-a")).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_costs_no_time() {
    let world = World::one(on_outage(global("100/min"), OnOutage::Admit));
    world.node().weather(|w| w.refuses = true);
    let begun = Instant::now();
    for _ in 0..20 {
        let decision = world.node().check(&check("a")).await;
        assert!(decision.is_admitted() && decision.facts().degraded);
        assert!(decision.facts().ceilings.is_empty());
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_no_outage() {
    let world = World::one(on_outage(global("3/min"), OnOutage::Admit));
    let mut admitted = 0;
    for _ in 0..100 {
        let decision = world.node().check(&check("a")).await;
        assert!(!decision.facts().degraded);
        admitted += u64::from(decision.is_admitted());
    }
    assert_eq!(admitted, 3);
}

/// Floods all nodes for a while; the instants of what was admitted.
async fn flood(world: &World, millis: u64) -> Vec<u64> {
    let mut admitted = Vec::new();
    for _ in 0..millis / 50 {
        for node in &world.nodes {
            for _ in 0..30 {
                if node.check(&check("a")).await.is_admitted() {
                    admitted.push(world.elapsed().as_millis() as u64);
                }
            }
        }
        advance(50 * MS).await;
    }
    admitted
}

fn most_in_a_window(admitted: &[u64], window_ms: u64) -> u64 {
    let within = |end: &u64| {
        let inside = |t: &&u64| **t <= *end && **t + window_ms > *end;
        admitted.iter().filter(inside).count() as u64
    };
    admitted.iter().map(within).max().unwrap_or(0)
}

async fn fleet(rate: &str) -> World {
    let world = World::new(
        &[on_outage(global(rate), OnOutage::Local)],
        4,
        &LocalStage::default(),
    );
    settle().await;
    assert_eq!(world.nodes[3].stats().nodes, 4);
    world
}

#[tokio::test(start_paused = true)]
async fn four_nodes_without_the_store_admit_together_at_most_the_ceiling_in_any_window() {
    let world = fleet("100/10s").await;
    for node in &world.nodes {
        node.weather(|w| w.refuses = true);
    }
    let admitted = flood(&world, 35_000).await;
    let most = most_in_a_window(&admitted, 10_000);
    assert!((60..=100).contains(&most), "{most}");
}

#[tokio::test(start_paused = true)]
async fn what_the_store_admitted_before_the_outage_counts_in_the_windows_that_span_it() {
    // The nodes know the store's state of a moment before: they shared the traffic.
    for before in [10, 50, 90, 100] {
        let world = fleet("100/10s").await;
        let mut admitted = Vec::new();
        for n in 0..before {
            if world.nodes[n % 4].check(&check("a")).await.is_admitted() {
                admitted.push(world.elapsed().as_millis() as u64);
            }
            advance(7 * MS).await;
        }
        for node in &world.nodes {
            // Each asks once more, so that all know the same.
            if node.check(&check("a")).await.is_admitted() {
                admitted.push(world.elapsed().as_millis() as u64);
            }
        }
        for node in &world.nodes {
            node.weather(|w| w.refuses = true);
        }
        admitted.extend(flood(&world, 25_000).await);
        let most = most_in_a_window(&admitted, 10_000);
        assert!(most <= 100, "{most} with {before} before");
    }
}

#[tokio::test(start_paused = true)]
async fn who_was_denied_before_the_outage_stays_denied_until_the_store_would_have_admitted() {
    let world = World::one(on_outage(global("3/min"), OnOutage::Local));
    for _ in 0..3 {
        assert!(world.node().check(&check("a")).await.is_admitted());
    }
    assert!(!world.node().check(&check("a")).await.is_admitted());
    world.node().weather(|w| w.refuses = true);
    advance(Duration::from_secs(30)).await;
    let denied = world.node().check(&check("a")).await;
    assert!(denied.facts().degraded);
    let until = denied.retry_after().map(Duration::from);
    assert_eq!(until, Some(Duration::from_secs(30)));
    advance(Duration::from_secs(30)).await;
    assert!(world.node().check(&check("a")).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_share_is_taken_of_all_ceilings_or_of_none() {
    let policy = on_outage(dual("100/min", "4/min"), OnOutage::Local);
    let world = World::one(policy);
    world.node().weather(|w| w.refuses = true);
    let (us, eu) = (check("a").region("us"), check("a").region("eu"));
    let mut admitted = 0;
    for _ in 0..200 {
        admitted += u64::from(world.node().check(&us).await.is_admitted());
    }
    assert_eq!(admitted, 2, "half of the region's share at once");
    let denied = world.node().check(&us).await;
    assert!(
        matches!(denied, tidegate::Decision::Denied(ref d) if matches!(d.retry, Some(Retry::After(_))))
    );
    assert!(world.node().check(&eu.cost(2)).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn the_number_of_nodes_stays_as_it_was_known_and_is_never_below_the_configured() {
    let stage = LocalStage::default();
    let world = World::with_nodes_min(&[global("100/min")], 2, &stage, 6);
    settle().await;
    assert_eq!(world.node().stats().nodes, 6);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_are_decided_in_time_and_never_admitted_twice() {
    let world = World::one(on_outage(global("100/min"), OnOutage::Deny));
    world.node().weather(|w| w.loses_answers = true);
    let begun = Instant::now();
    assert!(
        world
            .node()
            .check(&check("a").id("mine"))
            .await
            .facts()
            .degraded
    );
    assert!(begun.elapsed() <= DEADLINE);
    world.node().weather(|w| w.loses_answers = false);
    assert!(
        world
            .node()
            .check(&check("a").id("mine"))
            .await
            .is_admitted()
    );
    assert_eq!(world.used(&check("a")).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_on_a_silent_shard_is_answered_by_the_deadline() {
    let world = world(OnOutage::Deny);
    let begun = Instant::now();
    let flood: Vec<_> = (0..3_000)
        .map(|n| {
            let limiter = world.node().limiter.clone();
            let asked = check(&format!("k{}", n % 7));
            tokio::spawn(async move {
                limiter.check(&asked).await.unwrap();
                Instant::now()
            })
        })
        .collect();
    for one in flood {
        let answered = one.await.unwrap();
        assert!(answered.duration_since(begun) <= DEADLINE);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_denied_without_an_answer_is_given_back_when_the_store_answers() {
    let world = world(OnOutage::Deny);
    let node = world.node();
    node.weather(|w| (w.is_cut, w.loses_answers) = (false, true));
    for _ in 0..4 {
        let decision = node.check(&check("a")).await;
        assert!(!decision.is_admitted() && decision.facts().degraded);
    }
    let charged = world.executed().iter().filter(|e| e.is_admitted).count();
    assert!(charged > 0, "the store charged what it could not tell of");
    assert!(node.stats().refunds_waiting > 0);
    node.weather(|w| w.loses_answers = false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.used(&check("a")).await, [0]);
    let stats = node.stats();
    assert_eq!(
        (stats.refunds_waiting, stats.unused_refunded > 0),
        (0, true)
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_outage_choice_admitted_stays_charged() {
    let world = world(OnOutage::Admit);
    let node = world.node();
    node.weather(|w| (w.is_cut, w.loses_answers) = (false, true));
    assert!(node.check(&check("a")).await.is_admitted());
    node.weather(|w| w.loses_answers = false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.used(&check("a")).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_id_stays_charged_and_is_admitted_when_it_comes_again() {
    let world = world(OnOutage::Deny);
    let node = world.node();
    node.weather(|w| (w.is_cut, w.loses_answers) = (false, true));
    let own = check("a").id("order-7");
    assert!(!node.check(&own).await.is_admitted());
    node.weather(|w| w.loses_answers = false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(node.check(&own).await.is_admitted());
    assert_eq!(world.used(&check("a")).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_given_back_is_bounded_and_the_rest_is_counted() {
    let mut stage = LocalStage::off();
    stage.refunds_waiting_max = 3;
    let world = World::new(&[global("100/min")], 1, &stage);
    let node = world.node();
    node.weather(|w| (w.is_cut, w.loses_answers) = (false, true));
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..8 {
        let limiter = node.limiter.clone();
        asked.spawn(async move { limiter.check(&check(&format!("a{n}"))).await.is_ok() });
    }
    assert!(asked.join_all().await.into_iter().all(|decided| decided));
    let stats = node.stats();
    assert!(stats.refunds_waiting <= 3, "{stats:?}");
    assert!(stats.unused_kept >= 4, "{stats:?}");
}
