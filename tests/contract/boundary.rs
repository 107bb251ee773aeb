//! A full budget at a window's end: one more is denied, and so it is a second later; after the
//! window there is room. For the fixed window the documented opposite.

use std::sync::Arc;

use tidegate::model::{Algorithm, Timestamp};
use tidegate::store::Store;

use crate::common::probe::{Probe, at, global};

const JUST_BEFORE: f64 = 59.9;

async fn full_at_the_end<S: Store>(store: &Arc<S>, algorithm: Algorithm) -> Probe<S> {
    let probe = Probe::new(store, "boundary", [global(algorithm, "5/min")]);
    assert_eq!(probe.admitted(at(JUST_BEFORE), 5).await, 5);
    assert!(!probe.charge(at(JUST_BEFORE), 1).await.is_admitted());
    probe
}

async fn denied<S: Store>(probe: &Probe<S>, now: Timestamp) {
    assert!(!probe.charge(now, 1).await.is_admitted(), "at {now:?}");
}

pub async fn sliding_log_keeps_to_the_limit_across_a_boundary<S: Store>(store: Arc<S>) {
    let probe = full_at_the_end(&store, Algorithm::SlidingLog).await;
    for seconds in [60.0, 60.9, 100.0, 119.899_999] {
        denied(&probe, at(seconds)).await;
    }
    assert_eq!(probe.admitted(at(119.9), 6).await, 5);
}

pub async fn sliding_counter_keeps_to_the_limit_across_a_boundary<S: Store>(store: Arc<S>) {
    let probe = full_at_the_end(&store, Algorithm::SlidingCounter).await;
    for seconds in [60.0, 60.9, 71.999_999] {
        denied(&probe, at(seconds)).await;
    }
    // Four fifths of the previous window overlap: one of five has faded.
    assert_eq!(probe.admitted(at(72.0), 2).await, 1);
    assert_eq!(probe.admitted(at(119.9), 6).await, 3);
    let probe = full_at_the_end(&store, Algorithm::SlidingCounter).await;
    assert_eq!(probe.admitted(at(120.0), 6).await, 5);
}

pub async fn fixed_window_admits_twice_the_limit_across_a_boundary<S: Store>(store: Arc<S>) {
    let probe = full_at_the_end(&store, Algorithm::FixedWindow).await;
    denied(&probe, at(59.999_999)).await;
    assert_eq!(probe.admitted(at(60.0), 6).await, 5);
    denied(&probe, at(60.9)).await;
    assert_eq!(probe.admitted(at(120.0), 6).await, 5);
}

async fn bucket<S: Store>(store: &Arc<S>, algorithm: Algorithm) {
    let probe = full_at_the_end(store, algorithm).await;
    for seconds in [60.0, 60.9, 71.899_999] {
        denied(&probe, at(seconds)).await;
    }
    // Five a minute: one every twelve seconds.
    assert_eq!(probe.admitted(at(71.9), 2).await, 1);
    denied(&probe, at(83.8)).await;
    let probe = full_at_the_end(store, algorithm).await;
    assert_eq!(probe.admitted(at(119.9), 6).await, 5);
}

pub async fn token_bucket_keeps_to_burst_and_rate_across_a_boundary<S: Store>(store: Arc<S>) {
    bucket(&store, Algorithm::TokenBucket).await;
}

pub async fn leaky_bucket_keeps_to_burst_and_rate_across_a_boundary<S: Store>(store: Arc<S>) {
    bucket(&store, Algorithm::LeakyBucket).await;
}
