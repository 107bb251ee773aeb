//! The membership port on a cluster: heartbeats, and announcements over sharded pub/sub.
//!
//! Nodes are the members of one sorted set `<prefix>:{nodes}`, forgotten when they fall silent.
//! Announcements go through sharded pub/sub (Redis 7 and later), so that one shard and not the
//! whole cluster bears them; they come at most once. Never decides anything.

use std::time::{Duration, Instant};

use fred::types::Value;

use super::dispatch::{Command, EVALSHA};
use super::store::ClusterStore;
use super::subscription::ClusterSubscription;
use crate::model::Slot;
use crate::store::error::{StoreError, StoreErrorKind};
use crate::store::membership::Membership;

/// Nodes that are remembered at most; further ones aren't counted.
const LIVE_NODES_MAX: i64 = 10_000;
/// The longest life of one heartbeat.
const HEARTBEAT_TTL_MAX: Duration = Duration::from_secs(3_600);

impl Membership for ClusterStore {
    type Subscription = ClusterSubscription;

    async fn heartbeat(
        &self,
        node: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<Option<u32>, StoreError> {
        let ttl_ms = ttl.min(HEARTBEAT_TTL_MAX).as_millis();
        let ttl_ms = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
        let key = format!("{}:{{nodes}}", self.key_prefix().as_str());
        let sha1 = self.scripts().heartbeat.sha1();
        let args = || -> Vec<Value> {
            let key = key.as_str().into();
            let (ttl, max) = (ttl_ms.into(), LIVE_NODES_MAX.into());
            vec![sha1.clone(), 1.into(), key, node.into(), ttl, max]
        };
        let command = Command {
            name: EVALSHA,
            operation: "heartbeat",
            slot: Slot::of(key.as_bytes()),
            args: &|_| args(),
            is_idempotent: true,
            is_repair: false,
            deadline,
        };
        let reply = self.dispatcher().run(&command).await?;
        // How many live, and their names.
        let count = match reply.value {
            Value::Array(parts) => parts.first().and_then(Value::as_u64),
            _ => None,
        };
        let count = count.ok_or_else(|| {
            let kind = StoreErrorKind::Protocol;
            StoreError::unknown("heartbeat", kind, "the reply is no count of nodes")
        })?;
        Ok(Some(u32::try_from(count).unwrap_or(u32::MAX)))
    }

    async fn announce(&self, message: &[u8], deadline: Instant) -> Result<u64, StoreError> {
        let channel = self.channel();
        let command = Command {
            name: "SPUBLISH",
            operation: "announce",
            slot: Slot::of(channel.as_bytes()),
            args: &|_| vec![channel.as_str().into(), message.into()],
            is_idempotent: true,
            is_repair: false,
            deadline,
        };
        let reply = self.dispatcher().run(&command).await?;
        Ok(reply.value.as_u64().unwrap_or(0))
    }

    fn subscribe(&self) -> ClusterSubscription {
        let dispatcher = self.dispatcher();
        ClusterSubscription::start(&dispatcher.connector, &dispatcher.topology, self.channel())
    }
}

impl ClusterStore {
    /// The channel of announcements, `<prefix>:{news}:channel`.
    fn channel(&self) -> String {
        format!("{}:{{news}}:channel", self.key_prefix().as_str())
    }
}
