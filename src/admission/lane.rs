//! Checks of one target that arrive while a call is out go together in the next one: first come,
//! first served. No wait when nothing is out.

mod queue;
mod ticket;

use super::sync;

pub(super) use queue::{Lane, Queued};
pub(super) use ticket::{Left, Ticket};
