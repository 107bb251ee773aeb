//! The keys behind one lock, each with its end. Never drops a key before its end, and keeps none
//! long after it: ends are in a heap, looked at a few with each call.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::budget::{Budget, Full, Reserve};
use super::key::{Key, Keys, Part};
use super::state::State;
use crate::model::Timestamp;

/// States that were taken out, to be dropped when the lock is gone.
pub(super) type Dead = Vec<State>;

/// Where a key's slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotIndex(u32);

#[derive(Debug)]
struct Slot {
    key: Key,
    hash: u64,
    /// The next slot whose key has the same hash.
    next: Option<SlotIndex>,
    state: State,
    expires_at: Timestamp,
}

/// When a slot is to be looked at. Invariant: every slot in use has exactly one that is not
/// stale, at or before its end or its earlier end.
type Due = Reverse<(Timestamp, SlotIndex, u32)>;

pub(super) struct Keyspace {
    by_hash: HashMap<u64, SlotIndex, BuildHasherDefault<IsHash>>,
    slots: Vec<Option<Slot>>,
    /// How often each slot was given free: tells a due of an earlier key.
    generations: Vec<u32>,
    free: Vec<SlotIndex>,
    due: BinaryHeap<Due>,
    keys: Arc<Budget>,
    entries: Reserve,
}

impl Keyspace {
    pub(super) fn new(keys: Arc<Budget>, entries: Arc<Budget>, shards: usize) -> Self {
        Keyspace {
            by_hash: HashMap::default(),
            slots: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            keys,
            entries: Reserve::new(entries, shards),
        }
    }

    fn slot(&self, index: SlotIndex) -> Option<&Slot> {
        self.slots.get(index.0 as usize)?.as_ref()
    }

    fn slot_mut(&mut self, index: SlotIndex) -> Option<&mut Slot> {
        self.slots.get_mut(index.0 as usize)?.as_mut()
    }

    /// The slot of a key, also when its end has come.
    pub(super) fn find(&self, keys: &Keys<'_>, part: Part<'_>) -> Option<SlotIndex> {
        let mut at = self.by_hash.get(&keys.hash(part)).copied();
        while let Some(index) = at {
            let slot = self.slot(index)?;
            if keys.is(part, &slot.key) {
                return Some(index);
            }
            at = slot.next;
        }
        None
    }

    /// The state of a slot while its end hasn't come.
    pub(super) fn live(&self, index: SlotIndex, now: Timestamp) -> Option<&State> {
        let slot = self.slot(index)?;
        (slot.expires_at > now).then_some(&slot.state)
    }

    /// Gets ready to look for ids in a key.
    pub(super) fn index_ids(&mut self, keys: &Keys<'_>, part: Part<'_>) {
        let slot = self.find(keys, part);
        if let Some(slot) = slot.and_then(|index| self.slot_mut(index)) {
            slot.state.index_ids();
        }
    }

    /// Takes the state out; vacant when the end has come. It is to be put back.
    pub(super) fn take(&mut self, index: SlotIndex) -> (State, Timestamp) {
        match self.slot_mut(index) {
            Some(slot) => (
                std::mem::replace(&mut slot.state, State::Vacant),
                slot.expires_at,
            ),
            None => (State::Vacant, Timestamp::default()),
        }
    }

    /// Puts a state back, with its end.
    pub(super) fn put(&mut self, index: SlotIndex, state: State, expires_at: Timestamp) {
        if let Some(slot) = self.slot_mut(index) {
            slot.state = state;
            slot.expires_at = expires_at;
        }
    }

    /// A new key, counted already.
    pub(super) fn insert(
        &mut self,
        keys: &Keys<'_>,
        part: Part<'_>,
        state: State,
        expires_at: Timestamp,
    ) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.generations.push(0);
            SlotIndex(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
        });
        let hash = keys.hash(part);
        let next = self.by_hash.insert(hash, index);
        if let Some(slot) = self.slots.get_mut(index.0 as usize) {
            *slot = Some(Slot {
                key: keys.key(part),
                hash,
                next,
                state,
                expires_at,
            });
        }
        let generation = self.generation(index);
        self.due.push(Reverse((expires_at, index, generation)));
    }

    fn generation(&self, index: SlotIndex) -> u32 {
        let generation = self.generations.get(index.0 as usize);
        generation.copied().unwrap_or_default()
    }

    /// Takes a key out.
    pub(super) fn remove(&mut self, index: SlotIndex) -> Option<State> {
        let slot = self.slots.get_mut(index.0 as usize)?.take()?;
        self.unlink(index, slot.hash, slot.next);
        if let Some(generation) = self.generations.get_mut(index.0 as usize) {
            *generation = generation.wrapping_add(1);
        }
        self.free.push(index);
        self.keys.give(1);
        self.entries.give(slot.state.entries());
        self.forget_stale_dues();
        Some(slot.state)
    }

    fn unlink(&mut self, index: SlotIndex, hash: u64, next: Option<SlotIndex>) {
        let Some(first) = self.by_hash.get(&hash).copied() else {
            return;
        };
        if first == index {
            match next {
                Some(next) => self.by_hash.insert(hash, next),
                None => self.by_hash.remove(&hash),
            };
            return;
        }
        let mut at = Some(first);
        while let Some(slot) = at.and_then(|i| self.slot_mut(i)) {
            if slot.next == Some(index) {
                slot.next = next;
                return;
            }
            at = slot.next;
        }
    }

    /// Keys that are taken out before their end leave a due behind; too many are cleared at once.
    fn forget_stale_dues(&mut self) {
        let in_use = self.slots.len() - self.free.len();
        if self.due.len() > 2 * in_use + 64 {
            let mut due = std::mem::take(&mut self.due);
            due.retain(|Reverse((_, index, generation))| {
                self.slot(*index).is_some() && self.generation(*index) == *generation
            });
            self.due = due;
        }
    }

    /// Looks at up to `steps` keys that may be due, and takes those out whose end has come.
    pub(super) fn sweep(&mut self, now: Timestamp, steps: usize, dead: &mut Dead) {
        for _ in 0..steps {
            let Some(Reverse((_, index, generation))) = self
                .due
                .peek()
                .copied()
                .filter(|Reverse((due_at, ..))| *due_at <= now)
            else {
                return;
            };
            self.due.pop();
            if self.generation(index) != generation {
                continue;
            }
            match self.slot(index).map(|slot| slot.expires_at) {
                Some(expires_at) if expires_at > now => {
                    self.due.push(Reverse((expires_at, index, generation)));
                }
                Some(_) => dead.extend(self.remove(index)),
                None => {}
            }
        }
    }

    /// Counts keys and entries that are about to come, if there is room for them all.
    pub(super) fn reserve(&mut self, keys: usize, entries: usize) -> Result<(), Full> {
        if !self.keys.take(keys) {
            return Err(Full::Keys);
        }
        if !self.entries.take(entries) {
            self.keys.give(keys);
            return Err(Full::Entries);
        }
        Ok(())
    }

    /// Gives back what was counted and didn't come, or has gone.
    pub(super) fn release(&mut self, keys: usize, entries: usize) {
        self.keys.give(keys);
        self.entries.give(entries);
    }

    /// Gives what is held in reserve to the other shards.
    pub(super) fn return_reserve(&mut self) {
        self.entries.give_all();
    }
}

/// Passes a hash through.
#[derive(Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}
