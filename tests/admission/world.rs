//! A fleet in a paused runtime: nodes, each over its own link to one model store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::admission::{LocalStage, StageStats};
use tidegate::clock::Clock;
use tidegate::limiter::{FleetMember, FleetOptions, Limiter};
use tidegate::model::{
    Algorithm, Allowance, CeilingRule, LeaseRule, Micros, OnOutage, Policies, Policy, PolicyName,
    Quota, Source, Timestamp,
};
use tidegate::store::Store;
use tidegate::{Check, Decision, MemoryStore};
use tokio::time::Instant;

use crate::model_store::{Executed, Link, ModelStore, Weather};

pub const MS: Duration = Duration::from_millis(1);
pub const DEADLINE: Duration = Duration::from_millis(50);

/// tokio's clock, which stands still while anything runs and jumps when all wait.
#[derive(Clone, Copy)]
pub struct TokioClock {
    started: Instant,
    anchor: Timestamp,
}

impl TokioClock {
    fn at(anchor_secs: u64) -> Self {
        TokioClock {
            started: Instant::now(),
            anchor: Timestamp::from_micros(anchor_secs * 1_000_000),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.anchor + self.started.elapsed().into()
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

pub struct Node {
    pub limiter: Arc<Limiter<Link>>,
    pub weather: Arc<Mutex<Weather>>,
    _member: Option<FleetMember>,
}

impl Node {
    pub async fn check(&self, check: &Check) -> Decision {
        self.limiter.check(check).await.unwrap()
    }

    pub fn calls(&self) -> u64 {
        self.limiter.store().calls_sent()
    }

    pub fn stats(&self) -> StageStats {
        self.limiter.stats().unwrap()
    }

    pub fn weather(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.weather.lock().unwrap());
    }
}

pub struct World {
    pub model: Arc<ModelStore>,
    pub nodes: Vec<Node>,
    started: Instant,
}

impl World {
    /// A fleet whose store's clock is far from its nodes'. Call it inside a paused runtime.
    pub fn new(policies: &[Policy], nodes: usize, stage: &LocalStage) -> Self {
        World::with_nodes_min(policies, nodes, stage, 1)
    }

    /// The same, built for so many nodes at least.
    pub fn with_nodes_min(
        policies: &[Policy],
        nodes: usize,
        stage: &LocalStage,
        nodes_min: u32,
    ) -> Self {
        let (store_clock, clock) = (TokioClock::at(1_900_000_000), TokioClock::at(1_700_000_000));
        let memory = MemoryStore::builder().clock(store_clock).build();
        let model = Arc::new(ModelStore::new(memory, nodes));
        let node = |_| {
            let weather: Arc<Mutex<Weather>> = Arc::default();
            let link = Link::new(&model, &weather);
            let limiter = Limiter::builder()
                .policies(Policies::new(policies.iter().cloned()).unwrap())
                .store(link)
                .clock(clock)
                .deadline(DEADLINE)
                .local_stage(stage.clone())
                .nodes(nodes_min)
                .build()
                .unwrap();
            let limiter = Arc::new(limiter);
            let _member = limiter.join_fleet(FleetOptions::default());
            Node {
                limiter,
                weather,
                _member,
            }
        };
        World {
            nodes: (0..nodes).map(node).collect(),
            model,
            started: Instant::now(),
        }
    }

    pub fn one(policy: Policy) -> Self {
        World::new(&[policy], 1, &LocalStage::default())
    }

    pub fn node(&self) -> &Node {
        &self.nodes[0]
    }

    pub fn executed(&self) -> Vec<Executed> {
        self.model.executed()
    }

    /// What the store itself says now of this check, changing nothing.
    pub async fn peek(&self, check: &Check) -> Decision {
        let node = self.node();
        let before = std::mem::take(&mut *node.weather.lock().unwrap());
        let decision = node.limiter.peek(check).await.unwrap();
        *node.weather.lock().unwrap() = before;
        decision
    }

    /// Units used of each ceiling, by the store.
    pub async fn used(&self, check: &Check) -> Vec<u64> {
        let peek = self.peek(&check.clone().cost(0)).await;
        let ceilings = &peek.facts().ceilings;
        ceilings.iter().map(|c| c.limit - c.remaining).collect()
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

pub fn rule(algorithm: Algorithm, rate: &str) -> Option<CeilingRule> {
    let quota: Quota = rate.parse().unwrap();
    Some(CeilingRule {
        algorithm,
        allowance: Allowance::Limited(quota),
        delay: false,
    })
}

/// `p`: a sliding log over all regions.
pub fn global(rate: &str) -> Policy {
    let name = PolicyName::new("p").unwrap();
    Policy::new(name, rule(Algorithm::SlidingLog, rate), None).unwrap()
}

/// `p`: sliding logs over all regions and over each.
pub fn dual(global: &str, region: &str) -> Policy {
    let name = PolicyName::new("p").unwrap();
    let (global, region) = (
        rule(Algorithm::SlidingLog, global),
        rule(Algorithm::SlidingLog, region),
    );
    Policy::new(name, global, region).unwrap()
}

pub fn on_outage(policy: Policy, on_outage: OnOutage) -> Policy {
    policy.with_on_outage(on_outage)
}

pub fn leased(policy: Policy, period_ms: u64, share_max_permille: u16) -> Policy {
    let lease = LeaseRule::new(Micros::from_millis(period_ms), share_max_permille).unwrap();
    policy.with_lease(Some(lease))
}

pub fn check(subject: &str) -> Check {
    Check::new("p", subject)
}

pub fn source(decision: &Decision) -> Source {
    decision.facts().source
}

/// How often each source answered, by the stage's own count.
pub fn by_source(stats: &StageStats, source: Source) -> u64 {
    let mut counts = stats.by_source.iter();
    counts.find(|(s, _)| *s == source).map_or(0, |(_, n)| *n)
}

/// Lets everything that can run run, without time passing.
pub async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
