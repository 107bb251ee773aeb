//! One target's lane: who may go alone, who waits, and who carries those that wait. Checks that
//! find it idle go at once; those that arrive while a call is out wait for the next. Never sends
//! anything itself, and never leaves one waiting without a carrier.
//!
//! ```text
//! Idle             => Alone | Carried       a check goes alone; or one that waits needs a carrier
//! Alone            => Idle | CarriedBeside  its call ended; or one waits beside it
//! CarriedBeside    => Carried               the lone call ended
//! Carried          => Idle                  nobody waits and nothing is out, or it was abandoned
//! CarriedBeside    => Alone                 it was abandoned
//! ```

use std::sync::OnceLock;

use crossbeam::queue::SegQueue;

use super::sync::{AtomicU8, AtomicUsize, Ordering};

const IDLE: u8 = 0;
const ALONE: u8 = 1;
const CARRIED: u8 = 2;
const CARRIED_BESIDE: u8 = 3;

/// Whether one that was put into the lane has a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// Someone carries it.
    Carried,
    /// The caller must start a carrier.
    NeedsCarrier,
}

/// A lane. Most are never waited in, so the queue is made when it is first needed.
pub(crate) struct Lane<T> {
    phase: AtomicU8,
    waiting: AtomicUsize,
    queue: OnceLock<Box<SegQueue<T>>>,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Lane {
            phase: AtomicU8::new(IDLE),
            waiting: AtomicUsize::new(0),
            queue: OnceLock::new(),
        }
    }
}

impl<T> Lane<T> {
    /// Takes the lane for one call alone, when nothing is out and nobody waits. The caller ends it
    /// with [`Lane::end_alone`].
    pub(crate) fn try_alone(&self) -> bool {
        self.turn(IDLE, ALONE)
    }

    /// The lone call ended; true when a carrier waits to hear it.
    pub(crate) fn end_alone(&self) -> bool {
        // The carrier may come, or be abandoned, between the two: then it is tried again.
        loop {
            if self.turn(ALONE, IDLE) {
                return false;
            }
            if self.turn(CARRIED_BESIDE, CARRIED) {
                return true;
            }
        }
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.phase
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Puts `item` last.
    ///
    /// # Errors
    /// The item, when `waiting_max` wait already.
    pub(crate) fn push(&self, item: T, waiting_max: usize) -> Result<Queued, T> {
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= waiting_max {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(item);
        }
        self.queue.get_or_init(Box::default).push(item);
        Ok(self.find_carrier())
    }

    /// After the push: whoever made the lane idle before it saw the item, or we see it idle.
    fn find_carrier(&self) -> Queued {
        loop {
            let (from, to) = match self.phase.load(Ordering::Acquire) {
                IDLE => (IDLE, CARRIED),
                ALONE => (ALONE, CARRIED_BESIDE),
                _ => return Queued::Carried,
            };
            if self.turn(from, to) {
                return Queued::NeedsCarrier;
            }
        }
    }

    /// The one that waited longest.
    pub(crate) fn pop(&self) -> Option<T> {
        let item = self.queue.get()?.pop()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(item)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether a lone call is out beside the carrier's.
    pub(crate) fn is_beside(&self) -> bool {
        self.phase.load(Ordering::Acquire) == CARRIED_BESIDE
    }

    /// The carrier found nobody waiting and has no call out; true when it may go. False: somebody
    /// came meanwhile, and it carries on.
    pub(crate) fn retire(&self) -> bool {
        if !self.turn(CARRIED, IDLE) {
            return false;
        }
        // Who pushed before the exchange relied on us; who comes after it finds its own carrier.
        let empty = self.queue.get().is_none_or(|queue| queue.is_empty());
        empty || self.find_carrier() == Queued::Carried
    }

    /// The carrier ends before its work: whoever comes next finds the lane without one.
    pub(crate) fn abandon(&self) {
        // The lone call may end between the two: then it is tried again.
        while !self.turn(CARRIED, IDLE) && !self.turn(CARRIED_BESIDE, ALONE) {}
    }
}
