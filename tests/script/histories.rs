//! Random histories against the brute-force model, by the scripts alone.

use std::sync::Arc;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use super::bare::Bare;
use super::case::{self, Shape};
use super::judge;
use super::server::Server;

fn hold(cases: u32, shape: Shape) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = Arc::new(runtime.block_on(async { Bare::on(Server::start().await) }));
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&case::strategy(shape), |case| {
        let judged = runtime.block_on(judge::judge(&store, &case));
        judged.map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, case)) => panic!("{reason}\n{case:?}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_scripts_answer_as_the_model_does() {
    hold(2_000, Shape::default());
}

#[test]
fn the_scripts_answer_as_the_model_does_for_short_windows_and_large_numbers() {
    hold(1_000, Shape::extreme());
}
