//! Parts of a store that fail on their own, and events of them. Never says where a part is reached.

use std::fmt;
use std::ops::RangeInclusive;

use crate::model::Slot;

/// A part of a store that fails on its own: a shard of a cluster, with whichever node is its
/// primary now. Stays the same through failovers and slot migrations; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(u32);

impl ShardId {
    /// The whole store: it has one part only, or its parts aren't known yet.
    pub const WHOLE: ShardId = ShardId(0);

    /// The shard numbered `n`; [`ShardId::WHOLE`] for 0.
    pub const fn new(n: u32) -> Self {
        ShardId(n)
    }

    /// Its number: small, for labels and tables.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Hash slots, as ascending ranges that don't touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotRanges(Vec<RangeInclusive<u16>>);

impl SlotRanges {
    /// Of slots in ascending order.
    pub fn from_ascending(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in slots.into_iter().map(Slot::get) {
            match ranges.last_mut() {
                Some(last) if slot.checked_sub(1) == Some(*last.end()) => {
                    *last = *last.start()..=slot;
                }
                Some(last) if last.contains(&slot) => {}
                _ => ranges.push(slot..=slot),
            }
        }
        SlotRanges(ranges)
    }

    /// Whether `slot` is one of them.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0.iter().any(|range| range.contains(&slot.get()))
    }

    /// The ranges.
    pub fn ranges(&self) -> &[RangeInclusive<u16>] {
        &self.0
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(ExactSizeIterator::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for SlotRanges {
    /// `0-5460 10923`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.0.iter().enumerate() {
            let gap = if n == 0 { "" } else { " " };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{gap}{first}")?,
                (first, last) => write!(f, "{gap}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// What happened to a store's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardEvent {
    /// Another node serves the shard now: a replica was promoted. What the old primary had
    /// acknowledged but not replicated is gone. Announced before the shard's calls go to the new node,
    /// at most once a change.
    Promoted {
        /// Whose primary changed.
        shard: ShardId,
        /// The slots that it serves.
        slots: SlotRanges,
        /// Where it was served, `host:port`.
        from: String,
        /// Where it is served now, `host:port`.
        to: String,
    },
    /// Slots went to another shard, with their keys.
    Moved {
        /// Who serves them now.
        shard: ShardId,
        /// The slots that came.
        slots: SlotRanges,
    },
    /// The shard can't be reached.
    Lost {
        /// Which.
        shard: ShardId,
    },
    /// The shard is reached again.
    Found {
        /// Which.
        shard: ShardId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_become_ranges() {
        let slots = [0, 1, 2, 7, 9, 9, 10].map(|n| Slot::new(n).unwrap());
        let ranges = SlotRanges::from_ascending(slots);
        assert_eq!(ranges.to_string(), "0-2 7 9-10");
        assert_eq!(ranges.len(), 6);
        assert!(ranges.contains(slots[3]) && !ranges.contains(Slot::new(8).unwrap()));
    }
}
