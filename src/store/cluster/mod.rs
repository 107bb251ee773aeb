//! The store on Redis or Valkey: a cluster, or a single server, found out by itself.
//!
//! fred carries commands to each node; which node, what an error means and when to try again is
//! decided here, because a dead shard must not slow the others and a charge must not run twice.
//!
//! # The way of a charge
//! 1. `store`: the port's operations, as commands.
//! 2. `script`: keys and arguments of a command, and its reply as outcomes; `script_set` has
//!    every script that is in use.
//! 3. `dispatch`: attempts until the deadline. It waits at the `slot_gate` while a failover is
//!    being repaired, and follows redirects.
//! 4. `topology`: who owns the slot.
//! 5. `node`: a connection to the owner, over fred.
//!
//! # Beside it
//! - `topology` refreshes its slot map from what nodes say (`query`, `view`, `views`), and announces
//!   what happens to shards (`events`); `slot_check` is the test before the first charge.
//! - `repair` listens to that, closes the gate of slots that a promoted replica serves, and
//!   replays what its `journal` holds of them.
//! - `node` keeps its connections up (`link`), each made by the `connector`.
//! - `membership` and `subscription`: how limiter nodes know of each other.
//! - `options`, `url`, `tls`, `address`: what a user sets.
//! - `signals` wake who waits; `supervise` starts tasks that fail again.

mod address;
mod dispatch;
mod membership;
mod node;
mod options;
mod repair;
#[doc(hidden)]
pub mod script;
mod script_set;
mod signals;
mod slot_check;
mod slot_gate;
mod store;
mod subscription;
mod supervise;
mod tls;
mod topology;
mod url;

pub use address::{AddressMap, NodeAddress, NodeAddressError};
pub use options::{ClusterOptions, ClusterOptionsError, Resp};
pub use store::ClusterStore;
pub use subscription::ClusterSubscription;
pub use tls::{ClientCertificate, TlsError, TlsOptions};
pub use url::{Credentials, StoreUrl, StoreUrlError};
