//! A caller of a store: one subject under one policy, asking at instants of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate::model::{
    Algorithm, Allowance, Ceiling, CeilingRule, ChargeId, Cost, Micros, Policy, PolicyName, Quota,
    Region, Retry, Scope, Subject, Target, Timestamp,
};
use tidegate::store::{
    CallClock, CallKind, ChargeCall, ChargeReply, ChargeRequest, IdOrigin, Outcome, RefundCall,
    Refunded, ResetCall, Store,
};

/// Where the tests' time begins: a day, an hour and a minute begin there too.
pub const T0: Timestamp = Timestamp::from_micros(1_759_968_000 * 1_000_000);

/// The instant `seconds` after [`T0`].
pub fn at(seconds: f64) -> Timestamp {
    Timestamp::from_micros(
        T0.as_micros()
            .saturating_add_signed((seconds * 1e6).round() as i64),
    )
}

/// So many seconds.
pub fn s(seconds: f64) -> Micros {
    Micros::new((seconds * 1e6).round() as u64)
}

/// A quota from its rate.
pub fn quota(rate: &str) -> Quota {
    rate.parse().unwrap()
}

/// A ceiling over all regions.
pub fn global(algorithm: Algorithm, rate: &str) -> Ceiling {
    Ceiling {
        scope: Scope::Global,
        algorithm,
        quota: quota(rate),
        delay: true,
    }
}

/// A ceiling of the region.
pub fn region(algorithm: Algorithm, rate: &str) -> Ceiling {
    Ceiling {
        scope: Scope::Region,
        ..global(algorithm, rate)
    }
}

/// The same with a burst.
pub fn with_burst(ceiling: Ceiling, burst: u64) -> Ceiling {
    Ceiling {
        quota: ceiling.quota.with_burst(burst).unwrap(),
        ..ceiling
    }
}

/// An id that nobody had before.
pub fn fresh_id() -> ChargeId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    ChargeId::new(format!("{:x}.{n:x}", std::process::id())).unwrap()
}

/// A request of the limiter's own id.
pub fn fresh(cost: Cost) -> ChargeRequest {
    ChargeRequest {
        id: fresh_id(),
        origin: IdOrigin::Fresh,
        cost,
        held_for: None,
    }
}

/// A request of the caller's id.
pub fn named(id: &str, cost: Cost) -> ChargeRequest {
    ChargeRequest {
        id: ChargeId::new(id).unwrap(),
        origin: IdOrigin::Caller,
        cost,
        held_for: None,
    }
}

/// One subject under one policy.
#[derive(Debug)]
pub struct Probe<S> {
    pub store: Arc<S>,
    pub target: Arc<Target>,
}

impl<S> Clone for Probe<S> {
    fn clone(&self) -> Self {
        Probe {
            store: Arc::clone(&self.store),
            target: Arc::clone(&self.target),
        }
    }
}

fn policy(name: &str, ceilings: &[Ceiling]) -> Arc<Policy> {
    let rule = |scope| {
        let of_scope = ceilings.iter().find(|c: &&Ceiling| c.scope == scope);
        of_scope.map(|c| CeilingRule {
            algorithm: c.algorithm,
            allowance: Allowance::Limited(c.quota),
            delay: c.delay,
        })
    };
    let name = PolicyName::new(name).unwrap();
    Arc::new(Policy::new(name, rule(Scope::Global), rule(Scope::Region)).unwrap())
}

impl<S: Store> Probe<S> {
    /// A subject of its own, in `us` when a ceiling is a region's.
    pub fn new(store: &Arc<S>, name: &str, ceilings: impl Into<Vec<Ceiling>>) -> Self {
        let ceilings = ceilings.into();
        let regional = ceilings.iter().any(|c| c.scope == Scope::Region);
        Probe {
            store: Arc::clone(store),
            target: Arc::new(Target {
                policy: policy("tested", &ceilings),
                subject: Subject::new(super::unique(name)).unwrap(),
                region: regional.then(|| Region::new("us").unwrap()),
                ceilings,
            }),
        }
    }

    fn with(&self, change: impl FnOnce(&mut Target)) -> Self {
        let mut target = (*self.target).clone();
        change(&mut target);
        Probe {
            store: Arc::clone(&self.store),
            target: Arc::new(target),
        }
    }

    /// The same subject in another region.
    pub fn region(&self, name: &str) -> Self {
        self.with(|t| t.region = t.region.as_ref().map(|_| Region::new(name).unwrap()))
    }

    /// The same subject under changed ceilings.
    pub fn ceilings(&self, ceilings: impl Into<Vec<Ceiling>>) -> Self {
        self.with(|t| {
            t.ceilings = ceilings.into();
            t.policy = policy(t.policy.name().as_str(), &t.ceilings);
        })
    }

    /// The same subject under another policy.
    pub fn policy(&self, name: &str) -> Self {
        self.with(|t| t.policy = policy(name, &t.ceilings))
    }

    /// Another subject under the same policy.
    pub fn subject(&self, name: &str) -> Self {
        self.with(|t| t.subject = Subject::new(name).unwrap())
    }

    /// One call, as it comes back.
    pub async fn call(
        &self,
        clock: CallClock,
        kind: CallKind,
        requests: Vec<ChargeRequest>,
    ) -> ChargeReply {
        let call = ChargeCall {
            target: Arc::clone(&self.target),
            requests,
            clock,
            kind,
            deadline: deadline(),
        };
        let expected = call.requests.len();
        let reply = self.store.charge(call).await.unwrap();
        assert_eq!(reply.outcomes.len(), expected);
        reply
    }

    /// Charges several requests in one call.
    pub async fn batch(&self, now: Timestamp, requests: Vec<ChargeRequest>) -> Vec<Outcome> {
        let clock = CallClock::At(now);
        let reply = self.call(clock, CallKind::Charge, requests).await;
        assert_eq!(reply.at, now);
        reply.outcomes
    }

    /// Charges one request.
    pub async fn request(&self, now: Timestamp, request: ChargeRequest) -> Outcome {
        self.batch(now, vec![request]).await.remove(0)
    }

    /// Charges `cost` under an id of the limiter's own.
    pub async fn charge(&self, now: Timestamp, cost: Cost) -> Outcome {
        self.request(now, fresh(cost)).await
    }

    /// Charges units one by one; how many were admitted.
    pub async fn admitted(&self, now: Timestamp, count: usize) -> usize {
        let mut admitted = 0;
        for _ in 0..count {
            admitted += usize::from(self.charge(now, 1).await.is_admitted());
        }
        admitted
    }

    /// What a charge of `cost` would be answered.
    pub async fn peek(&self, now: Timestamp, cost: Cost) -> Outcome {
        let clock = CallClock::At(now);
        let mut reply = self.call(clock, CallKind::Peek, vec![fresh(cost)]).await;
        reply.outcomes.remove(0)
    }

    /// Gives a charge back.
    pub async fn refund(&self, now: Timestamp, id: &str, cost: Option<Cost>) -> Refunded {
        let call = RefundCall {
            target: Arc::clone(&self.target),
            id: ChargeId::new(id).unwrap(),
            cost,
            clock: CallClock::At(now),
            deadline: deadline(),
        };
        self.store.refund(call).await.unwrap()
    }

    /// Forgets.
    pub async fn reset(&self) {
        let call = ResetCall {
            target: Arc::clone(&self.target),
            deadline: deadline(),
        };
        self.store.reset(call).await.unwrap();
    }

    /// Denied now with this wait: the same request is admitted after it, and denied a microsecond
    /// before.
    pub async fn assert_exact(&self, now: Timestamp, cost: Cost, wait: Micros) {
        assert!(wait > Micros::ZERO, "a wait of nothing is no denial");
        let early = now + wait.saturating_sub(Micros::new(1));
        let before = self.peek(early, cost).await;
        assert!(!before.is_admitted(), "admitted before {wait} s were over");
        let after = self.peek(now + wait, cost).await;
        assert!(
            after.is_admitted(),
            "still denied after {wait} s: {after:?}"
        );
    }
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// What a denial is read by.
pub trait Reading {
    /// The wait of a denial; none when admitted or never.
    fn wait(&self) -> Option<Micros>;
    /// Whether it is never.
    fn never(&self) -> bool;
    /// What is left, by ceiling.
    fn remaining(&self) -> Vec<u64>;
    /// When each ceiling is whole.
    fn reset(&self) -> Vec<Micros>;
}

impl Reading for Outcome {
    fn wait(&self) -> Option<Micros> {
        let longest = self.ceilings.iter().filter_map(|c| c.retry).max();
        longest.and_then(Retry::after)
    }

    fn never(&self) -> bool {
        self.ceilings.iter().any(|c| c.retry == Some(Retry::Never))
    }

    fn remaining(&self) -> Vec<u64> {
        self.ceilings.iter().map(|c| c.remaining).collect()
    }

    fn reset(&self) -> Vec<Micros> {
        self.ceilings.iter().map(|c| c.reset_after).collect()
    }
}
