//! Limits that change at run time act on the next check, and keep what was used.

use std::sync::Arc;

use tidegate::model::{Algorithm, Ceiling};
use tidegate::store::Store;

use crate::common::probe::{Probe, Reading, at, global, region, s, with_burst};

pub async fn gubernator_37_a_lowered_limit_is_reported_from_the_next_call<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "lowered", [global(algorithm, "100/min")]);
        assert_eq!(probe.charge(at(1.0), 5).await.remaining(), [95]);
        let lowered = probe.ceilings([global(algorithm, "10/min")]);
        assert_eq!(
            lowered.charge(at(1.0), 1).await.remaining(),
            [4],
            "{algorithm}"
        );
    }
}

pub async fn limitador_522_a_lowered_or_raised_limit_never_underflows<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "under", [global(algorithm, "100/min")]);
        assert!(probe.charge(at(1.0), 100).await.is_admitted());
        let lowered = probe.ceilings([global(algorithm, "10/min")]);
        let denied = lowered.charge(at(1.0), 1).await;
        assert_eq!(denied.remaining(), [0], "{algorithm}");
        let wait = denied.wait().unwrap();
        lowered.assert_exact(at(1.0), 1, wait).await;
        let none = probe.ceilings([global(algorithm, "0/min")]);
        let never = none.charge(at(1.0), 1).await;
        assert!(never.never(), "{algorithm}");
        let raised = probe.ceilings([global(algorithm, "1000/min")]);
        let remaining = raised.charge(at(1.0), 1).await.remaining();
        // A bucket never owed more than it held when it was small.
        let bucket = algorithm.has_burst();
        assert_eq!(remaining, [if bucket { 989 } else { 899 }], "{algorithm}");
    }
}

pub async fn a_changed_window_keeps_what_was_used<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "window", [global(algorithm, "10/min")]);
        assert!(probe.charge(at(30.0), 6).await.is_admitted());
        for rate in ["10/h", "10/90s", "10/d"] {
            let changed = probe.ceilings([global(algorithm, rate)]);
            let denied = changed.charge(at(30.0), 5).await;
            assert_eq!(denied.remaining(), [4], "{algorithm} {rate}");
            let wait = denied.wait().unwrap();
            changed.assert_exact(at(30.0), 5, wait).await;
        }
    }
}

pub async fn limitador_312_a_ceiling_keeps_its_counters_when_its_values_change<S: Store>(
    store: Arc<S>,
) {
    for algorithm in Algorithm::ALL {
        let both = [global(algorithm, "10/min"), region(algorithm, "8/min")];
        let probe = Probe::new(&store, "stable", both);
        assert!(probe.charge(at(0.0), 3).await.is_admitted());
        let others: [Ceiling; 2] = [
            Ceiling {
                delay: false,
                ..with_burst(global(algorithm, "9/min"), 9)
            },
            region(algorithm, "7/min"),
        ];
        let changed = probe.ceilings(others);
        assert_eq!(
            changed.charge(at(0.0), 1).await.remaining(),
            [5, 3],
            "{algorithm}"
        );
        let alone = probe.ceilings([region(algorithm, "8/min")]);
        assert_eq!(alone.peek(at(0.0), 1).await.remaining(), [4], "{algorithm}");
    }
}

pub async fn an_algorithm_that_changes_starts_anew_and_comes_to_no_harm<S: Store>(store: Arc<S>) {
    for before in Algorithm::ALL {
        for after in Algorithm::ALL {
            let probe = Probe::new(&store, "other", [global(before, "10/min")]);
            assert!(probe.charge(at(0.0), 10).await.is_admitted());
            let changed = probe.ceilings([global(after, "10/min")]);
            let same_state = before == after || before.has_burst() && after.has_burst();
            let outcome = changed.charge(at(0.0), 10).await;
            assert_eq!(outcome.is_admitted(), !same_state, "{before} to {after}");
            assert!(!changed.charge(at(0.0), 1).await.is_admitted());
        }
    }
}

pub async fn a_denial_at_the_instant_of_an_empty_bucket_leaves_it_as_it_was<S: Store>(
    store: Arc<S>,
) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let probe = Probe::new(&store, "dry", [with_burst(global(algorithm, "1/min"), 1)]);
        assert!(probe.charge(at(0.0), 1).await.is_admitted());
        let faster = probe.ceilings([with_burst(global(algorithm, "2/min"), 1)]);
        assert!(faster.charge(at(60.0), 2).await.never());
        // A step back: of the old rate's unit a part is there again, and is a whole one of the new.
        let denied = faster.charge(at(59.88), 1).await;
        assert_eq!(denied.wait(), Some(s(30.0)), "{algorithm}");
    }
}
