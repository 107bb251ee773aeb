//! Clusters, stores, policies and calls that the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate::model::{
    Algorithm, Allowance, CeilingRule, ChargeId, HashTag, KeyPrefix, Micros, Policy, PolicyName,
    Quota, Region, Slot, Subject, Target,
};
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate::store::{CallClock, CallKind, ChargeCall, ChargeRequest, IdOrigin, ShardId, Store};
use tidegate_chaos::cluster::{ClusterKind, ClusterSpec as TestOptions, ClusterUnderTest};

/// Three primaries and three replicas, whole.
pub async fn six_nodes() -> ClusterUnderTest {
    start(TestOptions::default()).await
}

/// A server that is no cluster.
pub async fn single() -> ClusterUnderTest {
    start(TestOptions::single()).await
}

pub async fn start(options: TestOptions) -> ClusterUnderTest {
    ClusterUnderTest::start(options.kind(ClusterKind::Processes))
        .await
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A store on all nodes, that waits for nothing.
pub fn unready_store(cluster: &ClusterUnderTest) -> ClusterStore {
    store_with(&cluster.redis_url(), |_| {})
}

/// A store with options of its own, that waits for nothing.
pub fn store_with(url: &str, set: impl FnOnce(&mut ClusterOptions)) -> ClusterStore {
    let mut options = ClusterOptions::from_url(url).unwrap();
    set(&mut options);
    ClusterStore::connect(options).unwrap()
}

/// A store that is ready.
pub async fn store(cluster: &ClusterUnderTest) -> ClusterStore {
    let store = unready_store(cluster);
    ready(&store).await;
    store
}

pub async fn ready(store: &ClusterStore) {
    store
        .wait_ready(Duration::from_secs(20))
        .await
        .unwrap_or_else(|e| panic!("not ready: {e}"));
}

pub fn within(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

/// Looks until it is so, 20 s at most.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "waited in vain for {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn rule(algorithm: Algorithm, limit: u64) -> CeilingRule {
    // Clock-aligned windows of 366 days: no test crosses a boundary but once a year.
    let window = Micros::from_secs(366 * 86_400);
    CeilingRule {
        algorithm,
        allowance: Allowance::Limited(Quota::new(limit, window).unwrap()),
        delay: false,
    }
}

/// One global ceiling.
pub fn global(algorithm: Algorithm, limit: u64) -> Arc<Policy> {
    let name = PolicyName::new(algorithm.name()).unwrap();
    Arc::new(Policy::new(name, Some(rule(algorithm, limit)), None).unwrap())
}

/// A global ceiling, and one of each region.
pub fn dual(algorithm: Algorithm, limit: u64, region: u64) -> Arc<Policy> {
    let name = PolicyName::new(&format!("{}-dual", algorithm.name())).unwrap();
    let rules = (rule(algorithm, limit), rule(algorithm, region));
    Arc::new(Policy::new(name, Some(rules.0), Some(rules.1)).unwrap())
}

pub fn target(policy: &Arc<Policy>, subject: &str) -> Arc<Target> {
    let subject = Subject::new(subject).unwrap();
    let region = policy
        .region()
        .is_some()
        .then(|| Region::new("us").unwrap());
    Arc::new(Target {
        ceilings: policy.ceilings(&subject, region.as_ref()).unwrap(),
        policy: Arc::clone(policy),
        subject,
        region,
    })
}

/// An id that no other call of this process has.
pub fn fresh_id() -> ChargeId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    ChargeId::new(format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap()
}

/// A charge of `cost` under an id of our own.
pub fn charge(target: &Arc<Target>, cost: u64, deadline_ms: u64) -> ChargeCall {
    ChargeCall {
        target: Arc::clone(target),
        requests: vec![ChargeRequest {
            id: fresh_id(),
            origin: IdOrigin::Fresh,
            cost,
            held_for: None,
        }],
        clock: CallClock::Store,
        kind: CallKind::Charge,
        deadline: within(deadline_ms),
    }
}

/// What a peek finds used of the first ceiling.
pub async fn used(store: &ClusterStore, target: &Arc<Target>) -> u64 {
    let peek = ChargeCall {
        kind: CallKind::Peek,
        ..charge(target, 0, 5_000)
    };
    let reply = store.charge(peek).await.unwrap();
    target.ceilings[0].quota.limit() - reply.outcomes[0].ceilings[0].remaining
}

/// The slot of all keys of a target.
pub fn slot_of(target: &Target) -> Slot {
    let tag = HashTag::of(&target.subject);
    Slot::of(
        tag.stem(&KeyPrefix::default(), target.policy.name())
            .as_bytes(),
    )
}

/// Subjects of each shard, `count` of each.
pub fn subjects_by_shard(
    store: &ClusterStore,
    policy: &Arc<Policy>,
    count: usize,
) -> Vec<(ShardId, Vec<Arc<Target>>)> {
    let mut shards: Vec<(ShardId, Vec<Arc<Target>>)> = Vec::new();
    for n in 0..100_000 {
        let target = target(policy, &format!("subject-{n}"));
        let shard = store.shard_of(&target);
        assert_ne!(shard, ShardId::WHOLE, "every slot is served");
        match shards.iter_mut().find(|(id, _)| *id == shard) {
            Some((_, targets)) if targets.len() < count => targets.push(target),
            Some(_) => {}
            None => shards.push((shard, vec![target])),
        }
        // By then every shard has turned up.
        if n > 300 && shards.iter().all(|(_, targets)| targets.len() == count) {
            break;
        }
    }
    shards.sort_by_key(|(id, _)| *id);
    shards
}

/// The index of the node that is the primary of a target.
pub async fn primary_of(cluster: &ClusterUnderTest, target: &Target) -> usize {
    let key = format!("tg:{{{}}}:x", target.subject.as_str());
    cluster.primary_of(&key).await.unwrap()
}
