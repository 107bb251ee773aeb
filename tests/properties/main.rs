//! The promises, over any history: what a store answers is what the brute-force model answers,
//! and what each promise says holds of it.

#[path = "../common/mod.rs"]
mod common;

mod case;
mod judge;

use common::stores::{Fixture, memory};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use case::Shape;

/// Runs `cases` random histories; fails with the smallest that breaks.
fn hold<F: Fixture>(cases: u32, shape: Shape) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    let store = F::run(|store| async { store });
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
