//! The scenarios: one a fault, with what it does and what it promises, in words and in values.

use super::promise::{Lost, Promise, Recovery};

/// What is done; [`Scenario::what`] says it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    None,
    Kill,
    Stop,
    Pause,
    CutOff,
    SplitBrain,
    Resets,
    Latency,
    Loss,
    Failover,
    MigrateSlot,
    MigrateAtomic,
    ScriptFlush,
    FlushAll,
    MaxMemory,
    ClockStep,
    RollingRestart,
    TwoPrimariesDown,
    AllDown,
}

/// One scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is done, in words.
    pub what: &'static str,
    /// What is promised, in words.
    pub promised: &'static str,
    pub(super) act: Act,
    /// What is promised.
    pub promise: Promise,
    /// The shortest load that shows it, in seconds.
    pub seconds_min: u64,
}

impl Scenario {
    /// Whether it is shown with and without repair: a replica takes over that may lack charges.
    pub fn is_repairable(&self) -> bool {
        matches!(
            self.promise.lost,
            Lost::LastSecond | Lost::UntilCutIsNoticed
        )
    }

    /// Whether it needs a cluster of its own: no client could cause it by accident.
    pub fn hurts(&self) -> bool {
        let harmless = [Act::None, Act::Failover, Act::ScriptFlush, Act::ClockStep];
        !harmless.contains(&self.act)
    }
}

const SOUND: Promise = Promise {
    recovery: Recovery::NoGap,
    lost: Lost::Nothing,
    excuses_a_window: false,
};

const fn promise(recovery: Recovery, lost: Lost) -> Promise {
    Promise {
        recovery,
        lost,
        ..SOUND
    }
}

const BASE: Scenario = Scenario {
    name: "steady",
    what: "Nothing is done.",
    promised: "No wrong answer, and no gap of 100 ms on any shard.",
    act: Act::None,
    promise: SOUND,
    seconds_min: 5,
};

/// All scenarios, in the order in which `all` runs them.
pub const SCENARIOS: &[Scenario] = &[
    BASE,
    Scenario {
        name: "kill",
        what: "The primary of shard 1 is killed (SIGKILL); later it is started again.",
        promised: "Its shard is served again within the node timeout and a second. Only what it \
                   had acknowledged in its last second can be admitted twice.",
        act: Act::Kill,
        promise: promise(Recovery::Failover, Lost::LastSecond),
        seconds_min: 7,
    },
    Scenario {
        name: "stop",
        what: "The primary of shard 1 ends in order (SIGTERM), as a service manager does; later \
               it is started again.",
        promised: "It hands everything to its replica first: nothing is admitted twice. Its shard \
                   is served again within the node timeout and a second.",
        act: Act::Stop,
        promise: promise(Recovery::Failover, Lost::Nothing),
        seconds_min: 7,
    },
    Scenario {
        name: "pause",
        what: "The primary of shard 1 freezes (SIGSTOP) until its replica has taken over, then \
               goes on.",
        promised: "No call waits beyond its deadline for a node that accepts and doesn't answer. \
                   Its shard is served again within the node timeout and a second.",
        act: Act::Pause,
        promise: promise(Recovery::Failover, Lost::LastSecond),
        seconds_min: 8,
    },
    Scenario {
        name: "cut-off",
        what: "The primary of shard 1 is cut off from everyone, clients included, until its \
               replica has taken over.",
        promised: "Its shard is served again within the node timeout and a second. Only what it \
                   had acknowledged in its last second can be admitted twice.",
        act: Act::CutOff,
        promise: promise(Recovery::Failover, Lost::LastSecond),
        seconds_min: 8,
    },
    Scenario {
        name: "split-brain",
        what: "The primary of shard 1 is cut off from all other nodes, while clients still reach \
               it: it goes on acknowledging until its own node timeout is over. Then its replica \
               takes over, and later it comes back.",
        promised: "At most what it acknowledged in that time is admitted twice, and of each \
                   ceiling at most one limit.",
        act: Act::SplitBrain,
        promise: promise(Recovery::Some, Lost::UntilCutIsNoticed),
        seconds_min: 8,
    },
    Scenario {
        name: "resets",
        what: "All connections between instances and nodes are reset, ten times in two seconds.",
        promised: "A charge that was in flight is asked for again under its id: none is charged \
                   twice, none is lost.",
        act: Act::Resets,
        promise: promise(Recovery::Some, Lost::Nothing),
        seconds_min: 6,
    },
    Scenario {
        name: "latency",
        what: "For two seconds everything to and from the primary of shard 1 takes 10 to 15 ms.",
        promised: "No wrong answer; the other shards don't notice.",
        act: Act::Latency,
        promise: promise(Recovery::Some, Lost::Nothing),
        seconds_min: 6,
    },
    Scenario {
        name: "loss",
        what: "For two seconds one packet in 25 to and from the primary of shard 1 is lost.",
        promised: "No wrong answer, and no call beyond its deadline.",
        act: Act::Loss,
        promise: promise(Recovery::Some, Lost::Nothing),
        seconds_min: 6,
    },
    Scenario {
        name: "failover",
        what: "The replica of shard 1 takes over as planned (CLUSTER FAILOVER).",
        promised: "Less than 100 ms without service, and no wrong answer.",
        act: Act::Failover,
        promise: SOUND,
        seconds_min: 5,
    },
    Scenario {
        name: "migrate-slot",
        what: "A slot under load moves from shard 1 to shard 0 key by key (MIGRATE): both nodes \
               answer ASK and TRYAGAIN meanwhile.",
        promised: "No wrong answer, and no gap of 100 ms.",
        act: Act::MigrateSlot,
        promise: SOUND,
        seconds_min: 6,
    },
    Scenario {
        name: "migrate-atomic",
        what: "The slots of shard 1 that carry load move to shard 0 at once, as Redis 8.4 and \
               Valkey 9 can.",
        promised: "No wrong answer, and no gap of 100 ms.",
        act: Act::MigrateAtomic,
        promise: SOUND,
        seconds_min: 6,
    },
    Scenario {
        name: "script-flush",
        what: "All nodes forget all scripts (SCRIPT FLUSH), five times in a second.",
        promised: "No wrong answer, and no gap of 100 ms.",
        act: Act::ScriptFlush,
        promise: SOUND,
        seconds_min: 5,
    },
    Scenario {
        name: "flush-all",
        what: "The primary of shard 1 forgets all data (FLUSHALL).",
        promised: "At most one limit of each of its ceilings is admitted twice; no error, no gap.",
        act: Act::FlushAll,
        promise: promise(Recovery::NoGap, Lost::Everything),
        seconds_min: 5,
    },
    Scenario {
        name: "max-memory",
        what: "For a second and a half the primary of shard 1 has no memory left (maxmemory, \
               noeviction).",
        promised: "It is an outage, decided by the policy; nothing is admitted beyond a limit, \
                   and it ends with its cause.",
        act: Act::MaxMemory,
        promise: promise(Recovery::Some, Lost::Nothing),
        seconds_min: 6,
    },
    Scenario {
        name: "clock-step",
        what: "The clock that stamps the hot subjects' charges steps back by a quarter of a window.",
        promised: "Nobody is admitted beyond a limit in a window, less the time by which calls \
                   overtake each other where that is so long that it looks like a step back; and \
                   nobody is locked out for more than one window.",
        act: Act::ClockStep,
        promise: Promise {
            excuses_a_window: true,
            ..SOUND
        },
        seconds_min: 8,
    },
    Scenario {
        name: "rolling-restart",
        what: "All six nodes are restarted one by one: replicas first, then each primary after a \
               planned failover.",
        promised: "No wrong answer; each shard is served all the time but for the failovers.",
        act: Act::RollingRestart,
        promise: promise(Recovery::Some, Lost::Nothing),
        seconds_min: 24,
    },
    Scenario {
        name: "two-primaries-down",
        what: "The primaries of shards 0 and 1 die at once: no majority is left to elect anyone. \
               Two seconds later they come back with what they had on disk.",
        promised: "Every check is decided by its deadline all the while, by the policy: without a \
                   majority shard 2 stops serving as well. All come back with the nodes; at most \
                   what was acknowledged in the last second is admitted twice.",
        act: Act::TwoPrimariesDown,
        promise: promise(Recovery::Some, Lost::LastSecondEverywhere),
        seconds_min: 12,
    },
    Scenario {
        name: "all-down",
        what: "All six nodes die at once. A second and a half later they come back with what they \
               had on disk.",
        promised: "Every check is decided by its deadline all the while, by the policy. At most \
                   what was acknowledged in the last second is admitted twice.",
        act: Act::AllDown,
        promise: promise(Recovery::Some, Lost::LastSecondEverywhere),
        seconds_min: 16,
    },
];

/// The scenario of a name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_be_typed() {
        for (n, one) in SCENARIOS.iter().enumerate() {
            assert!(
                one.name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'-')
            );
            assert!(
                SCENARIOS[n + 1..]
                    .iter()
                    .all(|other| other.name != one.name)
            );
            assert_eq!(scenario(one.name).unwrap().act, one.act);
        }
    }

    #[test]
    fn only_faults_after_which_a_replica_takes_over_are_repaired() {
        for one in SCENARIOS {
            let replaced = matches!(
                one.act,
                Act::Kill | Act::Pause | Act::CutOff | Act::SplitBrain
            );
            assert_eq!(one.is_repairable(), replaced, "{}", one.name);
        }
    }
}
