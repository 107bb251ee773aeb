//! A charge or peek as a script call, and its reply as outcomes.
//!
//! Which requests are admitted is the script's word. What is left, when it resets, and when a
//! counter or bucket has room again is read from the states that it found, by the same pure
//! algorithms that the memory store runs. Never admits by itself.

use std::sync::Arc;

use fred::types::Value;

use super::keys::{self, Keys};
use super::layout::Layout;
use super::reply::Reply;
use super::short::Short;
use super::state::State;
use super::strings::{Strings, StringsMaker};
use super::{Operation, Script, Scripts};
use crate::model::{Algorithm, Ceiling, KeyPrefix, Slot, Timestamp, UNITS_MAX};
use crate::store::{
    CallClock, CallKind, CeilingOutcome, ChargeCall, ChargeReply, ChargeRequest, IdOrigin, Outcome,
    StoreError,
};

/// The latest instant that a script can still calculate with: 2^53 us less two longest windows.
const INSTANT_MAX: u64 = (1 << 53) - 2 * 366 * 86_400 * 1_000_000 - 1;

/// What an id or a cost takes, about.
const REQUEST_LEN: usize = 24;

/// A [`ChargeCall`] on its way to a server.
#[derive(Debug)]
pub struct ChargeScript {
    call: ChargeCall,
    script: Arc<Script>,
    slot: Slot,
    keys: Strings,
    has_log: bool,
    is_recorded: bool,
}

impl ChargeScript {
    /// The script for a call.
    ///
    /// # Errors
    /// When the call is not [valid](ChargeCall::validate).
    pub fn new(
        scripts: &Scripts,
        prefix: &KeyPrefix,
        call: ChargeCall,
    ) -> Result<Self, StoreError> {
        call.validate()?;
        let ceilings = &call.target.ceilings;
        let caller = call.requests.iter().any(|r| r.origin == IdOrigin::Caller);
        let layout = Layout::new(ceilings, caller);
        let names = Keys::of(prefix, &call.target);
        Ok(ChargeScript {
            script: scripts.get(operation(call.kind), &layout),
            slot: names.slot(),
            keys: layout.keys(&names, ceilings),
            has_log: layout.has_log(),
            is_recorded: layout.is_recorded(),
            call,
        })
    }

    /// What is sent.
    pub fn call(&self) -> &ChargeCall {
        &self.call
    }

    /// The script to run.
    pub fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// The slot of its keys.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Whether running it twice does the same as running it once: a log holds each id, or every
    /// id is a caller's and recorded, or nothing is charged.
    pub fn may_repeat(&self) -> bool {
        self.has_log
            || self.call.kind == CallKind::Peek
            || self
                .call
                .requests
                .iter()
                .all(|r| r.origin == IdOrigin::Caller)
    }

    /// `EVALSHA`'s arguments: the hash, the number of keys, keys, numbers. `resent` when an
    /// earlier attempt may have run.
    pub fn args(&self, resent: bool) -> Vec<Value> {
        let call = &self.call;
        let mut args = Vec::with_capacity(12 + self.keys.len() + 2 * call.requests.len());
        args.push(self.script.sha1());
        args.push(number(self.keys.len() as u64));
        args.extend(self.keys.values());
        args.push(instant(call.clock));
        push_ceilings(&mut args, &call.target.ceilings, call.clock);
        if self.is_recorded {
            push_record(&mut args, &call.target.ceilings);
        }
        let count = 2 * call.requests.len();
        let mut requests = StringsMaker::with_capacity(count, count * REQUEST_LEN);
        for request in &call.requests {
            requests.push(&[request.id.as_str()]);
            push_how(request, resent, &mut requests);
        }
        args.extend(requests.finish().values());
        args
    }

    /// The outcomes in a reply.
    ///
    /// # Errors
    /// When the reply makes no sense or isn't this call's.
    pub fn decode(&self, value: Value) -> Result<ChargeReply, StoreError> {
        let mut reply = Reply::new("charge", value)?;
        if let Some(first) = self.call.requests.first() {
            reply.expect(first.id.as_str())?;
        }
        let now = Timestamp::from_micros(reply.count()?);
        let ceilings = &self.call.target.ceilings;
        let (mut states, known) = match Short::read(&mut reply, ceilings, now)? {
            Some(Short { states, verdict }) => (states, Some(verdict)),
            None => {
                let read = |ceiling| State::read(&mut reply, ceiling, now);
                let states: Result<Vec<_>, _> = ceilings.iter().map(read).collect();
                (states?, None)
            }
        };
        let mut outcomes = Vec::with_capacity(self.call.requests.len());
        for request in &self.call.requests {
            outcomes.push(self.outcome(&mut reply, &mut states, request, known, now)?);
        }
        reply.end()?;
        Ok(ChargeReply { at: now, outcomes })
    }

    fn outcome(
        &self,
        reply: &mut Reply,
        states: &mut [State],
        request: &ChargeRequest,
        known: Option<i64>,
        now: Timestamp,
    ) -> Result<Outcome, StoreError> {
        let ceilings = &self.call.target.ceilings;
        let verdict = known.map_or_else(|| reply.integer(), Ok)?;
        let mut outcomes = Vec::with_capacity(ceilings.len());
        let repeated = u64::try_from(verdict - 1).unwrap_or_default();
        for (ceiling, state) in ceilings.iter().zip(states) {
            let mut retry = None;
            let mut delay = None;
            match verdict {
                0 => {
                    if known.is_none() && ceiling.algorithm == Algorithm::SlidingLog {
                        state.set_wait(reply.count()?);
                    }
                    retry = state.retry(ceiling, request.cost, now);
                }
                1 => {
                    delay = state.delay(ceiling, now);
                    if self.call.kind == CallKind::Charge {
                        state.charge(ceiling, request, now);
                    }
                }
                _ => delay = state.delay_of_repeat(ceiling, repeated, now),
            }
            let standing = state.standing(ceiling, now);
            outcomes.push(CeilingOutcome {
                remaining: standing.remaining,
                reset_after: standing.reset_after,
                retry,
                delay,
            });
        }
        let outcome = Outcome {
            ceilings: outcomes,
            repeated: repeated > 0,
        };
        if outcome.is_admitted() == (verdict == 0) {
            return Err(reply.error("no ceiling refuses what was denied"));
        }
        Ok(outcome)
    }
}

const fn operation(kind: CallKind) -> Operation {
    match kind {
        CallKind::Charge => Operation::Charge,
        CallKind::Peek => Operation::Peek,
    }
}

fn push_how(request: &ChargeRequest, resent: bool, requests: &mut StringsMaker) {
    let origin = match request.origin {
        IdOrigin::Caller => "c",
        IdOrigin::Fresh if !resent => "f",
        IdOrigin::Fresh | IdOrigin::Resent => "r",
    };
    match (request.cost.min(UNITS_MAX + 1), request.held_for) {
        (1, None) => requests.push(&[origin, "1"]),
        (cost, None) => requests.push_shown(format_args!("{origin}{cost}")),
        (cost, Some(held)) => {
            let held = held.get().min(INSTANT_MAX);
            requests.push_shown(format_args!("{origin}{cost}+{held}"));
        }
    }
}

pub(super) fn instant(clock: CallClock) -> Value {
    match clock {
        CallClock::Store => Value::from_static_str(""),
        CallClock::At(at) => number(at.as_micros().min(INSTANT_MAX)),
    }
}

pub(super) fn push_ceilings(args: &mut Vec<Value>, ceilings: &[Ceiling], clock: CallClock) {
    for ceiling in ceilings {
        let (quota, window) = (ceiling.quota, ceiling.quota.window());
        args.push(number(quota.limit()));
        args.push(number(window.get()));
        match ceiling.algorithm {
            Algorithm::SlidingLog => {}
            Algorithm::SlidingCounter => args.push(number(keys::counter_expiry(window, 2, clock))),
            Algorithm::FixedWindow => args.push(number(keys::counter_expiry(window, 1, clock))),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                args.push(number(quota.burst()));
                args.push(number(keys::bucket_slack(window, clock)));
            }
        }
    }
}

/// The record's limit, which is none, and how long it keeps an id.
pub(super) fn push_record(args: &mut Vec<Value>, ceilings: &[Ceiling]) {
    let kept = ceilings.iter().map(keys::memory_of).max();
    args.push(number(UNITS_MAX));
    args.push(number(kept.unwrap_or_default().get()));
}

/// fred writes an integer as the string of its digits, without an allocation.
pub(super) fn number(n: u64) -> Value {
    Value::Integer(i64::try_from(n).unwrap_or(i64::MAX))
}

pub(super) fn text(text: &str) -> Value {
    Value::String(text.into())
}
