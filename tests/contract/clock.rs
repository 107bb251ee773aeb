//! Clocks that step back, stand still for hours, or count what is very short or very long.

use std::sync::Arc;

use tidegate::model::{Algorithm, Ceiling, Micros, Quota, Timestamp, WINDOW_MAX, WINDOW_MIN};
use tidegate::store::Store;

use crate::common::probe::{Probe, Reading, T0, at, global, region, s};

const HOUR: f64 = 3_600.0;

pub async fn go_limiter_41_a_step_back_locks_nobody_out_for_more_than_a_window<S: Store>(
    store: Arc<S>,
) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "back", [global(algorithm, "5/min")]);
        assert_eq!(probe.admitted(at(HOUR), 5).await, 5);
        // Denied all along, which must not keep it locked.
        for n in 0..50_i32 {
            probe.charge(at(f64::from(n)), 1).await;
        }
        let free = probe.peek(at(60.0), 1).await;
        let faded = match algorithm {
            // The window that was full is now the previous one, and fades.
            Algorithm::SlidingCounter => probe.peek(at(72.0), 1).await,
            _ => free,
        };
        assert!(faded.is_admitted(), "{algorithm}: {faded:?}");
    }
}

pub async fn a_step_back_admits_nothing_more<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let both = [global(algorithm, "5/min"), region(algorithm, "5/min")];
        for back in [0.000_001, 1.0, 59.0, 60.0, 90.0, HOUR] {
            let probe = Probe::new(&store, "more", both);
            assert_eq!(probe.admitted(at(HOUR), 5).await, 5);
            let now = at(HOUR - back);
            assert_eq!(
                probe.admitted(now, 3).await,
                0,
                "{algorithm}, {back} s back"
            );
            assert_eq!(probe.peek(now, 1).await.remaining(), [0, 0]);
        }
    }
}

pub async fn a_step_back_by_a_microsecond_changes_nothing<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "jitter", [global(Algorithm::SlidingLog, "100/min")]);
    // Two clocks in turn, one a microsecond behind: what each sees is complete.
    for n in 0..50_u64 {
        let ahead = T0 + Micros::new(10 * n + 1);
        let behind = T0 + Micros::new(10 * n);
        assert_eq!(probe.charge(ahead, 1).await.remaining(), [99 - 2 * n]);
        assert_eq!(probe.charge(behind, 1).await.remaining(), [98 - 2 * n]);
    }
    assert!(!probe.charge(T0 + Micros::new(500), 1).await.is_admitted());
}

pub async fn calls_that_overtake_each_other_date_nothing_back<S: Store>(store: Arc<S>) {
    let both = [
        global(Algorithm::SlidingLog, "4/min"),
        region(Algorithm::SlidingLog, "4/min"),
    ];
    let probe = Probe::new(&store, "overtaken", both);
    assert!(probe.charge(at(1.1), 2).await.is_admitted());
    assert!(probe.charge(at(1.0), 1).await.is_admitted());
    assert!(probe.charge(at(1.05), 1).await.is_admitted());
    // Seen from before and after the latest charge, each unit is free a minute after its own.
    for now in [1.02, 1.1, 30.0] {
        for (cost, free) in [(1, 61.0), (2, 61.05), (3, 61.1), (4, 61.1)] {
            let denied = probe.charge(at(now), cost).await;
            assert_eq!(denied.wait(), Some(s(free - now)), "{cost} at {now}");
            assert_eq!(probe.peek(at(now), cost).await.wait(), denied.wait());
            assert_eq!(denied.reset(), [s(61.1 - now), s(61.1 - now)]);
            probe.assert_exact(at(now), cost, s(free - now)).await;
        }
    }
}

pub async fn bucket4j_51_twelve_idle_hours_make_one_full_budget<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "idle", [global(algorithm, "5/s")]);
        assert_eq!(probe.admitted(at(0.5), 6).await, 5);
        let now = at(12.0 * HOUR + 0.5);
        let idle = probe.peek(now, 1).await;
        assert_eq!(idle.remaining(), [5], "{algorithm}");
        assert_eq!(idle.reset(), [Micros::ZERO], "{algorithm}");
        assert_eq!(probe.admitted(now, 20).await, 5, "{algorithm}");
    }
}

fn windowed(algorithm: Algorithm, limit: u64, window: Micros) -> Ceiling {
    Ceiling {
        quota: Quota::new(limit, window).unwrap(),
        ..global(algorithm, "1/s")
    }
}

pub async fn traefik_8235_the_longest_window_is_kept<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "year", [windowed(algorithm, 3, WINDOW_MAX)]);
        let now = at(1.0);
        assert_eq!(probe.admitted(now, 4).await, 3, "{algorithm}");
        let wait = probe.charge(now, 3).await.wait().unwrap();
        assert!(wait > Micros::from_secs(86_400), "{algorithm}: {wait}");
        assert!(wait <= WINDOW_MAX.saturating_add(WINDOW_MAX));
        probe.assert_exact(now, 3, wait).await;
    }
}

pub async fn aspnetcore_redis_pr68_windows_below_a_second_are_kept_to_the_microsecond<S: Store>(
    store: Arc<S>,
) {
    for algorithm in Algorithm::ALL {
        for window in [WINDOW_MIN, Micros::new(1_500), Micros::new(333_333)] {
            let probe = Probe::new(&store, "short", [windowed(algorithm, 2, window)]);
            assert_eq!(probe.admitted(T0, 3).await, 2, "{algorithm} {window}");
            let wait = probe.charge(T0, 2).await.wait().unwrap();
            probe.assert_exact(T0, 2, wait).await;
            assert_eq!(
                probe.admitted(T0 + wait, 3).await,
                2,
                "{algorithm} {window}"
            );
        }
    }
}

pub async fn time_may_begin_at_zero<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "zero", [global(algorithm, "2/min")]);
        let zero = Timestamp::default();
        assert_eq!(probe.admitted(zero, 3).await, 2, "{algorithm}");
        assert!(!probe.charge(zero + s(1.0), 1).await.is_admitted());
        assert_eq!(probe.admitted(zero + s(120.0), 3).await, 2, "{algorithm}");
    }
}
