//! Logs of many entries: exact answers, bounded work.

use std::fmt::Write as _;

use tidegate::store::{CallClock, CallKind};

use super::rig::{Rig, START, T, wait};

const KEY: &str = "tg:{s}:p:g";

/// Entries of a unit each, `from` and every `step` microseconds.
async fn fill(rig: &Rig, name: &str, count: u64, from: u64, step: u64) {
    for block in (0..count).step_by(2_000) {
        let mut line = format!("ZADD {KEY}");
        for n in block..count.min(block + 2_000) {
            write!(line, " {} {name}{n}", from + n * step).unwrap();
        }
        rig.server.run(&line).await;
    }
    rig.server.run(&format!("PEXPIRE {KEY} 900000")).await;
}

async fn cardinality(rig: &Rig) -> i64 {
    rig.server.integer(&format!("ZCARD {KEY}")).await
}

#[tokio::test]
async fn what_has_expired_goes_a_thousand_a_call_and_counts_no_more_at_once() {
    let mut rig = Rig::new("sliding_log 6000/min", "").await;
    fill(&rig, "old", 5_000, START - 61 * T, 1).await;
    fill(&rig, "new", 500, START - T, 1).await;
    for call in 1..=5 {
        let outcome = rig.charge(1).await;
        assert_eq!(outcome.ceilings[0].remaining, 5_500 - call as u64);
        assert_eq!(cardinality(&rig).await, 5_500 - 1_000 * call + call);
    }
}

#[tokio::test]
async fn a_full_log_with_thousands_expired_admits_by_the_servers_clock() {
    let mut rig = Rig::new("sliding_log 5500/min", "").await;
    rig.clock = CallClock::Store;
    let now = rig.peek_at().await;
    fill(&rig, "old", 5_000, now - 61 * T, 1).await;
    fill(&rig, "new", 500, now - T, 1).await;
    let outcome = rig.charge(1).await;
    assert!(outcome.is_admitted());
    assert_eq!(outcome.ceilings[0].remaining, 4_999);
    assert_eq!(cardinality(&rig).await, 4_501);
}

#[tokio::test]
async fn a_log_that_has_expired_as_a_whole_is_dropped_as_a_whole() {
    for weight in [1, 2] {
        let mut rig = Rig::new("sliding_log 90000/min", "").await;
        fill(&rig, "old", 50_000, START - 61 * T, 1).await;
        if weight == 2 {
            rig.server
                .run(&format!("HSET {KEY}:x old7 40 \tsum 39"))
                .await;
        }
        assert_eq!(
            rig.charge(weight).await.ceilings[0].remaining,
            90_000 - weight
        );
        assert_eq!(cardinality(&rig).await, 1);
        assert_eq!(
            rig.server.integer(&format!("HLEN {KEY}:x")).await,
            if weight == 1 { 0 } else { 3 }
        );
    }
}

#[tokio::test]
async fn the_wait_in_a_long_log_of_units_is_found_by_rank() {
    let mut rig = Rig::new("sliding_log 50000/min", "").await;
    fill(&rig, "n", 50_000, START - 30 * T, 100).await;
    for cost in [1, 2, 777, 49_999, 50_000] {
        let expected = 30 * T + (cost - 1) * 100;
        assert_eq!(wait(&rig.charge(cost).await), expected, "{cost}");
        assert_eq!(wait(&rig.peek(cost).await), expected, "{cost}");
    }
    assert_eq!(cardinality(&rig).await, 50_000);
}

#[tokio::test]
async fn the_wait_in_a_long_log_of_weights_is_exact_at_first_and_never_too_short_beyond() {
    let mut rig = Rig::new("sliding_log 8000/min", "").await;
    for n in 0..4_000 {
        rig.at(n * 10).charge(2).await;
    }
    rig.at(T as i64);
    let exact = |cost: u64| 59 * T + (cost.div_ceil(2) - 1) * 10;
    for cost in [1, 2, 3, 2_000, 2_048] {
        assert_eq!(wait(&rig.peek(cost).await), exact(cost), "{cost}");
    }
    for cost in [2_060, 5_000, 8_000] {
        let bound = wait(&rig.charge(cost).await);
        assert!(bound >= exact(cost), "{cost}: {bound}");
        let at = T as i64 + bound as i64;
        assert_eq!(wait(&rig.at(at).peek(cost).await), 0, "{cost}");
        rig.at(T as i64);
    }
}

#[tokio::test]
async fn weights_that_have_expired_leave_the_sum_and_the_companion_with_them() {
    let mut rig = Rig::new("sliding_log 9000/min", "").await;
    for n in 0..1_500 {
        rig.at(n).charge(3).await;
    }
    rig.at(T as i64).charge(1).await;
    rig.at(60 * T as i64 + 1_499);
    assert_eq!(rig.charge(1).await.ceilings[0].remaining, 8_998);
    assert_eq!(rig.server.integer(&format!("EXISTS {KEY}:x")).await, 0);
    assert_eq!(cardinality(&rig).await, 2);
}

#[tokio::test]
async fn entries_of_a_clock_that_was_ahead_come_back_a_thousand_a_call() {
    let mut rig = Rig::new("sliding_log 2600/min", "").await;
    fill(&rig, "ahead", 2_500, START + 3_600 * T, 1).await;
    for call in 1..=3_i64 {
        assert_eq!(
            rig.at(call).charge(1).await.ceilings[0].remaining,
            100 - call as u64
        );
        let ahead = rig
            .server
            .integer(&format!("ZCOUNT {KEY} ({} +inf", START + 4))
            .await;
        assert_eq!(ahead, (2_500 - 1_000 * call).max(0));
    }
    assert_eq!(wait(&rig.at(4).charge(2_600).await), 60 * T - 1);
    assert_eq!(
        rig.at(60 * T as i64 + 3).peek(2_600).await.ceilings[0].remaining,
        2_600
    );
}

#[tokio::test]
async fn a_batch_of_the_most_requests_is_decided_one_by_one() {
    let mut rig = Rig::new("sliding_log 200/min", "token_bucket 150/min").await;
    let requests: Vec<_> = (0..256).map(|_| rig.fresh(1)).collect();
    let script = rig.script(CallKind::Charge, requests.clone());
    let first = rig.run(&script, false).await.unwrap().outcomes;
    assert_eq!(first.iter().filter(|o| o.is_admitted()).count(), 150);
    assert!(first[..150].iter().all(|o| o.is_admitted() && !o.repeated));
    let again = rig.run(&script, true).await.unwrap().outcomes;
    assert!(again[..150].iter().all(|o| o.repeated) && !again[150].is_admitted());
    assert_eq!(cardinality(&rig).await, 150);
}
