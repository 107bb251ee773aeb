//! Four limiters on a cluster, and what they did.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Limiter;
use tidegate::admission::LocalStage;
use tidegate::limiter::{FleetMember, FleetOptions};
use tidegate::model::{
    Algorithm, Allowance, CeilingRule, LeaseRule, Micros, Policies, Policy, PolicyName, Source,
};
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate_chaos::cluster::{ClusterKind, ClusterSpec as TestOptions, ClusterUnderTest};

pub type Node = Arc<Limiter<ClusterStore>>;

/// A deadline that no busy machine turns into an outage.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub struct Fleet {
    pub nodes: Vec<Node>,
    _members: Vec<FleetMember>,
}

pub async fn six_nodes(options: TestOptions) -> ClusterUnderTest {
    let started = ClusterUnderTest::start(options.kind(ClusterKind::Processes)).await;
    started.expect("a cluster of processes")
}

impl Fleet {
    pub async fn new(
        cluster: &ClusterUnderTest,
        policies: &[Policy],
        stage: &LocalStage,
        deadline: Duration,
    ) -> Self {
        let mut fleet = Fleet {
            nodes: Vec::new(),
            _members: Vec::new(),
        };
        for _ in 0..4 {
            let options = ClusterOptions::from_url(&cluster.redis_url()).expect("a URL");
            let store = ClusterStore::connect(options).expect("a store");
            store.wait_ready(PATIENCE).await.expect("a ready store");
            let limiter = Limiter::builder()
                .policies(Policies::new(policies.iter().cloned()).expect("policies"))
                .store(store)
                .deadline(deadline)
                .local_stage(stage.clone())
                .nodes(1)
                .build()
                .expect("a limiter");
            let limiter = Arc::new(limiter);
            let member = limiter.join_fleet(FleetOptions::default());
            fleet._members.extend(member);
            fleet.nodes.push(limiter);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        fleet
    }

    /// Calls that checks made so far.
    pub fn calls(&self) -> u64 {
        let calls = |n: &Node| n.stats().map_or(0, |s| s.calls);
        self.nodes.iter().map(calls).sum()
    }

    /// Checks that each source answered so far.
    pub fn answered_by(&self, source: Source) -> u64 {
        let of = |n: &Node| {
            let stats = n.stats()?;
            let mut counts = stats.by_source.into_iter();
            counts.find(|(s, _)| *s == source).map(|(_, n)| n)
        };
        self.nodes.iter().filter_map(of).sum()
    }
}

/// A sliding log over all regions.
pub fn policy(name: &str, rate: &str) -> Policy {
    let rule = CeilingRule {
        algorithm: Algorithm::SlidingLog,
        allowance: Allowance::Limited(rate.parse().expect("a rate")),
        delay: false,
    };
    Policy::new(PolicyName::new(name).expect("a name"), Some(rule), None).expect("a policy")
}

pub fn leased(policy: Policy, period: Duration) -> Policy {
    let lease = LeaseRule::new(Micros::from(period), 100).expect("a lease");
    policy.with_lease(Some(lease))
}

/// Which stages are on, with their names.
pub fn stages() -> Vec<(&'static str, LocalStage)> {
    let off = LocalStage::off;
    vec![
        ("none", off()),
        ("denial cache", {
            let mut stage = off();
            stage.denial_cache = true;
            stage
        }),
        ("node ceiling", {
            let mut stage = off();
            stage.node_ceiling = true;
            stage
        }),
        ("lanes", {
            let mut stage = off();
            stage.lanes = true;
            stage
        }),
        ("leases", {
            let mut stage = off();
            stage.leases = true;
            stage
        }),
        ("all but leases", {
            let mut stage = LocalStage::default();
            stage.leases = false;
            stage
        }),
        ("all", LocalStage::default()),
    ]
}

/// The `q`-quantile of what was measured.
pub fn quantile(took: &mut [Duration], q: f64) -> Duration {
    took.sort();
    let at = ((took.len() as f64 * q) as usize).min(took.len().saturating_sub(1));
    took.get(at).copied().unwrap_or_default()
}

pub fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
