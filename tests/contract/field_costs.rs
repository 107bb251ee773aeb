//! Reports on costs, limits of zero, and what denials and long logs cost. The number is that
//! project's own issue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::model::{Algorithm, Retry};
use tidegate::store::{Refunded, Store};

use crate::common::probe::{Probe, Reading, at, fresh, global, named, region, with_burst};

pub async fn ratelimit_js_111_a_cost_of_nothing_changes_nothing<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "nothing", [global(algorithm, "3/min")]);
        probe.charge(at(0.0), 1).await;
        for _ in 0..5 {
            let peek = probe.charge(at(0.0), 0).await;
            assert!(peek.is_admitted());
            assert_eq!(peek.remaining(), [2], "{algorithm}");
        }
        probe.charge(at(0.0), 2).await;
        let full = probe.charge(at(0.0), 0).await;
        assert!(full.is_admitted(), "{algorithm}: nothing always fits");
        assert_eq!(full.remaining(), [0]);
        let named = probe.request(at(0.0), named("nothing", 0)).await;
        assert!(named.is_admitted() && !named.repeated);
        assert_eq!(
            probe.refund(at(0.0), "nothing", None).await,
            Refunded::NotFound
        );
    }
}

pub async fn redis_gcra_6_a_refused_cost_consumes_nothing<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let ceiling = with_burst(global(algorithm, "300/min"), 300);
        let probe = Probe::new(&store, "gcra", [ceiling]);
        let over = probe.charge(at(0.0), 301).await;
        assert!(over.never() && over.wait().is_none(), "{algorithm}");
        let one = probe.charge(at(0.0), 1).await;
        assert!(one.is_admitted(), "{algorithm}");
        assert_eq!(one.remaining(), [299]);
        let later = probe.charge(at(0.0), 300).await;
        assert!(later.wait().is_some() && !later.never(), "{algorithm}");
    }
}

pub async fn limits_pr169_any_cost_up_to_the_limit_is_one_charge<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        for cost in [7_999, 8_000, 8_001, 1_000_000, 999_999_999_999] {
            let ceiling = global(algorithm, "1000000000000/min");
            let probe = Probe::new(&store, "large", [ceiling]);
            let outcome = probe.request(at(0.0), named("large", cost)).await;
            assert!(outcome.is_admitted(), "{algorithm} {cost}");
            assert_eq!(outcome.remaining(), [1_000_000_000_000 - cost]);
            let back = probe.refund(at(0.0), "large", None).await;
            assert_eq!(back, Refunded::Units(cost), "{algorithm} {cost}");
        }
    }
}

pub async fn limits_pr362_an_absurd_cost_changes_nothing<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "absurd", [global(algorithm, "10/min")]);
        // What -1 becomes when somebody casts it.
        for cost in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 53, 4_294_967_295] {
            assert!(
                probe.charge(at(0.0), cost).await.never(),
                "{algorithm} {cost}"
            );
        }
        assert_eq!(
            probe.peek(at(0.0), 1).await.remaining(),
            [10],
            "{algorithm}"
        );
    }
}

pub async fn express_pr380_a_limit_of_zero_denies_all<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "zero", [global(algorithm, "0/min")]);
        for cost in [1, 5] {
            let denied = probe.charge(at(0.0), cost).await;
            assert_eq!(denied.ceilings[0].retry, Some(Retry::Never), "{algorithm}");
            assert_eq!(denied.remaining(), [0]);
        }
        let both = [global(algorithm, "10/min"), region(algorithm, "0/min")];
        let probe = Probe::new(&store, "zero", both);
        assert!(probe.charge(at(0.0), 1).await.never(), "{algorithm}");
        assert_eq!(probe.peek(at(0.0), 1).await.remaining(), [10, 0]);
    }
}

pub async fn backend_ai_14210_denials_leave_no_trace<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let both = [global(algorithm, "9/min"), region(algorithm, "5/min")];
        let probe = Probe::new(&store, "trace", both);
        probe.admitted(at(0.0), 5).await;
        let before = probe.peek(at(2.0), 0).await;
        for n in 0..40_u32 {
            let now = at(1.0 + f64::from(n) / 40.0);
            let denied = probe.batch(now, (0..25).map(|_| fresh(5)).collect()).await;
            assert!(denied.iter().all(|o| !o.is_admitted()), "{algorithm}");
        }
        assert_eq!(probe.peek(at(2.0), 0).await, before, "{algorithm}");
    }
}

/// The quickest of several rounds of `calls` calls each.
async fn quickest<S: Store>(probe: &Probe<S>, cost: u64, calls: u32) -> Duration {
    let mut best = Duration::MAX;
    for round in 0..8_u32 {
        let began = Instant::now();
        for n in 0..calls {
            let now = at(100.0 + f64::from(round * calls + n) / 1e5);
            probe.charge(now, cost).await;
        }
        best = best.min(began.elapsed());
    }
    best
}

async fn log_of<S: Store>(store: &Arc<S>, entries: u64) -> Probe<S> {
    let rate = format!("{entries}/h");
    let probe = Probe::new(store, "log", [global(Algorithm::SlidingLog, &rate)]);
    let mut left = entries;
    while left > 0 {
        let n = left.min(250);
        let now = at((entries - left) as f64 / entries as f64);
        probe.batch(now, (0..n).map(|_| fresh(1)).collect()).await;
        left -= n;
    }
    assert!(!probe.charge(at(99.0), 1).await.is_admitted());
    probe
}

pub async fn limits_268_a_check_in_a_long_log_costs_no_more<S: Store>(store: Arc<S>) {
    let (short, long) = (log_of(&store, 70).await, log_of(&store, 70_000).await);
    for (few, many) in [(1, 1), (35, 35_000), (70, 70_000)] {
        let brief = quickest(&short, few, 40).await;
        let full = quickest(&long, many, 40).await;
        // A scan would cost a thousand times as much.
        assert!(
            full < brief * 20,
            "{full:?} for a cost of {many}, {brief:?} for {few}"
        );
    }
}
