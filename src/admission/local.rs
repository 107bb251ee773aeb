//! What is decided without a round trip: by a lease, a remembered denial, or the node ceiling.
//! Never waits.

use std::sync::atomic::Ordering;

use super::denial_cache::DenialBounds;
use super::options::LocalStage;
use super::target_state::{Refusals, Taken, TargetState};
use crate::model::{CeilingStatus, Cost, Micros, Retry, Source, Timestamp};

/// An answer of the local stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalAnswer {
    /// Which stage.
    pub source: Source,
    /// What it said: admitted, or refused for so long.
    pub retry: Option<Retry>,
    /// The ceilings whose state is known.
    pub ceilings: Vec<CeilingStatus>,
}

/// A yes or no without its reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Who said it.
    pub source: Source,
    /// When to come again; absent when it may go on.
    pub retry: Option<Retry>,
}

impl Verdict {
    /// Whether the check may go on.
    pub const fn is_admitted(&self) -> bool {
        self.retry.is_none()
    }
}

/// What the local stage does with a check.
#[derive(Debug)]
pub(super) enum Local {
    /// Answers it. `renews` says that the target's next lease is due.
    Answered { answer: LocalAnswer, renews: bool },
    /// Leaves it to the store, having taken its units from these node meters.
    Ask(Taken),
    /// Refuses it unless it is the one check that asks the store for the exact denial.
    AskOrDeny { ceiling: usize, wait: Micros },
}

/// How long denials are remembered, when they are.
pub(super) fn denial_bounds(options: &LocalStage) -> Option<DenialBounds> {
    options.denial_cache.then_some(DenialBounds {
        trust_max: options.denial_trust_max,
        moving_trust_max: options.denial_moving_trust_max,
        costs_max: options.denial_costs_max,
    })
}

/// Decides a check of `cost` that has no id of its caller's: one that has may be known to the
/// store, which then answers as before.
pub(super) fn decide(
    state: &TargetState,
    cost: Cost,
    now: Timestamp,
    denials: Option<&DenialBounds>,
    node_ceiling: bool,
) -> Local {
    // Before the denial cache: what is charged already may be spent though the store has no more.
    if let Some(lease) = &state.lease
        && let Some(spent) = lease.spend(cost, now)
    {
        return Local::Answered {
            answer: from_lease(state, spent.left, now),
            renews: spent.is_low,
        };
    }
    if let Some(bounds) = denials
        && let Some(answer) = remembered(state, cost, now, bounds)
    {
        let renews = false;
        return Local::Answered { answer, renews };
    }
    if !node_ceiling {
        return Local::Ask(Taken::default());
    }
    match state.take(now, cost) {
        Ok(taken) => Local::Ask(taken),
        Err((ceiling, wait)) if denials.is_some() && !state.asking.load(Ordering::Acquire) => {
            Local::AskOrDeny { ceiling, wait }
        }
        Err((ceiling, wait)) => Local::Answered {
            answer: beyond_node_ceiling(state, ceiling, wait, now),
            renews: false,
        },
    }
}

/// The refusal that is remembered for `cost`.
pub(super) fn remembered(
    state: &TargetState,
    cost: Cost,
    now: Timestamp,
    bounds: &DenialBounds,
) -> Option<LocalAnswer> {
    let refusals = state.denied(now, cost, bounds)?;
    Some(LocalAnswer {
        source: Source::DenialCache,
        retry: refusals.longest(),
        ceilings: state.statuses(&refusals, now),
    })
}

/// The node ceiling's refusal. Its wait is until this node would ask the store: the store may name
/// a longer one then.
pub(super) fn beyond_node_ceiling(
    state: &TargetState,
    ceiling: usize,
    wait: Micros,
    now: Timestamp,
) -> LocalAnswer {
    let refusals = Refusals::of(ceiling, Retry::After(wait));
    LocalAnswer {
        source: Source::NodeCeiling,
        retry: refusals.longest(),
        ceilings: state.statuses(&refusals, now),
    }
}

fn from_lease(state: &TargetState, left: Cost, now: Timestamp) -> LocalAnswer {
    let mut ceilings = state.statuses(&Refusals::default(), now);
    for ceiling in &mut ceilings {
        ceiling.remaining = ceiling.remaining.saturating_add(left).min(ceiling.limit);
    }
    LocalAnswer {
        source: Source::Lease,
        retry: None,
        ceilings,
    }
}
