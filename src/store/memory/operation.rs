//! What a call does to the keys of its target, behind their lock. Never writes before everything
//! is decided: a request is charged to all ceilings or to none, and a call that finds the store
//! full has charged nothing.

use std::borrow::Cow;

use super::key::{Keys, Part};
use super::keyspace::{Keyspace, SlotIndex};
use super::state::{State, Taking};
use crate::algorithm::Charged;
use crate::model::{
    Algorithm, Ceiling, ChargeId, Cost, Micros, Quota, Retry, Scope, Timestamp, UNITS_MAX,
};
use crate::store::{
    CeilingOutcome, ChargeCall, ChargeRequest, IdOrigin, Outcome, RefundCall, Refunded,
};

/// How long a key is kept after it is whole again.
const SLACK: Micros = Micros::from_secs(1);

/// Which maximum was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Keys,
    Entries,
}

/// A key's state, taken out for the length of a call.
struct Held<'a> {
    ceiling: Cow<'a, Ceiling>,
    part: Part<'a>,
    slot: Option<SlotIndex>,
    state: State,
    expires_at: Timestamp,
    entries_before: usize,
    charged: bool,
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

    fn charge(&mut self, taking: &Taking<'_>, steady: Timestamp) {
        self.state.charge(&self.ceiling, taking);
        let whole_after = self.state.standing(&self.ceiling, taking.now).reset_after;
        self.expires_at = steady + whole_after + SLACK;
        self.charged = true;
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
struct Grown {
    keys: usize,
    entries: usize,
    entries_before: usize,
}

/// Everything that a call works on.
struct Work<'a> {
    ceilings: Vec<Held<'a>>,
    /// Ids that callers gave, where no log among the ceilings has them.
    ids: Option<Held<'a>>,
    now: Timestamp,
    steady: Timestamp,
}

impl<'a> Work<'a> {
    fn take(
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

    fn find(&self, id: &ChargeId) -> Option<Charged> {
        self.all().find_map(|held| held.find(id, self.now))
    }

    /// Keys and entries that charging `requests` may add at most.
    fn needs(&self, requests: &[ChargeRequest]) -> (usize, usize) {
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

    fn put_back(self, space: &mut Keyspace, keys: &Keys<'_>) -> Grown {
        let mut grown = Grown::default();
        for held in self.ceilings.into_iter().chain(self.ids) {
            held.put_back(space, keys, &mut grown);
        }
        grown
    }

    /// Decides one request and charges it, if it may be written.
    fn charge(
        &mut self,
        request: &ChargeRequest,
        reserved: Result<(), Full>,
    ) -> Result<Outcome, Full> {
        let known = match request.origin {
            IdOrigin::Fresh => None,
            IdOrigin::Resent | IdOrigin::Caller => self.find(&request.id),
        };
        if let Some(charged) = known {
            return Ok(self.repeated(charged));
        }
        let views = self.ceilings.iter().map(|h| (&*h.ceiling, &h.state));
        let mut outcome = decide(views, self.now, request.cost);
        if outcome.is_admitted() && request.cost > 0 {
            reserved?;
            self.write(request);
            for (after, held) in outcome.ceilings.iter_mut().zip(&self.ceilings) {
                stand(after, &held.ceiling, &held.state, self.now);
            }
        }
        Ok(outcome)
    }

    fn write(&mut self, request: &ChargeRequest) {
        let taking = Taking {
            id: &request.id,
            cost: request.cost,
            held: request.held_for.unwrap_or_default(),
            now: self.now,
        };
        for held in &mut self.ceilings {
            held.charge(&taking, self.steady);
        }
        if let Some(ids) = self
            .ids
            .as_mut()
            .filter(|_| request.origin == IdOrigin::Caller)
        {
            ids.charge(&taking, self.steady);
        }
    }

    fn repeated(&self, charged: Charged) -> Outcome {
        let ceilings = self.ceilings.iter().map(|held| {
            let delay = held
                .state
                .delay(&held.ceiling, self.now, Some(charged.cost));
            let mut after = outcome_of(None, delay);
            stand(&mut after, &held.ceiling, &held.state, self.now);
            after
        });
        Outcome {
            ceilings: ceilings.collect(),
            repeated: true,
        }
    }
}

/// The log that remembers callers' ids when no ceiling's own log does. Kept for the longest of
/// the ceilings' windows and times to drain.
fn ids_ceiling(ceilings: &[Ceiling]) -> Option<Ceiling> {
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

fn outcome_of(retry: Option<Retry>, delay: Option<Micros>) -> CeilingOutcome {
    CeilingOutcome {
        remaining: 0,
        reset_after: Micros::ZERO,
        retry,
        delay,
    }
}

fn stand(after: &mut CeilingOutcome, ceiling: &Ceiling, state: &State, now: Timestamp) {
    let standing = state.standing(ceiling, now);
    after.remaining = standing.remaining;
    after.reset_after = standing.reset_after;
}

/// What the states say to `cost`, nothing being charged.
fn decide<'s>(
    states: impl Iterator<Item = (&'s Ceiling, &'s State)>,
    now: Timestamp,
    cost: Cost,
) -> Outcome {
    let ceilings = states.map(|(ceiling, state)| {
        let retry = state.decide(ceiling, now, cost).retry();
        let mut after = outcome_of(retry, state.delay(ceiling, now, None));
        stand(&mut after, ceiling, state, now);
        after
    });
    let mut outcome = Outcome {
        ceilings: ceilings.collect(),
        repeated: false,
    };
    if !outcome.is_admitted() {
        // Nobody waits for a turn that was not given.
        for after in &mut outcome.ceilings {
            after.delay = None;
        }
    }
    outcome
}

/// Decides and charges a call's requests, in order.
pub(super) fn charge(
    space: &mut Keyspace,
    keys: &Keys<'_>,
    call: &ChargeCall,
    now: Timestamp,
    steady: Timestamp,
) -> Result<Vec<Outcome>, Full> {
    let with_ids = call.requests.iter().any(|r| r.origin == IdOrigin::Caller);
    let mut work = Work::take(space, keys, &call.target.ceilings, with_ids, now, steady);
    let (keys_max, entries_max) = work.needs(&call.requests);
    let reserved = space.reserve(keys_max, entries_max);
    let outcomes: Result<Vec<_>, _> = call
        .requests
        .iter()
        .map(|request| work.charge(request, reserved))
        .collect();
    let grown = work.put_back(space, keys);
    let (keys_max, entries_max) = match reserved {
        Ok(()) => (keys_max, entries_max),
        Err(_) => (0, 0),
    };
    space.release(
        keys_max.saturating_sub(grown.keys),
        (entries_max + grown.entries_before).saturating_sub(grown.entries),
    );
    outcomes
}

/// Decides a call's requests, each as if it came alone, and changes nothing: not even what time
/// itself would change, for the instant may be anybody's.
pub(super) fn peek(
    space: &Keyspace,
    keys: &Keys<'_>,
    call: &ChargeCall,
    now: Timestamp,
    steady: Timestamp,
) -> Vec<Outcome> {
    let view = |ceiling: &Ceiling| {
        let live = space
            .find(keys, keys.part(ceiling.scope))
            .and_then(|slot| space.live(slot, steady));
        match live {
            Some(state @ State::Log(log))
                if ceiling.algorithm == Algorithm::SlidingLog && !log.is_ahead_of(now) =>
            {
                Cow::Borrowed(state)
            }
            other => {
                let mut state = other
                    .cloned()
                    .unwrap_or(State::Vacant)
                    .or_empty(ceiling.algorithm);
                state.settle(ceiling, now);
                Cow::Owned(state)
            }
        }
    };
    let ceilings = &call.target.ceilings;
    let states: Vec<Cow<'_, State>> = ceilings.iter().map(view).collect();
    let views = || ceilings.iter().zip(states.iter().map(|s| &**s));
    let requests = call.requests.iter();
    requests.map(|r| decide(views(), now, r.cost)).collect()
}

/// Gives a charge back in every ceiling that still counts it.
pub(super) fn refund(
    space: &mut Keyspace,
    keys: &Keys<'_>,
    call: &RefundCall,
    now: Timestamp,
    steady: Timestamp,
) -> Refunded {
    let mut work = Work::take(space, keys, &call.target.ceilings, true, now, steady);
    let charged = work.find(&call.id);
    let mut given = None;
    if let Some(charged) = charged {
        let units = call.cost.unwrap_or(charged.cost).min(charged.cost);
        for held in work.ceilings.iter_mut().chain(&mut work.ids) {
            let of_this = held
                .state
                .refund(&held.ceiling, now, &call.id, charged, units);
            // The record of ids counts nothing itself.
            if held.part != Part::Ids {
                given = given.max(Some(of_this).filter(|n| *n > 0 || units == 0));
            }
        }
    }
    let grown = work.put_back(space, keys);
    space.release(0, grown.entries_before.saturating_sub(grown.entries));
    given.map_or(Refunded::NotFound, Refunded::Units)
}

/// Forgets the target's region, the global ceiling and the ids; what was there.
pub(super) fn reset(space: &mut Keyspace, keys: &Keys<'_>) -> Vec<State> {
    [
        keys.part(Scope::Global),
        keys.part(Scope::Region),
        Part::Ids,
    ]
    .into_iter()
    .filter_map(|part| {
        let slot = space.find(keys, part)?;
        space.remove(slot)
    })
    .collect()
}
