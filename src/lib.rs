//! Tidegate: a distributed rate limiter.

pub mod model;
pub mod store;
