//! A clock that steps back once, in the middle of a load. The steady clock never does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::ClockStep;
use tidegate::clock::{Clock, SystemClock};
use tidegate::model::{Micros, Timestamp};

/// The system's clock, whose wall clock goes back by `step` when its moment has come. Clones
/// share that moment.
#[derive(Clone, Debug)]
pub(super) struct SteppingClock {
    system: SystemClock,
    step: Option<ClockStep>,
    /// When it steps, in microseconds since the epoch; never while the load hasn't begun.
    at: Arc<AtomicU64>,
}

impl SteppingClock {
    /// A clock that will step so, or not at all.
    pub(super) fn new(step: Option<ClockStep>) -> Self {
        SteppingClock {
            system: SystemClock::default(),
            step,
            at: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    /// The load begins at this instant, in microseconds since the epoch.
    pub(super) fn begin(&self, began_at: u64) {
        if let Some(step) = self.step {
            let at = began_at.saturating_add(step.at_ms.saturating_mul(1_000));
            self.at.store(at, Ordering::SeqCst);
        }
    }
}

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        self.system.now()
    }

    fn wall(&self) -> Timestamp {
        let wall = self.system.wall();
        match self.step {
            Some(step) if wall.as_micros() >= self.at.load(Ordering::SeqCst) => {
                wall.back(Micros::from_millis(step.back_ms))
            }
            _ => wall,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_steps_when_its_moment_has_come_and_not_before() {
        let step = ClockStep {
            at_ms: 500,
            back_ms: 60_000,
        };
        let (clock, system) = (SteppingClock::new(Some(step)), SystemClock::default());
        let behind = |clock: &SteppingClock| system.wall().since(clock.wall()).get();
        assert!(behind(&clock) < 30_000_000);
        clock.begin(system.wall().as_micros());
        assert!(behind(&clock) < 30_000_000);
        clock.begin(system.wall().as_micros() - 500_000);
        assert!((30_000_000..90_000_000).contains(&behind(&clock)));
        assert!(clock.now() + Micros::from_secs(1) > system.now());
    }
}
