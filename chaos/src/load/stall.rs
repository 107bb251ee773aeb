//! Notices when the machine doesn't let this process run: a thread that sleeps for a moment, and
//! writes down when it was woken much later. What a caller waited for then was not the limiter.
//! Never looks at the runtime: what blocks that is the limiter's own fault.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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

/// A running watch.
#[derive(Debug)]
pub(super) struct StallWatch {
    ends: Arc<AtomicBool>,
    stalls: Arc<Mutex<Vec<Stall>>>,
    thread: Option<JoinHandle<()>>,
}

impl StallWatch {
    /// Watches until it is ended or dropped.
    pub(super) fn start() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let stalls: Arc<Mutex<Vec<Stall>>> = Arc::default();
        let (ending, found) = (Arc::clone(&ends), Arc::clone(&stalls));
        let thread = std::thread::spawn(move || {
            while !ending.load(Ordering::Relaxed) {
                let slept_at = wall_us();
                std::thread::sleep(NAP);
                let woken_at = wall_us();
                if woken_at.saturating_sub(slept_at) > STALL_MIN {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    if found.len() < STALLS_MAX {
                        found.push((slept_at, woken_at));
                    }
                }
            }
        });
        StallWatch {
            ends,
            stalls,
            thread: Some(thread),
        }
    }

    /// Ends the watch and tells what it saw, in order.
    pub(super) fn end(mut self) -> Vec<Stall> {
        self.stop();
        std::mem::take(&mut *self.stalls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It sleeps for 2 ms at a time and can't panic.
            let _ = thread.join();
        }
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.stop();
    }
}
