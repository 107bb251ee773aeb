//! A maximum that all shards share. Never over it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Which maximum was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Keys,
    Entries,
}

/// So many of something, at most.
#[derive(Debug)]
pub(super) struct Budget {
    max: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Budget {
            max,
            used: AtomicUsize::new(0),
        }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `n` if they are there.
    pub(super) fn take(&self, n: usize) -> bool {
        let more = |used: usize| used.checked_add(n).filter(|sum| *sum <= self.max);
        // The count alone is shared; what it counts is behind locks.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Gives `n` back.
    pub(super) fn give(&self, n: usize) {
        self.used.fetch_sub(n, Ordering::Relaxed);
    }
}

/// A shard's part of a budget, taken in pieces so that a hot shard seldom touches what is shared.
#[derive(Debug)]
pub(super) struct Reserve {
    budget: std::sync::Arc<Budget>,
    held: usize,
    piece: usize,
}

impl Reserve {
    /// `shards` reserves together hold back at most a sixteenth of the budget.
    pub(super) fn new(budget: std::sync::Arc<Budget>, shards: usize) -> Self {
        let piece = (budget.max() / (shards.max(1) * 32)).min(256);
        Reserve {
            budget,
            held: 0,
            piece,
        }
    }

    /// Takes `n` if they are there.
    pub(super) fn take(&mut self, n: usize) -> bool {
        if let Some(rest) = self.held.checked_sub(n) {
            self.held = rest;
            return true;
        }
        let missing = n - self.held;
        if self.budget.take(missing + self.piece) {
            self.held = self.piece;
            return true;
        }
        if self.budget.take(missing) {
            self.held = 0;
            return true;
        }
        false
    }

    /// Gives `n` back.
    pub(super) fn give(&mut self, n: usize) {
        self.held += n;
        if self.held > 2 * self.piece {
            self.budget.give(self.held - self.piece);
            self.held = self.piece;
        }
    }

    /// Gives back all that is held.
    pub(super) fn give_all(&mut self) {
        self.budget.give(std::mem::take(&mut self.held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn reserves_together_never_exceed_the_budget() {
        let budget = Arc::new(Budget::new(100_000));
        let mut reserves: Vec<_> = (0..4)
            .map(|_| Reserve::new(Arc::clone(&budget), 4))
            .collect();
        let mut taken = 0;
        while let Some(i) = (0..4).find(|i| reserves[*i].take(7)) {
            taken += 7;
            if taken % 5 == 0 {
                reserves[i].give(7);
                taken -= 7;
                reserves[(i + 1) % 4].take(3).then(|| taken += 3);
            }
        }
        assert!(
            taken <= 100_000 && taken > 100_000 - 100_000 / 16,
            "{taken}"
        );
    }
}
