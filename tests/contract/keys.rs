//! Promise 6 for the cluster: every key has a time to live, long enough and no longer than that,
//! and a denial leaves no key behind.

use std::sync::Arc;

use tidegate::model::{Algorithm, Ceiling, HashTag, KeyPrefix, Micros, Timestamp};
use tidegate::store::cluster::ClusterStore;
use tidegate::store::{CallClock, CallKind, ChargeCall, ChargeRequest, Store, StoreErrorKind};
use tidegate_chaos::resp::Reply;

use crate::common::probe::{Probe, T0, at, fresh, global, named, region, s, with_burst};
use crate::common::stores::{Fixture, Running, cluster};

async fn ask(running: &Running, node: usize, command: &[&str]) -> Reply {
    let reply = running.nodes.run(node, command).await;
    reply.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn integer(reply: &Reply) -> i64 {
    match reply {
        Reply::Int(n) => *n,
        other => panic!("no integer: {other:?}"),
    }
}

fn texts(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Array(items) => items.iter().flat_map(texts).collect(),
        Reply::Text(text) => vec![text.clone()],
        other => panic!("no texts: {other:?}"),
    }
}

/// A subject's keys, and what each has left to live in milliseconds.
async fn lives(running: &Running, probe: &Probe<ClusterStore>) -> Vec<(String, i64)> {
    let target = &probe.target;
    let stem = HashTag::of(&target.subject).stem(&KeyPrefix::default(), target.policy.name());
    let node = running.nodes.primary_of(&stem).await.unwrap();
    let pattern = format!("{stem}:*");
    let keys = texts(&ask(running, node, &["KEYS", &pattern]).await);
    let mut lives = Vec::new();
    for key in keys {
        let left = integer(&ask(running, node, &["PTTL", &key]).await);
        lives.push((key, left));
    }
    lives
}

async fn charge(probe: &Probe<ClusterStore>, clock: CallClock, requests: Vec<ChargeRequest>) {
    probe.call(clock, CallKind::Charge, requests).await;
}

/// Different algorithms at both scopes, so that companions and records come up too.
fn mixes() -> Vec<[Ceiling; 2]> {
    let pair = |wide: Algorithm, narrow: Algorithm| {
        [
            with_burst(global(wide, "90/min"), 50),
            region(narrow, "40/30s"),
        ]
    };
    let all = Algorithm::ALL.into_iter();
    all.flat_map(|w| Algorithm::ALL.into_iter().map(move |n| pair(w, n)))
        .collect()
}

/// An hour of charges, peeks, refunds, repeats, leases and resets, also by clocks that step back
/// and limits that change, in passed instants; the server's own clock moves on by seconds.
async fn hour_of_traffic(store: &Arc<ClusterStore>) -> Vec<Probe<ClusterStore>> {
    let mut probes = Vec::new();
    for ceilings in mixes() {
        probes.extend((0..3).map(|_| Probe::new(store, "hour", ceilings)));
    }
    for second in 0..3_600_u64 {
        let probe = &probes[(second * 7 % probes.len() as u64) as usize];
        let probe = probe.region(["us", "eu", "ap"][(second / 5 % 3) as usize]);
        let now = match second % 97 {
            0 => at(second as f64 - 45.0),
            _ => at(second as f64 + (second % 13) as f64 / 17.0),
        };
        let id = format!("id-{}", second / 40);
        match second % 16 {
            0..=4 => drop(probe.charge(now, 1 + second % 5).await),
            5 | 6 => drop(probe.request(now, named(&id, 2)).await),
            7 => drop(probe.refund(now, &id, (second % 3 == 0).then_some(1)).await),
            8 => drop(probe.peek(now, 3).await),
            9 => drop(probe.charge(now, 60).await),
            10 => {
                let held_for = Some(Micros::from_secs(3));
                let lease = ChargeRequest {
                    held_for,
                    ..fresh(4)
                };
                charge(&probe, CallClock::At(now), vec![lease]).await;
            }
            11 => charge(&probe, CallClock::Store, vec![fresh(1), named(&id, 1)]).await,
            12 if second % 160 == 12 => probe.reset().await,
            13 => {
                let quota = "70/45s".parse().unwrap();
                let changed = probe.target.ceilings.iter();
                let changed: Vec<_> = changed.map(|c| Ceiling { quota, ..*c }).collect();
                drop(probe.ceilings(changed).charge(now, 1).await);
            }
            _ => charge(&probe, CallClock::Store, vec![fresh(1)]).await,
        }
    }
    probes
}

#[test]
fn no_key_is_without_an_end_after_an_hour_of_mixed_traffic() {
    cluster::run(|store| async move {
        let running = cluster::running();
        let probes = hour_of_traffic(&store).await;
        let mut kinds = std::collections::BTreeSet::new();
        let mut seen = 0;
        for probe in &probes {
            for (key, left) in lives(running, probe).await {
                // Gone meanwhile is an end too.
                assert!(left > 0 || left == -2, "{key} has no end: {left}");
                // Two of the longest windows, and a window and a minute that clocks may differ by.
                assert!(left <= 3 * 60_000 + 63_000, "{key} lives on for {left} ms");
                kinds.insert(key.rsplit(':').next().unwrap_or_default().to_owned());
                seen += 1;
            }
        }
        assert!(seen > 2 * probes.len(), "only {seen} keys");
        for kind in ["g", "us", "c", "f", "b", "x"] {
            assert!(kinds.contains(kind), "no key ends in `{kind}`: {kinds:?}");
        }
    });
}

#[test]
fn kong_14995_the_time_to_live_is_the_windows_not_a_thousand_times_it() {
    cluster::run(|store| async move {
        let running = cluster::running();
        for algorithm in Algorithm::ALL {
            let probe = Probe::new(&store, "ttl", [global(algorithm, "60/min")]);
            charge(&probe, CallClock::Store, vec![fresh(60)]).await;
            let lives = lives(running, &probe).await;
            assert!(!lives.is_empty(), "{algorithm}");
            for (key, left) in lives {
                // Kong#10559: longer than what still counts, or a late request would start anew.
                assert!(left > 50_000, "{algorithm}: {key} lives for {left} ms");
                assert!(
                    left <= 2 * 60_000 + 3_000,
                    "{algorithm}: {key} lives for {left} ms"
                );
            }
        }
    });
}

#[test]
fn zuul_ratelimit_200_a_first_cost_of_many_has_an_end_too() {
    cluster::run(|store| async move {
        let running = cluster::running();
        for algorithm in Algorithm::ALL {
            let probe = Probe::new(&store, "zuul", [global(algorithm, "100/min")]);
            for request in [fresh(33), named("many", 33)] {
                charge(&probe, CallClock::Store, vec![request]).await;
                for (key, left) in lives(running, &probe).await {
                    assert!(left > 15_000, "{algorithm}: {key} lives for {left} ms");
                }
            }
        }
    });
}

#[test]
fn gateway_pr2453_a_small_burst_is_stored_all_the_same() {
    cluster::run(|store| async move {
        for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
            let small = with_burst(global(algorithm, "3/s"), 1);
            let probe = Probe::new(&store, "small", [small]);
            assert!(probe.charge(T0, 1).await.is_admitted());
            assert!(!probe.charge(T0, 1).await.is_admitted(), "{algorithm}");
            assert!(!probe.charge(T0 + s(0.333_333), 1).await.is_admitted());
            assert!(probe.charge(T0 + s(0.333_334), 1).await.is_admitted());
        }
    });
}

#[test]
fn limits_pr15_a_key_that_lost_its_end_is_healed() {
    cluster::run(|store| async move {
        let running = cluster::running();
        for algorithm in Algorithm::ALL {
            let probe = Probe::new(&store, "healed", [global(algorithm, "600/min")]);
            let clock = |seconds| CallClock::At(at(seconds));
            charge(&probe, clock(1.0), vec![fresh(2)]).await;
            let node = node_of(running, &probe).await;
            for (key, _) in lives(running, &probe).await {
                assert_eq!(integer(&ask(running, node, &["PERSIST", &key]).await), 1);
            }
            // At the latest by the first charge of the next window.
            charge(&probe, clock(61.5), vec![fresh(2)]).await;
            for (key, left) in lives(running, &probe).await {
                assert!(left > 0, "{algorithm}: {key} has no end: {left}");
            }
        }
    });
}

async fn node_of(running: &Running, probe: &Probe<ClusterStore>) -> usize {
    let target = &probe.target;
    let stem = HashTag::of(&target.subject).stem(&KeyPrefix::default(), target.policy.name());
    running.nodes.primary_of(&stem).await.unwrap()
}

/// What the server holds of a subject, byte for byte.
async fn dump(running: &Running, probe: &Probe<ClusterStore>) -> Vec<(String, String)> {
    let node = node_of(running, probe).await;
    let mut dump = Vec::new();
    for (key, _) in lives(running, probe).await {
        let held = ask(running, node, &["DUMP", &key]).await;
        dump.push((key, format!("{held:?}")));
    }
    dump.sort();
    dump
}

#[test]
fn a_denial_or_a_peek_leaves_every_key_as_it_was() {
    cluster::run(|store| async move {
        let running = cluster::running();
        for ceilings in mixes() {
            let probe = Probe::new(&store, "as-was", ceilings);
            let nothing = probe.peek(T0, 1).await;
            assert!(nothing.is_admitted());
            charge(&probe, CallClock::At(T0), vec![fresh(41), named("no", 51)]).await;
            assert_eq!(dump(running, &probe).await, [], "{ceilings:?}");
            charge(&probe, CallClock::At(T0), vec![named("yes", 30), fresh(2)]).await;
            let before = dump(running, &probe).await;
            assert!(before.len() >= 2);
            for n in 0..20 {
                let now = CallClock::At(T0 + Micros::new(n));
                charge(&probe, now, vec![fresh(20), named("not", 30)]).await;
                charge(&probe, now, vec![named("yes", 30)]).await;
                probe.peek(later(n), 7).await;
            }
            assert_eq!(dump(running, &probe).await, before, "{ceilings:?}");
        }
    });
}

/// Peeks may be of any instant.
fn later(n: u64) -> Timestamp {
    at(n as f64 * 7.0 - 30.0)
}

#[test]
fn a_key_of_another_type_leaves_the_other_ceiling_uncharged() {
    cluster::run(|store| async move {
        let running = cluster::running();
        let log = Algorithm::SlidingLog;
        let probe = Probe::new(&store, "type", [global(log, "9/min"), region(log, "9/min")]);
        let target = &probe.target;
        let stem = HashTag::of(&target.subject).stem(&KeyPrefix::default(), target.policy.name());
        let node = node_of(running, &probe).await;
        let regional = format!("{stem}:r:us");
        ask(running, node, &["SET", &regional, "mine", "PX", "60000"]).await;
        for request in [fresh(1), fresh(3), named("a", 1)] {
            let call = ChargeCall {
                target: Arc::clone(&probe.target),
                requests: vec![request],
                clock: CallClock::Store,
                kind: CallKind::Charge,
                deadline: std::time::Instant::now() + std::time::Duration::from_secs(5),
            };
            let error = store.charge(call).await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Refused, "{error}");
        }
        let keys = lives(running, &probe).await;
        assert_eq!(keys.len(), 1, "only the intruder: {keys:?}");
    });
}
