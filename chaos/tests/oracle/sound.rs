//! A limiter that keeps every promise is never accused.

use proptest::prelude::*;
use tidegate_chaos::oracle::{AnsweredBy, Record, Status, judge};

use crate::simulated::{Ask, GLOBAL, Logs, START, WINDOW, decide, expectations};

pub fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let one = (
        0..4 * WINDOW,
        0u64..80_000,
        0u64..80_000,
        1u64..=3,
        prop::sample::select(vec!["us", "eu"]),
    );
    let ask = one.prop_map(|(at, decided_after, answered_after, cost, region)| Ask {
        sent: START + at,
        decided_after,
        answered_after,
        cost,
        region,
    });
    prop::collection::vec(ask, 0..120)
}

proptest! {
    #[test]
    fn a_sound_limiter_is_never_accused(asks in asks()) {
        let records = decide(asks, 0);
        let found = judge(&records, &expectations());
        prop_assert_eq!(found.wrongly_admitted, 0);
        prop_assert_eq!(found.wrongly_denied, 0);
        prop_assert_eq!(found.checks, records.len() as u64);
        prop_assert_eq!(found.admitted + found.denied, found.checks);
    }

    #[test]
    fn charges_whose_fate_nobody_knows_accuse_nobody(
        asks in asks(), fates in prop::collection::vec(0u8..4, 120),
    ) {
        let mut asks = asks;
        asks.sort_by_key(|ask| ask.sent + ask.decided_after);
        let mut logs = Logs::default();
        let mut records = Vec::new();
        for (ask, fate) in asks.iter().zip(fates) {
            let now = ask.sent + ask.decided_after;
            let room = logs.has_room(ask, now, 0);
            if room && fate != 1 {
                logs.charge(ask, now);
            }
            records.push(match fate {
                // The answer got lost, or the question did: the outage choice decided.
                0 | 1 => Record {
                    degraded: true,
                    by: AnsweredBy::Outage,
                    ..ask.record(Status::Denied)
                },
                _ if room => ask.record(Status::Admitted),
                _ => ask.record(Status::Denied),
            });
        }
        let found = judge(&records, &expectations());
        prop_assert_eq!((found.wrongly_admitted, found.wrongly_denied), (0, 0));
        let degraded = records.iter().filter(|r| r.degraded).count() as u64;
        prop_assert_eq!((found.degraded, found.unknown), (degraded, degraded));
    }
}

#[test]
fn a_charge_asked_for_twice_under_one_id_counts_once() {
    let asked = |at: u64| Record {
        id: "a".into(),
        ..Ask::at(at).record(Status::Admitted)
    };
    let records: Vec<_> = (0..GLOBAL * 2).map(|n| asked(n * 1_000)).collect();
    let found = judge(&records, &expectations());
    assert_eq!(
        (found.wrongly_admitted, found.wrongly_admitted_possible),
        (0, 0)
    );
}

#[test]
fn what_was_admitted_without_the_store_is_told_apart() {
    let outage = |n| Record {
        degraded: true,
        by: AnsweredBy::Outage,
        ..Ask::at(n).record(Status::Admitted)
    };
    let records: Vec<_> = (0..100).map(outage).collect();
    let found = judge(&records, &expectations());
    assert_eq!((found.degraded_admitted, found.wrongly_admitted), (100, 0));
}
