//! The JSON of a decision, one form for HTTP, `--json` and the library's serde form.
//! Times are seconds with their microseconds kept; what doesn't apply is absent, never -1.
//!
//! Never decides a status code: that is the edge's.

mod decision;
mod seconds;

pub use decision::{CeilingBody, DecisionBody, DecisionBodyError};
pub use seconds::Seconds;
