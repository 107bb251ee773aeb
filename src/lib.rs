//! Tidegate: a distributed rate limiter with exact global and regional ceilings, on Redis Cluster
//! or in memory.
//!
//! [`Limiter`] decides, a [`store::Store`] remembers, [`model`] names things and [`algorithm`]
//! counts. See the README for the server and the command line.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admission;
pub mod algorithm;
pub mod clock;
#[cfg(feature = "config")]
pub mod config;
pub mod limiter;
pub mod model;
pub mod store;
#[cfg(feature = "config")]
pub mod wire;

pub use limiter::{CheckError, Limiter};
pub use model::{Check, Decision};
pub use store::memory::MemoryStore;
