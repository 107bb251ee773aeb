//! Capacity that is charged ahead.

use std::sync::Arc;

use tidegate::model::{Algorithm, Ceiling};
use tidegate::store::{ChargeRequest, Refunded, Store};

use crate::common::probe::{Probe, Reading, at, fresh, global, named, region, s};

fn logs() -> [Ceiling; 2] {
    let log = Algorithm::SlidingLog;
    [global(log, "20/min"), region(log, "10/min")]
}

fn held(request: ChargeRequest, seconds: f64) -> ChargeRequest {
    ChargeRequest {
        held_for: Some(s(seconds)),
        ..request
    }
}

pub async fn a_lease_counts_from_now_until_a_window_after_its_end<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "lease", logs());
    let lease = probe.request(at(0.0), held(fresh(6), 2.5)).await;
    assert_eq!(lease.remaining(), [14, 4]);
    assert_eq!(lease.reset(), [s(62.5), s(62.5)]);
    assert_eq!(probe.admitted(at(1.0), 9).await, 4);
    let denied = probe.charge(at(1.0), 5).await;
    assert_eq!(
        denied.wait(),
        Some(s(61.5)),
        "four free at 61.0, the lease at 62.5"
    );
    assert_eq!(probe.peek(at(61.0), 1).await.remaining(), [14, 4]);
    assert_eq!(probe.peek(at(62.499_999), 1).await.remaining(), [14, 4]);
    assert_eq!(probe.peek(at(62.5), 1).await.remaining(), [20, 10]);
}

pub async fn a_lease_is_handed_back_in_part<S: Store>(store: Arc<S>) {
    let probe = Probe::new(&store, "handed", logs());
    probe.request(at(0.0), held(named("lease", 8), 5.0)).await;
    let back = probe.refund(at(3.0), "lease", Some(5)).await;
    assert_eq!(back, Refunded::Units(5));
    let left = probe.peek(at(3.0), 1).await;
    assert_eq!(left.remaining(), [17, 7]);
    assert_eq!(left.reset(), [s(62.0), s(62.0)]);
    assert_eq!(
        probe.refund(at(3.0), "lease", None).await,
        Refunded::Units(3)
    );
    assert_eq!(probe.peek(at(3.0), 1).await.remaining(), [20, 10]);
}
