//! The store on Redis or Valkey: a cluster, or a single server, found out by itself.
//!
//! fred carries commands to each node; which node, what a refusal means and when to try again is
//! decided here, because a dead shard must not slow the others and a charge must not run twice.

mod address;
mod call;
mod carrier;
mod charging;
mod connection;
mod fault;
mod fleet;
mod guard;
mod heard;
mod info;
mod journal;
mod link;
mod node;
mod options;
mod pool;
mod preflight;
mod reading;
mod repair;
mod router;
pub mod script;
mod shared;
mod source;
mod subscription;
mod table;
mod tls;
mod url;
mod view;

pub use address::{AddressMap, NodeAddress, NodeAddressError};
pub use fleet::{Channel, HEARTBEAT_TTL_MAX, LIVE_NODES_MAX};
pub use options::{ClusterOptions, ClusterOptionsError, Resp};
pub use subscription::Subscription;
pub use tls::{ClientCertificate, TlsError, TlsOptions};
pub use url::{Credentials, StoreUrl, StoreUrlError};

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

use crate::model::KeyPrefix;
use crate::store::{Readiness, ShardEvent};
use guard::Owned;
use router::Router;
use shared::Shared;

/// The store on Redis or Valkey. Connects in the background and for ever: it can be built before
/// any server is there, and says by [`Store::readiness`](crate::store::Store::readiness) what it
/// still waits for. Dropped, it ends its connections.
pub struct ClusterStore {
    shared: Arc<Shared>,
    router: Arc<Router>,
    runtime: tokio::runtime::Handle,
    _keeper: Owned<()>,
    _repairer: Owned<()>,
}

impl ClusterStore {
    /// A store that begins to connect at once.
    ///
    /// # Errors
    /// When the options contradict themselves, a TLS file can't be read, or no tokio runtime
    /// runs here. Never because a server can't be reached.
    pub fn connect(options: ClusterOptions) -> Result<Self, ClusterOptionsError> {
        let runtime =
            tokio::runtime::Handle::try_current().map_err(|_| ClusterOptionsError::NoRuntime)?;
        if let Some(key) = preflight::stray_key(&options.key_prefix) {
            return Err(ClusterOptionsError::StrayKey(key));
        }
        let shared = Arc::new(Shared::new(options)?);
        let (router, keeper) = Router::start(Arc::clone(&shared));
        let repairer = repair::keep_repairing(&shared, &router);
        Ok(ClusterStore {
            shared,
            router,
            runtime,
            _keeper: keeper,
            _repairer: repairer,
        })
    }

    /// What happens to the shards from now on: promotions (a journal of charges is replayed
    /// then), slots that moved, shards that are lost and found. A listener that falls behind by
    /// more than `events_len_max` loses the oldest.
    pub fn shard_events(&self) -> broadcast::Receiver<ShardEvent> {
        self.shared.events.subscribe()
    }

    /// Charges that a failover had lost and that this store put back so far.
    pub fn restored(&self) -> u64 {
        self.shared.repair.restored()
    }

    /// Waits until it is ready, at most so long.
    ///
    /// # Errors
    /// What it still waits for then.
    pub async fn wait_ready(&self, wait_max: Duration) -> Result<(), String> {
        let until = Instant::now() + wait_max;
        loop {
            let changed = self.shared.changed.notified();
            let why = match self.router.readiness() {
                Readiness::Ready => return Ok(()),
                Readiness::NotReady(why) => why,
            };
            if Instant::now() >= until {
                return Err(why);
            }
            let step = (Instant::now() + Duration::from_millis(20)).min(until);
            let _ = tokio::time::timeout_at(step.into(), changed).await;
        }
    }

    fn key_prefix(&self) -> &KeyPrefix {
        &self.shared.options.key_prefix
    }

    fn prefix(&self) -> &str {
        self.key_prefix().as_str()
    }
}

impl std::fmt::Debug for ClusterStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterStore")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}
