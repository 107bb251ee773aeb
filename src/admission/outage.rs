//! The policy's choice when the store can't answer: admit, deny, or decide by this node's share.
//! Never asks the store.

use super::engine::Engine;
use super::target_state::TargetState;
use crate::model::{Cost, OnOutage, Retry, Timestamp};
use crate::store::Store;

/// What was decided without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutageAnswer {
    /// Whether the check may go on.
    pub admitted: bool,
    /// When to come again, if that is known.
    pub retry: Option<Retry>,
}

impl OutageAnswer {
    const ADMITTED: OutageAnswer = OutageAnswer {
        admitted: true,
        retry: None,
    };

    const fn denied(retry: Option<Retry>) -> Self {
        OutageAnswer {
            admitted: false,
            retry,
        }
    }
}

/// Decides a check of `cost` by its policy's outage choice.
pub(super) fn decide<S: Store>(
    engine: &Engine<S>,
    state: &TargetState,
    cost: Cost,
    now: Timestamp,
) -> OutageAnswer {
    match state.target.policy.on_outage {
        OnOutage::Admit => OutageAnswer::ADMITTED,
        OnOutage::Deny => OutageAnswer::denied(None),
        OnOutage::Local => by_share(state, cost, now, engine.nodes()),
    }
}

/// What the store last said stays true without it: who was denied stays denied until then. The
/// rest is decided by this node's share of each ceiling, of all or none.
fn by_share(state: &TargetState, cost: Cost, now: Timestamp, nodes: u32) -> OutageAnswer {
    if let Some(wait) = state.denied_in_outage(now, cost) {
        return OutageAnswer::denied(Some(Retry::After(wait)));
    }
    for (n, ceiling) in state.ceilings.iter().enumerate() {
        let taken = ceiling
            .share
            .take(&ceiling.ceiling, nodes, ceiling.left(), now, cost);
        if let Err(wait) = taken {
            for before in state.ceilings.iter().take(n) {
                before.share.give_back(&before.ceiling, nodes, cost);
            }
            return OutageAnswer::denied(wait.map(Retry::After));
        }
    }
    OutageAnswer::ADMITTED
}
