//! What holds for any interleaving of nodes, costs, regions, pauses, cancellations and faults.
//! Each world is made from a number, which a failure names.

mod conforming;
mod histories;
mod remembered;

use tidegate::model::{Algorithm, Policy, PolicyName};

use crate::world::rule;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Dice(u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `below` - 1.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len() as u64) as usize]
    }
}

/// Runs `work` in a runtime whose clock jumps when all wait.
pub fn paused<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}

pub fn policy(
    global: Option<(Algorithm, u64)>,
    region: Option<(Algorithm, u64)>,
    secs: u64,
) -> Policy {
    let ceiling = |c: Option<(Algorithm, u64)>| {
        c.and_then(|(algorithm, limit)| rule(algorithm, &format!("{limit}/{secs}s")))
    };
    let name = PolicyName::new("p").unwrap();
    Policy::new(name, ceiling(global), ceiling(region)).unwrap()
}
