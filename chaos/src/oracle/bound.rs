//! How much a fault may let through by what it does to the store, and by nothing else: the bound
//! that a scenario states before it is measured.
//!
//! A primary that dies takes with it what it had acknowledged but not replicated; one that is cut
//! off goes on acknowledging until it notices. Of every ceiling at most the units admitted in
//! that time are forgotten, and at most one limit's worth: `min(limit, admitted meanwhile)`. A
//! ceiling that never denied anybody was never full, so nothing was let through there.

use std::collections::{BTreeMap, BTreeSet};

use super::expectations::{CeilingKey, Expectations};
use super::history::{Record, Status};
use super::judge::is_counted;

/// A time in which acknowledged charges may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its beginning, in microseconds since the epoch.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// The shard that may lose them; absent when all may.
    pub shard: Option<u16>,
}

/// The most units that these losses may let through above all ceilings together.
pub fn stated_bound(records: &[Record], expected: &Expectations, losses: &[Loss]) -> u64 {
    let denials = records
        .iter()
        .filter(|r| r.status == Status::Denied && !r.degraded);
    let full: BTreeSet<CeilingKey> = denials
        .flat_map(|record| expected.ceilings_of(record).into_keys())
        .collect();
    let bounds = losses
        .iter()
        .map(|loss| bound_of(records, expected, &full, *loss));
    bounds.sum()
}

fn bound_of(
    records: &[Record],
    expected: &Expectations,
    full: &BTreeSet<CeilingKey>,
    loss: Loss,
) -> u64 {
    let mut lost: BTreeMap<CeilingKey, (u64, u64)> = BTreeMap::new();
    let meanwhile = |r: &&Record| {
        is_counted(r)
            && r.answered >= loss.from
            && r.sent <= loss.to
            && loss
                .shard
                .is_none_or(|shard| expected.shard_of(&r.subject) == shard)
    };
    for record in records.iter().filter(meanwhile) {
        let ceilings = expected.ceilings_of(record).into_iter();
        for (key, ceiling) in ceilings.filter(|(key, _)| full.contains(key)) {
            let (_, units) = lost.entry(key).or_insert((ceiling.limit, 0));
            *units += record.cost;
        }
    }
    lost.into_values()
        .map(|(limit, units)| units.min(limit))
        .sum()
}
