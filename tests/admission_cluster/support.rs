//! Fleets of limiters on one cluster.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tidegate::admission::{LocalStage, StageStats};
use tidegate::limiter::{FleetMember, FleetOptions};
use tidegate::model::{
    Algorithm, Allowance, CeilingRule, LeaseRule, Micros, OnOutage, Policies, Policy, PolicyName,
};
use tidegate::store::Store;
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate::{Check, Limiter};
use tidegate_chaos::cluster::{ClusterKind, ClusterSpec as TestOptions, ClusterUnderTest};

pub type Node = Arc<Limiter<ClusterStore>>;

pub struct Fleet {
    pub nodes: Vec<Node>,
    members: Vec<FleetMember>,
}

pub async fn start(options: TestOptions) -> ClusterUnderTest {
    ClusterUnderTest::start(options.kind(ClusterKind::Processes))
        .await
        .unwrap_or_else(|e| panic!("{e}"))
}

pub async fn six_nodes() -> ClusterUnderTest {
    start(TestOptions::default()).await
}

/// How long a check may take where a busy machine must not turn it into an outage.
pub const PATIENCE: Duration = Duration::from_secs(20);

impl Fleet {
    pub async fn new(
        cluster: &ClusterUnderTest,
        count: usize,
        policies: &[Policy],
        stage: &LocalStage,
        deadline: Duration,
    ) -> Self {
        let mut fleet = Fleet {
            nodes: Vec::new(),
            members: Vec::new(),
        };
        for _ in 0..count {
            let options = ClusterOptions::from_url(&cluster.redis_url()).unwrap();
            let store = ClusterStore::connect(options).unwrap();
            store.wait_ready(PATIENCE).await.unwrap();
            let limiter = Limiter::builder()
                .policies(Policies::new(policies.iter().cloned()).unwrap())
                .store(store)
                .deadline(deadline)
                .local_stage(stage.clone())
                .nodes(1)
                .build()
                .unwrap();
            let limiter = Arc::new(limiter);
            let mut options = FleetOptions::default();
            options.ttl = Duration::from_secs(2);
            fleet.members.extend(limiter.join_fleet(options));
            fleet.nodes.push(limiter);
        }
        eventually("all nodes to know each other", async || {
            let knows = |n: &Node| stats(n).nodes as usize == count;
            fleet.nodes.iter().all(knows)
        })
        .await;
        fleet
    }

    /// The last node falls silent and goes.
    pub fn lose_one(&mut self) {
        self.members.pop();
        self.nodes.pop();
    }

    pub fn calls(&self) -> u64 {
        self.nodes.iter().map(|n| stats(n).calls).sum()
    }
}

pub fn stats(node: &Node) -> StageStats {
    node.stats().unwrap()
}

/// `p`: a sliding log over all regions.
pub fn policy(rate: &str) -> Policy {
    named("p", rate)
}

pub fn named(name: &str, rate: &str) -> Policy {
    let rule = CeilingRule {
        algorithm: Algorithm::SlidingLog,
        allowance: Allowance::Limited(rate.parse().unwrap()),
        delay: false,
    };
    Policy::new(PolicyName::new(name).unwrap(), Some(rule), None).unwrap()
}

pub fn leased(policy: Policy, period_ms: u64) -> Policy {
    let lease = LeaseRule::new(Micros::from_millis(period_ms), 100).unwrap();
    policy.with_lease(Some(lease))
}

pub fn on_outage(policy: Policy, on_outage: OnOutage) -> Policy {
    policy.with_on_outage(on_outage)
}

pub fn check(subject: &str) -> Check {
    Check::new("p", subject)
}

/// The answer, when no waiting is needed for it.
pub async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
    match polled {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Looks until it is so, 30 s at most.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        let waited = begun.elapsed();
        assert!(
            waited < Duration::from_secs(30),
            "waited in vain for {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The most units of `admitted`, by instant, in any window.
pub fn most_in_a_window(mut admitted: Vec<Instant>, window: Duration) -> usize {
    admitted.sort();
    let (mut from, mut most) = (0, 0);
    for (n, at) in admitted.iter().enumerate() {
        while at.duration_since(admitted[from]) >= window {
            from += 1;
        }
        most = most.max(n + 1 - from);
    }
    most
}

/// The nodes that serve `subject`: its primary and that one's replica.
pub async fn shard_of(cluster: &ClusterUnderTest, subject: &str) -> [usize; 2] {
    let key = format!("tg:{{{subject}}}:p:g");
    let primary = cluster.primary_of(&key).await.unwrap();
    [primary, primary + 3]
}

/// A subject of each shard.
pub fn one_of_each_shard(node: &Node) -> Vec<String> {
    let mut found = std::collections::BTreeMap::new();
    for n in 0..1_000 {
        let subject = format!("key-{n}");
        let name = tidegate::model::Subject::new(subject.as_str()).unwrap();
        let policy = Arc::clone(node.policies().get("p").unwrap());
        let target = tidegate::model::Target {
            ceilings: policy.ceilings(&name, None).unwrap(),
            policy,
            subject: name,
            region: None,
        };
        found
            .entry(node.store().shard_of(&target))
            .or_insert(subject);
    }
    found.into_values().collect()
}
