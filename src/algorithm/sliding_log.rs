//! Every charge is remembered until it is a window old: exact in every window, at the price of
//! an entry a charge. Never scans a long log: what is used is a running sum, what is walked is
//! one block of entries and the blocks' sums, and ids have an index once one is looked for.
//!
//! An entry counts from its charge on. It is dated at its charge, or ahead of it when it is held
//! (a lease), and is gone one window after its date: charged at t it counts at t + W - 1 us and
//! no more at t + W.
//!
//! A clock that steps back leaves entries that were charged after now. They still count, and are
//! charged anew, so to speak, at the present instant, a bounded number a call: nobody is locked
//! out for more than a window (and the hold, for a lease) after the step. A step within
//! [`skew_max`] moves nothing: callers' clocks are apart by so much, and calls overtake each other.
//! What then lies ahead of now keeps its date, so that every window holds what was charged in it.

mod entries;

use std::collections::HashMap;

use self::entries::{Entries, Entry, Place};
use super::{Charged, Standing, Verdict, without_state};
use crate::model::{ChargeId, Cost, Micros, Quota, Retry, Timestamp};

/// The most entries that one call dates anew after a clock's step back.
pub const REDATED_MAX: usize = 1_000;

/// How far behind an entry's charge the present may lie without the clock having stepped back:
/// 100 ms, and at most a tenth of the window.
pub fn skew_max(window: Micros) -> Micros {
    Micros::new(window.get() / 10).min(Micros::from_millis(100))
}

/// The most expired entries whose ids one call forgets; the others wait, and count no more.
const FORGOTTEN_MAX: usize = 64;

/// Entries among which an id is looked for one by one. More get an index when an id is looked for:
/// traffic of fresh ids alone never pays for one.
const SCANNED_MAX: usize = 64;

/// The charges of one ceiling that may still count.
#[derive(Clone, Debug, Default)]
pub struct SlidingLog {
    entries: Entries,
    ids: Option<HashMap<ChargeId, Place>>,
    /// Entries charged later than this there are none.
    latest_at: Timestamp,
    seq: u64,
}

impl SlidingLog {
    /// Brings the log to `now`: dates entries of a later clock anew, and lets go what has
    /// expired under `window`. Amortised O(1); bounded a call.
    pub fn settle(&mut self, window: Micros, now: Timestamp) {
        if self.is_ahead_of(window, now) {
            self.redate(window, now);
        }
        for _ in 0..FORGOTTEN_MAX {
            let Some(entry) = self.entries.pop_expired(window, now) else {
                return;
            };
            if let Some(ids) = &mut self.ids {
                // The same id may have been charged again since.
                if ids.get(&entry.id) == Some(&entry.place) {
                    ids.remove(&entry.id);
                }
            }
        }
        self.entries.expire(window, now);
    }

    /// Whether the log holds charges that were made so long after `now` that the clock must have
    /// stepped back.
    pub fn is_ahead_of(&self, window: Micros, now: Timestamp) -> bool {
        self.latest_at > now + skew_max(window) && !self.entries.is_empty()
    }

    fn redate(&mut self, window: Micros, now: Timestamp) {
        let latest = now + skew_max(window);
        let late = self.entries.charged_after(latest, REDATED_MAX);
        if late.len() < REDATED_MAX {
            self.latest_at = latest;
        }
        for place in late {
            let Some(entry) = self.entries.remove(place) else {
                continue;
            };
            self.push(now, entry.id, entry.cost, entry.held);
        }
    }

    /// Units that count at `now`.
    pub fn used(&self, window: Micros, now: Timestamp) -> u64 {
        let expired = self.entries.expired_sum(window, now);
        self.entries.sum().saturating_sub(expired)
    }

    /// Whether there is room for `cost` units, and if not, exactly when enough entries are gone,
    /// the oldest first.
    pub fn decide(&self, quota: Quota, now: Timestamp, cost: Cost) -> Verdict {
        if let Some(verdict) = without_state(cost, quota.limit()) {
            return verdict;
        }
        let expired = self.entries.expired_sum(quota.window(), now);
        let used = self.entries.sum().saturating_sub(expired);
        let asked = used.saturating_add(cost);
        if asked <= quota.limit() {
            return Verdict::Room;
        }
        let excess = asked - quota.limit();
        let freed_at = self
            .entries
            .date_at(expired.saturating_add(excess))
            .map_or(now, |date| date + quota.window());
        Verdict::Denied(Retry::After(freed_at.since(now)))
    }

    /// Adds an entry, `held` ahead of `now`.
    pub fn charge(&mut self, now: Timestamp, id: ChargeId, cost: Cost, held: Micros) {
        if cost > 0 {
            self.latest_at = self.latest_at.max(now);
            self.push(now, id, cost, held);
        }
    }

    fn push(&mut self, at: Timestamp, id: ChargeId, cost: Cost, held: Micros) {
        self.seq = self.seq.wrapping_add(1);
        let place = Place {
            date: at + held,
            seq: self.seq,
        };
        if let Some(ids) = &mut self.ids {
            ids.insert(id.clone(), place);
        }
        self.entries.insert(Entry {
            place,
            held,
            cost,
            id,
        });
    }

    /// What is left, and when the last entry is gone.
    pub fn standing(&self, quota: Quota, now: Timestamp) -> Standing {
        Standing {
            remaining: quota.limit().saturating_sub(self.used(quota.window(), now)),
            reset_after: self
                .entries
                .newest()
                .map_or(Micros::ZERO, |date| (date + quota.window()).since(now)),
        }
    }

    /// Gets ready to look for ids: indexes them when there are many. Once a log, until it is empty.
    pub fn index_ids(&mut self) {
        if self.entries.is_empty() {
            self.ids = None;
        } else if self.ids.is_none() && self.len() > SCANNED_MAX {
            let ids = self.entries.iter().map(|e| (e.id.clone(), e.place));
            self.ids = Some(ids.collect());
        }
    }

    fn place(&self, id: &ChargeId) -> Option<Place> {
        match &self.ids {
            Some(ids) => ids.get(id).copied(),
            None => self
                .entries
                .iter()
                .rev()
                .find(|e| e.id == *id)
                .map(|e| e.place),
        }
    }

    /// The charge of this id, if it still counts. O(log n) after [`SlidingLog::index_ids`].
    pub fn find(&self, id: &ChargeId, window: Micros, now: Timestamp) -> Option<Charged> {
        let place = self.place(id)?;
        if place.is_expired(window, now) {
            return None;
        }
        let entry = self.entries.get(place)?;
        Some(Charged {
            at: place.date.back(entry.held),
            cost: entry.cost,
        })
    }

    /// Gives back up to `units` of the charge of this id; how many. One that is given back whole
    /// is forgotten: its id may be charged anew.
    pub fn refund(&mut self, id: &ChargeId, window: Micros, now: Timestamp, units: Cost) -> Cost {
        let Some(charged) = self.find(id, window, now) else {
            return 0;
        };
        let Some(place) = self.place(id) else {
            return 0;
        };
        let given = units.min(charged.cost);
        if given == charged.cost {
            self.entries.remove(place);
            if let Some(ids) = &mut self.ids {
                ids.remove(id);
            }
        } else {
            self.entries.lower(place, given);
        }
        given
    }

    /// Entries in memory, those included that have expired and are not yet let go.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_000_000;

    fn at(us: u64) -> Timestamp {
        Timestamp::from_micros(us)
    }

    fn id(text: impl ToString) -> ChargeId {
        ChargeId::new(text.to_string()).unwrap()
    }

    fn wait(verdict: Verdict) -> u64 {
        match verdict {
            Verdict::Denied(Retry::After(wait)) => wait.get(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_oldest_entries_that_free_enough_give_the_wait() {
        let quota: Quota = "10/min".parse().unwrap();
        let mut log = SlidingLog::default();
        for (t, cost) in [(0, 3), (10, 4), (20, 3)] {
            log.charge(at(t * T), id(t), cost, Micros::ZERO);
        }
        let now = at(30 * T);
        for (cost, seconds) in [(1, 30), (3, 30), (4, 40), (7, 40), (8, 50), (10, 50)] {
            assert_eq!(wait(log.decide(quota, now, cost)), seconds * T);
        }
        assert_eq!(log.decide(quota, now, 11), Verdict::Denied(Retry::Never));
        assert_eq!(log.decide(quota, now, 0), Verdict::Room);
    }

    #[test]
    fn a_lease_counts_from_now_and_longer() {
        let quota: Quota = "10/min".parse().unwrap();
        let mut log = SlidingLog::default();
        log.charge(at(T), id("lease"), 6, Micros::from_secs(5));
        log.charge(at(2 * T), id("b"), 4, Micros::ZERO);
        assert_eq!(wait(log.decide(quota, at(2 * T), 1)), 60 * T);
        assert_eq!(wait(log.decide(quota, at(2 * T), 5)), 64 * T);
        log.settle(quota.window(), at(62 * T));
        assert_eq!(log.used(quota.window(), at(62 * T)), 6);
        assert_eq!(log.used(quota.window(), at(66 * T)), 0);
    }

    #[test]
    fn a_step_back_locks_nobody_out_for_more_than_a_window() {
        let quota: Quota = "3000/min".parse().unwrap();
        let mut log = SlidingLog::default();
        for n in 0..3_000_u64 {
            log.charge(at(3_600 * T + n), id(n), 1, Micros::ZERO);
        }
        for call in 1..=4 {
            log.settle(quota.window(), at(call * T));
            assert_eq!(log.used(quota.window(), at(call * T)), 3_000);
        }
        assert!(!log.is_ahead_of(quota.window(), at(4 * T)));
        assert_eq!(log.used(quota.window(), at(63 * T)), 0);
    }

    #[test]
    fn a_call_that_was_overtaken_dates_nothing_back() {
        let quota: Quota = "3/min".parse().unwrap();
        let window = quota.window();
        let skew = skew_max(window).get();
        let mut log = SlidingLog::default();
        log.charge(at(60 * T), id("ahead"), 2, Micros::ZERO);
        log.settle(window, at(60 * T - skew));
        log.charge(at(60 * T - skew), id("late"), 1, Micros::ZERO);
        // Each frees its units a window after its own charge.
        let now = at(61 * T);
        assert_eq!(wait(log.decide(quota, now, 1)), 59 * T - skew);
        assert_eq!(wait(log.decide(quota, now, 2)), 59 * T);
        // One microsecond more is a step back.
        log.settle(window, at(60 * T - skew - 1));
        assert_eq!(wait(log.decide(quota, now, 3)), 59 * T - skew);
        assert_eq!(skew_max(Micros::new(500)), Micros::new(50));
    }

    #[test]
    fn a_peek_of_an_unsettled_log_sees_what_a_settled_one_does() {
        let quota: Quota = "5000/min".parse().unwrap();
        let mut log = SlidingLog::default();
        for n in 0..2_000_u64 {
            log.charge(at(n * 50_000), id(n), 1 + n % 3, Micros::ZERO);
        }
        let mut settled = log.clone();
        for now in [100, 101, 130, 158].map(|t| at(t * T)) {
            settled.settle(quota.window(), now);
            assert_eq!(log.standing(quota, now), settled.standing(quota, now));
            for cost in [1, 3_000, 5_000] {
                assert_eq!(
                    log.decide(quota, now, cost),
                    settled.decide(quota, now, cost)
                );
            }
            assert_eq!(
                log.find(&id(900), quota.window(), now),
                settled.find(&id(900), quota.window(), now)
            );
        }
    }

    #[test]
    fn ids_of_expired_entries_are_let_go() {
        let window = Micros::from_secs(1);
        let mut log = SlidingLog::default();
        for n in 0..5_000_u64 {
            log.charge(at(n), id(n), 1, Micros::ZERO);
        }
        log.index_ids();
        assert_eq!(log.ids.as_ref().map(HashMap::len), Some(5_000));
        for call in 0..100 {
            log.settle(window, at(9 * T + call));
        }
        assert_eq!(log.ids.as_ref().map(HashMap::len), Some(0));
        log.index_ids();
        assert!(log.is_empty() && log.ids.is_none());
    }

    #[test]
    fn an_id_is_found_with_and_without_an_index() {
        let window = Micros::from_secs(60);
        let mut log = SlidingLog::default();
        for n in 0..1_000_u64 {
            log.charge(at(n), id(n), 1 + n, Micros::ZERO);
            let half = n / 2;
            let found = log.find(&id(half), window, at(n));
            assert_eq!(found.map(|c| (c.at, c.cost)), Some((at(half), 1 + half)));
            assert_eq!(log.find(&id("none"), window, at(n)), None);
            if n % 3 == 0 {
                log.index_ids();
            }
        }
        assert!(log.ids.is_some());
    }

    #[test]
    fn a_part_given_back_leaves_the_rest() {
        let quota: Quota = "10/min".parse().unwrap();
        let mut log = SlidingLog::default();
        log.charge(at(0), id("a"), 7, Micros::ZERO);
        assert_eq!(log.refund(&id("a"), quota.window(), at(1), 3), 3);
        assert_eq!(log.used(quota.window(), at(1)), 4);
        assert_eq!(log.refund(&id("a"), quota.window(), at(1), 9), 4);
        assert_eq!(log.find(&id("a"), quota.window(), at(1)), None);
        assert_eq!(log.used(quota.window(), at(1)), 0);
        assert_eq!(log.standing(quota, at(1)).reset_after, Micros::ZERO);
    }
}
