//! The local stage before a model store: memory behind links that are slow, silent or cut, on
//! tokio's paused clock. What the real cluster does is measured in `benches/local_stage.rs` and
//! tested in `tests/cluster`.

mod cancelling;
mod denials;
mod lanes;
mod leases;
mod log_lines;
mod model_store;
mod node_ceilings;
mod outages;
mod properties;
mod world;
