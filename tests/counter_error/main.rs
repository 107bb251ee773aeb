//! How wrong the sliding counter is against the exact log. Prints the table of docs/policies.md:
//! `cargo test --test counter_error -- --nocapture`.

#[path = "../common/mod.rs"]
mod common;

use common::probe::quota;
use common::traffic::{Arrivals, adversarial, bursty, measure, poisson};

const WINDOW_S: u64 = 60;
const WINDOWS: u64 = 60;

#[test]
fn the_estimate_is_wrong_by_no_more_than_the_table_says() {
    println!(
        "| traffic | limit | checks | wrongly admitted | wrongly denied | most over the limit |"
    );
    println!("|---|---|---|---|---|---|");
    for limit in [100_u64, 1_000] {
        let quota = quota(&format!("{limit}/min"));
        // The bounds, a little above what is measured: wrong decisions, and the worst
        // over-admission, in percent.
        let traffic: [(&str, Arrivals, f64, f64); 6] = [
            (
                "Poisson, 0.5 of the limit",
                poisson(limit, WINDOW_S, 0.5, WINDOWS),
                0.5,
                1.0,
            ),
            (
                "Poisson, 0.9 of the limit",
                poisson(limit, WINDOW_S, 0.9, WINDOWS),
                10.0,
                12.0,
            ),
            (
                "Poisson, 1.5 times the limit",
                poisson(limit, WINDOW_S, 1.5, WINDOWS),
                33.0,
                16.0,
            ),
            (
                "bursts, 0.5 of the limit",
                bursty(limit, WINDOW_S, 0.5, WINDOWS),
                13.0,
                55.0,
            ),
            (
                "bursts, 1.5 times the limit",
                bursty(limit, WINDOW_S, 1.5, WINDOWS),
                40.0,
                85.0,
            ),
            (
                "adversarial",
                adversarial(limit, WINDOW_S, WINDOWS),
                22.0,
                100.0,
            ),
        ];
        for (name, arrivals, wrong_max, over_max) in traffic {
            let error = measure(quota, &arrivals);
            let share = |n: u64| n as f64 * 100.0 / error.checks as f64;
            println!(
                "| {name} | {limit} | {} | {:.2} % | {:.2} % | {} ({:.1} %) |",
                error.checks,
                share(error.wrongly_admitted),
                share(error.wrongly_denied),
                error.most_over,
                error.over_percent(limit),
            );
            assert!(error.checks > 1_000, "{name}");
            assert!(error.wrong_percent() <= wrong_max, "{name}: {error:?}");
            assert!(error.over_percent(limit) <= over_max, "{name}: {error:?}");
            // Never twice the limit: what the fixed window lets through.
            assert!(error.most_over < limit, "{name}: {error:?}");
        }
    }
}
