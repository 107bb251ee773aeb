//! The node ceiling: floods are cut before they cost a call, and nobody else is.

use std::time::Duration;

use tidegate::admission::LocalStage;
use tidegate::model::{Algorithm, Micros, Policy, PolicyName, Source};
use tokio::time::advance;

use crate::world::{MS, World, by_source, check, global, rule, settle, source};

fn only_node_ceiling() -> LocalStage {
    let mut stage = LocalStage::off();
    stage.node_ceiling = true;
    stage
}

#[tokio::test(start_paused = true)]
async fn a_flood_that_is_not_denied_yet_is_cut_while_the_first_answers_are_out() {
    let world = World::one(global("100/min"));
    world.node().weather(|w| w.delay = 20 * MS);
    let flood: Vec<_> = (0..2_000)
        .map(|_| {
            let limiter = world.node().limiter.clone();
            tokio::spawn(async move { limiter.check(&check("a")).await.unwrap() })
        })
        .collect();
    let mut admitted = 0;
    for one in flood {
        admitted += u64::from(one.await.unwrap().is_admitted());
    }
    assert_eq!(admitted, 100);
    let stats = world.node().stats();
    assert!(by_source(&stats, Source::NodeCeiling) >= 1_800, "{stats:?}");
    assert!(world.node().calls() <= 4, "{}", world.node().calls());
}

#[tokio::test(start_paused = true)]
async fn a_steady_flood_is_cut_by_the_node_ceiling_alone() {
    let world = World::new(&[global("100/min")], 1, &only_node_ceiling());
    let mut admitted = 0;
    for _ in 0..60_000 {
        admitted += u64::from(world.node().check(&check("a")).await.is_admitted());
        advance(MS).await;
    }
    assert_eq!(admitted, 100);
    let calls = world.node().calls();
    assert!(calls <= 300, "{calls} of 60000");
}

#[tokio::test(start_paused = true)]
async fn a_denied_client_that_comes_back_when_it_was_told_finds_its_tokens() {
    let world = World::new(&[global("10/min")], 2, &only_node_ceiling());
    for _ in 0..5 {
        assert!(world.nodes[1].check(&check("a")).await.is_admitted());
    }
    advance(Duration::from_secs(30)).await;
    for _ in 0..5 {
        assert!(world.nodes[1].check(&check("a")).await.is_admitted());
    }
    let denied = world.node().check(&check("a")).await;
    assert_eq!(
        (source(&denied), denied.retry_after()),
        (Source::Store, Some(Micros::from_secs(30)))
    );
    for _ in 0..20 {
        assert!(!world.node().check(&check("a")).await.is_admitted());
    }
    advance(Duration::from_secs(30)).await;
    for _ in 0..5 {
        assert!(world.node().check(&check("a")).await.is_admitted());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_cost_uses_up_no_tokens() {
    let world = World::new(&[global("10/min")], 1, &only_node_ceiling());
    assert!(world.node().check(&check("a").cost(5)).await.is_admitted());
    for _ in 0..3 {
        assert!(!world.node().check(&check("a").cost(8)).await.is_admitted());
        assert!(
            !world
                .node()
                .check(&check("a").cost(301))
                .await
                .is_admitted()
        );
    }
    assert!(world.node().check(&check("a").cost(5)).await.is_admitted());
}

#[tokio::test(start_paused = true)]
async fn a_client_of_aligned_windows_may_meet_their_boundary_with_two_budgets() {
    let name = PolicyName::new("p").unwrap();
    let policy = Policy::new(name, rule(Algorithm::FixedWindow, "10/min"), None).unwrap();
    let world = World::one(policy);
    // The store's minute ends 20 s after its clock's anchor.
    advance(Duration::from_secs(19)).await;
    for _ in 0..10 {
        assert!(world.node().check(&check("a")).await.is_admitted());
    }
    advance(Duration::from_secs(1)).await;
    for _ in 0..10 {
        assert!(world.node().check(&check("a")).await.is_admitted());
    }
}

#[tokio::test(start_paused = true)]
async fn idle_subjects_are_swept_and_the_busy_ones_are_not() {
    let mut stage = LocalStage::default();
    stage.subjects_max = 50;
    let world = World::new(&[global("3/min")], 1, &stage);
    for n in 0..2_000 {
        assert!(
            world
                .node()
                .check(&check(&format!("k{n}")))
                .await
                .is_admitted()
        );
    }
    settle().await;
    assert!(
        world.node().stats().subjects <= 60,
        "{:?}",
        world.node().stats()
    );
    for n in 0..2_000 {
        let subject = format!("k{n}");
        for _ in 0..2 {
            assert!(world.node().check(&check(&subject)).await.is_admitted());
        }
        assert!(!world.node().check(&check(&subject)).await.is_admitted());
    }
}
