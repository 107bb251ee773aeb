//! Limiters that break a promise are found out, and by no more than they broke it.

use proptest::prelude::*;
use tidegate::model::ClockSource;
use tidegate_chaos::oracle::{AnsweredBy, Loss, Record, Status, judge, stated_bound};

use crate::simulated::{Ask, Logs, REGION, START, WINDOW, decide, expectations, expectations_by};
use crate::sound::asks;

/// A flood of checks, 500 a second for three seconds.
fn flood() -> Vec<Ask> {
    (0..1_500).map(|n| Ask::at(n * 2_000)).collect()
}

#[test]
fn a_limiter_that_admits_two_too_many_in_a_window_is_convicted_of_exactly_these() {
    let found = judge(&decide(flood(), 2), &expectations());
    assert_eq!(found.wrongly_admitted, 3 * 2, "{found:?}");
    let worst = &found.ceilings[0];
    assert_eq!((worst.peak, worst.limit), (REGION + 2, REGION));
    assert_eq!(worst.region.as_deref(), Some("us"));
}

#[test]
fn a_limiter_that_denies_below_the_limit_is_convicted() {
    let mut records = decide((0..6).map(|n| Ask::at(n * 1_000)).collect(), 0);
    assert_eq!(judge(&records, &expectations()).wrongly_denied, 0);
    records[4].status = Status::Denied;
    assert_eq!(judge(&records, &expectations()).wrongly_denied, 1);
}

#[test]
fn a_limiter_that_locks_a_subject_out_after_its_window_is_convicted() {
    let mut records = decide((0..REGION).map(|n| Ask::at(n * 1_000)).collect(), 0);
    let before = Ask::at(WINDOW - 500);
    let after = Ask::at(WINDOW + 100_000);
    records.extend([before.record(Status::Denied), after.record(Status::Denied)]);
    assert_eq!(judge(&records, &expectations()).wrongly_denied, 1);
}

#[test]
fn stuck_late_and_failed_calls_are_counted_apart() {
    let late = |late| Record {
        late,
        ..Ask::at(0).record(Status::Admitted)
    };
    let stuck = Record {
        late: 5_000_000,
        ..Ask::at(5).record(Status::Stuck)
    };
    let failed = Ask::at(6).record(Status::Failed);
    let found = judge(
        &[late(10_000), late(10_001), stuck, failed],
        &expectations(),
    );
    assert_eq!((found.stuck, found.past_deadline, found.errors), (1, 1, 1));
    assert_eq!(found.unknown, 2);
}

/// A primary dies at `START + 0.3 s` and takes the last 100 ms of charges with it.
#[test]
fn lost_writes_let_through_no_more_than_the_stated_bound() {
    let (mut logs, mut records) = (Logs::default(), Vec::new());
    let died = START + 10_000;
    let mut dead = false;
    for ask in flood() {
        let now = ask.sent + ask.decided_after;
        if !dead && now > died {
            logs.forget(died - 6_000, died);
            dead = true;
        }
        let room = logs.has_room(&ask, now, 0);
        if room {
            logs.charge(&ask, now);
        }
        records.push(ask.record(if room {
            Status::Admitted
        } else {
            Status::Denied
        }));
    }
    let found = judge(&records, &expectations());
    let loss = |from| Loss {
        from,
        to: died,
        shard: None,
    };
    assert_eq!(found.wrongly_admitted, 3);
    let bound = stated_bound(&records, &expectations(), &[loss(died - 6_000)]);
    assert!((3..=2 * 4).contains(&bound), "{bound}");
    let elsewhere = Loss {
        shard: Some((expectations().shard_of("key-1") + 1) % 3),
        ..loss(died - 6_000)
    };
    assert_eq!(stated_bound(&records, &expectations(), &[elsewhere]), 0);
}

/// What a node's own ceiling refused is judged by what that node sent, not by what was used.
#[test]
fn a_node_ceiling_may_refuse_a_flood_and_nothing_else() {
    let refusal = |at| Record {
        by: AnsweredBy::NodeCeiling,
        ..Ask::at(at).record(Status::Denied)
    };
    let mut flood: Vec<_> = (0..REGION)
        .map(|n| Ask::at(n).record(Status::Denied))
        .collect();
    flood.push(refusal(2_000));
    assert_eq!(judge(&flood, &expectations()).wrongly_denied, REGION);
    let lonely = [refusal(2_000)];
    assert_eq!(judge(&lonely, &expectations()).wrongly_denied, 1);
}

proptest! {
    #[test]
    fn nobody_is_convicted_of_more_than_was_done(asks in asks(), slack in 1u64..5) {
        let records = decide(asks, slack);
        let found = judge(&records, &expectations());
        prop_assert!(found.wrongly_admitted <= found.wrongly_admitted_possible);
        // Per region and over all: each window holds at most `slack` units too many, and four
        // seconds (and a call's length) of windows can't hold more than five times that.
        prop_assert!(found.wrongly_admitted <= 3 * 5 * slack, "{found:?}");
    }
}

/// A call that took 190 ms may have come after later ones and dated them back by so much, where its
/// own clock stamps it. It excuses what that explains and nothing more; one that took less than the
/// log takes for a clock's step back excuses nothing.
#[test]
fn by_callers_clocks_calls_that_overtake_each_other_excuse_as_much_as_they_took() {
    let found = |clock, took, past| {
        let slow = Ask {
            answered_after: took,
            region: "eu",
            ..Ask::at(0)
        };
        let early = (0..REGION).map(|n| Ask::at(180_000 + n * 1_000));
        let asks = early.chain([slow, Ask::at(WINDOW + past)]);
        let records: Vec<Record> = asks.map(|ask| ask.record(Status::Admitted)).collect();
        judge(&records, &expectations_by(clock)).wrongly_admitted
    };
    assert_eq!(found(ClockSource::Store, 190_000, 140_000), 1);
    assert_eq!(found(ClockSource::Caller, 190_000, 140_000), 0);
    assert_eq!(found(ClockSource::Caller, 130_000, 40_000), 1);
    assert_eq!(found(ClockSource::Caller, 90_000, 140_000), 1);
}
