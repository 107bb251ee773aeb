//! The cluster store on real servers: processes on loopback, started by each test.

mod fleet;
mod support;
