//! Notices when the machine doesn't let this process run: a thread that sleeps for a moment, and
//! writes down when it was woken much later. What a caller waited for then was not the limiter.
//! Never looks at the runtime: what blocks that is the limiter's own fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::drive::wall_us;

/// How long it sleeps.
const NAP: Duration = Duration::from_millis(2);
/// How much later it must be woken for it to be a stall, in microseconds.
const STALL_MIN: u64 = 8_000;
/// The most stalls that are kept; later ones go unnoticed, and count against the limiter.
const STALLS_MAX: usize = 100_000;

/// A time in which the machine did not let the process run, in microseconds since the epoch.
pub(crate) type Stall = (u64, u64);

/// A running watch; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct StallWatch {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Stall>>>,
}

impl StallWatch {
    pub(super) fn start() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut stalls = Vec::new();
            while !ending.load(Ordering::Relaxed) {
                let slept_at = wall_us();
                std::thread::sleep(NAP);
                let woken_at = wall_us();
                if woken_at.saturating_sub(slept_at) > STALL_MIN && stalls.len() < STALLS_MAX {
                    stalls.push((slept_at, woken_at));
                }
            }
            stalls
        });
        StallWatch {
            ends,
            thread: Some(thread),
        }
    }

    /// Ends the watch and gives what it saw, in order.
    pub(super) fn end(mut self) -> Vec<Stall> {
        self.ends.store(true, Ordering::Relaxed);
        let seen = self.thread.take().map(JoinHandle::join);
        seen.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}
