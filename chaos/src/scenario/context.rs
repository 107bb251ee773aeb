//! A scenario's view of its run: the cluster, the time, and the events it leaves. Never reads what
//! the instances answer.

use std::time::Duration;

use super::catalog::Act;
use super::environment::{Environment, EnvironmentError};
use crate::cluster::{ClusterError, ClusterUnderTest};
use crate::load::wall_us;
use crate::report::Event;

/// How long something that a script waits for may take.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// How often it looks.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The times of a fault, in microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultTimes {
    /// When it came.
    pub fault_at: u64,
    /// From when on recovery is counted.
    pub recovery_from: u64,
    /// Until when the store may have acknowledged what it then forgot.
    pub lost_until: u64,
    /// When the replica said that it had taken over, where one did.
    pub taken_at: Option<u64>,
}

/// What a script plays on.
pub struct RunContext<'a> {
    /// The cluster.
    pub environment: &'a Environment,
    /// When the load began, in microseconds since the epoch.
    pub began_at: u64,
    /// How long checks are asked, in milliseconds.
    pub length_ms: u64,
    /// The shard that the fault is done to.
    pub victim: usize,
    /// Subjects with traffic on the victim.
    pub subjects: Vec<String>,
    events: Vec<Event>,
}

impl<'a> RunContext<'a> {
    /// A context without events.
    pub fn new(
        environment: &'a Environment,
        began_at: u64,
        length_ms: u64,
        subjects: Vec<String>,
    ) -> Self {
        let victim = usize::from(environment.shards().count() > 1);
        RunContext {
            environment,
            began_at,
            length_ms,
            victim,
            subjects,
            events: Vec::new(),
        }
    }

    /// Notes that something happens now, and returns when that is.
    pub fn event(&mut self, label: impl Into<String>) -> u64 {
        let at = wall_us();
        self.events.push(Event {
            at,
            label: label.into(),
        });
        at
    }

    /// What was noted.
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// Waits until so long after the load's beginning.
    pub async fn until_ms(&self, ms: u64) {
        let at = self.began_at.saturating_add(ms.saturating_mul(1_000));
        tokio::time::sleep(Duration::from_micros(at.saturating_sub(wall_us()))).await;
    }

    /// Waits.
    pub async fn pause_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// The cluster, for a fault that may only be done to our own.
    ///
    /// # Errors
    /// When it is somebody else's.
    pub fn own(&self, act: Act) -> Result<&'a ClusterUnderTest, EnvironmentError> {
        self.environment.own().ok_or_else(|| {
            let why = "it would hurt a cluster that chaos did not start; \
                       use --against containers or processes";
            EnvironmentError::Unusable(format!("{act:?}"), why.to_owned())
        })
    }

    /// Waits until a node says that it is a primary, notes it, and returns when that was.
    ///
    /// # Errors
    /// When that takes 20 s.
    pub async fn await_primary(&mut self, node: usize) -> Result<u64, EnvironmentError> {
        self.await_role(node, "role:master").await?;
        Ok(self.event(format!("node {node} has taken over")))
    }

    /// Waits until a node says this of its replication.
    ///
    /// # Errors
    /// When that takes 20 s.
    async fn await_role(&self, node: usize, role: &str) -> Result<(), EnvironmentError> {
        let asked = async {
            loop {
                let reply = self.environment.run(node, &["INFO", "replication"]).await;
                let text = reply.ok().and_then(|r| r.text().map(str::to_owned));
                if text.is_some_and(|text| text.lines().any(|line| line.trim() == role)) {
                    return;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let waited = tokio::time::timeout(WAIT_MAX, asked).await;
        waited.map_err(|_| {
            EnvironmentError::Cluster(ClusterError::TimedOut {
                what: format!("node {node} to say {role}"),
                seen: "something else, or nothing".into(),
                waited: WAIT_MAX,
            })
        })
    }
}
