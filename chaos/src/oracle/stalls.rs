//! Times in which the machine did not let an instance run. They are taken off what it waited for,
//! and off nothing else: a wrong answer is wrong on a busy machine too.

use std::collections::HashMap;

/// Each instance's stalls, in microseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls(HashMap<u16, Vec<(u64, u64)>>);

impl Stalls {
    /// Adds what an instance saw; its stalls don't overlap.
    pub fn add(&mut self, instance: u16, mut stalls: Vec<(u64, u64)>) {
        stalls.sort_unstable();
        self.0.insert(instance, stalls);
    }

    /// How much of `[from, to]` the instance was stalled, in microseconds.
    pub fn within(&self, instance: u16, from: u64, to: u64) -> u64 {
        let Some(stalls) = self.0.get(&instance) else {
            return 0;
        };
        let first = stalls.partition_point(|(_, end)| *end <= from);
        let here = stalls
            .iter()
            .skip(first)
            .take_while(|(begin, _)| *begin < to);
        here.map(|(begin, end)| end.min(&to).saturating_sub(*begin.max(&from)))
            .sum()
    }

    /// The stalls of all instances that lasted so long or longer, in order, at most `count`.
    pub fn of_at_least(&self, us: u64, count: usize) -> Vec<(u64, u64)> {
        let all = self.0.values().flatten().copied();
        let mut long: Vec<_> = all
            .filter(|(begin, end)| end.saturating_sub(*begin) >= us)
            .collect();
        long.sort_unstable();
        long.truncate(count);
        long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_that_overlaps_is_taken_off() {
        let mut stalls = Stalls::default();
        stalls.add(1, vec![(500, 600), (100, 200)]);
        assert_eq!(stalls.within(1, 0, 1_000), 200);
        assert_eq!(stalls.within(1, 150, 550), 100);
        assert_eq!(stalls.within(1, 200, 500), 0);
        assert_eq!(stalls.within(1, 120, 130), 10);
        assert_eq!(stalls.within(2, 0, 1_000), 0);
        stalls.add(2, vec![(50, 60)]);
        assert_eq!(stalls.of_at_least(11, 9), [(100, 200), (500, 600)]);
        assert_eq!(stalls.of_at_least(10, 2), [(50, 60), (100, 200)]);
    }
}
