//! Leases: never over, little held back, nothing left behind.

use std::time::Duration;

use tidegate::admission::LocalStage;
use tidegate::model::{Algorithm, Policy, PolicyName, Source};
use tokio::time::{Instant, advance};

use crate::world::{MS, World, by_source, check, dual, global, leased, rule, settle, source};

/// Units admitted, by instants in milliseconds.
type Admitted = Vec<(u64, u64)>;

/// Each node asks `per_ms` times a millisecond, for `millis`.
async fn traffic(world: &World, nodes: &[usize], millis: u64, per_ms: u64) -> Admitted {
    let mut admitted = Vec::new();
    for _ in 0..millis {
        for node in nodes {
            for _ in 0..per_ms {
                if world.nodes[*node].check(&check("a")).await.is_admitted() {
                    admitted.push((world.elapsed().as_millis() as u64, 1));
                }
            }
        }
        advance(MS).await;
        settle().await;
    }
    admitted
}

fn most_in_a_window(admitted: &Admitted, window_ms: u64) -> u64 {
    let mut from = 0;
    let (mut sum, mut most) = (0, 0);
    for (at, units) in admitted {
        sum += units;
        while admitted[from].0 + window_ms <= *at {
            sum -= admitted[from].1;
            from += 1;
        }
        most = most.max(sum);
    }
    most
}

#[tokio::test(start_paused = true)]
async fn a_hot_key_is_answered_from_its_lease() {
    let world = World::one(leased(global("100000/min"), 100, 100));
    let admitted = traffic(&world, &[0], 1_000, 5).await;
    assert_eq!(admitted.len(), 5_000);
    let stats = world.node().stats();
    assert!(by_source(&stats, Source::Lease) > 4_000, "{stats:?}");
    let calls = world.node().calls();
    assert!(calls < 700, "{calls}");
}

#[tokio::test(start_paused = true)]
async fn a_leased_answer_waits_for_no_store() {
    let world = World::one(leased(global("100000/min"), 400, 100));
    traffic(&world, &[0], 500, 5).await;
    world.node().weather(|w| w.delay = 20 * MS);
    let mut slow = 0;
    for _ in 0..400 {
        let begun = Instant::now();
        let decision = world.node().check(&check("a").cost(2)).await;
        if source(&decision) == Source::Lease {
            assert_eq!(begun.elapsed(), Duration::ZERO);
        } else {
            slow += 1;
        }
        advance(MS).await;
        settle().await;
    }
    assert!(slow <= 4, "{slow}");
}

#[tokio::test(start_paused = true)]
async fn all_nodes_together_never_admit_more_than_the_limit_in_any_window() {
    for (limit, period, delay) in [(2_000, 100, 0), (2_000, 100, 3), (500, 50, 7), (90, 200, 1)] {
        let policy = leased(global(&format!("{limit}/2s")), period, 200);
        let world = World::new(&[policy], 3, &LocalStage::default());
        settle().await;
        for node in &world.nodes {
            node.weather(|w| w.delay = delay * MS);
        }
        let admitted = traffic(&world, &[0, 1, 2], 5_000, 2).await;
        let most = most_in_a_window(&admitted, 2_000);
        assert!(most <= limit, "{most} of {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_back_is_at_most_a_lease_periods_worth() {
    // Without leases the same traffic gets the whole limit in each window; with them what a lease
    // spends is dated up to a period late, so a window loses at most a period's spending.
    let (limit, window, period) = (1_000, 2_000, 100);
    let policy = leased(global(&format!("{limit}/2s")), period, 100);
    let world = World::new(&[policy], 2, &LocalStage::default());
    settle().await;
    let admitted = traffic(&world, &[0, 1], 10_000, 1).await;
    let total: u64 = admitted.iter().map(|(_, units)| units).sum();
    let most = limit * (10_000 / window);
    let least = limit * 10_000 / (window + period) - limit * period / window;
    assert!(
        (least..=most).contains(&total),
        "{total} of {least}..={most}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_spends_is_handed_back_when_the_lease_ends() {
    let world = World::one(leased(global("100000/min"), 100, 100));
    let admitted = traffic(&world, &[0], 350, 4).await;
    tokio::time::sleep(150 * MS).await;
    assert_eq!(world.used(&check("a")).await, [admitted.len() as u64]);
    let stats = world.node().stats();
    assert!(
        stats.leases_granted >= 2 && stats.lease_units_returned > 0,
        "{stats:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_hands_its_leases_back() {
    let world = World::one(leased(global("100000/min"), 60_000, 100));
    traffic(&world, &[0], 200, 1).await;
    // A minute's lease begins once a minute's demand is known.
    advance(Duration::from_secs(60)).await;
    let admitted = traffic(&world, &[0], 50, 1).await;
    assert!(world.used(&check("a")).await[0] > 0);
    world.node().limiter.end_leases();
    settle().await;
    let used = world.used(&check("a")).await[0];
    let stats = world.node().stats();
    assert!(
        stats.leases_granted == 0 || stats.lease_units_returned > 0,
        "{stats:?}"
    );
    assert!(used <= 200 + admitted.len() as u64, "{used}");
}

#[tokio::test(start_paused = true)]
async fn a_cold_node_gets_its_part_of_a_hot_key() {
    let policy = leased(global("2000/10s"), 100, 500);
    let world = World::new(&[policy], 4, &LocalStage::default());
    settle().await;
    let mut first_refusal = None;
    for ms in 0..2_000_u64 {
        for _ in 0..2 {
            world.nodes[0].check(&check("a")).await;
        }
        // The cold node asks seldom, and is refused only when all is really used.
        if ms % 50 == 0 && !world.nodes[3].check(&check("a")).await.is_admitted() {
            first_refusal.get_or_insert(ms);
            break;
        }
        advance(MS).await;
        settle().await;
    }
    let executed = world.executed();
    let leases: Vec<_> = executed
        .iter()
        .filter(|e| e.is_lease && e.is_admitted)
        .collect();
    assert!(leases.len() > 3);
    let refused_at = first_refusal.expect("2,000 units are used up by then");
    assert!(
        refused_at >= 850,
        "refused at {refused_at} ms with room left"
    );
}

#[tokio::test(start_paused = true)]
async fn leases_shrink_to_nothing_near_the_ceiling() {
    let policy = leased(global("1000/10s"), 100, 500);
    let world = World::new(&[policy], 2, &LocalStage::default());
    settle().await;
    traffic(&world, &[0, 1], 1_000, 2).await;
    let executed = world.executed();
    let leases: Vec<_> = executed.iter().filter(|e| e.is_lease).collect();
    assert!(leases.len() > 3);
    for lease in &leases {
        assert!(
            lease.cost <= lease.remaining,
            "{lease:?} leaves as much to the other node"
        );
    }
    let last = leases.last().map(|lease| lease.cost);
    assert!(last < leases.iter().map(|l| l.cost).max(), "{leases:?}");
    let admitted: u64 = world.used(&check("a")).await[0];
    assert_eq!(admitted, 1_000, "the last units are taken one by one");
}

#[tokio::test(start_paused = true)]
async fn both_ceilings_are_charged_for_a_lease() {
    let policy = leased(dual("100000/min", "50000/min"), 100, 100);
    let world = World::one(policy);
    let us = check("a").region("us");
    let mut admitted = 0;
    for _ in 0..400 {
        for _ in 0..4 {
            admitted += u64::from(world.node().check(&us).await.is_admitted());
        }
        advance(MS).await;
        settle().await;
    }
    tokio::time::sleep(150 * MS).await;
    assert_eq!(world.used(&us).await, [admitted, admitted]);
    assert!(by_source(&world.node().stats(), Source::Lease) > 500);
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_leases_for_what_was_charged_for_them_is_gone() {
    let world = World::one(leased(global("100000/min"), 1_000, 100));
    traffic(&world, &[0], 1_500, 4).await;
    assert!(world.node().stats().leases_granted > 0);
    world.node().limiter.reset(&check("a")).await.unwrap();
    let next = world.node().check(&check("a")).await;
    assert_eq!(source(&next), Source::Store);
    assert!(world.used(&check("a")).await[0] >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_id_is_never_served_from_a_lease() {
    let world = World::one(leased(global("100000/min"), 100, 100));
    traffic(&world, &[0], 300, 4).await;
    let mine = world.node().check(&check("a").id("mine")).await;
    assert_eq!(source(&mine), Source::Store);
    assert!(world.executed().iter().any(|e| e.id.as_str() == "mine"));
}

#[tokio::test(start_paused = true)]
async fn no_lease_without_a_log_for_every_ceiling_or_when_switched_off() {
    let name = PolicyName::new("p").unwrap();
    let mixed = Policy::new(
        name,
        rule(Algorithm::SlidingLog, "100000/min"),
        rule(Algorithm::TokenBucket, "100000/min"),
    );
    let mut off = LocalStage::default();
    off.leases = false;
    let worlds = [
        World::one(leased(mixed.unwrap(), 100, 100)),
        World::new(
            &[leased(dual("100000/min", "100000/min"), 100, 100)],
            1,
            &off,
        ),
    ];
    for world in worlds {
        let us = check("a").region("us");
        for _ in 0..300 {
            for _ in 0..4 {
                assert!(world.node().check(&us).await.is_admitted());
            }
            advance(MS).await;
        }
        assert_eq!(world.node().stats().leases_granted, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_lane_and_a_lease_ride_in_one_call() {
    let world = World::one(leased(global("1000000/min"), 100, 100));
    world.node().weather(|w| w.delay = MS);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..1_000 {
        let limiter = world.node().limiter.clone();
        asking.spawn(async move {
            let mut degraded = 0;
            for _ in 0..60 {
                let decision = limiter.check(&check("hot")).await.unwrap();
                degraded += usize::from(decision.facts().degraded);
                tokio::time::sleep(MS).await;
            }
            degraded
        });
    }
    let degraded: usize = asking.join_all().await.into_iter().sum();
    assert!(world.executed().iter().any(|e| e.is_lease), "leases ride");
    assert_eq!(degraded, 0);
}
