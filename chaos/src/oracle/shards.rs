//! Which shard serves which slot. Fixed when the load begins: shards are named by what they served
//! then, whichever node serves it later.

use std::ops::RangeInclusive;

use tidegate::model::{HashTag, Slot, Subject};

/// Slot ranges by shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardMap {
    ranges: Vec<(RangeInclusive<u16>, u16)>,
    count: u16,
}

impl ShardMap {
    /// All slots over `count` shards in equal runs, as clusters are created; at least one shard.
    pub fn equal(count: u16) -> Self {
        let count = count.clamp(1, Slot::COUNT);
        let (all, shards) = (u32::from(Slot::COUNT), u32::from(count));
        let bound = |shard: u32| u16::try_from(shard * all / shards).unwrap_or(Slot::COUNT);
        let range = |shard: u16| {
            let next = u32::from(shard) + 1;
            (bound(u32::from(shard))..=bound(next) - 1, shard)
        };
        ShardMap {
            ranges: (0..count).map(range).collect(),
            count,
        }
    }

    /// These ranges, a list a shard.
    pub fn of(shards: Vec<Vec<RangeInclusive<u16>>>) -> Self {
        let count = u16::try_from(shards.len()).unwrap_or(u16::MAX);
        let ranges = (0..count).zip(shards).flat_map(|(shard, ranges)| {
            let of_shard = ranges.into_iter().map(move |range| (range, shard));
            of_shard.collect::<Vec<_>>()
        });
        ShardMap {
            ranges: ranges.collect(),
            count: count.max(1),
        }
    }

    /// How many shards there are.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The shard of a subject's keys; 0 for a slot that nobody serves.
    pub fn shard_of(&self, subject: &str) -> u16 {
        let Ok(subject) = Subject::new(subject) else {
            return 0;
        };
        let slot = Slot::of(format!("{{{}}}", HashTag::of(&subject)).as_bytes()).get();
        let serving = self.ranges.iter().find(|(range, _)| range.contains(&slot));
        serving.map_or(0, |(_, shard)| *shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_found_on_the_shard_that_serves_them() {
        // Slots by the cluster specification: foo 12182, bar 5061, hello 866.
        let three = ShardMap::equal(3);
        assert_eq!(three.shard_of("foo"), 2);
        assert_eq!(three.shard_of("bar"), 0);
        assert_eq!(three.shard_of("hello"), 0);
        assert_eq!(ShardMap::equal(1).shard_of("foo"), 0);
        let moved = ShardMap::of(vec![vec![0..=800, 900..=16_383], vec![801..=899]]);
        assert_eq!(
            (
                moved.count(),
                moved.shard_of("hello"),
                moved.shard_of("foo")
            ),
            (2, 1, 0)
        );
    }

    #[test]
    fn every_slot_belongs_to_exactly_one_shard() {
        for count in [1, 3, 7, 20] {
            let map = ShardMap::equal(count);
            let slots: usize = map.ranges.iter().map(|(range, _)| range.len()).sum();
            assert_eq!(slots, usize::from(Slot::COUNT));
            assert!(
                map.ranges
                    .windows(2)
                    .all(|w| *w[0].0.end() + 1 == *w[1].0.start())
            );
        }
    }
}
