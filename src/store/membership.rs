//! The port through which limiter nodes that share a store count each other and exchange announcements. Never needed
//! to decide a check.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::StoreError;
use super::port::Store;

/// What a subscription brings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Announcement {
    /// A node's message, also this node's own.
    Message(Arc<[u8]>),
    /// From now on messages come; some that were sent before may never.
    Missed,
}

/// Brings what the nodes announce, until it is dropped.
pub trait Subscription: Send + 'static {
    /// The next announcement; waits for it, for ever when there are none.
    ///
    /// Cancel safe.
    fn next(&mut self) -> impl Future<Output = Announcement> + Send;
}

/// Nothing is ever announced where there is nobody else.
impl<S: Subscription> Subscription for Option<S> {
    async fn next(&mut self) -> Announcement {
        match self {
            Some(subscription) => subscription.next().await,
            None => std::future::pending().await,
        }
    }
}

/// A store whose limiter nodes know of each other. Announcements come at most once.
pub trait Membership: Store {
    /// What brings announcements.
    type Subscription: Subscription;

    /// Says that `node` (1 to 64 bytes) lives for `ttl` from now, 1 h at most, and returns how
    /// many nodes live; a `ttl` of zero leaves. Call it three times a `ttl`. `None` from a store
    /// that no other node shares.
    ///
    /// # Errors
    /// When the store could not answer by the deadline.
    fn heartbeat(
        &self,
        node: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> impl Future<Output = Result<Option<u32>, StoreError>> + Send;

    /// Sends a message to all who are subscribed now; returns how many took it, as far as is
    /// known.
    ///
    /// # Errors
    /// When the store did not take it by the deadline; some may have got it all the same.
    fn announce(
        &self,
        message: &[u8],
        deadline: Instant,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Subscribes from now on, through reconnections and failovers. Needs a running tokio runtime.
    fn subscribe(&self) -> Self::Subscription;
}
