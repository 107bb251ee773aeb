//! The traffic under every fault: on each shard some subjects that ask for three times what they
//! may, and some that stay well below. The hot ones show over-admission, the cool ones show every
//! wrong denial and carry the service measurement. Pure.

use std::path::Path;

use crate::load::{ClockStep, LoadPlan, PolicyPlan, Stream};
use crate::oracle::ShardMap;

/// How many instances ask.
pub const INSTANCES: u16 = 3;
/// How many hot subjects a shard has; each begins at another time, so that the fault finds one
/// used up, one in the middle of its burst, and two that only begin while a primary that is cut
/// off still answers. (One that was denied before the failover would hide what was lost: nodes
/// remember denials.)
const HOT_A_SHARD: usize = 4;
/// How many cool subjects a shard has.
const COOL_A_SHARD: usize = 2;
/// What a hot subject asks, checks a second over all instances.
const HOT_RATE: u64 = 90;
/// What a cool subject asks, checks a second over all instances.
const COOL_RATE: u64 = 150;
/// How many names are tried for a shard's subjects.
const NAMES_TRIED_MAX: usize = 100_000;

/// The shape of one run's traffic.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// How long checks are asked, in milliseconds.
    pub length_ms: u64,
    /// When the fault comes, in milliseconds after the beginning.
    pub fault_ms: u64,
    /// How long a check may take, in milliseconds.
    pub deadline_ms: u64,
    /// Which shard serves which slot.
    pub shards: ShardMap,
    /// Which repetition: its subjects are its own.
    pub repetition: u32,
    /// Whether instances repair what a failover lost.
    pub repair: bool,
    /// Whether instances have their local stage.
    pub local_stage: bool,
    /// Whether the instances' own clocks stamp the hot subjects' charges, and how they step.
    pub clock_step: Option<ClockStep>,
}

impl Traffic {
    /// The window of all ceilings, in milliseconds: less than half of the run, so that it holds
    /// two, and longer than a failover, so that what was lost would still count after it.
    pub fn window_ms(&self) -> u64 {
        (self.length_ms * 9 / 20).clamp(1_000, 5_000)
    }

    /// The policies.
    pub fn policies(&self) -> Vec<PolicyPlan> {
        let units = |a_second: u64| (a_second * self.window_ms() / 1_000).max(1);
        let policy = |name: &str, global, region, callers_clock| PolicyPlan {
            name: name.to_owned(),
            global,
            region,
            window_ms: self.window_ms(),
            callers_clock,
        };
        vec![
            policy(
                "hot",
                units(HOT_RATE / 3),
                units(HOT_RATE / 5),
                self.clock_step.is_some(),
            ),
            policy("cool", units(COOL_RATE * 3), units(COOL_RATE * 2), false),
        ]
    }

    /// The traffic of one instance.
    fn streams(&self) -> Vec<Stream> {
        let a_instance = |rate: u64| u32::try_from(rate / u64::from(INSTANCES)).unwrap_or(1);
        let mut streams = Vec::new();
        for shard in 0..self.shards.count() {
            let begins = [
                0,
                self.fault_ms.saturating_sub(100),
                self.fault_ms + 300,
                self.fault_ms + 600,
            ];
            for (subject, from_ms) in self.subjects("hot", shard, HOT_A_SHARD).zip(begins) {
                streams.push(Stream {
                    policy: 0,
                    subject,
                    regions: vec!["us".into(), "eu".into()],
                    rate: a_instance(HOT_RATE),
                    from_ms,
                    heavy_every: 7,
                });
            }
            for subject in self.subjects("cool", shard, COOL_A_SHARD) {
                streams.push(Stream {
                    policy: 1,
                    subject,
                    regions: vec!["us".into(), "eu".into()],
                    rate: a_instance(COOL_RATE),
                    from_ms: 0,
                    heavy_every: 0,
                });
            }
        }
        streams
    }

    /// Names that live on a shard.
    fn subjects(
        &self,
        kind: &'static str,
        shard: u16,
        count: usize,
    ) -> impl Iterator<Item = String> {
        let names = (0..NAMES_TRIED_MAX).map(move |n| format!("{kind}-{}-{n}", self.repetition));
        names
            .filter(move |name| self.shards.shard_of(name) == shard)
            .take(count)
    }

    /// Subjects with traffic on a shard.
    pub fn subjects_on(&self, shard: u16) -> Vec<String> {
        let hot = self.subjects("hot", shard, HOT_A_SHARD);
        hot.chain(self.subjects("cool", shard, COOL_A_SHARD))
            .collect()
    }

    /// A plan an instance; histories go into `dir`.
    pub fn plans(&self, redis: &str, key_prefix: &str, dir: &Path) -> Vec<LoadPlan> {
        let plan = |instance| LoadPlan {
            instance,
            redis: redis.to_owned(),
            key_prefix: key_prefix.to_owned(),
            deadline_ms: self.deadline_ms,
            length_ms: self.length_ms,
            history: dir.join(format!("instance-{instance}.jsonl")),
            repair: self.repair,
            local_stage: self.local_stage,
            policies: self.policies(),
            streams: self.streams(),
            clock_step: self.clock_step,
        };
        (0..INSTANCES).map(plan).collect()
    }

    /// The load in words, for a report.
    pub fn description(&self) -> String {
        let shards = u64::from(self.shards.count());
        let hot = HOT_A_SHARD as u64 * shards;
        let cool = COOL_A_SHARD as u64 * shards;
        format!(
            "{INSTANCES} instances (processes) ask {} checks a second, open loop, deadline {} ms{}: \
             {hot} subjects ask three times their limit, {cool} a third of it. Every subject has a \
             ceiling over all regions and one in each of two, over windows of {} s.",
            hot * HOT_RATE + cool * COOL_RATE,
            self.deadline_ms,
            if self.local_stage {
                ""
            } else {
                ", without local stage"
            },
            self.window_ms() as f64 / 1e3,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic() -> Traffic {
        Traffic {
            length_ms: 10_000,
            fault_ms: 3_000,
            deadline_ms: 50,
            shards: ShardMap::equal(3),
            repetition: 1,
            repair: false,
            local_stage: true,
            clock_step: None,
        }
    }

    #[test]
    fn every_shard_gets_its_share() {
        let plans = traffic().plans("redis://127.0.0.1:1", "tg", Path::new("/tmp"));
        assert_eq!(plans.len(), usize::from(INSTANCES));
        for shard in 0..3 {
            let here = plans[0]
                .streams
                .iter()
                .filter(|s| traffic().shards.shard_of(&s.subject) == shard);
            assert_eq!(here.count(), HOT_A_SHARD + COOL_A_SHARD);
        }
        assert_eq!(plans[0].streams, plans[1].streams);
        assert_ne!(plans[0].history, plans[1].history);
    }

    #[test]
    fn hot_subjects_ask_more_than_they_may_and_cool_ones_less() {
        let traffic = traffic();
        let [hot, cool] = &traffic.policies()[..] else {
            panic!("two policies");
        };
        let asked = |rate: u64| rate * traffic.window_ms() / 1_000;
        assert!(asked(HOT_RATE) >= 3 * hot.global && asked(HOT_RATE) / 2 > hot.region);
        // Every seventh check of a hot subject costs 3; a cool one's region asks half.
        assert!(asked(COOL_RATE) * 2 < cool.global && asked(COOL_RATE) < cool.region);
        assert!(crate::load::policies(&traffic.policies()).is_ok());
    }
}
