//! What a call does to the keys of its target, behind their lock. Never writes before everything
//! is decided: a request is charged to all ceilings or to none, and a call that finds the store
//! full has charged nothing.

use std::borrow::Cow;

use super::budget::Full;
use super::key::{Keys, Part};
use super::keyspace::Keyspace;
use super::state::{State, Taking};
use super::work::{Held, Work, ids_ceiling};
use crate::algorithm::Charged;
use crate::model::{Algorithm, Ceiling, Cost, Micros, Retry, Scope, Timestamp};
use crate::store::port::{
    CeilingOutcome, ChargeCall, ChargeRequest, IdOrigin, Outcome, RefundCall, Refunded,
};

impl Work<'_> {
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
        let views = self.ceilings.iter().map(|h| (&*h.ceiling, &h.state));
        if let Some(charged) = known {
            return Ok(repeated(views, self.now, charged));
        }
        let mut outcome = verdict(views, self.now, request.cost);
        if outcome.is_admitted() && request.cost > 0 {
            reserved?;
            self.write(request, &mut outcome);
        } else {
            let views = self.ceilings.iter().map(|h| (&*h.ceiling, &h.state));
            stand(&mut outcome, views, self.now);
        }
        Ok(outcome)
    }

    fn write(&mut self, request: &ChargeRequest, outcome: &mut Outcome) {
        let taking = Taking {
            id: &request.id,
            cost: request.cost,
            held: request.held_for.unwrap_or_default(),
            now: self.now,
        };
        for (held, after) in self.ceilings.iter_mut().zip(&mut outcome.ceilings) {
            let standing = held.charge(&taking, self.steady);
            after.remaining = standing.remaining;
            after.reset_after = standing.reset_after;
        }
        let ids = self.ids.as_mut();
        if let Some(ids) = ids.filter(|_| request.origin == IdOrigin::Caller) {
            ids.charge(&taking, self.steady);
        }
    }
}

fn outcome_of(retry: Option<Retry>, delay: Option<Micros>) -> CeilingOutcome {
    CeilingOutcome {
        remaining: 0,
        reset_after: Micros::ZERO,
        retry,
        delay,
    }
}

/// Fills in how each ceiling stands.
fn stand<'s>(
    outcome: &mut Outcome,
    states: impl Iterator<Item = (&'s Ceiling, &'s State)>,
    now: Timestamp,
) {
    for (after, (ceiling, state)) in outcome.ceilings.iter_mut().zip(states) {
        let standing = state.standing(ceiling, now);
        after.remaining = standing.remaining;
        after.reset_after = standing.reset_after;
    }
}

/// What the states say to `cost`, but for how they stand.
fn verdict<'s>(
    states: impl Iterator<Item = (&'s Ceiling, &'s State)>,
    now: Timestamp,
    cost: Cost,
) -> Outcome {
    let ceilings = states.map(|(ceiling, state)| {
        let retry = state.decide(ceiling, now, cost).retry();
        outcome_of(retry, state.delay(ceiling, now, None))
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

/// The answer to an id that was charged before: admitted, with the present state.
fn repeated<'s>(
    states: impl Iterator<Item = (&'s Ceiling, &'s State)> + Clone,
    now: Timestamp,
    charged: Charged,
) -> Outcome {
    let delays = states
        .clone()
        .map(|(ceiling, state)| state.delay(ceiling, now, Some(charged.cost)));
    let mut outcome = Outcome {
        ceilings: delays.map(|delay| outcome_of(None, delay)).collect(),
        repeated: true,
    };
    stand(&mut outcome, states, now);
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
    if looks_for_ids(call) {
        work.index_ids();
    }
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

/// Whether some id of the call may have been charged before.
fn looks_for_ids(call: &ChargeCall) -> bool {
    call.requests.iter().any(|r| r.origin != IdOrigin::Fresh)
}

/// Decides a call's requests, each as if it came alone, and changes nothing: not even what time
/// itself would change, for the instant may be anybody's.
pub(super) fn peek(
    space: &mut Keyspace,
    keys: &Keys<'_>,
    call: &ChargeCall,
    now: Timestamp,
    steady: Timestamp,
) -> Vec<Outcome> {
    if looks_for_ids(call) {
        for ceiling in &call.target.ceilings {
            space.index_ids(keys, keys.part(ceiling.scope));
        }
        space.index_ids(keys, Part::Ids);
    }
    let space = &*space;
    let view_of = |ceiling: &Ceiling, part: Part<'_>| {
        let live = space
            .find(keys, part)
            .and_then(|slot| space.live(slot, steady));
        match live {
            Some(state @ State::Log(log))
                if ceiling.algorithm == Algorithm::SlidingLog
                    && !log.is_ahead_of(ceiling.quota.window(), now) =>
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
    let view = |ceiling: &Ceiling| view_of(ceiling, keys.part(ceiling.scope));
    let ids_view = |ceiling: &Ceiling| view_of(ceiling, Part::Ids);
    let ceilings = &call.target.ceilings;
    let states: Vec<Cow<'_, State>> = ceilings.iter().map(view).collect();
    let views = || ceilings.iter().zip(states.iter().map(Cow::as_ref));
    let ids = ids_ceiling(ceilings);
    let ids = ids.as_ref().map(|ceiling| (ceiling, ids_view(ceiling)));
    let known = |request: &ChargeRequest| {
        let ids = ids.as_ref().map(|(ceiling, state)| (*ceiling, &**state));
        views()
            .chain(ids)
            .find_map(|(c, state)| state.find(&request.id, c.quota.window(), now))
            .filter(|_| request.origin != IdOrigin::Fresh)
    };
    let outcome = |request: &ChargeRequest| match known(request) {
        Some(charged) => repeated(views(), now, charged),
        None => {
            let mut outcome = verdict(views(), now, request.cost);
            stand(&mut outcome, views(), now);
            outcome
        }
    };
    call.requests.iter().map(outcome).collect()
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
    work.index_ids();
    let charged = work.find(&call.id);
    let units = charged.map_or(0, |c| call.cost.unwrap_or(c.cost).min(c.cost));
    let mut given = 0;
    if let Some(charged) = charged {
        let give = |held: &mut Held<'_>, units| {
            let Held { ceiling, state, .. } = held;
            state.refund(ceiling, now, &call.id, charged, units)
        };
        for held in &mut work.ceilings {
            given = given.max(give(held, units));
        }
        // The record of ids holds what no ceiling could give back: sent again, it is still known.
        if let Some(ids) = &mut work.ids {
            give(ids, given);
        }
    }
    let grown = work.put_back(space, keys);
    space.release(0, grown.entries_before.saturating_sub(grown.entries));
    match given {
        0 if units > 0 || charged.is_none() => Refunded::NotFound,
        given => Refunded::Units(given),
    }
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
