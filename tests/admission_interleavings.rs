//! The lanes and the lease pool under a scheduler that tries interleavings (shuttle). The files
//! under test are compiled here a second time, against the scheduler's locks and atomics.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;

use shuttle::sync::Mutex;
use shuttle::thread;
use tidegate::model;
use tidegate::model::{ChargeId, Timestamp};

mod sync {
    pub use shuttle::sync::Mutex;
    pub use shuttle::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
}

#[path = "../src/admission/stage/lane.rs"]
#[allow(dead_code)]
mod lane;
#[path = "../src/admission/stage/lease_pool.rs"]
#[allow(dead_code)]
mod lease_pool;
#[path = "../src/admission/stage/ticket.rs"]
#[allow(dead_code)]
mod ticket;

use lane::{Lane, Queued};
use lease_pool::{Lease, LeasePool};
use ticket::{Cancelled, Ticket};

const RANDOM: usize = 20_000;
const BY_PRIORITY: usize = 10_000;

/// Tries interleavings at random, and such that need few preemptions (PCT).
fn try_interleavings(test: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(test.clone(), RANDOM);
    shuttle::check_pct(test, BY_PRIORITY, 3);
}

/// A lane, and what was sent out of it.
#[derive(Default)]
struct Yard {
    lane: Lane<u32>,
    sent: Mutex<Vec<u32>>,
    drains: Mutex<u32>,
}

/// What `admission/stage/drain.rs` does, without the calls.
fn drain(yard: &Yard) {
    {
        let mut drains = yard.drains.lock().unwrap();
        *drains += 1;
        assert_eq!(*drains, 1, "one drain a lane");
    }
    loop {
        while let Some(item) = yard.lane.pop() {
            yard.sent.lock().unwrap().push(item);
        }
        if yard.lane.has_lone_call() {
            thread::yield_now();
            continue;
        }
        // Let go before another can be called.
        *yard.drains.lock().unwrap() -= 1;
        if yard.lane.waiting() == 0 && yard.lane.retire() {
            return;
        }
        *yard.drains.lock().unwrap() += 1;
    }
}

/// One check: alone if it can, else through the lane.
fn ask(yard: &Arc<Yard>, item: u32) -> Option<thread::JoinHandle<()>> {
    if yard.lane.try_alone() {
        yard.sent.lock().unwrap().push(item);
        yard.lane.end_alone();
        return None;
    }
    match yard.lane.push(item, 8) {
        Ok(Queued::Drained) => None,
        Ok(Queued::NeedsDrain) => {
            let yard = Arc::clone(yard);
            Some(thread::spawn(move || drain(&yard)))
        }
        Err(_) => panic!("there was room"),
    }
}

#[test]
fn every_check_is_sent_once_and_the_lane_is_idle_in_the_end() {
    try_interleavings(|| {
        let yard = Arc::new(Yard::default());
        let callers: Vec<_> = (0..3)
            .map(|caller| {
                let yard = Arc::clone(&yard);
                thread::spawn(move || {
                    let drains = [ask(&yard, caller * 10), ask(&yard, caller * 10 + 1)];
                    for drain in drains.into_iter().flatten() {
                        drain.join().unwrap();
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.join().unwrap();
        }
        let sent = yard.sent.lock().unwrap();
        let once: BTreeSet<u32> = sent.iter().copied().collect();
        assert_eq!((sent.len(), once.len()), (6, 6), "{sent:?}");
        assert_eq!(yard.lane.waiting(), 0);
        assert!(yard.lane.try_alone(), "nobody holds the lane");
    });
}

#[test]
fn a_bounded_lane_holds_no_more_than_its_bound() {
    try_interleavings(|| {
        let lane = Arc::new(Lane::default());
        assert!(lane.try_alone());
        let callers: Vec<_> = (0..4)
            .map(|item| {
                let lane = Arc::clone(&lane);
                thread::spawn(move || lane.push(item, 2).is_ok())
            })
            .collect();
        let queued = callers
            .into_iter()
            .filter_map(|c| c.join().unwrap().then_some(()))
            .count();
        assert!(queued <= 2 && queued == lane.waiting());
    });
}

#[test]
fn a_lane_that_was_abandoned_serves_whoever_comes_next() {
    try_interleavings(|| {
        let yard = Arc::new(Yard::default());
        assert!(yard.lane.try_alone());
        assert!(matches!(yard.lane.push(1, 8), Ok(Queued::NeedsDrain)));
        let lone = {
            let yard = Arc::clone(&yard);
            thread::spawn(move || yard.lane.end_alone())
        };
        yard.lane.abandon();
        while yard.lane.pop().is_some() {}
        lone.join().unwrap();
        assert!(yard.lane.try_alone());
    });
}

#[test]
fn an_answer_is_read_or_comes_back_and_never_both() {
    try_interleavings(|| {
        let ticket = Ticket::new();
        let lane = {
            let ticket = Arc::clone(&ticket);
            thread::spawn(move || {
                let sent = ticket.claim();
                (sent, sent && ticket.deliver(7).is_err())
            })
        };
        let left = ticket.cancel(false);
        let (sent, came_back) = lane.join().unwrap();
        match left {
            Cancelled::Unsent => assert!(!sent),
            Cancelled::InFlight => assert!(sent && came_back),
            Cancelled::Answered(answer) => assert!(sent && !came_back && answer == 7),
        }
    });
}

#[test]
fn who_waits_is_woken_by_the_answer() {
    try_interleavings(|| {
        let ticket = Ticket::new();
        let lane = {
            let ticket = Arc::clone(&ticket);
            thread::spawn(move || {
                assert!(ticket.claim());
                assert!(ticket.deliver(7).is_ok());
            })
        };
        let answer = shuttle::future::block_on(std::future::poll_fn(|cx| ticket.poll(cx)));
        assert_eq!(answer, 7);
        lane.join().unwrap();
    });
}

#[test]
fn one_that_keeps_what_it_charged_is_known_to_when_the_answer_comes_late() {
    try_interleavings(|| {
        let ticket = Ticket::new();
        assert!(ticket.claim());
        let caller = {
            let ticket = Arc::clone(&ticket);
            thread::spawn(move || ticket.cancel(true))
        };
        let late = ticket.deliver(7);
        match caller.join().unwrap() {
            Cancelled::InFlight => assert_eq!(late, Err((7, true))),
            Cancelled::Answered(7) => assert_eq!(late, Ok(())),
            other => panic!("{other:?}"),
        }
        let waker = std::task::Waker::noop();
        let polled = ticket.poll(&mut std::task::Context::from_waker(waker));
        assert!(matches!(polled, Poll::Pending), "nothing is read twice");
    });
}

fn lease(units: u64) -> Arc<Lease> {
    let id = ChargeId::new("lease").unwrap();
    let ends_at = Timestamp::from_micros(100);
    Arc::new(Lease::new(id, units, ends_at))
}

#[test]
fn a_unit_is_spent_or_handed_back_and_never_both() {
    try_interleavings(|| {
        let lease = lease(5);
        let spenders: Vec<_> = [2, 1, 3]
            .map(|cost| {
                let lease = Arc::clone(&lease);
                thread::spawn(move || {
                    let spent = lease.spend(cost, Timestamp::from_micros(1));
                    if spent.is_some() { cost } else { 0 }
                })
            })
            .into();
        let closing = {
            let lease = Arc::clone(&lease);
            thread::spawn(move || lease.close())
        };
        let spent: u64 = spenders.into_iter().map(|s| s.join().unwrap()).sum();
        let rest = closing.join().unwrap();
        assert!(spent + rest <= 5);
        assert_eq!(spent + rest + lease.left(), 5);
        assert_eq!(lease.left(), 0, "closed");
        assert_eq!(lease.spend(1, Timestamp::from_micros(1)), None);
    });
}

#[test]
fn leases_that_follow_each_other_lose_and_double_no_unit() {
    try_interleavings(|| {
        let pool = Arc::new(LeasePool::default());
        let first = lease(3);
        assert!(pool.replace(Arc::clone(&first)).is_none());
        let spenders: Vec<_> = (0..3)
            .map(|_| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || {
                    let spend = || pool.spend(1, Timestamp::from_micros(1), |_, _| ());
                    u64::from(spend().is_some()) + u64::from(spend().is_some())
                })
            })
            .collect();
        let keeper = {
            let (pool, first) = (Arc::clone(&pool), Arc::clone(&first));
            thread::spawn(move || {
                pool.remove(&first);
                first.close()
            })
        };
        let second = lease(3);
        let before = pool.replace(Arc::clone(&second));
        let mut rest = before.map_or(0, |before| before.close());
        let spent: u64 = spenders.into_iter().map(|s| s.join().unwrap()).sum();
        rest += keeper.join().unwrap();
        rest += pool.current().map_or(0, |current| current.close());
        assert_eq!(spent + rest, 6);
        assert_eq!((first.left(), second.left()), (0, 0));
    });
}

#[test]
fn nothing_is_spent_at_or_after_the_end() {
    let once = 1;
    let test = || {
        let lease = lease(5);
        assert_eq!(lease.spend(1, Timestamp::from_micros(99)), Some(4));
        assert_eq!(lease.spend(1, Timestamp::from_micros(100)), None);
    };
    shuttle::check_random(test, once);
}
