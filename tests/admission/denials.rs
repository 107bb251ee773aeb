//! Remembered denials: whom they block, for how long, and what ends them.

use std::time::Duration;

use tidegate::admission::LocalStage;
use tidegate::model::{Allowance, Micros, Override, Policies, Refund, Region, Source, Subject};
use tokio::time::advance;

use crate::world::{World, check, dual, global, settle, source};

async fn exhaust(world: &World, node: usize, check: &tidegate::Check, units: u64) {
    for _ in 0..units {
        assert!(world.nodes[node].check(check).await.is_admitted());
    }
}

#[tokio::test(start_paused = true)]
async fn a_denied_check_is_denied_again_without_a_call_until_the_very_microsecond() {
    let world = World::one(global("3/min"));
    exhaust(&world, 0, &check("a"), 3).await;
    let first = world.node().check(&check("a")).await;
    assert_eq!(
        (source(&first), first.is_admitted()),
        (Source::Store, false)
    );
    assert_eq!(first.retry_after(), Some(Micros::from_secs(60)));
    let calls = world.node().calls();
    advance(Duration::from_micros(4_000_001)).await;
    let second = world.node().check(&check("a")).await;
    assert_eq!(source(&second), Source::DenialCache);
    assert_eq!(second.retry_after(), Some(Micros::new(55_999_999)));
    assert_eq!(world.node().calls(), calls);
    let status = &second.facts().ceilings;
    assert_eq!((status.len(), status[0].remaining), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn every_path_admits_at_the_instant_that_was_named_and_not_before() {
    let world = World::one(global("1/2s"));
    exhaust(&world, 0, &check("a"), 1).await;
    assert!(!world.node().check(&check("a")).await.is_admitted());
    advance(Duration::from_micros(1_999_999)).await;
    let last = world.node().check(&check("a")).await;
    assert_eq!(source(&last), Source::DenialCache);
    assert_eq!(last.retry_after(), Some(Micros::new(1)));
    advance(Duration::from_micros(1)).await;
    assert!(world.node().check(&check("a")).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_regional_denial_blocks_no_other_region_and_a_global_one_blocks_all() {
    let world = World::one(dual("3/min", "2/min"));
    let (us, eu) = (check("a").region("us"), check("a").region("eu"));
    exhaust(&world, 0, &us, 2).await;
    assert!(!world.node().check(&us).await.is_admitted());
    let calls = world.node().calls();
    assert!(!world.node().check(&us).await.is_admitted());
    assert_eq!(world.node().calls(), calls, "remembered");
    assert!(world.node().check(&eu).await.is_admitted());
    let denied = world.node().check(&eu).await;
    assert_eq!(denied.binding().unwrap().scope.name(), "global");
    let calls = world.node().calls();
    for region in ["us", "eu", "ap"] {
        let denied = world.node().check(&check("a").region(region)).await;
        assert_eq!(source(&denied), Source::DenialCache, "{region}");
        assert!(!denied.is_admitted());
    }
    assert_eq!(world.node().calls(), calls);
    assert!(
        world
            .node()
            .check(&check("b").region("us"))
            .await
            .is_admitted()
    );
}

#[tokio::test(start_paused = true)]
async fn a_cold_node_asks_the_store_and_is_denied_what_is_exhausted() {
    let world = World::new(&[global("3/min")], 2, &LocalStage::default());
    exhaust(&world, 0, &check("a"), 3).await;
    let cold = world.nodes[1].check(&check("a")).await;
    assert_eq!((source(&cold), cold.is_admitted()), (Source::Store, false));
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_acts_on_the_next_check() {
    let world = World::one(global("3/min"));
    exhaust(&world, 0, &check("a"), 3).await;
    for _ in 0..2 {
        assert!(!world.node().check(&check("a")).await.is_admitted());
    }
    let raised = Policies::new([global("4/min")]).unwrap();
    world.node().limiter.replace_policies(raised).unwrap();
    assert!(world.node().check(&check("a")).await.is_admitted());
    let denied = world.node().check(&check("a")).await;
    assert_eq!(denied.facts().ceilings[0].limit, 4);
}

#[tokio::test(start_paused = true)]
async fn a_lowered_limit_acts_on_the_next_check_and_reports_itself() {
    let world = World::one(global("100/min"));
    exhaust(&world, 0, &check("a"), 20).await;
    let lowered = Policies::new([global("10/min")]).unwrap();
    world.node().limiter.replace_policies(lowered).unwrap();
    let denied = world.node().check(&check("a")).await;
    assert!(!denied.is_admitted());
    let ceiling = &denied.facts().ceilings[0];
    assert_eq!((ceiling.limit, ceiling.remaining), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn policies_that_change_elsewhere_leave_a_denial_as_it_is() {
    let world = World::one(global("3/min"));
    exhaust(&world, 0, &check("a"), 3).await;
    assert!(!world.node().check(&check("a")).await.is_admitted());
    let described = global("3/min").with_description("for people");
    world
        .node()
        .limiter
        .replace_policies(Policies::new([described]).unwrap())
        .unwrap();
    let denied = world.node().check(&check("a")).await;
    assert_eq!(source(&denied), Source::DenialCache);
}

#[tokio::test(start_paused = true)]
async fn a_denial_under_a_low_override_blocks_no_higher_one() {
    let with = |rate: &str| {
        let allowance = Some(Allowance::Limited(rate.parse().unwrap()));
        let differs = Override {
            global: allowance,
            ..Override::default()
        };
        let overrides = [(Subject::new("a").unwrap(), differs)].into();
        global("100/min").with_overrides(overrides).unwrap()
    };
    let world = World::one(with("2/min"));
    exhaust(&world, 0, &check("a"), 2).await;
    for _ in 0..2 {
        assert!(!world.node().check(&check("a")).await.is_admitted());
    }
    let higher = Policies::new([with("50/min")]).unwrap();
    world.node().limiter.replace_policies(higher).unwrap();
    exhaust(&world, 0, &check("a"), 48).await;
    assert!(!world.node().check(&check("a")).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_regions_new_value_acts_on_the_next_check() {
    let with = |rate: &str| {
        let allowance = Allowance::Limited(rate.parse().unwrap());
        let regions = [(Region::new("us").unwrap(), allowance)].into();
        dual("100/min", "50/min").with_regions(regions).unwrap()
    };
    let world = World::one(with("1/min"));
    let us = check("a").region("us");
    exhaust(&world, 0, &us, 1).await;
    assert!(!world.node().check(&us).await.is_admitted());
    let raised = Policies::new([with("2/min")]).unwrap();
    world.node().limiter.replace_policies(raised).unwrap();
    assert!(world.node().check(&us).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_a_denial_at_once_here_and_with_its_news_elsewhere() {
    let world = World::new(&[global("3/min")], 2, &LocalStage::default());
    settle().await;
    exhaust(&world, 0, &check("a"), 3).await;
    for node in &world.nodes {
        for _ in 0..2 {
            assert!(!node.check(&check("a")).await.is_admitted());
        }
    }
    world.node().limiter.reset(&check("a")).await.unwrap();
    assert!(world.node().check(&check("a")).await.is_admitted());
    let elsewhere = world.nodes[1].check(&check("a")).await;
    assert_eq!(source(&elsewhere), Source::DenialCache, "no news yet");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(world.nodes[1].check(&check("a")).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_refund_ends_a_denial_at_once_here_and_with_its_news_elsewhere() {
    let world = World::new(&[dual("3/min", "3/min")], 2, &LocalStage::default());
    settle().await;
    let us = check("a").region("us");
    let first = world.node().check(&us.clone().id("mine")).await;
    assert!(first.is_admitted());
    exhaust(&world, 0, &us, 2).await;
    for node in &world.nodes {
        assert!(!node.check(&us).await.is_admitted());
    }
    let refund = Refund::new("p", "a", "mine").region("us");
    world.node().limiter.refund(&refund).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(world.nodes[1].check(&us).await.is_admitted());
    assert!(!world.node().check(&us).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_reset_whose_news_is_lost_is_seen_elsewhere_within_the_longest_trust() {
    let stage = LocalStage::default();
    let world = World::new(&[global("3/min")], 2, &stage);
    settle().await;
    world.nodes[1].weather(|w| w.loses_news = true);
    exhaust(&world, 0, &check("a"), 3).await;
    assert!(!world.nodes[1].check(&check("a")).await.is_admitted());
    world.node().limiter.reset(&check("a")).await.unwrap();
    let trust = Duration::from(stage.denial_trust_max);
    advance(trust - Duration::from_micros(1)).await;
    let last = world.nodes[1].check(&check("a")).await;
    assert_eq!(source(&last), Source::DenialCache);
    advance(Duration::from_micros(1)).await;
    assert!(world.nodes[1].check(&check("a")).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_id_that_was_admitted_is_admitted_again_whatever_is_denied_now() {
    let world = World::new(&[global("3/min")], 2, &LocalStage::default());
    assert!(
        world.nodes[1]
            .check(&check("a").id("job-7"))
            .await
            .is_admitted()
    );
    exhaust(&world, 0, &check("a"), 2).await;
    for _ in 0..2 {
        assert!(!world.node().check(&check("a")).await.is_admitted());
    }
    assert!(
        world
            .node()
            .check(&check("a").id("job-7"))
            .await
            .is_admitted()
    );
    assert!(
        !world
            .node()
            .check(&check("a").id("job-8"))
            .await
            .is_admitted()
    );
    assert_eq!(world.used(&check("a")).await, [3]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_cost_refuses_no_smaller_one() {
    let world = World::one(global("10/min"));
    exhaust(&world, 0, &check("a").cost(5), 1).await;
    for _ in 0..3 {
        assert!(!world.node().check(&check("a").cost(8)).await.is_admitted());
    }
    let never = world.node().check(&check("a").cost(11)).await;
    assert!(never.is_never());
    assert!(world.node().check(&check("a").cost(11)).await.is_never());
    assert!(world.node().check(&check("a").cost(3)).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_can_never_pass_costs_no_call_a_check() {
    let world = World::one(global("10/min"));
    for cost in 11..200 {
        assert!(world.node().check(&check("a").cost(cost)).await.is_never());
    }
    assert_eq!(world.node().calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_denied_before_a_reset_and_heard_after_it_is_not_believed() {
    let world = World::one(global("3/min"));
    exhaust(&world, 0, &check("a"), 3).await;
    world
        .node()
        .weather(|w| w.delay = Duration::from_millis(10));
    let (limiter, asked) = (world.node().limiter.clone(), check("a"));
    let denied = tokio::spawn(async move { limiter.check(&asked).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(12)).await;
    world.node().weather(|w| w.delay = Duration::ZERO);
    world.node().limiter.reset(&check("a")).await.unwrap();
    assert!(!denied.await.unwrap().is_admitted());
    assert!(world.node().check(&check("a")).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_clock_far_from_the_stores_makes_no_difference() {
    // World's store runs 200,000,000 s ahead of its nodes.
    let world = World::one(global("1/min"));
    exhaust(&world, 0, &check("a"), 1).await;
    for secs in [0, 1, 4, 30, 59] {
        let now = world.elapsed().as_secs();
        advance(Duration::from_secs(secs - now)).await;
        let denied = world.node().check(&check("a")).await;
        assert_eq!(denied.retry_after(), Some(Micros::from_secs(60 - secs)));
    }
    advance(Duration::from_secs(1)).await;
    assert!(world.node().check(&check("a")).await.is_admitted());
}
