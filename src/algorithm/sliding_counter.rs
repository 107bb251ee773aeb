//! Two counters: the present clock-aligned window and the previous one, weighted by how much of
//! it the sliding window still overlaps. Constant space; an estimate that takes the previous
//! window's charges as spread evenly. Never exact: see the README's table of its errors.
//!
//! Source: Cloudflare, "How we built rate limiting capable of scaling to millions of domains".
//! With `e` the time since the window began and W its length,
//! `used = ceil(previous * (W - e) / W) + current`.

use super::arith::{div_ceil, div_floor, mul};
use super::fixed_window::{index, index_of, left};
use super::{Charged, Standing, Verdict, without_state};
use crate::model::{Cost, Micros, Quota, Retry, Timestamp};

/// What was charged in two neighbouring windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlidingCounter {
    /// The present window's number: `floor(instant / window)` since the Unix epoch.
    pub index: u64,
    /// The window's length when it was written; zero when nothing was.
    pub window: Micros,
    /// Units charged in the window before.
    pub previous: u64,
    /// Units charged in the present window.
    pub current: u64,
}

impl SlidingCounter {
    /// The state at `now`: itself, but after a clock's step back the counters are kept as the
    /// present ones, and when the window's length changed, what is used now becomes the present
    /// window's.
    #[must_use]
    pub fn settle(self, quota: Quota, now: Timestamp) -> Self {
        let Some(present) = index_of(self.window, now) else {
            return self;
        };
        if self.window != quota.window() {
            return SlidingCounter {
                index: index(now, quota.window()),
                window: quota.window(),
                previous: 0,
                current: self.rolled(now).used(now),
            };
        }
        SlidingCounter {
            index: self.index.min(present),
            ..self
        }
    }

    /// The counters as the window of `now` sees them.
    fn rolled(self, now: Timestamp) -> Self {
        let index = index_of(self.window, now).unwrap_or(0);
        let (previous, current) = match index.saturating_sub(self.index) {
            0 => (self.previous, self.current),
            1 => (self.current, 0),
            _ => (0, 0),
        };
        SlidingCounter {
            index,
            previous,
            current,
            ..self
        }
    }

    /// Units used at `now`, by the estimate, of rolled counters.
    fn used(self, now: Timestamp) -> u64 {
        let rest = left(now, self.window).get();
        div_ceil(mul(self.previous, rest), self.window.get()).saturating_add(self.current)
    }

    /// Whether there is room for `cost` units, and if not, exactly when there is.
    pub fn decide(self, quota: Quota, now: Timestamp, cost: Cost) -> Verdict {
        if let Some(verdict) = without_state(cost, quota.limit()) {
            return verdict;
        }
        let rolled = self.rolled(now);
        if rolled.used(now).saturating_add(cost) <= quota.limit() {
            return Verdict::Room;
        }
        let window = quota.window().get();
        let rest = left(now, quota.window()).get();
        let wait = match rolled.still_this_window(quota, cost) {
            Some(overlap) => rest.saturating_sub(overlap),
            None => {
                // From the boundary on, what is current now is what fades.
                let room = quota.limit() - cost;
                let overlap = match rolled.current {
                    0 => window,
                    current => div_floor(mul(room, window), current).min(window),
                };
                rest.saturating_add(window - overlap)
            }
        };
        Verdict::Denied(Retry::After(Micros::new(wait)))
    }

    /// The overlap with the previous window at which `cost` fits in before the boundary, if it
    /// does.
    fn still_this_window(self, quota: Quota, cost: Cost) -> Option<u64> {
        let room = quota.limit().checked_sub(self.current)?.checked_sub(cost)?;
        let overlap = div_floor(mul(room, quota.window().get()), self.previous);
        (overlap >= 1).then_some(overlap)
    }

    /// Adds `cost` units.
    #[must_use]
    pub fn charge(self, quota: Quota, now: Timestamp, cost: Cost) -> Self {
        let rolled = self.rolled(now);
        SlidingCounter {
            index: index(now, quota.window()),
            window: quota.window(),
            current: rolled.current.saturating_add(cost),
            ..rolled
        }
    }

    /// What is left, and when the last charge has faded.
    pub fn standing(self, quota: Quota, now: Timestamp) -> Standing {
        let rolled = self.rolled(now);
        let rest = left(now, quota.window());
        Standing {
            remaining: quota.limit().saturating_sub(rolled.used(now)),
            reset_after: match (rolled.previous, rolled.current) {
                (0, 0) => Micros::ZERO,
                (_, 0) => rest,
                _ => rest.saturating_add(quota.window()),
            },
        }
    }

    /// Gives back up to `units` of a charge of one of the two windows; how many.
    pub fn refund(&mut self, now: Timestamp, charged: Charged, units: Cost) -> Cost {
        let index = |at| index_of(self.window, at).unwrap_or(0);
        let age = self.index.checked_sub(index(charged.at.min(now)));
        let counter = match (age, index(now).saturating_sub(self.index)) {
            (Some(0), 0 | 1) => &mut self.current,
            (Some(1), 0) => &mut self.previous,
            _ => return 0,
        };
        let given = units.min(charged.cost).min(*counter);
        *counter -= given;
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_000_000;

    fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    #[test]
    fn the_previous_window_fades_by_its_overlap() {
        let quota: Quota = "10/min".parse().unwrap();
        let full = SlidingCounter::default().charge(quota, at(30 * T), 10);
        for (now, remaining) in [(60, 0), (66, 1), (90, 5), (119, 9), (120, 10)] {
            let state = full.settle(quota, at(now * T));
            assert_eq!(state.standing(quota, at(now * T)).remaining, remaining);
        }
    }

    #[test]
    fn the_wait_is_exact_before_and_after_the_boundary() {
        let quota: Quota = "7/min".parse().unwrap();
        for (previous, current, now, cost) in [
            (7, 0, 61 * T, 1),
            (7, 3, 61 * T + 17, 4),
            (3, 7, 100 * T, 1),
            (3, 7, 100 * T, 7),
            (0, 7, 60 * T, 7),
            (7, 7, 119 * T + 999_999, 2),
        ] {
            let state = SlidingCounter {
                index: 1,
                window: quota.window(),
                previous,
                current,
            };
            let Verdict::Denied(Retry::After(wait)) = state.decide(quota, at(now), cost) else {
                panic!("room for {cost} at {now}");
            };
            let later = |us: u64| {
                let then = at(now + us);
                state.settle(quota, then).decide(quota, then, cost)
            };
            assert_eq!(later(wait.get()), Verdict::Room);
            assert_ne!(later(wait.get() - 1), Verdict::Room);
        }
    }
}
