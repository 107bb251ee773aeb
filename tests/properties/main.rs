//! The promises, over any history: what a store answers is what the brute-force model answers,
//! and what each promise says holds of it.

#[path = "../common/mod.rs"]
mod common;

mod case;
mod judge;

use common::stores::{Fixture, cluster, memory};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use case::Shape;

/// Runs `cases` random histories (times `TIDEGATE_CASES_TIMES`, for a longer search); fails with
/// the smallest that breaks.
fn hold<F: Fixture>(cases: u32, shape: Shape) {
    let times = std::env::var("TIDEGATE_CASES_TIMES");
    let times = times.map_or(1, |n| n.parse::<u32>().expect("a whole number of times"));
    let config = Config {
        cases: cases.saturating_mul(times),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    let store = F::store();
    let mut runner = TestRunner::new(config);
    let result = runner.run(&case::strategy(shape), |case| {
        F::runtime()
            .block_on(judge::judge(&store, &case))
            .map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, case)) => panic!("{reason}\n{case:?}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_promises_hold_in_memory() {
    hold::<memory>(20_000, Shape::default());
}

#[test]
fn the_promises_hold_in_memory_for_short_windows_and_large_numbers() {
    hold::<memory>(5_000, Shape::extreme());
}

#[test]
fn the_promises_hold_on_a_cluster() {
    hold::<cluster>(2_000, Shape::default());
}
