//! Tidegate: a distributed rate limiter with exact global and regional ceilings, on Redis Cluster
//! or in memory.
//!
//! [`Limiter`] decides, a [`store::Store`] remembers, [`model`] names things and [`algorithm`]
//! counts. See the README for the server and the command line.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod admission;
pub mod algorithm;
#[cfg(feature = "chaos")]
pub mod chaos;
#[cfg(feature = "cli")]
pub mod cli;
pub mod clock;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "server")]
pub mod edge;
pub mod limiter;
pub mod model;
pub mod store;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(feature = "config")]
pub mod wire;

pub use limiter::{CheckError, Limiter};
pub use model::{Check, Decision};
pub use store::memory::MemoryStore;
