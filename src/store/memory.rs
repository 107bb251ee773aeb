//! The embedded store: one process's memory, nothing to start. Never evicts what still counts: a
//! store that is full of live keys takes no new ones.
//!
//! All of a subject's ceilings under a policy live behind one lock, so all are charged or none.
//! A key that has been whole again for a second is forgotten: some with each call, no task of its
//! own. Expiry follows the store's clock, also where a policy counts by the caller's: a caller
//! whose clock runs ahead can't make the store forget what others rely on.

mod budget;
mod key;
mod keyspace;
mod operation;
mod state;
mod work;

use std::fmt;
use std::future::{Future, ready};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use self::budget::{Budget, Full};
use self::key::Keys;
use self::keyspace::{Dead, Keyspace};
use super::error::{StoreError, StoreErrorKind};
use super::lock::lock;
use super::port::{
    CallClock, CallKind, ChargeCall, ChargeReply, Readiness, RefundCall, Refunded, ResetCall, Store,
};
use crate::clock::{Clock, SystemClock};
use crate::model::Timestamp;

/// Keys that a store holds at most unless its builder says otherwise: a million.
pub const KEYS_MAX_DEFAULT: usize = 1_000_000;

/// Log entries that a store holds at most unless its builder says otherwise: ten million, about
/// 1.5 GB when they are all there.
pub const ENTRIES_MAX_DEFAULT: usize = 10_000_000;

/// How many locks the keys are spread over.
const SHARDS: usize = 64;

/// Keys that one call looks at for expiry. More than it can add, so the due ones never pile up.
const SWEEP_STEPS: usize = 4;

/// Keys of each shard that a call looks at when the store is full.
const SWEEP_STEPS_WHEN_FULL: usize = 64;

/// Remembers charges in this process. Share one behind an [`Arc`] or a limiter.
pub struct MemoryStore {
    shards: Box<[Mutex<Keyspace>]>,
    keys: Arc<Budget>,
    entries: Arc<Budget>,
    clock: Arc<dyn Clock>,
    seed: u64,
}

/// Puts a [`MemoryStore`] together.
pub struct MemoryStoreBuilder {
    keys_max: usize,
    entries_max: usize,
    clock: Arc<dyn Clock>,
}

impl MemoryStoreBuilder {
    /// How many keys it holds at most: one a subject, policy and ceiling, and one for the ids
    /// that callers gave. About 200 bytes each.
    #[must_use]
    pub fn keys_max(mut self, keys_max: usize) -> Self {
        self.keys_max = keys_max.min(u32::MAX as usize - 1);
        self
    }

    /// How many log entries it holds at most, in all keys together, ids that callers gave
    /// included. About 150 bytes each.
    #[must_use]
    pub fn entries_max(mut self, entries_max: usize) -> Self {
        self.entries_max = entries_max;
        self
    }

    /// The clock that stamps charges and ends keys; the system's by default.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The store.
    pub fn build(self) -> MemoryStore {
        let keys = Arc::new(Budget::new(self.keys_max));
        let entries = Arc::new(Budget::new(self.entries_max));
        let shard = |_| {
            Mutex::new(Keyspace::new(
                Arc::clone(&keys),
                Arc::clone(&entries),
                SHARDS,
            ))
        };
        MemoryStore {
            shards: (0..SHARDS).map(shard).collect(),
            keys,
            entries,
            clock: self.clock,
            // Secret, so that nobody can choose subjects that meet in one chain or shard.
            seed: RandomState::new().hash_one(0_u8),
        }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys_len", &self.keys_len())
            .field("entries_len", &self.entries_len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for MemoryStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStoreBuilder")
            .field("keys_max", &self.keys_max)
            .field("entries_max", &self.entries_max)
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::builder().build()
    }
}

impl MemoryStore {
    /// Starts to build a store.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder {
            keys_max: KEYS_MAX_DEFAULT,
            entries_max: ENTRIES_MAX_DEFAULT,
            clock: Arc::new(SystemClock::default()),
        }
    }

    /// Keys held now, those included that are due to be forgotten.
    pub fn keys_len(&self) -> usize {
        self.keys.used()
    }

    /// Log entries held now, those included that are due to be forgotten. Shards keep some in
    /// reserve, which count.
    pub fn entries_len(&self) -> usize {
        self.entries.used()
    }

    /// Runs `f` under the lock of the keys' shard, after a bounded sweep.
    fn locked<T>(&self, keys: &Keys<'_>, f: impl FnOnce(&mut Keyspace, Timestamp) -> T) -> T {
        let mut dead = Dead::default();
        let shard = &self.shards[keys.shard_of(SHARDS)]; // below SHARDS, and so many there are
        let mut space = lock(shard);
        // Read under the lock, so that instants of a subject are in the order of its charges.
        let now = self.clock.now();
        space.sweep(now, SWEEP_STEPS, &mut dead);
        let result = f(&mut space, now);
        drop(space);
        // What was swept is dropped after the lock: a log of a million entries takes a while.
        drop(dead);
        result
    }

    /// Sweeps all shards, a bounded number of keys each.
    fn sweep(&self) {
        for shard in &self.shards {
            let mut dead = Dead::default();
            let mut space = lock(shard);
            space.sweep(self.clock.now(), SWEEP_STEPS_WHEN_FULL, &mut dead);
            space.return_reserve();
            drop(space);
        }
    }

    fn charge_now(&self, call: &ChargeCall) -> Result<ChargeReply, StoreError> {
        call.validate()?;
        let keys = Keys::new(self.seed, &call.target);
        let attempt = || {
            self.locked(&keys, |space, steady| {
                let at = instant(call.clock, steady);
                let outcomes = match call.kind {
                    CallKind::Charge => operation::charge(space, &keys, call, at, steady)?,
                    CallKind::Peek => operation::peek(space, &keys, call, at, steady),
                };
                Ok(ChargeReply { at, outcomes })
            })
        };
        attempt()
            .or_else(|_: Full| {
                self.sweep();
                attempt()
            })
            .map_err(|full| self.overloaded(full))
    }

    fn overloaded(&self, full: Full) -> StoreError {
        let (what, budget) = match full {
            Full::Keys => ("keys", &self.keys),
            Full::Entries => ("log entries", &self.entries),
        };
        let detail = format!("the memory store is full: {} {what} are live", budget.max());
        StoreError::not_run("charge", StoreErrorKind::Overloaded, detail)
    }

    fn refund_now(&self, call: &RefundCall) -> Refunded {
        let keys = Keys::new(self.seed, &call.target);
        self.locked(&keys, |space, steady| {
            operation::refund(space, &keys, call, instant(call.clock, steady), steady)
        })
    }

    fn reset_now(&self, call: &ResetCall) {
        let keys = Keys::new(self.seed, &call.target);
        let forgotten = self.locked(&keys, |space, _| operation::reset(space, &keys));
        drop(forgotten);
    }
}

fn instant(clock: CallClock, steady: Timestamp) -> Timestamp {
    match clock {
        CallClock::Store => steady,
        CallClock::At(at) => at,
    }
}

impl Store for MemoryStore {
    fn charge(
        &self,
        call: ChargeCall,
    ) -> impl Future<Output = Result<ChargeReply, StoreError>> + Send {
        ready(self.charge_now(&call))
    }

    fn refund(
        &self,
        call: RefundCall,
    ) -> impl Future<Output = Result<Refunded, StoreError>> + Send {
        ready(Ok(self.refund_now(&call)))
    }

    fn reset(&self, call: ResetCall) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.reset_now(&call);
        ready(Ok(()))
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn calls_sent(&self) -> u64 {
        0
    }
}
