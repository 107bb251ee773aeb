//! What the tests of stores share: a probe that asks like a caller, the stores under test, and
//! the brute-force model that knows the right answer.

// Each test binary uses its own part of this.
#![allow(dead_code)]

pub mod model;
pub mod probe;
pub mod stores;
pub mod traffic;

/// A subject that no other test, run or process has.
pub fn unique(name: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let run = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{:x}-{run:x}-{n}", std::process::id())
}
