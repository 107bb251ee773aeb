//! What a check costs that needs no round trip: a remembered denial and a lease's admission,
//! whole `Limiter::check` with its answer, against governor's own keyed check in the same run. Once
//! by the operating system's clock (the limiter's default) and once by the processor's counter
//! (governor's default), which takes half as long to read.
//!
//! `cargo bench --bench admission --no-default-features --features local-stage`

use std::future::Future;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use governor::clock::{Clock as GovernorClock, MonotonicClock, QuantaClock};
use governor::{Quota as GovernorQuota, RateLimiter};
use tidegate::admission::LocalStage;
use tidegate::clock::{Clock, SystemClock};
use tidegate::model::{
    Algorithm, Allowance, CeilingRule, LeaseRule, Micros, Policies, Policy, PolicyName, Source,
    Timestamp,
};
use tidegate::{Check, Decision, Limiter, MemoryStore};

type Local = Limiter<MemoryStore>;

/// A clock with a button that lets a lease period pass.
#[derive(Clone, Default)]
struct Shifted<C> {
    clock: C,
    ahead_us: Arc<AtomicU64>,
}

impl<C: Clock> Clock for Shifted<C> {
    fn now(&self) -> Timestamp {
        self.clock.now() + Micros::new(self.ahead_us.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

/// The processor's counter, as quanta reads it.
#[derive(Clone)]
struct Counter {
    clock: quanta::Clock,
    started: u64,
    anchor: Timestamp,
}

impl Default for Counter {
    fn default() -> Self {
        let clock = quanta::Clock::new();
        Counter {
            started: clock.raw(),
            clock,
            anchor: SystemClock::default().wall(),
        }
    }
}

impl Clock for Counter {
    fn now(&self) -> Timestamp {
        let elapsed = self.clock.delta_as_nanos(self.started, self.clock.raw());
        self.anchor + Micros::new(elapsed / 1_000)
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

const LEASE_PERIOD: Micros = Micros::from_secs(60);
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(150);

fn policy(name: &str, rate: &str, lease: Option<LeaseRule>) -> Policy {
    let rule = CeilingRule {
        algorithm: Algorithm::SlidingLog,
        allowance: Allowance::Limited(rate.parse().unwrap()),
        delay: false,
    };
    let name = PolicyName::new(name).unwrap();
    let policy = Policy::new(name, Some(rule), Some(rule)).unwrap();
    policy.with_lease(lease)
}

fn limiter<C: Clock + Clone>(clock: &Shifted<C>) -> Local {
    let lease = LeaseRule::new(LEASE_PERIOD, 500).unwrap();
    let policies = [
        policy("denied", "1/d", None),
        policy("leased", "1000000000000/h", Some(lease)),
    ];
    let mut stage = LocalStage::default();
    // As long as a run: what is measured is the cache.
    stage.denial_trust_max = Micros::from_secs(3_600);
    Limiter::builder()
        .policies(Policies::new(policies).unwrap())
        .store(MemoryStore::default())
        .clock(clock.clone())
        .local_stage(stage)
        .build()
        .unwrap()
}

fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a local answer needs no waiting"),
    }
}

fn decide(limiter: &Local, check: &Check) -> Decision {
    now_or_never(limiter.check(check)).unwrap()
}

/// What this thread has spent on a CPU: other work on the machine doesn't count.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos = stat.split_whitespace().next().unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}

/// Nanoseconds of CPU time a call: the least of some rounds.
fn measure(threads: usize, work: impl Fn(usize, usize) + Send + Sync) -> f64 {
    let round = || {
        let (barrier, stop) = (Barrier::new(threads + 1), AtomicBool::new(false));
        let counts: Vec<(u64, Duration)> = std::thread::scope(|scope| {
            let (barrier, stop, work) = (&barrier, &stop, &work);
            let running: Vec<_> = (0..threads)
                .map(|thread| {
                    scope.spawn(move || {
                        barrier.wait();
                        let (mut n, begun) = (0_u64, on_cpu());
                        while !stop.load(Ordering::Relaxed) {
                            for _ in 0..100 {
                                work(thread, n as usize);
                                n += 1;
                            }
                        }
                        (n, on_cpu() - begun)
                    })
                })
                .collect();
            barrier.wait();
            std::thread::sleep(ROUND);
            stop.store(true, Ordering::Relaxed);
            running.into_iter().map(|r| r.join().unwrap()).collect()
        });
        let calls: u64 = counts.iter().map(|c| c.0).sum();
        let spent: Duration = counts.iter().map(|c| c.1).sum();
        spent.as_nanos() as f64 / calls as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Only rows whose name holds the argument are measured, when there is one.
fn is_wanted(name: &str) -> bool {
    let mut wanted = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    wanted.next().is_none_or(|part| name.contains(&part))
}

struct Row {
    name: String,
    ns: f64,
}

fn governor_rows<C>(threads: usize, subjects: usize, rows: &mut Vec<Row>)
where
    C: GovernorClock + Default + Send + Sync,
{
    let names: Vec<String> = (0..subjects)
        .map(|n| format!("video_top/key-{n}/us"))
        .collect();
    let quotas = [
        ("denied", GovernorQuota::per_hour(NonZeroU32::MIN)),
        ("admitted", GovernorQuota::per_second(NonZeroU32::MAX)),
    ];
    for (outcome, quota) in quotas {
        let keyed = RateLimiter::dashmap_with_clock(quota, C::default());
        for name in &names {
            let _ = keyed.check_key(name);
        }
        let row = format!("governor keyed, {outcome}");
        if !is_wanted(&row) {
            continue;
        }
        let ns = measure(threads, |thread, n| {
            let name = &names[(n * 7 + thread) % subjects];
            let _ = black_box(keyed.check_key(black_box(name)));
        });
        rows.push(Row { name: row, ns });
    }
}

fn our_rows<C: Clock>(
    limiter: &Local,
    clock: &Shifted<C>,
    threads: usize,
    subjects: usize,
    rows: &mut Vec<Row>,
) {
    for (policy, source) in [("denied", Source::DenialCache), ("leased", Source::Lease)] {
        let checks: Vec<Check> = (0..subjects)
            .map(|n| Check::new(policy, format!("key-{n}")).region("us"))
            .collect();
        prepare(limiter, clock, &checks);
        let whole = |thread: usize, n: usize| {
            let check = &checks[(n * 7 + thread) % subjects];
            black_box(decide(limiter, black_box(check)));
        };
        let yes_or_no = |thread: usize, n: usize| {
            let check = &checks[(n * 7 + thread) % subjects];
            if black_box(limiter.check_locally(black_box(check))).is_none() {
                // A thread asks in full what it has not met yet.
                black_box(decide(limiter, check));
            }
        };
        let name = format!("check, {}", source.name());
        if is_wanted(&name) {
            let ns = measure(threads, whole);
            rows.push(Row { name, ns });
        }
        let name = format!("check_locally, {}", source.name());
        if is_wanted(&name) {
            let ns = measure(threads, yes_or_no);
            rows.push(Row { name, ns });
        }
        let ended = decide(limiter, &checks[0]);
        assert_eq!(ended.facts().source, source, "it was measured to the end");
        assert!(limiter.check_locally(&checks[0]).is_some());
    }
}

/// Asks for so much that what follows is denied, or worth a lease of a billion units.
fn prepare<C: Clock>(limiter: &Local, clock: &Shifted<C>, checks: &[Check]) {
    for _ in 0..2 {
        for check in checks {
            decide(limiter, &check.clone().cost(1_000_000_000));
            decide(limiter, check);
            decide(limiter, check);
        }
        let period = LEASE_PERIOD.get();
        clock.ahead_us.fetch_add(period, Ordering::Relaxed);
    }
    for check in checks {
        decide(limiter, &check.clone().cost(1_000_000_000));
        decide(limiter, check);
    }
}

/// A limiter by one clock.
struct Bench<C> {
    limiter: Local,
    clock: Shifted<C>,
}

impl<C: Clock + Clone + Default> Default for Bench<C> {
    fn default() -> Self {
        let clock = Shifted::<C>::default();
        let limiter = limiter(&clock);
        Bench { limiter, clock }
    }
}

impl<C: Clock> Bench<C> {
    fn rows<G>(&self, threads: usize, subjects: usize) -> Vec<Row>
    where
        G: GovernorClock + Default + Send + Sync,
    {
        let mut rows = Vec::new();
        governor_rows::<G>(threads, subjects, &mut rows);
        our_rows(&self.limiter, &self.clock, threads, subjects, &mut rows);
        rows
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    println!("nanoseconds of CPU time a call, least of {ROUNDS} rounds");
    println!("{:>54} {:>14}", "system's clock", "counter");
    let (by_system, by_counter) = (Bench::<SystemClock>::default(), Bench::<Counter>::default());
    for (threads, subjects) in [(1, 1), (1, 1_000), (2, 1), (2, 1_000)] {
        println!("{threads} threads, {subjects} subjects");
        let system = by_system.rows::<MonotonicClock>(threads, subjects);
        let counter = by_counter.rows::<QuantaClock>(threads, subjects);
        for (row, by_counter) in system.iter().zip(&counter) {
            println!("  {:38} {:13.1} {:14.1}", row.name, row.ns, by_counter.ns);
        }
    }
}
