//! The states that a call works on: taken out of their slots, settled, and put back with what
//! they have grown by. Never decides.

use std::borrow::Cow;

use super::key::{Keys, Part};
use super::keyspace::{Keyspace, SlotIndex};
use super::state::{State, Taking};
use crate::algorithm::{Charged, Standing};
use crate::model::{Algorithm, Ceiling, ChargeId, Micros, Quota, Scope, Timestamp, UNITS_MAX};
use crate::store::port::ChargeRequest;

/// How long a key is kept after it is whole again.
const SLACK: Micros = Micros::from_secs(1);

/// A key's state, taken out for the length of a call.
pub(super) struct Held<'a> {
    pub ceiling: Cow<'a, Ceiling>,
    pub part: Part<'a>,
    pub slot: Option<SlotIndex>,
    pub state: State,
    pub expires_at: Timestamp,
    pub entries_before: usize,
    pub charged: bool,
}

impl<'a> Held<'a> {
    fn take(
        space: &mut Keyspace,
        keys: &Keys<'a>,
        part: Part<'a>,
        ceiling: Cow<'a, Ceiling>,
        (now, steady): (Timestamp, Timestamp),
    ) -> Self {
        let slot = space.find(keys, part);
        let (state, expires_at) = slot.map_or((State::Vacant, steady), |s| space.take(s));
        let entries_before = state.entries();
        let state = if expires_at > steady {
            state.or_empty(ceiling.algorithm)
        } else {
            State::empty(ceiling.algorithm)
        };
        let mut held = Held {
            ceiling,
            part,
            slot,
            state,
            expires_at,
            entries_before,
            charged: false,
        };
        held.state.settle(&held.ceiling, now);
        held
    }

    fn find(&self, id: &ChargeId, now: Timestamp) -> Option<Charged> {
        self.state.find(id, self.ceiling.quota.window(), now)
    }

    /// Charges, and says how the ceiling stands then.
    pub fn charge(&mut self, taking: &Taking<'_>, steady: Timestamp) -> Standing {
        self.state.charge(&self.ceiling, taking);
        let standing = self.state.standing(&self.ceiling, taking.now);
        self.expires_at = steady + standing.reset_after + SLACK;
        self.charged = true;
        standing
    }

    /// Puts the state where it belongs. How many keys and entries more there are now.
    fn put_back(self, space: &mut Keyspace, keys: &Keys<'_>, grown: &mut Grown) {
        let entries = self.state.entries();
        match self.slot {
            Some(slot) => space.put(slot, self.state, self.expires_at),
            None if self.charged => {
                space.insert(keys, self.part, self.state, self.expires_at);
                grown.keys += 1;
            }
            None => return,
        }
        grown.entries += entries;
        grown.entries_before += self.entries_before;
    }
}

/// What a call added.
#[derive(Default)]
pub(super) struct Grown {
    pub keys: usize,
    pub entries: usize,
    pub entries_before: usize,
}

/// Everything that a call works on.
pub(super) struct Work<'a> {
    pub ceilings: Vec<Held<'a>>,
    /// Ids that callers gave, where no log among the ceilings has them.
    pub ids: Option<Held<'a>>,
    pub now: Timestamp,
    pub steady: Timestamp,
}

impl<'a> Work<'a> {
    pub fn take(
        space: &mut Keyspace,
        keys: &Keys<'a>,
        ceilings: &'a [Ceiling],
        with_ids: bool,
        now: Timestamp,
        steady: Timestamp,
    ) -> Self {
        let times = (now, steady);
        let held = |c: &'a Ceiling, space: &mut Keyspace| {
            Held::take(space, keys, keys.part(c.scope), Cow::Borrowed(c), times)
        };
        let record = ids_ceiling(ceilings).filter(|_| with_ids);
        Work {
            ceilings: ceilings.iter().map(|c| held(c, space)).collect(),
            ids: record.map(|c| Held::take(space, keys, Part::Ids, Cow::Owned(c), times)),
            now,
            steady,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Held<'a>> {
        self.ceilings.iter().chain(&self.ids)
    }

    /// Gets ready to look for ids.
    pub fn index_ids(&mut self) {
        for held in self.ceilings.iter_mut().chain(&mut self.ids) {
            held.state.index_ids();
        }
    }

    pub fn find(&self, id: &ChargeId) -> Option<Charged> {
        self.all().find_map(|held| held.find(id, self.now))
    }

    /// Keys and entries that charging `requests` may add at most.
    pub fn needs(&self, requests: &[ChargeRequest]) -> (usize, usize) {
        let charges = requests.iter().filter(|r| r.cost > 0).count();
        if charges == 0 {
            return (0, 0);
        }
        let keys = self.all().filter(|held| held.slot.is_none()).count();
        let logs = self
            .all()
            .filter(|held| held.ceiling.algorithm == Algorithm::SlidingLog)
            .count();
        (keys, logs * charges)
    }

    pub fn put_back(self, space: &mut Keyspace, keys: &Keys<'_>) -> Grown {
        let mut grown = Grown::default();
        for held in self.ceilings.into_iter().chain(self.ids) {
            held.put_back(space, keys, &mut grown);
        }
        grown
    }
}

/// The log that remembers callers' ids when no ceiling's own log does. Kept for the longest of
/// the ceilings' windows and times to drain.
pub(super) fn ids_ceiling(ceilings: &[Ceiling]) -> Option<Ceiling> {
    if ceilings
        .iter()
        .any(|c| c.algorithm == Algorithm::SlidingLog)
    {
        return None;
    }
    let kept = ceilings.iter().map(|c| {
        let quota = c.quota;
        let drain = u128::from(quota.burst()) * u128::from(quota.window().get());
        let drain = drain.div_ceil(u128::from(quota.limit().max(1)));
        let drain = Micros::new(u64::try_from(drain).unwrap_or(u64::MAX));
        quota.window().max(drain)
    });
    let quota = Quota::new(UNITS_MAX, kept.max()?).ok()?;
    Some(Ceiling {
        scope: Scope::Global,
        algorithm: Algorithm::SlidingLog,
        quota,
        delay: false,
    })
}
