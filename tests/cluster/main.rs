//! The cluster store on real servers: processes on loopback, started by each test.

mod charging;
mod faults;
mod logging;
mod membership;
mod redirects;
mod refusals;
mod repair;
mod security;
mod start;
mod support;
mod traffic;
