//! Stores: what remembers charges. [`Store`] is the port; [`MemoryStore`](memory::MemoryStore)
//! keeps them in this process, `cluster::ClusterStore` on Redis or Valkey.

mod any;
#[cfg(feature = "cluster")]
pub mod cluster;
mod error;
mod id_source;
mod lock;
#[cfg(feature = "local-stage")]
mod membership;
pub mod memory;
mod port;
mod shard;

pub use any::AnyStore;
pub use error::{StoreError, StoreErrorKind};
pub(crate) use id_source::IdSource;
#[cfg(feature = "local-stage")]
pub use membership::{Announcement, Membership, Subscription};
pub use port::{
    CallClock, CallKind, CeilingOutcome, ChargeCall, ChargeReply, ChargeRequest, IdOrigin, Outcome,
    REQUESTS_MAX, Readiness, RefundCall, Refunded, ResetCall, Store,
};
pub use shard::{ShardEvent, ShardId, SlotRanges};
