//! Clusters under test, and what goes wrong with them.
//!
//! [`cluster`] starts a real Redis or Valkey cluster (processes or containers) and ends it with
//! its owner, however the owner ends; [`fault`] is what can be done to it. Never touches a
//! cluster that it did not start.

pub mod cluster;
pub mod fault;
pub mod oracle;
pub mod proxy;
pub mod report;
pub mod resp;
