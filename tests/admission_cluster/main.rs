//! The local stage before a real cluster of six nodes, processes on loopback: what several limiters
//! save together, and what they admit while a shard is away. Figures are `benches/local_stage`'s;
//! here only what holds on any machine is asserted.

mod far;
mod outage;
mod savings;
mod support;
