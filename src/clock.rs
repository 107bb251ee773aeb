//! The clock port: what the limiter reads once a check, and tests set by hand.
//! Never read by `model` or `algorithm`; they are given the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::model::{Micros, Timestamp};

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// This node's steady time: never steps back, and runs as real time does. Only differences
    /// of it mean something to other nodes.
    fn now(&self) -> Timestamp;

    /// The wall clock, which may step. Policies that choose the caller's clock stamp charges
    /// with it.
    fn wall(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn wall(&self) -> Timestamp {
        (**self).wall()
    }
}

/// The system's clock: the wall clock at start, carried on by the monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    anchor: Timestamp,
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock {
            anchor: wall_now(),
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // In parts: `as_micros` counts in 128 bits, which takes as long as reading the clock.
        let elapsed = self.started.elapsed();
        let micros = Micros::new(u64::from(elapsed.subsec_micros()));
        self.anchor + Micros::from_secs(elapsed.as_secs()).saturating_add(micros)
    }

    fn wall(&self) -> Timestamp {
        wall_now()
    }
}

fn wall_now() -> Timestamp {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
}

/// A clock that stands until it is set: for tests and simulations. Clones share their time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that stands at `at`.
    pub fn at(at: Timestamp) -> Self {
        ManualClock(Arc::new(AtomicU64::new(at.as_micros())))
    }

    /// Sets it, also backward.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.as_micros(), Ordering::SeqCst);
    }

    /// Moves it forward.
    pub fn advance(&self, by: Micros) {
        self.0.fetch_add(by.get(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_share_their_time() {
        let clock = ManualClock::at(Timestamp::from_micros(5));
        let clone = clock.clone();
        clock.advance(Micros::new(2));
        assert_eq!(clone.now(), Timestamp::from_micros(7));
    }

    #[test]
    fn the_system_clock_never_steps_back() {
        let clock = SystemClock::default();
        let before = clock.now();
        assert!(clock.now() >= before);
        assert!(clock.wall() > Timestamp::from_micros(1_600_000_000_000_000));
    }
}
