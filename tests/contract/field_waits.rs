//! Reports on waits and resets. The number is that project's own issue.

use std::sync::Arc;

use tidegate::model::{Algorithm, Ceiling, Micros, Quota};
use tidegate::store::Store;

use crate::common::probe::{Probe, Reading, T0, at, global, s};

pub async fn limits_200_the_oldest_entry_frees_first<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "limits", [global(Algorithm::SlidingLog, "2/60s")]);
    assert!(probe.charge(at(0.0), 1).await.is_admitted());
    assert!(probe.charge(at(10.0), 1).await.is_admitted());
    let denied = probe.charge(at(20.0), 1).await;
    assert_eq!(denied.wait(), Some(s(40.0)));
    assert_eq!(denied.reset(), [s(50.0)]);
    assert_eq!(probe.peek(at(20.0), 2).await.wait(), Some(s(50.0)));
}

pub async fn redis_cell_56_a_wait_is_never_rounded_down<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let ceiling = Ceiling {
            quota: Quota::new(1, Micros::from_millis(1_500)).unwrap(),
            ..global(algorithm, "1/s")
        };
        let probe = Probe::new(&store, "cell", [ceiling]);
        assert!(probe.charge(T0, 1).await.is_admitted());
        let full = probe.charge(T0, 1).await.wait().unwrap();
        probe.assert_exact(T0, 1, full).await;
        let part = probe.charge(T0 + s(1.1), 1).await.wait().unwrap();
        assert_eq!(part, full.saturating_sub(s(1.1)), "{algorithm}");
        if algorithm != Algorithm::SlidingCounter {
            assert_eq!((full, part), (s(1.5), s(0.4)), "{algorithm}");
            // What `Retry-After` says is never less.
            assert_eq!((full.ceil_secs(), part.ceil_secs()), (2, 1));
        }
    }
}

pub async fn flask_limiter_62_a_wait_is_between_a_microsecond_and_the_window<S: Store>(
    store: Arc<S>,
) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "flask", [global(algorithm, "2/10s")]);
        assert_eq!(probe.admitted(at(0.0), 2).await, 2);
        let mut end = None;
        for n in 0..40_u64 {
            let now = T0 + Micros::from_millis(100 * n);
            let wait = probe.charge(now, 1).await.wait().unwrap();
            assert!(wait > Micros::ZERO, "{algorithm}");
            let most = match algorithm {
                Algorithm::SlidingCounter => s(20.0),
                _ => s(10.0),
            };
            assert!(wait <= most, "{algorithm}: {wait}");
            // Asking again and again moves nothing.
            assert_eq!(*end.get_or_insert(now + wait), now + wait, "{algorithm}");
        }
    }
}

pub async fn caddy_ratelimit_22_a_wait_is_the_true_wait<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "caddy", [global(algorithm, "4/min")]);
        for seconds in [1.0, 5.0, 9.0, 22.0] {
            probe.charge(at(seconds), 1).await;
        }
        for (seconds, cost) in [(22.0, 1), (22.0, 4), (23.5, 2), (30.000_001, 3)] {
            let denied = probe.charge(at(seconds), cost).await;
            if let Some(wait) = denied.wait() {
                probe.assert_exact(at(seconds), cost, wait).await;
            }
            assert!(
                denied.wait().is_some() || algorithm.has_burst(),
                "{algorithm}"
            );
        }
    }
}

pub async fn gubernator_pr110_the_reset_counts_the_whole_backlog<S: Store>(store: Arc<S>) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let probe = Probe::new(&store, "backlog", [global(algorithm, "60/min")]);
        assert_eq!(probe.admitted(at(0.0), 10).await, 10);
        assert_eq!(
            probe.peek(at(0.0), 1).await.reset(),
            [s(10.0)],
            "{algorithm}"
        );
        assert_eq!(
            probe.peek(at(4.5), 1).await.reset(),
            [s(5.5)],
            "{algorithm}"
        );
    }
    let log = Probe::new(&store, "backlog", [global(Algorithm::SlidingLog, "60/min")]);
    for n in 0..10_u32 {
        log.charge(at(f64::from(n)), 1).await;
    }
    assert_eq!(log.peek(at(9.0), 1).await.reset(), [s(60.0)]);
}

pub async fn bucket4j_88_a_wait_counts_what_has_refilled_already<S: Store>(store: Arc<S>) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let probe = Probe::new(&store, "refilled", [global(algorithm, "1/s")]);
        assert!(probe.charge(at(0.0), 1).await.is_admitted());
        assert_eq!(
            probe.charge(at(0.2), 1).await.wait(),
            Some(s(0.8)),
            "{algorithm}"
        );
    }
}

pub async fn python_redis_cache_45_microseconds_sort_as_numbers<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "sorted", [global(Algorithm::SlidingLog, "3/min")]);
    // As text, .999 would come after .1000 and .001000.
    for us in [999, 1_000, 1_001] {
        probe.charge(T0 + Micros::new(us), 1).await;
    }
    let now = T0 + s(1.0);
    for (cost, us) in [(1, 999), (2, 1_000), (3, 1_001)] {
        let end = T0 + s(60.0) + Micros::new(us);
        assert_eq!(probe.charge(now, cost).await.wait(), Some(end.since(now)));
    }
}

pub async fn inngest_pr3290_instants_of_sixteen_digits_stay_apart<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "digits", [global(Algorithm::SlidingLog, "200/min")]);
    // Printed with 14 digits, a hundred of these would be one.
    let start = T0 + Micros::new(123_456);
    for n in 0..200 {
        assert!(probe.charge(start + Micros::new(n), 1).await.is_admitted());
    }
    let now = start + s(1.0);
    for n in [0, 1, 98, 99, 100, 199] {
        let wait = probe.charge(now, n + 1).await.wait();
        assert_eq!(wait, Some((start + s(60.0) + Micros::new(n)).since(now)));
    }
}
