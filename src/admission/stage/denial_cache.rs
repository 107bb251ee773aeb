//! Denials remembered from the store, per ceiling. A remembered denial denies the same cost until
//! the instant at which the store would admit it, by this node's clock. Never admits: a miss means
//! "ask the store".
//!
//! What is remembered lies with the ceiling's state, which moka bounds and forgets
//! ([`super::subjects`]); with the state go the limit and the policy's revision, so a denial never
//! outlives the ceiling that it was about.
//!
//! How long a denial is trusted:
//! - until the store would admit, counted from before the call was sent, so that it ends early
//!   rather than late;
//! - at most `trust_max`, whatever the store said: a refund or a reset on another node whose news
//!   got lost is seen after that;
//! - at most `moving_trust_max` when the ceiling still had room for less, since others' smaller
//!   charges may move the instant on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

use super::options::LocalStage;
use crate::model::{Cost, Micros, Retry, Timestamp};
use crate::store::CeilingOutcome;

/// How long, and how many, denials are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DenialBounds {
    /// The longest that a denial is believed without asking again.
    pub trust_max: Micros,
    /// The same for a denial that others' charges may still move.
    pub moving_trust_max: Micros,
    /// Different costs that are remembered a ceiling.
    pub costs_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remembered {
    cost: Cost,
    /// Denied surely before this instant.
    until: Timestamp,
    /// Denied until this instant while the store can't be asked.
    until_in_outage: Timestamp,
    /// When the store would surely admit.
    retry_at: Timestamp,
}

/// A ceiling's denial by the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct CeilingDenial {
    /// The cost that was denied.
    pub cost: Cost,
    /// What the store said of the ceiling.
    pub outcome: CeilingOutcome,
    /// This node's clock before the call was sent.
    pub sent_at: Timestamp,
    /// This node's clock when the answer was there.
    pub answered_at: Timestamp,
}

impl DenialBounds {
    /// None when denials are not remembered.
    pub(super) fn of(options: &LocalStage) -> Option<Self> {
        options.denial_cache.then_some(DenialBounds {
            trust_max: options.denial_trust_max,
            moving_trust_max: options.denial_moving_trust_max,
            costs_max: options.denial_costs_max,
        })
    }
}

/// The denials of one ceiling.
#[derive(Debug, Default)]
pub(super) struct Denials {
    /// The latest `until_in_outage`, so that an idle ceiling costs one load.
    live_until: AtomicU64,
    /// Rises with each forgetting: what was asked before it is not remembered after it.
    epoch: AtomicU64,
    known: ArcSwapOption<Vec<Remembered>>,
    /// The denial of one unit, which is by far the most frequent: its `until` and `retry_at`. Both
    /// are of one writing when `until` is the same before and after reading `retry_at`.
    unit_until: AtomicU64,
    unit_retry_at: AtomicU64,
    writing: Mutex<()>,
}

impl Denials {
    /// What to hand to [`Denials::remember`] when the answer comes; read before the call is sent.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The wait for `cost` at `now`, when the store would surely deny it. Exact for a cost that
    /// the store denied. Another cost is asked for once, and then remembered too; only when
    /// `costs_max` are known is it denied with the wait of a smaller one, which may be too short.
    pub(super) fn find(&self, cost: Cost, now: Timestamp, bounds: &DenialBounds) -> Option<Micros> {
        if now.as_micros() >= self.live_until.load(Ordering::Acquire) {
            return None;
        }
        if cost == 1
            && let Some(wait) = self.find_unit(now)
        {
            return Some(wait);
        }
        let known = self.known.load();
        let known = known.as_ref()?;
        let mut live = 0;
        let mut smaller: Option<&Remembered> = None;
        for denial in known.iter().filter(|d| now < d.until) {
            if denial.cost == cost {
                return Some(denial.retry_at.since(now));
            }
            live += 1;
            if denial.cost < cost {
                smaller = smaller
                    .into_iter()
                    .chain([denial])
                    .max_by_key(|d| d.retry_at);
            }
        }
        smaller
            .filter(|_| live >= bounds.costs_max)
            .map(|denial| denial.retry_at.since(now))
    }

    fn find_unit(&self, now: Timestamp) -> Option<Micros> {
        let until = self.unit_until.load(Ordering::Acquire);
        if now.as_micros() >= until {
            return None;
        }
        let retry_at = self.unit_retry_at.load(Ordering::Acquire);
        let is_whole = self.unit_until.load(Ordering::Acquire) == until;
        is_whole.then(|| Timestamp::from_micros(retry_at).since(now))
    }

    /// The wait for `cost` while the store can't be asked: as long as the store itself had said.
    pub(super) fn find_in_outage(&self, cost: Cost, now: Timestamp) -> Option<Micros> {
        let known = self.known.load();
        known
            .as_ref()?
            .iter()
            .filter(|d| d.cost <= cost && now < d.until_in_outage)
            .map(|d| d.retry_at.since(now))
            .max()
    }

    /// Remembers a denial that was asked for in `epoch`. A cost beyond the ceiling needs no
    /// memory: the ceiling itself says "never".
    pub(super) fn remember(&self, denial: &CeilingDenial, epoch: u64, bounds: &DenialBounds) {
        let Some(Retry::After(wait)) = denial.outcome.retry else {
            return;
        };
        let guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.epoch.load(Ordering::Acquire) != epoch {
            return;
        }
        let before = self.known.load_full();
        let mut known: Vec<Remembered> = before.as_deref().cloned().unwrap_or_default();
        known.retain(|d| d.cost != denial.cost && denial.sent_at < d.until_in_outage);
        let remembered = remembered(denial, wait, frozen_until(&known, denial), bounds);
        if known.len() >= bounds.costs_max.max(1) {
            known.swap_remove(soonest(&known));
        }
        known.push(remembered);
        self.publish(known);
        drop(guard);
    }

    /// Something was admitted: what was denied before it may be denied for longer now.
    pub(super) fn admitted(&self) {
        if self.live_until.load(Ordering::Acquire) == 0 {
            return;
        }
        let _guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.publish(Vec::new());
    }

    /// Forgets all, and whatever is being asked now.
    pub(super) fn forget(&self) {
        let _guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.publish(Vec::new());
    }

    /// Callers hold `writing`.
    fn publish(&self, known: Vec<Remembered>) {
        let until = known.iter().map(|d| d.until_in_outage.as_micros()).max();
        self.unit_until.store(0, Ordering::Release);
        if let Some(unit) = known.iter().find(|d| d.cost == 1) {
            let (until, retry_at) = (unit.until.as_micros(), unit.retry_at.as_micros());
            self.unit_retry_at.store(retry_at, Ordering::Release);
            self.unit_until.store(until, Ordering::Release);
        }
        if known.is_empty() {
            self.known.store(None);
        } else {
            self.known.store(Some(Arc::new(known)));
        }
        self.live_until
            .store(until.unwrap_or_default(), Ordering::Release);
    }
}

fn soonest(known: &[Remembered]) -> usize {
    let by_end = known.iter().enumerate().min_by_key(|(_, d)| d.until);
    by_end.map_or(0, |(n, _)| n)
}

/// Until when no charge at all can come between: a denied unit leaves no room for anything.
fn frozen_until(known: &[Remembered], denial: &CeilingDenial) -> Option<Timestamp> {
    let unit = known
        .iter()
        .find(|d| d.cost == 1 && denial.sent_at < d.until);
    unit.map(|d| d.until)
}

fn remembered(
    denial: &CeilingDenial,
    wait: Micros,
    frozen_until: Option<Timestamp>,
    bounds: &DenialBounds,
) -> Remembered {
    let (sent, answered) = (denial.sent_at, denial.answered_at);
    let is_frozen = denial.cost == 1 && denial.outcome.remaining == 0;
    let trusted = if is_frozen {
        sent + bounds.trust_max
    } else {
        let moving = frozen_until.unwrap_or(sent + bounds.moving_trust_max);
        moving.min(sent + bounds.trust_max)
    };
    Remembered {
        cost: denial.cost,
        until: trusted.min(sent + wait),
        until_in_outage: sent + wait,
        retry_at: answered + wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: DenialBounds = DenialBounds {
        trust_max: Micros::from_secs(5),
        moving_trust_max: Micros::from_millis(100),
        costs_max: 3,
    };

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000) + Micros::from_millis(ms)
    }

    fn denial(cost: Cost, remaining: u64, wait_ms: u64, sent_ms: u64) -> CeilingDenial {
        CeilingDenial {
            cost,
            outcome: CeilingOutcome {
                remaining,
                reset_after: Micros::from_secs(60),
                retry: Some(Retry::After(Micros::from_millis(wait_ms))),
                delay: None,
            },
            sent_at: at(sent_ms),
            answered_at: at(sent_ms + 2),
        }
    }

    fn remember(denials: &Denials, denial: &CeilingDenial) {
        denials.remember(denial, denials.epoch(), &BOUNDS);
    }

    #[test]
    fn denies_until_the_store_would_admit_and_names_an_instant_at_which_it_does() {
        let denials = Denials::default();
        remember(&denials, &denial(1, 0, 1_000, 0));
        let wait = |ms| denials.find(1, at(ms), &BOUNDS);
        assert_eq!(wait(10), Some(Micros::from_millis(992)));
        assert_eq!(wait(999), Some(Micros::from_millis(3)));
        assert_eq!(wait(1_000), None, "counted from before the call was sent");
    }

    #[test]
    fn asks_again_after_the_longest_trust() {
        let denials = Denials::default();
        remember(&denials, &denial(1, 0, 60_000, 0));
        assert!(denials.find(1, at(4_999), &BOUNDS).is_some());
        assert_eq!(denials.find(1, at(5_000), &BOUNDS), None);
        assert_eq!(
            denials.find_in_outage(1, at(59_000)),
            Some(Micros::from_millis(1_002)),
            "nobody can be asked"
        );
        assert_eq!(denials.find_in_outage(1, at(60_000)), None);
    }

    #[test]
    fn a_denial_that_left_room_for_less_is_trusted_for_a_moment_only() {
        let denials = Denials::default();
        remember(&denials, &denial(5, 3, 1_000, 0));
        assert!(denials.find(5, at(99), &BOUNDS).is_some());
        assert_eq!(denials.find(5, at(100), &BOUNDS), None);
    }

    #[test]
    fn a_smaller_cost_is_never_denied_and_a_larger_one_is_asked_for() {
        let denials = Denials::default();
        remember(&denials, &denial(5, 0, 1_000, 0));
        for cost in [1, 4, 6] {
            assert_eq!(denials.find(cost, at(1), &BOUNDS), None, "{cost}");
        }
    }

    #[test]
    fn an_attacker_with_many_costs_is_denied_once_enough_are_known() {
        let denials = Denials::default();
        remember(&denials, &denial(1, 0, 1_000, 0));
        remember(&denials, &denial(2, 0, 1_500, 0));
        remember(&denials, &denial(3, 0, 1_700, 0));
        assert_eq!(
            denials.find(9, at(2), &BOUNDS),
            Some(Micros::from_millis(1_700))
        );
        assert_eq!(
            denials.find(2, at(900), &BOUNDS),
            Some(Micros::from_millis(602)),
            "frozen by the denied unit, so trusted as long as that"
        );
    }

    #[test]
    fn what_was_asked_before_a_reset_is_not_remembered_after_it() {
        let denials = Denials::default();
        let before = denials.epoch();
        denials.forget();
        denials.remember(&denial(1, 0, 1_000, 0), before, &BOUNDS);
        assert_eq!(denials.find(1, at(1), &BOUNDS), None);
    }

    #[test]
    fn an_admission_ends_what_was_denied_before_it() {
        let denials = Denials::default();
        remember(&denials, &denial(5, 3, 1_000, 0));
        denials.admitted();
        assert_eq!(denials.find(5, at(1), &BOUNDS), None);
    }
}
