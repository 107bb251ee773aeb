//! What limiter nodes tell each other through the store: who lives, and short messages.
//!
//! - [`ClusterStore::heartbeat`] says "I live" for a while and learns how many do; the members of
//!   one sorted set `<prefix>:{nodes}`, forgotten when they fall silent.
//! - [`ClusterStore::publish`] and [`ClusterStore::subscribe`] carry messages over sharded
//!   pub/sub (Redis 7 and later), so that one shard and not the whole cluster bears a channel.
//!
//! Messages are at most once: one that is sent while a subscriber's connection is down is lost to
//! it. It learns that it may have missed some ([`FleetNews::Missed`]), so it can forget what it
//! believed. Never decides anything.

use std::time::{Duration, Instant};

use fred::types::Value;

use super::ClusterStore;
use super::call::{Call, run};
use super::subscription::{Subscription, keep_subscribed};
use crate::model::Slot;
use crate::store::{FleetNews, FleetStore, Listen, StoreError, StoreErrorKind};

/// Nodes that are remembered at most; further ones aren't counted.
pub const LIVE_NODES_MAX: usize = 10_000;
/// The longest life of one heartbeat.
pub const HEARTBEAT_TTL_MAX: Duration = Duration::from_secs(3_600);

/// A channel that all nodes of a fleet with the same key prefix share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel(String);

impl Channel {
    /// `<prefix>:{<name>}:channel`.
    fn new(store: &ClusterStore, name: &'static str) -> Self {
        Channel(format!("{}:{{{name}}}:channel", store.prefix()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn slot(&self) -> Slot {
        Slot::of(self.0.as_bytes())
    }
}

impl ClusterStore {
    /// Says that `node` (1 to 64 bytes) lives for `ttl` from now, and returns how many nodes
    /// live; 0 as `ttl` lets it leave. Call it three times a `ttl`.
    ///
    /// # Errors
    /// When the store could not answer by the deadline.
    pub async fn heartbeat(
        &self,
        node: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<u64, StoreError> {
        let ttl_ms = ttl.min(HEARTBEAT_TTL_MAX).as_millis();
        let ttl_ms = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
        let (count, _) = self.fleet_call(node, ttl_ms, deadline).await?;
        Ok(count)
    }

    /// The nodes that live, by name; at most [`LIVE_NODES_MAX`].
    ///
    /// # Errors
    /// When the store could not answer by the deadline.
    pub async fn live_nodes(&self, deadline: Instant) -> Result<Vec<String>, StoreError> {
        let (_, mut names) = self.fleet_call("", -1, deadline).await?;
        // The store has them by the end of their lives; two may end in the same millisecond.
        names.sort_unstable();
        Ok(names)
    }

    async fn fleet_call(
        &self,
        node: &str,
        ttl_ms: i64,
        deadline: Instant,
    ) -> Result<(u64, Vec<String>), StoreError> {
        let key = format!("{}:{{nodes}}", self.prefix());
        let call = Beat {
            sha: self.shared.scripts.fleet.sha1(),
            key,
            node,
            ttl_ms,
            deadline,
        };
        let reply = run(&self.router, &self.shared, &call).await?;
        read_beat(reply.value).ok_or_else(|| {
            let kind = StoreErrorKind::Protocol;
            StoreError::unknown("heartbeat", kind, "the reply makes no sense")
        })
    }

    /// A channel of this fleet.
    pub fn channel(&self, name: &'static str) -> Channel {
        Channel::new(self, name)
    }

    /// Sends a message to all who listen at this moment; returns how many connections took it,
    /// as far as the channel's node knows.
    ///
    /// # Errors
    /// When the store did not take it by the deadline; some may have heard it all the same.
    pub async fn publish(
        &self,
        channel: &Channel,
        message: &[u8],
        deadline: Instant,
    ) -> Result<u64, StoreError> {
        let call = Publish {
            channel,
            message,
            deadline,
        };
        let reply = run(&self.router, &self.shared, &call).await?;
        Ok(reply.value.as_u64().unwrap_or(0))
    }

    /// Listens, through reconnections and failovers, until the subscription is dropped. A
    /// listener that falls behind by more than `events_len_max` messages loses the oldest, and is
    /// told so.
    pub fn subscribe(&self, channel: &Channel) -> Subscription {
        keep_subscribed(&self.shared, &self.router, channel.clone())
    }
}

/// The channel of [`FleetStore::tell`].
const NEWS_CHANNEL: &str = "news";

impl FleetStore for ClusterStore {
    type Listener = Subscription;

    async fn beat(
        &self,
        node: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<Option<u32>, StoreError> {
        let live = self.heartbeat(node, ttl, deadline).await?;
        Ok(Some(u32::try_from(live).unwrap_or(u32::MAX)))
    }

    async fn tell(&self, message: &[u8], deadline: Instant) -> Result<(), StoreError> {
        let channel = self.channel(NEWS_CHANNEL);
        self.publish(&channel, message, deadline).await.map(drop)
    }

    fn listen(&self) -> Subscription {
        self.subscribe(&self.channel(NEWS_CHANNEL))
    }
}

impl Listen for Subscription {
    async fn next(&mut self) -> FleetNews {
        Subscription::next(self).await
    }
}

fn read_beat(reply: Value) -> Option<(u64, Vec<String>)> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let mut parts = parts.into_iter();
    let count = parts.next()?.as_u64()?;
    let Value::Array(names) = parts.next()? else {
        return None;
    };
    Some((
        count,
        names.into_iter().filter_map(Value::into_string).collect(),
    ))
}

struct Beat<'a> {
    sha: Value,
    key: String,
    node: &'a str,
    ttl_ms: i64,
    deadline: Instant,
}

impl Call for Beat<'_> {
    fn operation(&self) -> &'static str {
        "heartbeat"
    }

    fn slot(&self) -> Slot {
        Slot::of(self.key.as_bytes())
    }

    fn args(&self, _resent: bool) -> Vec<Value> {
        vec![
            self.sha.clone(),
            1.into(),
            self.key.clone().into(),
            self.node.into(),
            self.ttl_ms.into(),
            i64::try_from(LIVE_NODES_MAX).unwrap_or(i64::MAX).into(),
        ]
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }
}

struct Publish<'a> {
    channel: &'a Channel,
    message: &'a [u8],
    deadline: Instant,
}

impl Call for Publish<'_> {
    fn command(&self) -> &'static str {
        "SPUBLISH"
    }

    fn operation(&self) -> &'static str {
        "publish"
    }

    fn slot(&self) -> Slot {
        self.channel.slot()
    }

    fn args(&self, _resent: bool) -> Vec<Value> {
        vec![self.channel.as_str().into(), self.message.into()]
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }
}
