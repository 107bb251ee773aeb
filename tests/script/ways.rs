//! The short ways through the scripts, and what they must not overlook.

use tidegate::store::{CallClock, CallKind, IdOrigin, Refunded};

use super::rig::{Rig, T, held, left, request, wait};

async fn rig(g: &str, r: &str) -> Rig {
    let mut rig = Rig::new(g, r).await;
    rig.clock = CallClock::Store;
    rig
}

/// The wait and the units left, when one more fresh unit is denied.
async fn denied(rig: &mut Rig) -> (u64, Vec<u64>) {
    let ask = rig.fresh(1);
    let script = rig.script(CallKind::Charge, vec![ask]);
    let reply = rig.run(&script, false).await.unwrap();
    let outcome = &reply.outcomes[0];
    assert!(!outcome.is_admitted());
    let room_at = reply.at.as_micros() + wait(outcome);
    (room_at, left(outcome).iter().map(|c| c.0).collect())
}

/// Charges a fresh unit under this id; when.
async fn charged(rig: &Rig, id: &str) -> u64 {
    let script = rig.script(CallKind::Charge, vec![request(id, IdOrigin::Fresh, 1)]);
    let reply = rig.run(&script, false).await.unwrap();
    assert!(reply.outcomes[0].is_admitted() && !reply.outcomes[0].repeated);
    reply.at.as_micros()
}

#[tokio::test]
async fn what_the_filling_charge_noted_answers_until_the_log_changes() {
    let mut rig = rig("sliding_log 9/min", "sliding_log 3/min").await;
    let mut times = Vec::new();
    for id in ["a", "b", "c"] {
        times.push(charged(&rig, id).await);
    }
    assert_eq!(rig.server.integer("HLEN tg:{s}:p:g:n").await, 1);
    assert_eq!(denied(&mut rig).await, (times[0] + 60 * T, vec![6, 0]));
    // The oldest is given back: the note would promise its place.
    assert_eq!(rig.refund("a", None).await, Refunded::Units(1));
    times.push(charged(&rig, "d").await);
    assert_eq!(denied(&mut rig).await, (times[1] + 60 * T, vec![6, 0]));
    // Another limit than it was noted under.
    rig.change("sliding_log 9/min", "sliding_log 2/min");
    assert_eq!(denied(&mut rig).await, (times[2] + 60 * T, vec![6, 0]));
    rig.change("sliding_log 9/min", "sliding_log 4/min");
    times.push(charged(&rig, "e").await);
    assert_eq!(denied(&mut rig).await, (times[1] + 60 * T, vec![5, 0]));
    // What another region charged is seen.
    rig.change("sliding_log 9/min", "");
    charged(&rig, "f").await;
    rig.change("sliding_log 9/min", "sliding_log 4/min");
    assert_eq!(denied(&mut rig).await, (times[1] + 60 * T, vec![4, 0]));
}

#[tokio::test]
async fn a_note_does_not_outlive_what_it_was_taken_from() {
    let mut rig = rig("sliding_log 2/min", "").await;
    charged(&rig, "a").await;
    charged(&rig, "b").await;
    rig.server.run("UNLINK tg:{s}:p:g").await;
    charged(&rig, "c").await;
    let d = charged(&rig, "d").await;
    assert_eq!(rig.refund("c", None).await, Refunded::Units(1));
    let e = charged(&rig, "e").await;
    assert!(e > d);
    assert_eq!(denied(&mut rig).await, (d + 60 * T, vec![0]));
}

#[tokio::test]
async fn a_fresh_charge_that_is_carried_twice_charges_once() {
    for (g, r) in [
        ("sliding_log 9/min", "sliding_log 9/min"),
        ("token_bucket 9/min", "sliding_log 9/min"),
    ] {
        for costs in [vec![1], vec![3], vec![1, 2, 1]] {
            for warm in [false, true] {
                let mut rig = rig(g, r).await;
                if warm {
                    charged(&rig, "before").await;
                }
                let used = costs.iter().sum::<u64>() + u64::from(warm);
                let requests = costs.iter().map(|cost| rig.fresh(*cost)).collect();
                let script = rig.script(CallKind::Charge, requests);
                let first = rig.run(&script, false).await.unwrap().outcomes;
                assert!(first.iter().all(|o| o.is_admitted() && !o.repeated));
                for resent in [false, true] {
                    let again = rig.run(&script, resent).await.unwrap().outcomes;
                    assert!(
                        again.iter().all(|o| o.repeated && o.is_admitted()),
                        "{costs:?}"
                    );
                    assert_eq!(
                        again[0].ceilings[1].remaining,
                        9 - used,
                        "{costs:?} {again:?}"
                    );
                }
                assert_eq!(rig.peek(1).await.ceilings[1].remaining, 9 - used);
            }
        }
    }
}

#[tokio::test]
async fn weights_and_leases_are_seen_by_units_that_come_after() {
    let mut rig = rig("sliding_log 9/min", "sliding_log 8/min").await;
    rig.charge(1).await;
    rig.charge(4).await;
    let lease = held(rig.fresh(1), 2 * T);
    let outcome = rig.charge_all(vec![lease]).await.remove(0);
    assert_eq!(left(&outcome), [(3, 62 * T), (2, 62 * T)]);
    let after = rig.charge(1).await;
    assert!(
        after.ceilings[0].reset_after.get() > 61 * T,
        "the lease is the newest"
    );
    assert_eq!(
        after
            .ceilings
            .iter()
            .map(|c| c.remaining)
            .collect::<Vec<_>>(),
        [2, 1]
    );
    rig.charge(1).await;
    let full = rig.charge(1).await;
    assert!(!full.is_admitted());
    assert_eq!(full.ceilings[1].remaining, 0);
    assert!(full.ceilings[1].reset_after.get() > 61 * T);
}

#[tokio::test]
async fn a_lease_is_handed_back_in_part_and_keeps_its_date() {
    let mut rig = Rig::new("sliding_log 9/min", "sliding_log 9/min").await;
    let lease = held(request("lease", IdOrigin::Fresh, 6), 5 * T);
    assert!(rig.charge_all(vec![lease]).await[0].is_admitted());
    assert_eq!(wait(&rig.charge(4).await), 65 * T);
    assert_eq!(
        rig.at(T as i64).refund("lease", Some(4)).await,
        Refunded::Units(4)
    );
    assert_eq!(left(&rig.peek(1).await), [(7, 64 * T), (7, 64 * T)]);
    assert_eq!(wait(&rig.peek(8).await), 64 * T);
    assert_eq!(rig.refund("lease", Some(1)).await, Refunded::Units(1));
    assert_eq!(
        left(&rig.at(65 * T as i64 - 1).peek(1).await),
        [(8, 1), (8, 1)]
    );
    assert_eq!(left(&rig.at(65 * T as i64).peek(1).await), [(9, 0), (9, 0)]);
    assert_eq!(rig.refund("lease", None).await, Refunded::NotFound);
}

#[tokio::test]
async fn a_lease_after_a_step_back_is_ahead_by_its_own_length_at_most() {
    let mut rig = Rig::new("sliding_log 9/min", "").await;
    rig.at(3_600 * T as i64);
    let lease = held(request("lease", IdOrigin::Fresh, 9), 5 * T);
    rig.charge_all(vec![lease]).await;
    assert_eq!(wait(&rig.at(0).charge(1).await), 65 * T);
    assert_eq!(wait(&rig.at(30 * T as i64).charge(1).await), 35 * T);
    assert_eq!(left(&rig.at(65 * T as i64).charge(1).await), [(8, 60 * T)]);
}
