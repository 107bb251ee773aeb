//! Locks whose data stays whole when a holder panics: whoever comes next goes on with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also after a panic under it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
