//! Reports on windows, miscounts and several ceilings. The number is that project's own issue.

use std::sync::Arc;

use tidegate::model::{Algorithm, Micros};
use tidegate::store::Store;

use crate::common::probe::{Probe, Reading, T0, at, fresh, global, named, region, s};

pub async fn redisson_2931_a_full_budget_does_not_pass_twice_across_a_boundary<S: Store>(
    store: Arc<S>,
) {
    let probe = Probe::new(&store, "redisson", [global(Algorithm::SlidingLog, "5/60s")]);
    assert!(probe.charge(at(59.9), 5).await.is_admitted());
    let denied = probe.charge(at(60.1), 5).await;
    assert_eq!(denied.wait(), Some(s(119.9 - 60.1)));
    assert!(!probe.charge(at(119.899_999), 5).await.is_admitted());
    assert!(probe.charge(at(119.9), 5).await.is_admitted());
}

pub async fn ratelimit_js_39_a_first_request_is_admitted<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "first", [global(algorithm, "1/10s")]);
        assert!(probe.charge(T0, 1).await.is_admitted(), "{algorithm}");
        assert!(!probe.charge(T0, 1).await.is_admitted(), "{algorithm}");
    }
}

pub async fn ratelimit_js_pr157_every_path_agrees_on_the_last_of_ten<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let one_by_one = Probe::new(&store, "paths", [global(algorithm, "10/min")]);
        assert_eq!(one_by_one.admitted(at(0.0), 9).await, 9);
        assert!(
            one_by_one.peek(at(0.0), 1).await.is_admitted(),
            "{algorithm}"
        );
        assert!(
            one_by_one.charge(at(0.0), 1).await.is_admitted(),
            "{algorithm}"
        );
        assert!(
            !one_by_one.peek(at(0.0), 1).await.is_admitted(),
            "{algorithm}"
        );
        assert!(
            !one_by_one.charge(at(0.0), 1).await.is_admitted(),
            "{algorithm}"
        );

        let batched = Probe::new(&store, "paths", [global(algorithm, "10/min")]);
        let eleven = (0..11).map(|_| fresh(1)).collect();
        let outcomes = batched.batch(at(0.0), eleven).await;
        let admitted = outcomes.iter().map(|o| o.is_admitted());
        assert_eq!(admitted.filter(|a| *a).count(), 10, "{algorithm}");
        assert!(!outcomes[10].is_admitted());

        let at_once = Probe::new(&store, "paths", [global(algorithm, "10/min")]);
        assert!(
            at_once.charge(at(0.0), 10).await.is_admitted(),
            "{algorithm}"
        );
        let known = Probe::new(&store, "paths", [global(algorithm, "10/min")]);
        assert!(known.request(at(0.0), named("ten", 10)).await.is_admitted());
        assert!(known.request(at(0.0), named("ten", 10)).await.is_admitted());
    }
}

pub async fn gubernator_118_a_steady_drip_leaks_steadily<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "drip", [global(Algorithm::LeakyBucket, "3/s")]);
    let mut served = Vec::new();
    for n in 0..200_u64 {
        let now = T0 + Micros::from_millis(100 * n);
        let outcome = probe.charge(now, 1).await;
        if outcome.is_admitted() {
            served.push(now + outcome.ceilings[0].delay.unwrap());
        }
    }
    // Three of burst, then three a second for 19.9 s.
    assert_eq!(served.len(), 3 + 59);
    for pair in served.windows(2) {
        let gap = pair[1].since(pair[0]);
        assert!(
            gap >= Micros::new(333_332),
            "{gap} s between two at the backend"
        );
    }
}

pub async fn sockudo_251_ten_thousand_in_one_instant_count_as_ten_thousand<S: Store>(
    store: Arc<S>,
) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "instant", [global(algorithm, "10000/min")]);
        for n in 1..=40_u64 {
            let outcomes = probe
                .batch(at(1.0), (0..250).map(|_| fresh(1)).collect())
                .await;
            assert!(outcomes.iter().all(|o| o.is_admitted()), "{algorithm}");
            assert_eq!(outcomes[249].remaining(), [10_000 - 250 * n], "{algorithm}");
        }
        assert!(!probe.charge(at(1.0), 1).await.is_admitted(), "{algorithm}");
    }
}

pub async fn stoplight_899_an_id_that_comes_again_after_its_window_is_counted_again<S: Store>(
    store: Arc<S>,
) {
    let ceilings = [
        global(Algorithm::SlidingLog, "3/min"),
        region(Algorithm::SlidingLog, "3/min"),
    ];
    let probe = Probe::new(&store, "reused", ceilings);
    for n in 0..4_u32 {
        let now = at(60.0 * f64::from(n));
        // Its own entry of the window before is still there to be met.
        assert!(probe.request(now, named("seq-1", 2)).await.is_admitted());
        let again = probe.request(now + s(1.0), named("seq-2", 1)).await;
        assert!(!again.repeated);
        assert_eq!(again.remaining(), [0, 0], "round {n}");
        assert!(!probe.charge(now + s(2.0), 1).await.is_admitted());
    }
}

pub async fn kong_pr11859_what_is_sent_twice_counts_once<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "sync", [global(algorithm, "10/min")]);
        for n in 0..5_u64 {
            let id = format!("hit-{n}");
            for _ in 0..2 {
                let outcome = probe.request(at(0.0), named(&id, 1)).await;
                assert_eq!(outcome.remaining(), [9 - n], "{algorithm}");
            }
        }
    }
}

pub async fn node_ratelimiter_43_denials_do_not_count<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "denied", [global(Algorithm::SlidingLog, "2/3s")]);
    assert!(probe.charge(at(0.0), 1).await.is_admitted());
    assert!(probe.charge(at(0.1), 1).await.is_admitted());
    assert!(!probe.charge(at(0.2), 1).await.is_admitted());
    assert!(!probe.charge(at(2.999_999), 1).await.is_admitted());
    assert!(probe.charge(at(3.0), 1).await.is_admitted());
}

pub async fn fastify_pr322_denied_or_admitted_hits_do_not_keep_a_window_open<S: Store>(
    store: Arc<S>,
) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "open", [global(algorithm, "3/10s")]);
        let mut admitted = 0;
        // Ten hits a second for five windows: each window has its budget, no more, no less.
        for n in 0..500_u32 {
            let outcome = probe.charge(at(f64::from(n) / 10.0), 1).await;
            admitted += usize::from(outcome.is_admitted());
        }
        let expected = match algorithm {
            Algorithm::SlidingLog | Algorithm::FixedWindow => 15..=15,
            // Three at once, then one every 3 1/3 s.
            Algorithm::TokenBucket | Algorithm::LeakyBucket => 17..=17,
            // Parts of a unit that still overlap count as one.
            Algorithm::SlidingCounter => 10..=15,
            unknown => panic!("nobody said what {unknown} admits"),
        };
        assert!(expected.contains(&admitted), "{algorithm}: {admitted}");
    }
}

pub async fn relay_4787_a_denial_uses_up_no_ceiling<S: Store>(store: Arc<S>) {
    for wide in Algorithm::ALL {
        for narrow in Algorithm::ALL {
            let ceilings = [global(wide, "10/min"), region(narrow, "1/min")];
            let probe = Probe::new(&store, "relay", ceilings);
            assert_eq!(probe.admitted(at(0.0), 20).await, 1);
            let left = probe.peek(at(0.0), 1).await.remaining();
            assert_eq!(left, [9, 0], "{wide}, {narrow}");
        }
    }
}

pub async fn governor_167_a_denial_by_the_global_ceiling_uses_no_region<S: Store>(store: Arc<S>) {
    for wide in Algorithm::ALL {
        for narrow in Algorithm::ALL {
            let ceilings = [global(wide, "1/min"), region(narrow, "10/min")];
            let us = Probe::new(&store, "governor", ceilings);
            assert_eq!(us.admitted(at(0.0), 20).await, 1);
            let eu = us.region("eu");
            assert_eq!(eu.admitted(at(0.0), 20).await, 0);
            assert_eq!(us.peek(at(0.0), 1).await.remaining(), [0, 9]);
            assert_eq!(
                eu.peek(at(0.0), 1).await.remaining(),
                [0, 10],
                "{wide}, {narrow}"
            );
        }
    }
}
