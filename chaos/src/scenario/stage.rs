//! A scenario's view of its run: the cluster, the time, and the marks it leaves. Never reads what
//! the instances answer.

use std::time::Duration;

use super::catalog::Act;
use super::ground::{Ground, GroundError};
use crate::cluster::{ClusterError, ClusterUnderTest};
use crate::load::wall_us;
use crate::report::Mark;

/// How long something that a script waits for may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it looks.
const LOOK_PERIOD: Duration = Duration::from_millis(10);

/// The moments of a fault, in microseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
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
pub struct Stage<'a> {
    /// The cluster.
    pub ground: &'a Ground,
    /// When the load began, in microseconds since the epoch.
    pub began_at: u64,
    /// How long checks are asked, in milliseconds.
    pub length_ms: u64,
    /// The shard that the fault is done to.
    pub victim: usize,
    /// Subjects with traffic on the victim.
    pub subjects: Vec<String>,
    marks: Vec<Mark>,
}

impl<'a> Stage<'a> {
    /// A stage without marks.
    pub fn new(ground: &'a Ground, began_at: u64, length_ms: u64, subjects: Vec<String>) -> Self {
        let victim = usize::from(ground.shards().count() > 1);
        Stage {
            ground,
            began_at,
            length_ms,
            victim,
            subjects,
            marks: Vec::new(),
        }
    }

    /// Notes that something happens now, and returns when that is.
    pub fn mark(&mut self, label: impl Into<String>) -> u64 {
        let at = wall_us();
        self.marks.push(Mark {
            at,
            label: label.into(),
        });
        at
    }

    /// What was noted.
    pub fn into_marks(self) -> Vec<Mark> {
        self.marks
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
    pub fn own(&self, act: Act) -> Result<&'a ClusterUnderTest, GroundError> {
        self.ground.own().ok_or_else(|| {
            let why = "it would hurt a cluster that chaos did not start; \
                       use --against containers or processes";
            GroundError::Unusable(format!("{act:?}"), why.to_owned())
        })
    }

    /// Waits until a node says that it is a primary, notes it, and returns when that was.
    ///
    /// # Errors
    /// When that takes 20 s.
    pub async fn await_primary(&mut self, node: usize) -> Result<u64, GroundError> {
        self.await_role(node, "role:master").await?;
        Ok(self.mark(format!("node {node} has taken over")))
    }

    /// Waits until a node says this of its replication.
    ///
    /// # Errors
    /// When that takes 20 s.
    async fn await_role(&self, node: usize, role: &str) -> Result<(), GroundError> {
        let asked = async {
            loop {
                let reply = self.ground.run(node, &["INFO", "replication"]).await;
                let text = reply.ok().and_then(|r| r.text().map(str::to_owned));
                if text.is_some_and(|text| text.lines().any(|line| line.trim() == role)) {
                    return;
                }
                tokio::time::sleep(LOOK_PERIOD).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, asked).await;
        waited.map_err(|_| {
            GroundError::Cluster(ClusterError::TimedOut {
                what: format!("node {node} to say {role}"),
                seen: "something else, or nothing".into(),
                waited: PATIENCE,
            })
        })
    }
}
