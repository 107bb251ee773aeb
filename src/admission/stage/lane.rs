//! One target's lane: who may go alone, who waits, and who drains those that wait. A check that
//! finds it idle goes at once; those that arrive while a call is out go together in the next one,
//! first come, first served. Never sends anything itself, and never leaves one waiting without a
//! drain.
//!
//! ```text
//! Idle           => Alone | Drained       a check goes alone; or one that waits needs a drain
//! Alone          => Idle | DrainedBeside  its call ended; or one waits beside it
//! DrainedBeside  => Drained               the lone call ended
//! Drained        => Idle                  nobody waits and nothing is out, or it was abandoned
//! DrainedBeside  => Alone                 it was abandoned
//! ```

use std::sync::OnceLock;

use crossbeam::queue::SegQueue;

use super::sync::{AtomicU8, AtomicUsize, Ordering};

const IDLE: u8 = 0;
const ALONE: u8 = 1;
const DRAINED: u8 = 2;
const DRAINED_BESIDE: u8 = 3;

/// Whether one that was put into the lane has a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// One runs.
    Drained,
    /// The caller must start one.
    NeedsDrain,
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

    /// The lone call ended; true when a drain waits for that.
    pub(crate) fn end_alone(&self) -> bool {
        // The drain may come, or be abandoned, between the two: then it is tried again.
        loop {
            if self.turn(ALONE, IDLE) {
                return false;
            }
            if self.turn(DRAINED_BESIDE, DRAINED) {
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
        Ok(self.find_drain())
    }

    /// After the push: whoever made the lane idle before it saw the item, or we see it idle.
    fn find_drain(&self) -> Queued {
        loop {
            let (from, to) = match self.phase.load(Ordering::Acquire) {
                IDLE => (IDLE, DRAINED),
                ALONE => (ALONE, DRAINED_BESIDE),
                _ => return Queued::Drained,
            };
            if self.turn(from, to) {
                return Queued::NeedsDrain;
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

    /// Whether a lone call is out beside the drain's.
    pub(crate) fn has_lone_call(&self) -> bool {
        self.phase.load(Ordering::Acquire) == DRAINED_BESIDE
    }

    /// The drain found nobody waiting and has no call out; true when it may end. False: somebody
    /// came meanwhile, and it goes on.
    pub(crate) fn retire(&self) -> bool {
        if !self.turn(DRAINED, IDLE) {
            return false;
        }
        // Who pushed before the exchange relied on us; who comes after it finds its own drain.
        let empty = self.queue.get().is_none_or(|queue| queue.is_empty());
        empty || self.find_drain() == Queued::Drained
    }

    /// The drain ends before its work: whoever comes next finds the lane without one.
    pub(crate) fn abandon(&self) {
        // The lone call may end between the two: then it is tried again.
        while !self.turn(DRAINED, IDLE) && !self.turn(DRAINED_BESIDE, ALONE) {}
    }
}
