//! What a history is judged by: the policies, the deadline, the shards, and when the fault came.

use std::collections::BTreeMap;

use super::history::Record;
use super::shards::ShardMap;
use super::stalls::Stalls;
use tidegate::model::{Algorithm, Policies, Region, Scope, Subject};

/// What a limiter's answers must agree with.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// The policies that were in force all the time.
    pub policies: Policies,
    /// How much later than its deadline a call may be answered before it counts as past it, in
    /// microseconds: what one wake-up of the runtime takes.
    pub lateness_max: u64,
    /// Which shard served which slot when the load began.
    pub shards: ShardMap,
    /// Until when denials are excused, in microseconds since the epoch: a clock that steps back
    /// may lock out for one window.
    pub denials_excused_until: u64,
    /// From when on recovery is counted: the fault, or its end when nothing can be served before.
    pub recovery_from: u64,
    /// When the load ended.
    pub ended_at: u64,
    /// When the machine did not let instances run.
    pub stalls: Stalls,
}

/// Names one ceiling of one subject; without a region the global one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CeilingKey {
    pub(super) policy: String,
    pub(super) subject: String,
    pub(super) region: Option<String>,
}

/// A ceiling's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedCeiling {
    /// Units per window.
    pub(super) limit: u64,
    /// The window in microseconds.
    pub(super) window: u64,
    /// Whether the algorithm promises the limit in every window.
    pub(super) strict: bool,
}

impl Expectations {
    /// The ceilings that a record's check is counted in; empty when its policy isn't known.
    pub(super) fn ceilings_of(&self, record: &Record) -> BTreeMap<CeilingKey, ExpectedCeiling> {
        let Some(policy) = self.policies.get(&record.policy) else {
            return BTreeMap::new();
        };
        let region = record
            .region
            .as_deref()
            .and_then(|name| Region::new(name).ok());
        let Ok(subject) = Subject::new(record.subject.as_str()) else {
            return BTreeMap::new();
        };
        let ceilings = policy
            .ceilings(&subject, region.as_ref())
            .unwrap_or_default();
        let keyed = ceilings.into_iter().map(|ceiling| {
            let key = CeilingKey {
                policy: record.policy.clone(),
                subject: record.subject.clone(),
                region: record
                    .region
                    .clone()
                    .filter(|_| ceiling.scope == Scope::Region),
            };
            let expected = ExpectedCeiling {
                limit: ceiling.quota.limit(),
                window: ceiling.quota.window().get(),
                strict: ceiling.algorithm == Algorithm::SlidingLog,
            };
            (key, expected)
        });
        keyed.collect()
    }

    /// The shard that served a subject when the load began.
    pub fn shard_of(&self, subject: &str) -> u16 {
        self.shards.shard_of(subject)
    }
}
