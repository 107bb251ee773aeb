//! Whether a node's own ceiling was right to refuse: only what no conforming client could have
//! sent. A client conforms when it sends at most `limit` units in any window, so over any time
//! `d` at most `limit + limit/window * d`. Never asks whether the store had room.

/// What one instance sent for one ceiling, as a meter that fills by what is sent and drains at
/// `limit / window`. Its level is the most by which any recent stretch exceeds the steady rate.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    /// `(sent, level after it)`; a level is in units times microseconds of window.
    levels: Vec<(u64, u128)>,
    limit: u128,
    window: u128,
    slack: u128,
}

impl Envelope {
    /// The envelope of checks `(sent, answered, cost)` against `limit` units per `window`
    /// microseconds. Where in `[sent, answered]` a check met the ceiling is unknown, so the
    /// longest such time counts as slack twice.
    pub(super) fn new(mut checks: Vec<(u64, u64, u64)>, limit: u64, window: u64) -> Self {
        checks.sort_unstable();
        let longest = checks
            .iter()
            .map(|(sent, answered, _)| answered.saturating_sub(*sent));
        let slack = u128::from(longest.max().unwrap_or(0)) * 2 * u128::from(limit);
        let (limit, window) = (u128::from(limit), u128::from(window));
        let (mut level, mut last) = (0_u128, 0_u64);
        let mut levels = Vec::with_capacity(checks.len());
        for (sent, _, cost) in checks {
            level = level.saturating_sub(u128::from(sent - last) * limit);
            level += u128::from(cost) * window;
            last = sent;
            levels.push((sent, level));
        }
        Envelope {
            levels,
            limit,
            window,
            slack,
        }
    }

    /// Whether a refusal answered at `answered` may have been right: up to then the instance may
    /// have sent more than a conforming client can.
    pub(super) fn exceeded_by(&self, answered: u64) -> bool {
        let sent = self.levels.partition_point(|(sent, _)| *sent <= answered);
        let level = sent.checked_sub(1).and_then(|last| self.levels.get(last));
        level.is_some_and(|(_, level)| level + self.slack > self.limit * self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1_000;

    fn at(instants: impl IntoIterator<Item = u64>) -> Vec<(u64, u64, u64)> {
        instants.into_iter().map(|at| (at, at, 1)).collect()
    }

    #[test]
    fn a_client_that_keeps_to_the_limit_never_leaves_the_envelope() {
        let steady = Envelope::new(at((0..100).map(|i| i * 100)), 10, WINDOW);
        let bursts = Envelope::new(at((0..100).map(|i| i / 10 * WINDOW)), 10, WINDOW);
        for t in 0..10_000 {
            assert!(!steady.exceeded_by(t) && !bursts.exceeded_by(t), "{t}");
        }
    }

    #[test]
    fn the_eleventh_of_ten_at_once_leaves_it() {
        let flood = Envelope::new(at((0..11).map(|_| 5_000)), 10, WINDOW);
        assert!(flood.exceeded_by(5_000));
        assert!(!flood.exceeded_by(4_999));
    }

    #[test]
    fn a_long_call_widens_it() {
        let slow = Envelope::new(vec![(0, 60, 10)], 10, WINDOW);
        assert!(slow.exceeded_by(60));
    }
}
