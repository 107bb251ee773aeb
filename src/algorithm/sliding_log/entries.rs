//! A log's entries by date, in blocks that know their sums: appended, found, lowered and taken
//! out in the middle at the cost of one block, summed without being walked.
//! Never decides anything.

use std::collections::VecDeque;

use crate::model::{ChargeId, Cost, Micros, Timestamp};

/// The most entries of a block: a search among blocks and a move within one cost alike at a
/// million entries.
const BLOCK_LEN_MAX: usize = 256;

/// Where an entry stands: by its date, then in the order in which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub date: Timestamp,
    pub seq: u64,
}

impl Place {
    pub(super) fn is_expired(self, window: Micros, now: Timestamp) -> bool {
        self.date + window <= now
    }
}

/// One charge. Invariant: `cost > 0`; it was charged `held` before its date.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub place: Place,
    pub held: Micros,
    pub cost: Cost,
    pub id: ChargeId,
}

#[derive(Clone, Debug, Default)]
struct Block {
    /// Sorted by place; empty only between two steps.
    entries: VecDeque<Entry>,
    sum: u64,
}

impl Block {
    fn last(&self) -> Option<Place> {
        self.entries.back().map(|e| e.place)
    }

    fn position(&self, place: Place) -> Option<usize> {
        let at = self.entries.partition_point(|e| e.place < place);
        self.entries
            .get(at)
            .is_some_and(|e| e.place == place)
            .then_some(at)
    }
}

/// Entries by place. Invariant: blocks are not empty and sorted; `sum` and `len` are those of
/// `blocks`, and `expired` holds what was let go from their front.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    blocks: VecDeque<Block>,
    sum: u64,
    len: usize,
    expired: VecDeque<Block>,
    expired_len: usize,
}

impl Entries {
    /// Units of all entries that were not let go.
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// Entries in memory, those included that were let go and not yet popped.
    pub(super) fn len(&self) -> usize {
        self.len + self.expired_len
    }

    /// Whether there are no entries but those let go.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The latest date.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        self.blocks.back()?.last().map(|place| place.date)
    }

    /// All entries that were not let go, by place.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.blocks.iter().flat_map(|b| &b.entries)
    }

    /// Puts an entry in its place.
    pub(super) fn insert(&mut self, entry: Entry) {
        let cost = entry.cost;
        let mut index = self.block_of(entry.place);
        if index == self.blocks.len() {
            // It is the newest: the last block takes it, or a new one.
            match self.blocks.back() {
                Some(last) if last.entries.len() < BLOCK_LEN_MAX => index -= 1,
                _ => self.blocks.push_back(Block::default()),
            }
        } else {
            self.split_if_full(index);
            index = self.block_of(entry.place);
        }
        if let Some(block) = self.blocks.get_mut(index) {
            let at = block.entries.partition_point(|e| e.place < entry.place);
            block.entries.insert(at, entry);
            block.sum = block.sum.saturating_add(cost);
            self.sum = self.sum.saturating_add(cost);
            self.len += 1;
        }
    }

    fn split_if_full(&mut self, index: usize) {
        let Some(block) = self.blocks.get_mut(index) else {
            return;
        };
        if block.entries.len() < BLOCK_LEN_MAX {
            return;
        }
        let upper = block.entries.split_off(BLOCK_LEN_MAX / 2);
        let sum = upper.iter().map(|e| e.cost).sum();
        block.sum = block.sum.saturating_sub(sum);
        let upper = Block {
            entries: upper,
            sum,
        };
        self.blocks.insert(index + 1, upper);
    }

    /// The first block whose last entry is not before `place`; the number of blocks if none is.
    fn block_of(&self, place: Place) -> usize {
        self.blocks
            .partition_point(|b| b.last().is_some_and(|last| last < place))
    }

    /// The entry at `place`.
    pub(super) fn get(&self, place: Place) -> Option<&Entry> {
        let block = self.blocks.get(self.block_of(place))?;
        block.entries.get(block.position(place)?)
    }

    /// Takes the entry at `place` out.
    pub(super) fn remove(&mut self, place: Place) -> Option<Entry> {
        let index = self.block_of(place);
        let block = self.blocks.get_mut(index)?;
        let entry = block.entries.remove(block.position(place)?)?;
        block.sum = block.sum.saturating_sub(entry.cost);
        if block.entries.is_empty() {
            self.blocks.remove(index);
        }
        self.sum = self.sum.saturating_sub(entry.cost);
        self.len -= 1;
        Some(entry)
    }

    /// Lowers the cost of the entry at `place`, which must stay above zero.
    pub(super) fn lower(&mut self, place: Place, by: Cost) {
        let index = self.block_of(place);
        let Some(block) = self.blocks.get_mut(index) else {
            return;
        };
        let Some(at) = block.position(place) else {
            return;
        };
        if let Some(entry) = block.entries.get_mut(at).filter(|e| e.cost > by) {
            entry.cost -= by;
            block.sum = block.sum.saturating_sub(by);
            self.sum = self.sum.saturating_sub(by);
        }
    }

    /// Units of the entries that have expired at `now` and were not let go yet.
    pub(super) fn expired_sum(&self, window: Micros, now: Timestamp) -> u64 {
        let gone = |place: Place| place.is_expired(window, now);
        let mut sum = 0_u64;
        for block in &self.blocks {
            if block.last().is_some_and(gone) {
                sum = sum.saturating_add(block.sum);
                continue;
            }
            let of_block = block.entries.iter().take_while(|e| gone(e.place));
            return of_block.fold(sum, |sum, e| sum.saturating_add(e.cost));
        }
        sum
    }

    /// The date of the entry with which the oldest entries together reach `units`; the newest
    /// one's when all don't.
    pub(super) fn date_at(&self, units: u64) -> Option<Timestamp> {
        let mut before = 0_u64;
        for block in &self.blocks {
            let with = before.saturating_add(block.sum);
            if with < units {
                before = with;
                continue;
            }
            for entry in &block.entries {
                before = before.saturating_add(entry.cost);
                if before >= units {
                    return Some(entry.place.date);
                }
            }
        }
        self.newest()
    }

    /// Takes out one entry that was let go, or that has expired at `now`.
    pub(super) fn pop_expired(&mut self, window: Micros, now: Timestamp) -> Option<Entry> {
        if let Some(block) = self.expired.front_mut() {
            let entry = block.entries.pop_front();
            self.expired_len -= usize::from(entry.is_some());
            if block.entries.is_empty() {
                self.expired.pop_front();
            }
            return entry;
        }
        let oldest = self.blocks.front()?.entries.front()?.place;
        if oldest.is_expired(window, now) {
            self.remove(oldest)
        } else {
            None
        }
    }

    /// Lets go all that has expired at `now`: it counts no more, and is popped later.
    pub(super) fn expire(&mut self, window: Micros, now: Timestamp) {
        let gone = |place: Place| place.is_expired(window, now);
        while self.blocks.front().and_then(Block::last).is_some_and(gone) {
            if let Some(block) = self.blocks.pop_front() {
                self.let_go(block);
            }
        }
        let Some(front) = self.blocks.front_mut() else {
            return;
        };
        let count = front.entries.partition_point(|e| gone(e.place));
        if count > 0 {
            let entries: VecDeque<Entry> = front.entries.drain(..count).collect();
            let sum = entries.iter().map(|e| e.cost).sum();
            front.sum = front.sum.saturating_sub(sum);
            self.let_go(Block { entries, sum });
        }
    }

    fn let_go(&mut self, block: Block) {
        self.sum = self.sum.saturating_sub(block.sum);
        self.len -= block.entries.len();
        self.expired_len += block.entries.len();
        self.expired.push_back(block);
    }

    /// Places of up to `count_max` entries that were charged after `now`, the oldest first.
    pub(super) fn charged_after(&self, now: Timestamp, count_max: usize) -> Vec<Place> {
        let first = self.block_of(Place {
            date: now,
            seq: u64::MAX,
        });
        self.blocks
            .range(first..)
            .flat_map(|b| &b.entries)
            .filter(|e| e.place.date.back(e.held) > now)
            .map(|e| e.place)
            .take(count_max)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(date: u64, seq: u64, cost: u64) -> Entry {
        Entry {
            place: Place {
                date: Timestamp::from_micros(date),
                seq,
            },
            held: Micros::ZERO,
            cost,
            id: ChargeId::new(format!("{seq}")).unwrap(),
        }
    }

    #[test]
    fn sums_follow_every_insertion_removal_and_expiry() {
        let mut entries = Entries::default();
        // Every third comes late, into the middle.
        for n in 0..3_000_u64 {
            let date = if n % 3 == 0 { n } else { n + 500 };
            entries.insert(entry(date, n, 1 + n % 5));
        }
        let places: Vec<Place> = entries
            .blocks
            .iter()
            .flat_map(|b| b.entries.iter().map(|e| e.place))
            .collect();
        assert_eq!(places.len(), 3_000);
        assert!(places.is_sorted());
        for place in places.iter().step_by(7) {
            assert!(entries.remove(*place).is_some());
            assert!(entries.get(*place).is_none());
        }
        entries.expire(Micros::new(10), Timestamp::from_micros(1_000));
        let left = entries.blocks.iter().flat_map(|b| &b.entries);
        assert_eq!(left.map(|e| e.cost).sum::<u64>(), entries.sum());
        assert!(entries.blocks.iter().all(|b| !b.entries.is_empty()
            && b.entries.len() <= BLOCK_LEN_MAX
            && b.sum == b.entries.iter().map(|e| e.cost).sum::<u64>()));
        let before = entries.len();
        let popped = std::iter::from_fn(|| {
            entries.pop_expired(Micros::new(10), Timestamp::from_micros(1_000))
        })
        .count();
        assert!(popped > 0);
        assert_eq!(entries.len(), before - popped);
    }
}
