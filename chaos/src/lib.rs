//! Clusters under test, what goes wrong with them, and what that does to a limiter.
//!
//! [`cluster`] starts a real Redis or Valkey cluster (processes or containers) and ends it with
//! its owner, however the owner ends; [`fault`] is what can be done to it; [`load`] asks limiter
//! instances under it; [`oracle`] judges what they answered; [`scenario`] puts these together,
//! and [`report`] shows what came of it. Never hurts a cluster that it did not start.

pub mod cluster;
pub mod fault;
pub mod load;
pub mod oracle;
pub mod proxy;
pub mod report;
pub mod resp;
pub mod scenario;
