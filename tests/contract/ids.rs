//! Promise 5: an id charges once. And what is given back by it.

use std::sync::Arc;

use tidegate::model::{Algorithm, Ceiling};
use tidegate::store::{IdOrigin, Refunded, Store};

use crate::common::probe::{Probe, Reading, at, fresh, global, named, region};

fn dual(algorithm: Algorithm) -> [Ceiling; 2] {
    [global(algorithm, "10/min"), region(algorithm, "8/min")]
}

pub async fn an_id_charges_once_however_often_it_is_sent<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "once", dual(algorithm));
        let first = probe.request(at(0.0), named("order-1", 3)).await;
        assert!(first.is_admitted() && !first.repeated);
        assert_eq!(first.remaining(), [7, 5]);
        for _ in 0..3 {
            let again = probe.request(at(0.0), named("order-1", 3)).await;
            assert!(again.is_admitted() && again.repeated, "{algorithm}");
            assert_eq!(again.remaining(), [7, 5]);
        }
        let other = probe.request(at(0.0), named("order-2", 3)).await;
        assert!(!other.repeated);
        assert_eq!(other.remaining(), [4, 2]);
        // Answered as admitted, also where there is no room for another.
        assert!(
            !probe
                .request(at(1.0), named("order-3", 6))
                .await
                .is_admitted()
        );
        assert!(probe.request(at(1.0), named("order-2", 3)).await.repeated);
    }
}

pub async fn a_denied_id_left_no_trace_and_is_decided_anew<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "anew", [global(algorithm, "2/min")]);
        assert_eq!(probe.admitted(at(0.0), 2).await, 2);
        let denied = probe.request(at(0.0), named("late", 1)).await;
        let later = at(0.0) + denied.wait().unwrap();
        let admitted = probe.request(later, named("late", 1)).await;
        assert!(admitted.is_admitted() && !admitted.repeated, "{algorithm}");
        assert!(probe.request(later, named("late", 1)).await.repeated);
    }
}

pub async fn an_id_charges_once_within_a_batch_and_across_regions<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let us = Probe::new(&store, "batch", dual(algorithm));
        let twice = vec![named("a", 2), fresh(1), named("a", 2), named("b", 1)];
        let outcomes = us.batch(at(0.0), twice).await;
        let repeated: Vec<bool> = outcomes.iter().map(|o| o.repeated).collect();
        assert_eq!(repeated, [false, false, true, false], "{algorithm}");
        assert_eq!(outcomes[3].remaining(), [6, 4]);
        let eu = us.region("eu").request(at(0.0), named("a", 2)).await;
        assert!(eu.repeated, "{algorithm}");
        assert_eq!(eu.remaining(), [6, 8]);
    }
}

pub async fn a_charge_is_given_back_whole_or_in_part_in_every_ceiling<S: Store>(store: Arc<S>) {
    for wide in Algorithm::ALL {
        for narrow in Algorithm::ALL {
            let ceilings = [global(wide, "10/min"), region(narrow, "8/min")];
            let probe = Probe::new(&store, "back", ceilings);
            probe.request(at(0.0), named("a", 5)).await;
            probe.request(at(0.0), named("b", 2)).await;
            let part = probe.refund(at(0.0), "a", Some(2)).await;
            assert_eq!(part, Refunded::Units(2), "{wide}, {narrow}");
            assert_eq!(probe.peek(at(0.0), 1).await.remaining(), [5, 3]);
            let rest = probe.refund(at(0.0), "a", Some(99)).await;
            assert_eq!(rest, Refunded::Units(3), "{wide}, {narrow}");
            assert_eq!(probe.peek(at(0.0), 1).await.remaining(), [8, 6]);
            assert_eq!(probe.refund(at(0.0), "b", None).await, Refunded::Units(2));
            assert_eq!(probe.peek(at(0.0), 1).await.remaining(), [10, 8]);
        }
    }
}

pub async fn a_refund_of_what_is_unknown_or_gone_is_not_found<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "gone", dual(algorithm));
        let never = probe.refund(at(0.0), "never", None).await;
        assert_eq!(never, Refunded::NotFound, "{algorithm}");
        probe.request(at(0.0), named("a", 5)).await;
        let late = probe.refund(at(120.0), "a", None).await;
        assert_eq!(late, Refunded::NotFound, "{algorithm}");
        let remaining = probe.peek(at(120.0), 1).await.remaining();
        assert_eq!(
            remaining,
            [10, 8],
            "a late refund makes no more than the limit"
        );
    }
}

pub async fn a_charge_given_back_whole_may_be_charged_anew<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let probe = Probe::new(&store, "twice", dual(algorithm));
        for _ in 0..3 {
            let outcome = probe.request(at(0.0), named("a", 5)).await;
            assert!(!outcome.repeated, "{algorithm}");
            assert_eq!(outcome.remaining(), [5, 3]);
            assert_eq!(probe.refund(at(0.0), "a", None).await, Refunded::Units(5));
        }
    }
}

pub async fn a_bucket_gives_back_what_has_not_drained<S: Store>(store: Arc<S>) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let probe = Probe::new(&store, "drain", [global(algorithm, "60/min")]);
        probe.request(at(0.0), named("a", 40)).await;
        // A unit a second: ten have drained, and others have come.
        probe.request(at(10.0), named("b", 20)).await;
        assert_eq!(probe.peek(at(10.0), 1).await.remaining(), [10]);
        let back = probe.refund(at(10.0), "a", None).await;
        assert_eq!(back, Refunded::Units(30), "{algorithm}");
        assert_eq!(probe.peek(at(10.0), 1).await.remaining(), [40]);
    }
}

pub async fn a_reset_forgets_the_region_and_the_global_ceiling<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let us = Probe::new(&store, "reset", dual(algorithm));
        let eu = us.region("eu");
        us.request(at(0.0), named("a", 4)).await;
        eu.request(at(0.0), named("b", 3)).await;
        us.reset().await;
        assert_eq!(
            us.peek(at(0.0), 1).await.remaining(),
            [10, 8],
            "{algorithm}"
        );
        assert_eq!(
            eu.peek(at(0.0), 1).await.remaining(),
            [10, 5],
            "{algorithm}"
        );
        assert!(!us.request(at(0.0), named("a", 4)).await.repeated);
    }
}

pub async fn a_resent_id_of_our_own_charges_once_where_a_log_has_it<S: Store>(store: Arc<S>) {
    for narrow in Algorithm::ALL {
        let ceilings = [
            global(Algorithm::SlidingLog, "10/min"),
            region(narrow, "8/min"),
        ];
        let probe = Probe::new(&store, "resent", ceilings);
        let mut request = fresh(3);
        assert!(!probe.request(at(0.0), request.clone()).await.repeated);
        request.origin = IdOrigin::Resent;
        let again = probe.request(at(0.0), request).await;
        assert!(again.repeated, "{narrow}");
        assert_eq!(again.remaining(), [7, 5]);
        let mut lost = fresh(3);
        lost.origin = IdOrigin::Resent;
        let first = probe.request(at(0.0), lost).await;
        assert!(!first.repeated, "{narrow}: its first attempt never arrived");
        assert_eq!(first.remaining(), [4, 2]);
    }
}
