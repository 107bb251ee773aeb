//! A breaker per shard: when a shard doesn't answer, its callers wait for it a few times and then
//! not at all. Never decides a check: it only says whether the store may be asked.
//!
//! ```text
//! Closed  => Open                 enough calls in a row failed
//! Open    => Probing              after the cool-down, one call is let through
//! Probing => (Closed | Open)      it was answered; or it failed, and the cool-down doubles
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::model::{Micros, Timestamp};
use crate::store::{ShardId, StoreError};

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerOptions {
    /// Failed calls in a row after which a shard is left alone (1..=1,000).
    pub failures_max: u32,
    /// How long it is left alone before one call tries it again.
    pub cool_down: Micros,
    /// The longest such time; each failed try doubles it up to here. A shard that comes back is
    /// noticed that much later by each node.
    pub cool_down_max: Micros,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        BreakerOptions {
            failures_max: 5,
            cool_down: Micros::from_millis(100),
            cool_down_max: Micros::from_millis(200),
        }
    }
}

/// What a breaker does with the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// Lets it through.
    Closed,
    /// Lets none through until the cool-down is over.
    Open,
    /// One call is on its way to try the shard; no other is let through.
    Probing,
}

impl BreakerState {
    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::Probing => "probing",
        }
    }
}

// The state in one word: closed, probing, or open until an instant.
const CLOSED: u64 = 0;
const PROBING: u64 = 1;
const OPEN: u64 = 2;

const fn open_until(at: Timestamp) -> u64 {
    (at.as_micros() << 2) | OPEN
}

/// One shard's breaker.
#[derive(Debug)]
pub(super) struct Breaker {
    shard: ShardId,
    options: BreakerOptions,
    word: AtomicU64,
    failures: AtomicU32,
    cool_down_us: AtomicU64,
    /// The store's recoveries when it was last looked at.
    recoveries: AtomicU64,
}

impl Breaker {
    pub(super) fn new(shard: ShardId, options: BreakerOptions) -> Self {
        Breaker {
            shard,
            options,
            word: AtomicU64::new(CLOSED),
            failures: AtomicU32::new(0),
            cool_down_us: AtomicU64::new(options.cool_down.get()),
            recoveries: AtomicU64::new(0),
        }
    }

    pub(super) fn state(&self) -> BreakerState {
        match self.word.load(Ordering::Acquire) {
            CLOSED => BreakerState::Closed,
            PROBING => BreakerState::Probing,
            _ => BreakerState::Open,
        }
    }

    /// So often the store got over some trouble: when that is news, a cool-down is over, for
    /// what it waited for may have come. A probe that is out meanwhile may be waiting for what is
    /// gone: when it fails, the next one follows at once.
    pub(super) fn see_recoveries(&self, recoveries: u64) {
        if self.recoveries.load(Ordering::Relaxed) == recoveries {
            return;
        }
        self.recoveries.store(recoveries, Ordering::Relaxed);
        let word = self.word.load(Ordering::Acquire);
        if word & OPEN == OPEN {
            self.cool_down_us
                .store(self.options.cool_down.get(), Ordering::Relaxed);
            let due = open_until(Timestamp::default());
            // Should a probe have begun meanwhile, its end will see the news.
            let _ = self
                .word
                .compare_exchange(word, due, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Whether a call would be denied now; takes no turn.
    pub(super) fn denies(&self, now: Timestamp) -> bool {
        match self.word.load(Ordering::Acquire) {
            CLOSED => false,
            PROBING => true,
            open => now.as_micros() < open >> 2,
        }
    }

    /// Leave for one call, unless the shard is left alone.
    pub(super) fn permit(self: &Arc<Self>, now: Timestamp) -> Option<Permit> {
        let word = self.word.load(Ordering::Acquire);
        let is_probe = match word {
            CLOSED => false,
            PROBING => return None,
            open if now.as_micros() < open >> 2 => return None,
            // Open => Probing: who wins the exchange carries the one call.
            open => {
                let won =
                    self.word
                        .compare_exchange(open, PROBING, Ordering::AcqRel, Ordering::Acquire);
                won.ok()?;
                true
            }
        };
        Some(Permit {
            recoveries: self.recoveries.load(Ordering::Relaxed),
            breaker: Arc::clone(self),
            is_probe,
            is_reported: false,
        })
    }

    fn succeeded(&self, is_probe: bool) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if !is_probe {
            return;
        }
        self.cool_down_us
            .store(self.options.cool_down.get(), Ordering::Relaxed);
        self.word.store(CLOSED, Ordering::Release);
        tracing::info!(shard = %self.shard, "breaker closed: the store answers again");
    }

    fn failed(&self, permit: &Permit, now: Timestamp, error: &StoreError) {
        if permit.is_probe && permit.recoveries != self.recoveries.load(Ordering::Relaxed) {
            self.cool_down_us
                .store(self.options.cool_down.get(), Ordering::Relaxed);
            self.word
                .store(open_until(Timestamp::default()), Ordering::Release);
            return;
        }
        if permit.is_probe {
            let cool_down = self.cool_down_us.load(Ordering::Relaxed);
            let next = cool_down
                .saturating_mul(2)
                .min(self.options.cool_down_max.get());
            self.cool_down_us.store(next, Ordering::Relaxed);
            self.word
                .store(open_until(now + Micros::new(next)), Ordering::Release);
            return;
        }
        let failures = self
            .failures
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        if failures < self.options.failures_max {
            return;
        }
        let cool_down = Micros::new(self.cool_down_us.load(Ordering::Relaxed));
        let opened = self.word.compare_exchange(
            CLOSED,
            open_until(now + cool_down),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if opened.is_ok() {
            tracing::warn!(
                shard = %self.shard,
                %error,
                "breaker opened: the policies' outage choices decide until the store answers"
            );
        }
    }
}

/// Leave for one call. Dropped without a word of how the call ended, it counts for nothing and a
/// probe's turn goes to the next call.
#[derive(Debug)]
pub(super) struct Permit {
    breaker: Arc<Breaker>,
    /// The store's recoveries when it was given.
    recoveries: u64,
    is_probe: bool,
    is_reported: bool,
}

impl Permit {
    /// The call ended so at `now`. Errors that come from the caller's own side (a wrong password,
    /// a key of another kind) say nothing of the shard's health.
    pub(super) fn report<T>(mut self, result: &Result<T, StoreError>, now: Timestamp) {
        match result {
            Err(error) if error.is_transient() => {
                self.is_reported = true;
                self.breaker.failed(&self, now, error);
            }
            _ => {
                self.is_reported = true;
                self.breaker.succeeded(self.is_probe);
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_probe && !self.is_reported {
            let next = open_until(Timestamp::default());
            self.breaker.word.store(next, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::breakers::Breakers;
    use super::*;
    use crate::store::StoreErrorKind;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000) + Micros::from_millis(ms)
    }

    fn silence() -> Result<(), StoreError> {
        Err(StoreError::unknown(
            "charge",
            StoreErrorKind::Deadline,
            "no answer",
        ))
    }

    fn opened() -> Arc<Breaker> {
        let options = BreakerOptions {
            cool_down_max: Micros::from_secs(1),
            ..BreakerOptions::default()
        };
        let breaker = Breakers::new(options).of(ShardId::new(3));
        for _ in 0..5 {
            breaker.permit(at(0)).unwrap().report(&silence(), at(0));
        }
        breaker
    }

    #[test]
    fn opens_after_failures_in_a_row_and_lets_one_call_try_after_the_cool_down() {
        let breaker = opened();
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(breaker.denies(at(99)) && breaker.permit(at(99)).is_none());
        let probe = breaker.permit(at(100)).unwrap();
        assert_eq!(breaker.state(), BreakerState::Probing);
        assert!(breaker.permit(at(100)).is_none(), "one call only");
        probe.report(&Ok(()), at(101));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_failed_try_doubles_the_cool_down_up_to_its_longest() {
        let breaker = opened();
        let mut now = 100;
        for cool_down in [200, 400, 800, 1_000, 1_000] {
            breaker.permit(at(now)).unwrap().report(&silence(), at(now));
            assert!(breaker.permit(at(now + cool_down - 1)).is_none());
            now += cool_down;
        }
        breaker.permit(at(now)).unwrap().report(&Ok(()), at(now));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn news_from_the_store_ends_a_cool_down_once() {
        let breaker = opened();
        breaker.see_recoveries(0);
        assert!(breaker.denies(at(50)), "no news");
        breaker.see_recoveries(1);
        let probe = breaker.permit(at(50)).unwrap();
        breaker.see_recoveries(2);
        assert_eq!(breaker.state(), BreakerState::Probing, "one call is enough");
        probe.report(&silence(), at(60));
        let next = breaker
            .permit(at(60))
            .expect("there was news while it was out");
        next.report(&silence(), at(70));
        breaker.see_recoveries(2);
        assert!(breaker.permit(at(269)).is_none() && breaker.permit(at(270)).is_some());
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed() {
        let breaker = Breakers::new(BreakerOptions::default()).of(ShardId::WHOLE);
        for _ in 0..9 {
            for _ in 0..4 {
                breaker.permit(at(0)).unwrap().report(&silence(), at(0));
            }
            breaker.permit(at(0)).unwrap().report(&Ok(()), at(0));
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_wrong_password_says_nothing_of_the_shards_health() {
        let breaker = Breakers::new(BreakerOptions::default()).of(ShardId::WHOLE);
        let rejected: Result<(), _> = Err(StoreError::not_run(
            "charge",
            StoreErrorKind::Refused,
            "WRONGPASS",
        ));
        for _ in 0..9 {
            breaker.permit(at(0)).unwrap().report(&rejected, at(0));
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_probe_that_was_dropped_gives_its_turn_to_the_next_call() {
        let breaker = opened();
        drop(breaker.permit(at(100)).unwrap());
        assert!(breaker.permit(at(100)).is_some());
    }

    #[test]
    fn shards_break_on_their_own() {
        let breakers = Breakers::new(BreakerOptions::default());
        let (one, two) = (breakers.of(ShardId::new(1)), breakers.of(ShardId::new(2)));
        for _ in 0..5 {
            one.permit(at(0)).unwrap().report(&silence(), at(0));
        }
        assert!(one.denies(at(1)) && !two.denies(at(1)));
        assert_eq!(breakers.states().len(), 2);
    }
}
