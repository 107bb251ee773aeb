//! How much to charge ahead: what was asked for lately, and never so much that another node would
//! find nothing. Never charges.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::model::{Cost, LeaseRule, Micros, Timestamp};

/// Fewer units than this aren't worth a lease: the calls that they save cost less than it holds
/// back.
const UNITS_MIN: Cost = 8;

/// What is asked of one target, in units a lease's period.
#[derive(Debug, Default)]
pub(super) struct Demand {
    since_us: AtomicU64,
    asked: AtomicU64,
    per_period: AtomicU64,
}

impl Demand {
    /// `cost` units were asked for at `now`.
    pub(super) fn asked(&self, cost: Cost, now: Timestamp, period: Micros) {
        let asked = self.add(cost);
        let since = self.since_us.load(Ordering::Relaxed);
        let elapsed = now.as_micros().saturating_sub(since);
        if elapsed < period.get() {
            return;
        }
        let turned = self.since_us.compare_exchange(
            since,
            now.as_micros(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if turned.is_err() {
            return;
        }
        self.asked.fetch_sub(asked, Ordering::Relaxed);
        let rate = u128::from(asked) * u128::from(period.get()) / u128::from(elapsed.max(1));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        // Falls by half a period at most, so that one quiet moment doesn't cost a lease.
        let before = self.per_period.load(Ordering::Relaxed);
        let after = if elapsed < period.get().saturating_mul(4) {
            rate.max(before / 2)
        } else {
            rate
        };
        self.per_period.store(after, Ordering::Relaxed);
    }

    /// `cost` more units were asked for lately; all of those.
    pub(super) fn add(&self, cost: Cost) -> Cost {
        let before = self.asked.fetch_add(cost, Ordering::Relaxed);
        before.saturating_add(cost)
    }

    /// Units asked for in a period.
    pub(super) fn per_period(&self) -> u64 {
        self.per_period.load(Ordering::Relaxed)
    }
}

/// A ceiling as a lease's size depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The ceiling's limit.
    pub limit: u64,
    /// Units left of it when the store last answered.
    pub remaining: u64,
}

/// The units to charge ahead; `None` when it isn't worth it. At most what a period asks for and a
/// fifth more, at most the rule's part of each limit, and at most half of an equal share of what is
/// left: with all nodes holding that, half is still free for one that holds nothing.
pub(super) fn size(
    demand: u64,
    rule: &LeaseRule,
    rooms: impl IntoIterator<Item = Room>,
    nodes: u32,
) -> Option<Cost> {
    let wanted = demand.saturating_add(demand / 5);
    let units = rooms.into_iter().fold(wanted, |units, room| {
        let part = u128::from(room.limit) * u128::from(rule.share_max_permille) / 1_000;
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        let share = room.remaining / (2 * u64::from(nodes.max(1)));
        units.min(part).min(share)
    });
    (units >= UNITS_MIN).then_some(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: LeaseRule = LeaseRule {
        period: Micros::from_millis(100),
        share_max_permille: 100,
    };

    fn room(limit: u64, remaining: u64) -> [Room; 1] {
        [Room { limit, remaining }]
    }

    #[test]
    fn follows_demand_up_to_the_rules_part_of_the_limit() {
        assert_eq!(size(100, &RULE, room(10_000, 10_000), 1), Some(120));
        assert_eq!(size(5_000, &RULE, room(10_000, 10_000), 1), Some(1_000));
        assert_eq!(size(6, &RULE, room(10_000, 10_000), 1), None);
    }

    #[test]
    fn shrinks_to_nothing_near_the_ceiling() {
        let sizes: Vec<_> = [1_000, 200, 64, 63, 8, 0]
            .map(|remaining| size(5_000, &RULE, room(10_000, remaining), 4))
            .into();
        assert_eq!(sizes, [Some(125), Some(25), Some(8), None, None, None]);
    }

    #[test]
    fn demand_is_known_after_a_period_and_forgotten_when_it_ends() {
        let (demand, period) = (Demand::default(), RULE.period);
        let at = |ms| Timestamp::from_micros(1_700_000_000_000_000) + Micros::from_millis(ms);
        demand.asked(1, at(0), period);
        for ms in 1..=100 {
            demand.asked(2, at(ms), period);
        }
        assert_eq!(demand.per_period(), 200);
        demand.asked(1, at(10_000), period);
        assert!(demand.per_period() < 8);
    }
}
