//! What was acknowledged as charged, for as long as a failover may take it away again.
//!
//! A ring in each of a number of stripes, by slot: the newest charges, bounded in number and in
//! age, so that after a failover exactly those of the affected slots can be put back. Never
//! holds a charge that was not acknowledged, nor one that no log knows by its id.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::model::{Algorithm, ChargeId, Cost, Slot, Target};
use crate::store::cluster::script::Acknowledged;
use crate::store::lock::lock;
use crate::store::shard::SlotRanges;

/// Stripes, each with a lock of its own.
const STRIPES: usize = 64;

/// How long a charge is remembered: twice a server's default node timeout.
const AGE_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Entry {
    slot: Slot,
    noted: Instant,
    target: Arc<Target>,
    charge: Acknowledged,
}

/// The newest acknowledged charges.
#[derive(Debug)]
pub(super) struct Journal {
    stripes: Vec<Mutex<VecDeque<Entry>>>,
    stripe_len_max: usize,
}

impl Journal {
    /// Remembers at most `len_max` charges; none when that is 0.
    pub fn new(len_max: usize) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        Journal {
            stripes,
            stripe_len_max: len_max.div_ceil(STRIPES),
        }
    }

    fn stripe(&self, slot: Slot) -> Option<MutexGuard<'_, VecDeque<Entry>>> {
        self.stripes
            .get(usize::from(slot.get()) % STRIPES)
            .map(lock)
    }

    /// Remembers a charge; the oldest goes when there is no more room.
    pub fn note(&self, slot: Slot, target: &Arc<Target>, charge: Acknowledged, now: Instant) {
        let logged = target
            .ceilings
            .iter()
            .any(|c| c.algorithm == Algorithm::SlidingLog);
        if self.stripe_len_max == 0 || !logged {
            return;
        }
        let Some(mut stripe) = self.stripe(slot) else {
            return;
        };
        let old = |entry: &Entry| now.saturating_duration_since(entry.noted) > AGE_MAX;
        while stripe.front().is_some_and(old) || stripe.len() >= self.stripe_len_max {
            stripe.pop_front();
        }
        let target = Arc::clone(target);
        stripe.push_back(Entry {
            slot,
            noted: now,
            target,
            charge,
        });
    }

    /// Takes units off a charge that was given back; all of them when `units` is absent.
    pub fn give_back(&self, slot: Slot, id: &ChargeId, units: Option<Cost>) {
        if let Some(mut stripe) = self.stripe(slot) {
            for entry in stripe
                .iter_mut()
                .filter(|e| e.slot == slot && e.charge.id == *id)
            {
                let given = units.unwrap_or(entry.charge.cost);
                entry.charge.cost = entry.charge.cost.saturating_sub(given);
            }
            stripe.retain(|entry| entry.charge.cost > 0);
        }
    }

    /// Forgets a target's charges, which were reset.
    pub fn forget(&self, slot: Slot, target: &Target) {
        if let Some(mut stripe) = self.stripe(slot) {
            stripe.retain(|entry| {
                entry.slot != slot
                    || entry.target.subject != target.subject
                    || entry.target.policy.name != target.policy.name
            });
        }
    }

    /// Of these slots, those with charges that are young enough.
    pub fn slots_in(&self, ranges: &SlotRanges, now: Instant) -> Vec<Slot> {
        let mut slots = Vec::new();
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            let young = stripe
                .iter()
                .filter(|e| is_young(e, now) && ranges.contains(e.slot));
            slots.extend(young.map(|entry| entry.slot));
        }
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The charges of a slot, by target, oldest first.
    pub fn of_slot(&self, slot: Slot, now: Instant) -> Vec<(Arc<Target>, Vec<Acknowledged>)> {
        let Some(stripe) = self.stripe(slot) else {
            return Vec::new();
        };
        // Two targets share their logs when policy, subject and region are the same; the newest
        // one's ceilings are those in force.
        let mut targets: BTreeMap<_, (Arc<Target>, Vec<Acknowledged>)> = BTreeMap::new();
        for entry in stripe.iter().filter(|e| e.slot == slot && is_young(e, now)) {
            let Target {
                policy,
                subject,
                region,
                ..
            } = &*entry.target;
            let key = (policy.name.clone(), subject.clone(), region.clone());
            let of = targets
                .entry(key)
                .or_insert_with(|| (Arc::clone(&entry.target), Vec::new()));
            of.0 = Arc::clone(&entry.target);
            of.1.push(entry.charge.clone());
        }
        targets.into_values().collect()
    }
}

fn is_young(entry: &Entry, now: Instant) -> bool {
    now.saturating_duration_since(entry.noted) <= AGE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Allowance, CeilingRule, Micros, Policy, PolicyName, Subject, Timestamp};

    fn target(algorithm: Algorithm, subject: &str) -> Arc<Target> {
        let rule = CeilingRule {
            algorithm,
            allowance: Allowance::Limited("10/s".parse().unwrap()),
            delay: false,
        };
        let policy = Policy::new(PolicyName::new("p").unwrap(), Some(rule), None).unwrap();
        let subject = Subject::new(subject).unwrap();
        Arc::new(Target {
            ceilings: policy.ceilings(&subject, None).unwrap(),
            policy: Arc::new(policy),
            subject,
            region: None,
        })
    }

    fn charge(n: u64) -> Acknowledged {
        Acknowledged {
            id: ChargeId::new(format!("c{n}")).unwrap(),
            cost: 3,
            at: Timestamp::from_micros(n),
            held: Micros::ZERO,
        }
    }

    fn slot(n: u16) -> Slot {
        Slot::new(n).unwrap()
    }

    fn ids(journal: &Journal, of: Slot, now: Instant) -> Vec<u64> {
        let all = journal.of_slot(of, now);
        all.iter()
            .flat_map(|(_, charges)| charges)
            .map(|c| c.at.as_micros())
            .collect()
    }

    #[test]
    fn the_newest_charges_are_kept_and_told_by_slot() {
        let (journal, now) = (Journal::new(64 * 3), Instant::now());
        let target = target(Algorithm::SlidingLog, "a");
        // Both slots share a stripe.
        for n in 0..5 {
            journal.note(
                slot(7 + 64 * u16::try_from(n % 2).unwrap()),
                &target,
                charge(n),
                now,
            );
        }
        assert_eq!(ids(&journal, slot(7), now), [2, 4]);
        assert_eq!(ids(&journal, slot(71), now), [3]);
        let all = SlotRanges::from_ascending([slot(7), slot(71)]);
        assert_eq!(journal.slots_in(&all, now), [slot(7), slot(71)]);
        let one = SlotRanges::from_ascending([slot(71)]);
        assert_eq!(journal.slots_in(&one, now), [slot(71)]);
    }

    #[test]
    fn what_is_too_old_is_told_no_more() {
        let (journal, now) = (Journal::new(640), Instant::now());
        let target = target(Algorithm::SlidingLog, "a");
        journal.note(slot(1), &target, charge(1), now);
        journal.note(slot(1), &target, charge(2), now + AGE_MAX / 2);
        assert_eq!(ids(&journal, slot(1), now + AGE_MAX), [1, 2]);
        let later = now + AGE_MAX + Duration::from_millis(1);
        assert_eq!(ids(&journal, slot(1), later), [2]);
        journal.note(slot(1), &target, charge(3), later);
        assert_eq!(ids(&journal, slot(1), now), [2, 3]);
    }

    #[test]
    fn what_was_given_back_or_reset_is_not_put_back() {
        let (journal, now) = (Journal::new(640), Instant::now());
        let a = target(Algorithm::SlidingLog, "a");
        for n in 1..=3 {
            journal.note(slot(1), &a, charge(n), now);
        }
        journal.give_back(slot(1), &charge(1).id, None);
        journal.give_back(slot(1), &charge(2).id, Some(2));
        let left = journal.of_slot(slot(1), now);
        let costs: Vec<_> = left[0]
            .1
            .iter()
            .map(|c| (c.at.as_micros(), c.cost))
            .collect();
        assert_eq!(costs, [(2, 1), (3, 3)]);
        journal.forget(slot(1), &target(Algorithm::SlidingLog, "b"));
        assert_eq!(ids(&journal, slot(1), now).len(), 2);
        journal.forget(slot(1), &a);
        assert!(ids(&journal, slot(1), now).is_empty());
    }

    #[test]
    fn counters_and_buckets_are_not_noted_since_no_id_tells_what_they_hold() {
        let (journal, now) = (Journal::new(640), Instant::now());
        journal.note(
            slot(1),
            &target(Algorithm::TokenBucket, "a"),
            charge(1),
            now,
        );
        assert!(ids(&journal, slot(1), now).is_empty());
        let none = Journal::new(0);
        none.note(slot(1), &target(Algorithm::SlidingLog, "a"), charge(1), now);
        assert!(ids(&none, slot(1), now).is_empty());
    }
}
