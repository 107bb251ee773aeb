//! Wake-ups between a store's tasks and its calls. Never says what happened: who is woken looks.

use tokio::sync::Notify;

/// What wakes a store's tasks and calls.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// A connection came or went, or the slot map changed: a call that waits may try again.
    pub changed: Notify,
    /// The slot map may be out of date.
    pub refresh: Notify,
}
