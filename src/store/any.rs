//! Either store, chosen when a program starts. Never adds anything to what it holds.

#[cfg(feature = "cluster")]
use std::time::{Duration, Instant};

#[cfg(feature = "cluster")]
use super::cluster::{ClusterStore, ClusterSubscription};
use super::error::StoreError;
#[cfg(feature = "cluster")]
use super::membership::Membership;
use super::memory::MemoryStore;
use super::port::{ChargeCall, ChargeReply, Readiness, RefundCall, Refunded, ResetCall, Store};
use super::shard::ShardId;
use crate::model::{Policies, Target};

/// A store that was chosen at run time.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// In this process.
    Memory(MemoryStore),
    /// On Redis or Valkey.
    #[cfg(feature = "cluster")]
    Cluster(ClusterStore),
}

/// The same expression on whichever store it is.
macro_rules! either {
    ($any:expr, $store:ident => $do:expr) => {
        match $any {
            AnyStore::Memory($store) => $do,
            #[cfg(feature = "cluster")]
            AnyStore::Cluster($store) => $do,
        }
    };
}

impl Store for AnyStore {
    async fn charge(&self, call: ChargeCall) -> Result<ChargeReply, StoreError> {
        either!(self, store => store.charge(call).await)
    }

    async fn refund(&self, call: RefundCall) -> Result<Refunded, StoreError> {
        either!(self, store => store.refund(call).await)
    }

    async fn reset(&self, call: ResetCall) -> Result<(), StoreError> {
        either!(self, store => store.reset(call).await)
    }

    fn readiness(&self) -> Readiness {
        either!(self, store => store.readiness())
    }

    fn is_shared(&self) -> bool {
        either!(self, store => store.is_shared())
    }

    fn calls_sent(&self) -> u64 {
        either!(self, store => store.calls_sent())
    }

    fn recoveries(&self) -> u64 {
        either!(self, store => store.recoveries())
    }

    fn prepare(&self, policies: &Policies) {
        either!(self, store => store.prepare(policies))
    }

    fn shard_of(&self, target: &Target) -> ShardId {
        either!(self, store => store.shard_of(target))
    }
}

/// No other node shares a memory store.
#[cfg(feature = "cluster")]
impl Membership for AnyStore {
    type Subscription = Option<ClusterSubscription>;

    async fn heartbeat(
        &self,
        node: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<Option<u32>, StoreError> {
        match self {
            AnyStore::Memory(_) => Ok(None),
            AnyStore::Cluster(store) => store.heartbeat(node, ttl, deadline).await,
        }
    }

    async fn announce(&self, message: &[u8], deadline: Instant) -> Result<u64, StoreError> {
        match self {
            AnyStore::Memory(_) => Ok(0),
            AnyStore::Cluster(store) => store.announce(message, deadline).await,
        }
    }

    fn subscribe(&self) -> Option<ClusterSubscription> {
        match self {
            AnyStore::Memory(_) => None,
            AnyStore::Cluster(store) => Some(store.subscribe()),
        }
    }
}

impl From<MemoryStore> for AnyStore {
    fn from(store: MemoryStore) -> Self {
        AnyStore::Memory(store)
    }
}

#[cfg(feature = "cluster")]
impl From<ClusterStore> for AnyStore {
    fn from(store: ClusterStore) -> Self {
        AnyStore::Cluster(store)
    }
}
