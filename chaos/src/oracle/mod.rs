//! The oracle: what a history of checks proves about the limiter that answered them.
//!
//! Instances write down every check with the instants around it ([`Record`]); [`judge`] compares
//! all of them with the [`Expectations`]. A charge took place somewhere between its check's two
//! instants, and the oracle uses nothing but that: what it calls wrong is wrong whatever the true instants were.
//! It never asks the limiter or the store, which could be wrong in the same way.

mod bound;
mod envelope;
mod expectations;
mod history;
mod judge;
mod service;
mod shards;
mod stalls;
mod window;

pub use bound::{Loss, stated_bound};
pub use expectations::Expectations;
pub use history::{AnsweredBy, Record, Status};
pub(crate) use history::{HistoryWriter, read_history};
pub use judge::{CeilingJudgement, Judgement, ShardJudgement, judge};
pub use shards::ShardMap;
pub use stalls::Stalls;
