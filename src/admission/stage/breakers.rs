//! A breaker for each shard, made when a shard is first met. Never forgets one.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::breaker::{Breaker, BreakerOptions, BreakerState};
use crate::store::ShardId;

/// The breakers of a store's shards, made as shards are met.
#[derive(Debug)]
pub(super) struct Breakers {
    options: BreakerOptions,
    by_shard: RwLock<BTreeMap<ShardId, Arc<Breaker>>>,
}

/// Shards that get a breaker of their own; the rest share [`ShardId::WHOLE`]'s. A cluster has at
/// most 1,000 nodes or so.
const SHARDS_MAX: usize = 4_096;

impl Breakers {
    pub(super) fn new(options: BreakerOptions) -> Self {
        Breakers {
            options,
            by_shard: RwLock::default(),
        }
    }

    /// The breaker of `shard`.
    pub(super) fn of(&self, shard: ShardId) -> Arc<Breaker> {
        let known = self.by_shard.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(breaker) = known.get(&shard) {
            return Arc::clone(breaker);
        }
        drop(known);
        let mut known = self
            .by_shard
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let shard = if known.len() < SHARDS_MAX {
            shard
        } else {
            ShardId::WHOLE
        };
        let new = || Arc::new(Breaker::new(shard, self.options));
        Arc::clone(known.entry(shard).or_insert_with(new))
    }

    /// Each shard's state.
    pub(super) fn states(&self) -> Vec<(ShardId, BreakerState)> {
        let known = self.by_shard.read().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .map(|(shard, breaker)| (*shard, breaker.state()))
            .collect()
    }
}
