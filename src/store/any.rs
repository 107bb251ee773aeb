//! Either store, chosen when a program starts. Never adds anything to what it holds.

#[cfg(feature = "cluster")]
use std::time::{Duration, Instant};

#[cfg(feature = "cluster")]
use super::cluster::{ClusterStore, Subscription};
use super::memory::MemoryStore;
use super::{
    ChargeCall, ChargeReply, Readiness, RefundCall, Refunded, ResetCall, ShardId, Store, StoreError,
};
#[cfg(feature = "cluster")]
use super::{FleetNews, FleetStore, Listen};
use crate::model::{Policies, Target};

/// A store that was chosen at run time.
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

/// What listens on a store that was chosen at run time.
#[cfg(feature = "cluster")]
pub enum AnyListener {
    /// Nobody shares a memory store.
    Alone,
    /// On Redis or Valkey.
    Cluster(Subscription),
}

#[cfg(feature = "cluster")]
impl Listen for AnyListener {
    async fn next(&mut self) -> FleetNews {
        match self {
            AnyListener::Alone => std::future::pending().await,
            AnyListener::Cluster(subscription) => subscription.next().await,
        }
    }
}

#[cfg(feature = "cluster")]
impl FleetStore for AnyStore {
    type Listener = AnyListener;

    async fn beat(
        &self,
        node: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<Option<u32>, StoreError> {
        match self {
            AnyStore::Memory(_) => Ok(None),
            AnyStore::Cluster(store) => store.beat(node, ttl, deadline).await,
        }
    }

    async fn tell(&self, message: &[u8], deadline: Instant) -> Result<(), StoreError> {
        match self {
            AnyStore::Memory(_) => Ok(()),
            AnyStore::Cluster(store) => store.tell(message, deadline).await,
        }
    }

    fn listen(&self) -> AnyListener {
        match self {
            AnyStore::Memory(_) => AnyListener::Alone,
            AnyStore::Cluster(store) => AnyListener::Cluster(store.listen()),
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
