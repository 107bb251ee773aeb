//! Promise 6 for the memory store: what it holds is bounded, and never at the cost of a counter
//! that lives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::MemoryStore;
use tidegate::clock::ManualClock;
use tidegate::model::{Algorithm, Micros};
use tidegate::store::{
    CallClock, CallKind, ChargeCall, ChargeReply, ChargeRequest, Store, StoreError, StoreErrorKind,
};

use crate::common::probe::{Probe, T0, fresh, global, named, region};
use crate::common::stores::{Fixture, memory};

fn run<T>(future: impl Future<Output = T>) -> T {
    memory::runtime().block_on(future)
}

/// A store of at most so many keys and entries, and its clock.
fn small(keys_max: usize, entries_max: usize) -> (Arc<MemoryStore>, ManualClock) {
    let clock = ManualClock::at(T0);
    let store = MemoryStore::builder()
        .keys_max(keys_max)
        .entries_max(entries_max)
        .clock(clock.clone())
        .build();
    (Arc::new(store), clock)
}

fn call(
    probe: &Probe<MemoryStore>,
    kind: CallKind,
    requests: Vec<ChargeRequest>,
) -> Result<ChargeReply, StoreError> {
    run(probe.store.charge(ChargeCall {
        target: Arc::clone(&probe.target),
        requests,
        clock: CallClock::Store,
        kind,
        deadline: Instant::now() + Duration::from_secs(1),
    }))
}

fn charge(probe: &Probe<MemoryStore>) -> Result<bool, StoreError> {
    let reply = call(probe, CallKind::Charge, vec![fresh(1)])?;
    Ok(reply.outcomes[0].is_admitted())
}

fn is_full(result: Result<bool, StoreError>) {
    let error = result.expect_err("the store is full");
    assert_eq!(error.kind, StoreErrorKind::Overloaded);
    assert!(!error.may_have_run && error.is_transient());
    assert!(error.to_string().contains("full"), "{error}");
}

#[test]
fn governor_171_keys_are_bounded_and_a_full_store_evicts_nothing_that_lives() {
    for algorithm in Algorithm::ALL {
        let (store, clock) = small(10, 1_000);
        let probe = || Probe::new(&store, "bound", [global(algorithm, "2/min")]);
        let known: Vec<_> = (0..10).map(|_| probe()).collect();
        assert!(known.iter().all(|p| charge(p).unwrap()), "{algorithm}");
        assert_eq!(store.keys_len(), 10);
        is_full(charge(&probe()));
        // Known ones are served on, also with denials, and new ones that need no key are too.
        assert!(known.iter().all(|p| charge(p).unwrap()), "{algorithm}");
        assert!(known.iter().all(|p| !charge(p).unwrap()), "{algorithm}");
        assert!(!charge(&probe().ceilings([global(algorithm, "0/min")])).unwrap());
        assert!(call(&probe(), CallKind::Peek, vec![fresh(1)]).is_ok());
        // When they are whole again there is room.
        clock.advance(Micros::from_secs(200));
        assert!((0..10).all(|_| charge(&probe()).unwrap()), "{algorithm}");
        assert_eq!(store.keys_len(), 10, "{algorithm}");
    }
}

#[test]
fn lemmy_pr4560_a_sweep_takes_what_is_over_and_leaves_what_lives() {
    for algorithm in Algorithm::ALL {
        let (store, clock) = small(100_000, 100_000);
        let old: Vec<_> = (0..500)
            .map(|_| Probe::new(&store, "old", [global(algorithm, "1/min")]))
            .collect();
        assert!(old.iter().all(|p| charge(p).unwrap()));
        clock.advance(Micros::from_secs(40));
        let new: Vec<_> = (0..500)
            .map(|_| Probe::new(&store, "new", [global(algorithm, "1/h")]))
            .collect();
        assert!(new.iter().all(|p| charge(p).unwrap()));
        clock.advance(Micros::from_secs(100));
        // Traffic of others sweeps; nothing else does.
        let others: Vec<_> = (0..2_000)
            .map(|_| Probe::new(&store, "other", [global(algorithm, "1/h")]))
            .collect();
        assert!(others.iter().all(|p| charge(p).unwrap()));
        assert_eq!(store.keys_len(), 2_500, "{algorithm}: the old are gone");
        assert!(new.iter().all(|p| !charge(p).unwrap()), "{algorithm}");
        assert!(old.iter().all(|p| charge(p).unwrap()), "{algorithm}");
    }
}

#[test]
fn keys_that_come_and_go_never_pile_up() {
    let (store, clock) = small(50_000, 50_000);
    // A thousand new subjects a second, each whole again after a second and forgotten after two.
    for _ in 0..120_000 {
        clock.advance(Micros::from_millis(1));
        let ceilings = [global(Algorithm::SlidingLog, "5/s")];
        assert!(charge(&Probe::new(&store, "guest", ceilings)).unwrap());
    }
    assert!(store.keys_len() < 2_200, "{} keys", store.keys_len());
    assert!(
        store.entries_len() < 4_000,
        "{} entries",
        store.entries_len()
    );
}

#[test]
fn entries_are_bounded_and_a_batch_that_would_not_fit_is_refused_whole() {
    let (store, clock) = small(1_000, 100);
    let both = [
        global(Algorithm::SlidingLog, "1000/min"),
        region(Algorithm::SlidingLog, "1000/min"),
    ];
    let probe = Probe::new(&store, "entries", both);
    let batch = |n| (0..n).map(|_| fresh(1)).collect::<Vec<_>>();
    assert!(call(&probe, CallKind::Charge, batch(40)).is_ok());
    assert_eq!(store.entries_len(), 80);
    let error = call(&probe, CallKind::Charge, batch(11)).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Overloaded);
    let peek = call(&probe, CallKind::Peek, batch(1)).unwrap();
    assert_eq!(peek.outcomes[0].ceilings[0].remaining, 960);
    assert!(call(&probe, CallKind::Charge, batch(10)).is_ok());
    is_full(charge(&probe));
    // A counter needs no entries, but for the ids that callers gave.
    let counter = Probe::new(&store, "counter", [global(Algorithm::FixedWindow, "5/min")]);
    assert!(charge(&counter).unwrap());
    assert!(call(&counter, CallKind::Charge, vec![named("a", 1)]).is_err());
    clock.advance(Micros::from_secs(60));
    assert!(charge(&probe).unwrap());
    assert!(call(&counter, CallKind::Charge, vec![named("a", 1)]).is_ok());
}

#[test]
fn a_denial_adds_neither_key_nor_entry() {
    for algorithm in Algorithm::ALL {
        let (store, _clock) = small(1_000, 1_000);
        let probe = Probe::new(&store, "denied", [global(algorithm, "3/min")]);
        assert!((0..3).all(|_| charge(&probe).unwrap()));
        let held = (store.keys_len(), store.entries_len());
        for n in 0..1_000 {
            let name = format!("id-{n}");
            let denied = call(&probe, CallKind::Charge, vec![named(&name, 1)]).unwrap();
            assert!(!denied.outcomes[0].is_admitted());
            assert!(!charge(&Probe::new(&store, "none", [global(algorithm, "0/min")])).unwrap());
        }
        assert_eq!((store.keys_len(), store.entries_len()), held, "{algorithm}");
    }
}

#[test]
fn a_callers_clock_that_is_ahead_makes_nobody_forgotten() {
    for algorithm in Algorithm::ALL {
        let (store, _clock) = small(1_000, 1_000);
        let careful = Probe::new(&store, "careful", [global(algorithm, "1/min")]);
        assert!(charge(&careful).unwrap());
        let year_ahead = T0 + Micros::from_secs(366 * 86_400);
        run(async {
            for _ in 0..100 {
                let hasty = Probe::new(&store, "hasty", [global(algorithm, "5/min")]);
                assert!(hasty.charge(year_ahead, 1).await.is_admitted());
                careful.peek(year_ahead, 1).await;
            }
        });
        assert!(!charge(&careful).unwrap(), "{algorithm}");
    }
}

#[test]
fn what_is_reset_gives_its_room_back() {
    let (store, _clock) = small(4, 100);
    let both = [
        global(Algorithm::TokenBucket, "5/min"),
        region(Algorithm::SlidingCounter, "5/min"),
    ];
    for _ in 0..10_000 {
        let probe = Probe::new(&store, "reset", both);
        assert!(call(&probe, CallKind::Charge, vec![named("a", 1)]).is_ok());
        assert_eq!(store.keys_len(), 3);
        run(probe.reset());
        assert_eq!((store.keys_len(), store.entries_len()), (0, 0));
    }
}

#[test]
fn threads_together_keep_to_the_bounds() {
    let (store, _clock) = small(500, 700);
    let held = std::thread::scope(|scope| {
        let admit = |n: usize| {
            let store = &store;
            move || {
                let admitted = |i: usize| {
                    let name = format!("{n}-{i}");
                    let ceilings = [global(Algorithm::SlidingLog, "9/h")];
                    charge(&Probe::new(store, &name, ceilings)).unwrap_or(false)
                };
                (0..500).filter(|i| admitted(*i)).count()
            }
        };
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(admit(n))).collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!((held, store.keys_len()), (500, 500));
}
