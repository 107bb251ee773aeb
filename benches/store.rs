//! What a check costs in the memory store, by algorithm: admitted and denied, one ceiling and two,
//! alone, in batches, and from several threads. Run with `cargo bench --bench store`.

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate::MemoryStore;
use tidegate::model::{
    Algorithm, Allowance, CeilingRule, ChargeId, Policy, PolicyName, Region, Subject, Target,
};
use tidegate::store::{
    CallClock, CallKind, ChargeCall, ChargeReply, ChargeRequest, IdOrigin, Store,
};

const SUBJECTS: usize = 10_000;

fn rule(algorithm: Algorithm, rate: &str) -> Option<CeilingRule> {
    Some(CeilingRule {
        algorithm,
        allowance: Allowance::Limited(rate.parse().expect("a rate")),
        delay: true,
    })
}

fn targets(global: Option<CeilingRule>, region: Option<CeilingRule>) -> Vec<Arc<Target>> {
    let name = PolicyName::new("bench").expect("a name");
    let policy = Arc::new(Policy::new(name, global, region).expect("a policy"));
    let target = |n| {
        let subject = Subject::new(format!("key-{n}")).expect("a subject");
        let region = region.map(|_| Region::new("us").expect("a region"));
        Arc::new(Target {
            ceilings: policy
                .ceilings(&subject, region.as_ref())
                .expect("ceilings"),
            policy: Arc::clone(&policy),
            subject,
            region,
        })
    };
    (0..SUBJECTS).map(target).collect()
}

/// Calls made ready beforehand, so that only the store is measured.
struct Caller {
    targets: Vec<Arc<Target>>,
    deadline: Instant,
    next: usize,
}

impl Caller {
    fn new(targets: Vec<Arc<Target>>) -> Self {
        Caller {
            targets,
            deadline: Instant::now() + Duration::from_secs(3_600),
            next: 0,
        }
    }

    fn call(&mut self, requests: usize) -> ChargeCall {
        let request = |n: usize| ChargeRequest {
            id: ChargeId::new(format!("7f3a.{n:x}")).expect("an id"),
            origin: IdOrigin::Fresh,
            cost: 1,
            held_for: None,
        };
        let first = self.next;
        self.next += requests;
        // A step that meets all subjects, in no order that a cache could like.
        let subject = (first / requests).wrapping_mul(7_919) % self.targets.len();
        ChargeCall {
            target: Arc::clone(&self.targets[subject]),
            requests: (first..self.next).map(request).collect(),
            clock: CallClock::Store,
            kind: CallKind::Charge,
            deadline: self.deadline,
        }
    }
}

/// A store in memory answers at once.
fn answer(store: &MemoryStore, call: ChargeCall) -> ChargeReply {
    let future = pin!(store.charge(call));
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => reply.expect("a reply"),
        Poll::Pending => unreachable!("the memory store never waits"),
    }
}

fn check(c: &mut Criterion, name: &str, targets: Vec<Arc<Target>>, requests: usize) {
    let store = MemoryStore::default();
    let mut caller = Caller::new(targets);
    for _ in 0..2 * SUBJECTS {
        answer(&store, caller.call(1));
    }
    let mut group = c.benchmark_group("memory");
    group.throughput(Throughput::Elements(requests as u64));
    group.bench_function(name, |b| {
        b.iter_batched(
            || caller.call(requests),
            |call| black_box(answer(&store, call)),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn by_algorithm(c: &mut Criterion) {
    for algorithm in Algorithm::ALL {
        let one = |rate| targets(rule(algorithm, rate), None);
        check(c, &format!("{algorithm}/admitted"), one("1000000/s"), 1);
        check(c, &format!("{algorithm}/denied"), one("1/d"), 1);
    }
    let log = Algorithm::SlidingLog;
    let both = |g, r| targets(rule(log, g), rule(log, r));
    check(c, "two logs/admitted", both("2000/s", "1000/s"), 1);
    check(c, "two logs/denied", both("2/d", "1/d"), 1);
    check(c, "two logs/64 in a call", both("20000/s", "10000/s"), 64);
    let mixed = targets(
        rule(Algorithm::TokenBucket, "1000000/s"),
        rule(Algorithm::SlidingCounter, "1000000/s"),
    );
    check(c, "bucket and counter/admitted", mixed, 1);
}

/// Calls a second of several threads, on many subjects and on one.
fn threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("memory threads");
    for (name, subjects) in [("many subjects", SUBJECTS), ("one subject", 1)] {
        for threads in [1_usize, 2, 4] {
            let id = BenchmarkId::new(name, threads);
            group.throughput(Throughput::Elements(1));
            group.bench_function(id, |b| {
                let store = MemoryStore::default();
                let mut all = targets(rule(Algorithm::TokenBucket, "1000000/s"), None);
                all.truncate(subjects);
                b.iter_custom(|calls| elapsed(&store, &all, threads, calls));
            });
        }
    }
    group.finish();
}

fn elapsed(store: &MemoryStore, targets: &[Arc<Target>], threads: usize, calls: u64) -> Duration {
    let each = usize::try_from(calls).expect("a count") / threads + 1;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..threads {
            scope.spawn(move || {
                let mut caller = Caller::new(targets.to_vec());
                caller.next = n * 1_000_003;
                for _ in 0..each {
                    black_box(answer(store, caller.call(1)));
                }
            });
        }
    });
    began.elapsed()
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_200));
    targets = by_algorithm, threads
}
criterion_main!(benches);
