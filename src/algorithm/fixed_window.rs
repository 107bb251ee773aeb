//! One counter a clock-aligned window. Cheapest of all, and wrong at the boundary: a full budget
//! at a window's end and another at the next one's start make twice the limit in one window's
//! time. Never for a tier that is billed.
//!
//! Windows are numbered by `floor(instant / window)` since the Unix epoch.

use super::{Charged, Standing, Verdict, without_state};
use crate::model::{Cost, Micros, Quota, Retry, Timestamp};

/// What was charged in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedWindow {
    /// The window's number.
    pub index: u64,
    /// The window's length when it was written; zero when nothing was.
    pub window: Micros,
    /// Units charged in it.
    pub used: u64,
}

impl FixedWindow {
    /// The state at `now`: itself, but after a clock's step back the counter is kept as the
    /// present window's, and so it is when the window's length changed.
    #[must_use]
    pub fn settle(self, quota: Quota, now: Timestamp) -> Self {
        let Some(present) = index_of(self.window, now) else {
            return self;
        };
        if present > self.index || present == self.index && self.window == quota.window() {
            return self;
        }
        FixedWindow {
            index: index(now, quota.window()),
            window: quota.window(),
            used: self.used,
        }
    }

    /// Units that count at `now`: none when the window is over.
    fn used(self, now: Timestamp) -> u64 {
        match index_of(self.window, now) {
            Some(present) if present <= self.index => self.used,
            _ => 0,
        }
    }

    /// Whether there is room for `cost` units; if not, there is when the window ends.
    pub fn decide(self, quota: Quota, now: Timestamp, cost: Cost) -> Verdict {
        if let Some(verdict) = without_state(cost, quota.limit()) {
            return verdict;
        }
        if self.used(now).saturating_add(cost) <= quota.limit() {
            Verdict::Room
        } else {
            Verdict::Denied(Retry::After(left(now, quota.window())))
        }
    }

    /// Adds `cost` units.
    #[must_use]
    pub fn charge(self, quota: Quota, now: Timestamp, cost: Cost) -> Self {
        FixedWindow {
            index: index(now, quota.window()),
            window: quota.window(),
            used: self.used(now).saturating_add(cost),
        }
    }

    /// What is left, and when the window ends (at once when nothing is used).
    pub fn standing(self, quota: Quota, now: Timestamp) -> Standing {
        let used = self.used(now);
        Standing {
            remaining: quota.limit().saturating_sub(used),
            reset_after: match used {
                0 => Micros::ZERO,
                _ => left(now, quota.window()),
            },
        }
    }

    /// Gives back up to `units` of a charge of the present window; how many.
    pub fn refund(&mut self, now: Timestamp, charged: Charged, units: Cost) -> Cost {
        let of_this = index_of(self.window, charged.at.min(now)) == Some(self.index);
        let given = match of_this {
            true => units.min(charged.cost).min(self.used(now)),
            false => 0,
        };
        self.used -= given;
        given
    }
}

/// The number of the window that holds `at`.
pub(super) fn index(at: Timestamp, window: Micros) -> u64 {
    at.as_micros() / window.get().max(1)
}

/// The same, unless there is no window yet.
pub(super) fn index_of(window: Micros, at: Timestamp) -> Option<u64> {
    at.as_micros().checked_div(window.get())
}

/// How long the window that holds `now` still lasts: at least one microsecond.
pub(super) fn left(now: Timestamp, window: Micros) -> Micros {
    let window = window.get().max(1);
    Micros::new(window - now.as_micros() % window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: f64) -> Timestamp {
        Timestamp::from_micros((s * 1e6) as u64)
    }

    #[test]
    fn twice_the_limit_passes_across_a_boundary_as_documented() {
        let quota: Quota = "5/min".parse().unwrap();
        let full = FixedWindow::default().charge(quota, at(59.9), 5);
        assert_eq!(
            full.decide(quota, at(59.9), 1),
            Verdict::Denied(Retry::After(Micros::from_millis(100)))
        );
        let next = full.settle(quota, at(60.0));
        assert_eq!(next.decide(quota, at(60.0), 5), Verdict::Room);
    }

    #[test]
    fn a_step_back_keeps_what_was_used_for_one_window_at_most() {
        let quota: Quota = "5/min".parse().unwrap();
        let full = FixedWindow::default().charge(quota, at(3600.0), 5);
        let back = full.settle(quota, at(10.0));
        assert_eq!(back.standing(quota, at(10.0)).remaining, 0);
        let later = back.settle(quota, at(60.0));
        assert_eq!(later.standing(quota, at(60.0)).remaining, 5);
    }
}
