//! Where callers of other processes come in: protocols, and the one table from a decision to
//! each of them (`protocol`).
//!
//! An edge reads a question, asks the [`tidegate::Limiter`], and says the answer in its protocol's
//! words. Never decides, and never counts what is limited.

pub(crate) mod body;
pub(crate) mod client_address;
pub(crate) mod headers;
pub(crate) mod problem;
pub(crate) mod protocol;
#[cfg(test)]
mod testing;
pub mod web;
