//! The port through which limiter nodes that share a store hear of each other. Never needed to
//! decide a check.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Store, StoreError};

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetNews {
    /// A message, also this node's own.
    Message(Arc<[u8]>),
    /// From now on messages come; some that were sent before may never.
    Missed,
}

/// Hears what the nodes tell each other, until it is dropped.
pub trait Listen: Send + 'static {
    /// The next news; waits for it, for ever when there are none.
    fn next(&mut self) -> impl Future<Output = FleetNews> + Send;
}

/// A store that lets its nodes hear of each other. Messages come at most once.
pub trait FleetStore: Store {
    /// What listens.
    type Listener: Listen;

    /// Says that `node` lives for `ttl` from now, and learns how many do; a `ttl` of zero leaves.
    /// `None` from a store that no other node shares.
    ///
    /// # Errors
    /// When the store could not answer by the deadline.
    fn beat(
        &self,
        node: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> impl Future<Output = Result<Option<u32>, StoreError>> + Send;

    /// Tells all who listen now.
    ///
    /// # Errors
    /// When the store did not take it by the deadline; some may have heard it all the same.
    fn tell(
        &self,
        message: &[u8],
        deadline: Instant,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Listens from now on. Needs a running tokio runtime.
    fn listen(&self) -> Self::Listener;
}
