//! One log line a while, however often its cause comes. Never blocks.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::model::{Micros, Timestamp};

/// Lets one event through per period and counts those it kept back.
#[derive(Debug)]
pub struct Throttle {
    period: Micros,
    next_at: AtomicU64,
    kept_back: AtomicU64,
}

impl Throttle {
    /// One event per `period`.
    pub const fn new(period: Micros) -> Self {
        Throttle {
            period,
            next_at: AtomicU64::new(0),
            kept_back: AtomicU64::new(0),
        }
    }

    /// Whether an event at `now` may be told: then the number of those before it that were not.
    pub fn pass(&self, now: Timestamp) -> Option<u64> {
        let due = self.next_at.load(Ordering::Relaxed);
        let next = (now + self.period).as_micros();
        let passes = now.as_micros() >= due
            && self
                .next_at
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if passes {
            return Some(self.kept_back.swap(0, Ordering::Relaxed));
        }
        self.kept_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_a_period_passes_and_says_how_many_were_kept_back() {
        let throttle = Throttle::new(Micros::from_secs(1));
        let at = |ms| Timestamp::from_micros(5_000_000) + Micros::from_millis(ms);
        assert_eq!(throttle.pass(at(0)), Some(0));
        assert_eq!(throttle.pass(at(1)), None);
        assert_eq!(throttle.pass(at(999)), None);
        assert_eq!(throttle.pass(at(1_000)), Some(2));
        assert_eq!(throttle.pass(at(2_000)), Some(0));
    }
}
