//! Whoever answers, a denial is the store's, and so is the instant that it names.

use std::time::Duration;

use tidegate::Check;
use tidegate::admission::LocalStage;
use tidegate::model::{Algorithm, Micros, Source};

use super::{Dice, paused, policy};
use crate::world::{World, source};

/// One caller alone: every denial names the very microsecond.
fn retry_is_exact(seed: u64) {
    let mut dice = Dice(seed);
    let algorithm = *dice.pick(&Algorithm::ALL);
    let other = *dice.pick(&Algorithm::ALL);
    let (limit, secs) = (1 + dice.roll(6), 1 + dice.roll(3));
    let global = (!dice.one_in(4)).then_some((algorithm, limit));
    let region = (global.is_none() || dice.one_in(2)).then(|| (other, 1 + dice.roll(limit)));
    let policy = policy(global, region, secs);
    paused(async {
        let world = World::one(policy);
        for step in 0..40 {
            let pause = dice.roll(secs * 400_000);
            if dice.one_in(2) {
                tokio::time::advance(Duration::from_micros(pause)).await;
            }
            let check = Check::new("p", "a")
                .region(*dice.pick(&["us", "eu"]))
                .cost(1 + dice.roll(limit));
            let decision = world.node().check(&check).await;
            let what = || format!("world {seed}, step {step}: {check:?}: {decision:?}");
            assert_ne!(source(&decision), Source::Outage, "{}", what());
            let Some(wait) = decision.retry_after() else {
                continue;
            };
            assert!(wait > Micros::ZERO, "{}", what());
            if !dice.one_in(3) || source(&decision) == Source::NodeCeiling {
                continue;
            }
            let wait = Duration::from(wait);
            tokio::time::advance(wait - Duration::from_micros(1)).await;
            let before = world.node().check(&check).await;
            assert!(!before.is_admitted(), "{} then {before:?}", what());
            tokio::time::advance(Duration::from_micros(1)).await;
            let at = world.node().check(&check).await;
            assert!(at.is_admitted(), "{} then {at:?}", what());
        }
    });
}

#[test]
fn retry_after_is_exact_whoever_answers() {
    (0..3_000).for_each(retry_is_exact);
}

/// Many nodes and costs: a remembered denial may name an instant that others have moved on, but it
/// denies nothing that the store would admit, and names none that is too late.
fn remembered_denials_are_true(seed: u64) {
    let mut dice = Dice(seed);
    let (limit, secs) = (1 + dice.roll(8), 1 + dice.roll(3));
    let algorithm = *dice.pick(&Algorithm::ALL);
    let region = dice.one_in(2).then(|| (algorithm, 1 + dice.roll(limit)));
    let policy = policy(Some((algorithm, limit)), region, secs);
    paused(async {
        let world = World::new(&[policy], 3, &LocalStage::default());
        for step in 0..60 {
            if dice.one_in(2) {
                let pause = dice.roll(secs * 200_000);
                tokio::time::advance(Duration::from_micros(pause)).await;
            }
            let check = Check::new("p", "a")
                .region(*dice.pick(&["us", "eu"]))
                .cost(1 + dice.roll(limit + 1));
            let node = dice.roll(3) as usize;
            let truth = world.peek(&check).await;
            let decision = world.nodes[node].check(&check).await;
            let what = || format!("world {seed}, step {step}: {check:?}: {decision:?}, {truth:?}");
            if source(&decision) == Source::NodeCeiling {
                continue;
            }
            assert_eq!(decision.is_admitted(), truth.is_admitted(), "{}", what());
            assert_eq!(decision.is_never(), truth.is_never(), "{}", what());
            assert!(decision.retry_after() <= truth.retry_after(), "{}", what());
        }
    });
}

#[test]
fn remembered_denials_deny_only_what_the_store_would_and_never_for_too_long() {
    (0..3_000).for_each(remembered_denials_are_true);
}
