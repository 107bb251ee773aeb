//! From what was decided to the caller's decision. Never decides.

use crate::model::{
    CeilingStatus, ChargeId, Cost, Decision, DecisionFacts, Denial, Grant, PolicyName, Region,
    Retry, Scope, Source, Subject, Target,
};
use crate::store::Outcome;

/// A check in the caller's words.
pub(super) struct Asked {
    pub policy: PolicyName,
    pub subject: Subject,
    pub region: Option<Region>,
    pub cost: Cost,
    pub id: ChargeId,
}

impl Asked {
    /// The decision that the store's outcome means.
    pub(super) fn by_store(self, target: &Target, outcome: &Outcome) -> Decision {
        let delay = outcome.ceilings.iter().filter_map(|c| c.delay).max();
        let retry = outcome.ceilings.iter().filter_map(|c| c.retry).max();
        let ceilings = target
            .ceilings
            .iter()
            .zip(&outcome.ceilings)
            .map(|(ceiling, after)| CeilingStatus {
                scope: ceiling.scope,
                region: match ceiling.scope {
                    Scope::Global => None,
                    Scope::Region => self.region.clone(),
                },
                limit: ceiling.quota.limit(),
                window: ceiling.quota.window(),
                remaining: after.remaining,
                reset_after: after.reset_after,
                retry: after.retry,
            })
            .collect();
        let facts = self.facts(Source::Store, false, ceilings);
        match retry {
            None => Decision::Admitted(Grant { facts, delay }),
            Some(_) => Decision::Denied(Denial { facts, retry }),
        }
    }

    /// The decision that was made without the store, by `source`.
    #[cfg(feature = "local-stage")]
    pub(super) fn by_stage(
        self,
        source: Source,
        retry: Option<Retry>,
        ceilings: Vec<CeilingStatus>,
    ) -> Decision {
        let facts = self.facts(source, false, ceilings);
        match retry {
            None => Decision::Admitted(Grant { facts, delay: None }),
            Some(_) => Decision::Denied(Denial { facts, retry }),
        }
    }

    /// The policy's outage choice.
    pub(super) fn in_outage(self, admitted: bool, retry: Option<Retry>) -> Decision {
        let facts = self.facts(Source::Outage, true, Vec::new());
        if admitted {
            Decision::Admitted(Grant { facts, delay: None })
        } else {
            Decision::Denied(Denial { facts, retry })
        }
    }

    fn facts(self, source: Source, degraded: bool, ceilings: Vec<CeilingStatus>) -> DecisionFacts {
        DecisionFacts {
            policy: self.policy,
            subject: self.subject,
            region: self.region,
            cost: self.cost,
            id: self.id,
            degraded,
            source,
            ceilings,
        }
    }
}
