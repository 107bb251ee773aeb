//! The pure verbs: what each algorithm decides, charges and gives back, given the time.
//! Never reads a clock, a socket or a store, and never panics: arithmetic saturates.
//!
//! | | state | exact in every window | a decision costs |
//! |---|---|---|---|
//! | [`sliding_log`] | an entry a charge | yes | O(log n) |
//! | [`sliding_counter`] | two counters | no: an estimate | O(1) |
//! | [`fixed_window`] | one counter | no: up to twice the limit | O(1) |
//! | [`token_bucket`], [`leaky_bucket`] | one instant ([`gcra`]) | no: rate and burst | O(1) |
//!
//! Every state has the same verbs. `settle` takes in what time alone doesn't do: a clock that
//! stepped back, a quota that changed. `decide` answers without changing anything; `charge` adds
//! what was admitted; `standing` says what is left; `refund` gives back. They expect a settled
//! state.
//!
//! A check keeps the settled state even when it is denied, or else neither a clock that stepped
//! back nor a changed quota would ever take effect for a subject that is always denied: its wait
//! would start anew with each check. Only a peek throws it away. Nothing is charged by settling,
//! and a denial leaves no other trace: what has merely passed is not rewritten.
//!
//! The twins in `lua/` either run the same steps or hand their raw state to these types, so that
//! both stores give the same answer by construction.

mod arith;
pub mod fixed_window;
pub mod gcra;
pub mod leaky_bucket;
pub mod sliding_counter;
pub mod sliding_log;
pub mod token_bucket;

pub use fixed_window::FixedWindow;
pub use gcra::Meter;
pub use sliding_counter::SlidingCounter;
pub use sliding_log::SlidingLog;

use crate::model::{Cost, Micros, Retry, Timestamp};

/// What one ceiling says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is room for it.
    Room,
    /// There is none, and when there will be.
    Denied(Retry),
}

impl Verdict {
    /// When there will be room, when there is none now.
    pub const fn retry(self) -> Option<Retry> {
        match self {
            Verdict::Room => None,
            Verdict::Denied(retry) => Some(retry),
        }
    }
}

/// How one ceiling stands at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Units left; 0 when more are used than the limit (it was lowered).
    pub remaining: u64,
    /// Until the ceiling is whole again if nothing more comes.
    pub reset_after: Micros,
}

/// An earlier charge, as it stands: what a refund needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// When it was charged.
    pub at: Timestamp,
    /// Units that it still holds.
    pub cost: Cost,
}

/// Costs that need no look at the state: nothing is always admitted, and more than the ceiling
/// ever allows never.
const fn without_state(cost: Cost, cost_max: u64) -> Option<Verdict> {
    match cost {
        0 => Some(Verdict::Room),
        c if c > cost_max => Some(Verdict::Denied(Retry::Never)),
        _ => None,
    }
}
