//! Promise 3: denied at t with retry r, alone, the same request is admitted at t + r and denied
//! one microsecond before.

use std::sync::Arc;

use tidegate::model::{Algorithm, Ceiling, Micros, Quota, UNITS_MAX, WINDOW_MAX};
use tidegate::store::Store;

use crate::common::probe::{Probe, Reading, T0, at, fresh, global, region, s, with_burst};

/// Fills it with a traffic of its own, and tries every wait that it is told.
async fn tried<S: Store>(probe: &Probe<S>, most: u64) -> usize {
    let mut waits = 0;
    for n in 0..40_u64 {
        // Instants and costs without a pattern, the same in every run.
        let now = at((n * n * 37 % 211) as f64 / 100.0 + n as f64 * 2.3);
        let cost = 1 + (n * 7 + 3) % most;
        let outcome = probe.charge(now, cost).await;
        if let Some(wait) = outcome.wait() {
            probe.assert_exact(now, cost, wait).await;
            waits += 1;
        }
        assert_eq!(outcome.is_admitted(), outcome.wait().is_none());
    }
    waits
}

pub async fn a_wait_is_exact_for_every_algorithm_and_mix_of_ceilings<S: Store>(store: Arc<S>) {
    let ceilings = |algorithm| [global(algorithm, "17/min"), region(algorithm, "11/90s")];
    for wide in Algorithm::ALL {
        for narrow in Algorithm::ALL {
            let [of_all, _] = ceilings(wide);
            let [_, of_region] = ceilings(narrow);
            let probe = Probe::new(&store, "mix", [of_all, of_region]);
            let waits = tried(&probe, 6).await;
            assert!(waits >= 5, "{wide} and {narrow}: only {waits} denials");
        }
        let alone = with_burst(global(wide, "7/min"), 9);
        let waits = tried(&Probe::new(&store, "alone", [alone]), 7).await;
        assert!(waits >= 5, "{wide}: only {waits} denials");
    }
}

pub async fn a_large_request_waits_exactly_in_a_log_of_thousands<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "large", [global(Algorithm::SlidingLog, "4000/min")]);
    for n in 0..16_u64 {
        let batch = (0..250).map(|_| fresh(1)).collect();
        let outcomes = probe.batch(at(n as f64), batch).await;
        assert!(outcomes.iter().all(|o| o.is_admitted()));
    }
    for (cost, oldest_gone) in [
        (1, 0),
        (250, 0),
        (251, 1),
        (2_000, 7),
        (2_001, 8),
        (4_000, 15),
    ] {
        let now = at(20.0);
        let wait = probe.charge(now, cost).await.wait().unwrap();
        assert_eq!(wait, s(40.0 + f64::from(oldest_gone)), "cost {cost}");
        probe.assert_exact(now, cost, wait).await;
    }
}

pub async fn waits_are_exact_where_products_exceed_a_double<S: Store>(store: Arc<S>) {
    let quotas = [
        (UNITS_MAX, Micros::from_secs(86_400)),
        (UNITS_MAX - 1, WINDOW_MAX),
        (999_999_999_989, Micros::new(86_399_999_983)),
        (7, WINDOW_MAX),
    ];
    for algorithm in Algorithm::ALL {
        for (limit, window) in quotas {
            let ceiling = Ceiling {
                quota: Quota::new(limit, window).unwrap(),
                ..global(algorithm, "1/s")
            };
            let probe = Probe::new(&store, "wide", [ceiling]);
            let first = limit / 7 * 4;
            assert!(probe.charge(T0, first).await.is_admitted());
            assert!(
                probe
                    .charge(T0 + s(1.000_001), limit / 7)
                    .await
                    .is_admitted()
            );
            for cost in [limit / 2, limit - 1, limit] {
                let now = T0 + s(5.5);
                let wait = probe.charge(now, cost).await.wait();
                let wait = wait.unwrap_or_else(|| panic!("{algorithm} {limit}: room for {cost}"));
                probe.assert_exact(now, cost, wait).await;
            }
        }
    }
}
