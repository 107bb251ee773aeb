//! From the store's outcome to the caller's decision. Never decides.

use super::Resolved;
use crate::model::{CeilingStatus, Decision, DecisionFacts, Denial, Grant, Scope, Source};
use crate::store::Outcome;

/// The decision that a store's (or a local stage's) outcome means.
pub(super) fn decision(resolved: &Resolved, outcome: Outcome, source: Source) -> Decision {
    let delay = outcome.ceilings.iter().filter_map(|c| c.delay).max();
    let retry = outcome.ceilings.iter().filter_map(|c| c.retry).max();
    let ceilings = resolved
        .target
        .ceilings
        .iter()
        .zip(&outcome.ceilings)
        .map(|(ceiling, after)| CeilingStatus {
            scope: ceiling.scope,
            region: resolved
                .region
                .clone()
                .filter(|_| ceiling.scope == Scope::Region),
            limit: ceiling.quota.limit(),
            window: ceiling.quota.window(),
            remaining: after.remaining,
            reset_after: after.reset_after,
            retry: after.retry,
        })
        .collect();
    let facts = facts(resolved, source, ceilings);
    match retry {
        None => Decision::Admitted(Grant { facts, delay }),
        Some(retry) => Decision::Denied(Denial {
            facts,
            retry: Some(retry),
        }),
    }
}

/// The decision that was made without the store.
pub(super) fn outage_decision(resolved: &Resolved, admitted: bool) -> Decision {
    let facts = DecisionFacts {
        degraded: true,
        ..facts(resolved, Source::Outage, Vec::new())
    };
    if admitted {
        Decision::Admitted(Grant { facts, delay: None })
    } else {
        Decision::Denied(Denial { facts, retry: None })
    }
}

fn facts(resolved: &Resolved, source: Source, ceilings: Vec<CeilingStatus>) -> DecisionFacts {
    DecisionFacts {
        policy: resolved.target.policy.name.clone(),
        subject: resolved.target.subject.clone(),
        region: resolved.region.clone(),
        cost: resolved.cost,
        id: resolved.id.clone(),
        degraded: false,
        source,
        ceilings,
    }
}
