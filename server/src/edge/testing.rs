//! Decisions for the edge's own tests.

#![cfg(test)]

use tidegate::model::{
    CeilingStatus, ChargeId, Decision, DecisionFacts, Denial, Grant, Micros, PolicyName, Region,
    Retry, Scope, Source, Subject,
};

/// A ceiling of 60 s: global, or the region `us`.
pub(crate) fn ceiling(scope: Scope, limit: u64, remaining: u64, reset_us: u64) -> CeilingStatus {
    let mut status = CeilingStatus::new(scope, limit, Micros::from_secs(60));
    status.region = (scope == Scope::Region).then(|| Region::new("us").unwrap());
    (status.remaining, status.reset_after) = (remaining, Micros::new(reset_us));
    status
}

pub(crate) fn facts(source: Source, ceilings: Vec<CeilingStatus>) -> DecisionFacts {
    let mut facts = DecisionFacts::new(
        PolicyName::new("video_top").unwrap(),
        Subject::new("key-1").unwrap(),
        ChargeId::new("01J").unwrap(),
    );
    facts.region = Some(Region::new("us").unwrap());
    (facts.degraded, facts.source) = (source == Source::Outage, source);
    facts.ceilings = ceilings;
    facts
}

/// Admitted: global 380 of 1000 left, region 120 of 500.
pub(crate) fn admitted() -> Decision {
    let global = ceiling(Scope::Global, 1000, 380, 59_100_000);
    let region = ceiling(Scope::Region, 500, 120, 31_700_000);
    Decision::Admitted(Grant::new(facts(Source::Store, vec![global, region])))
}

/// Denied by the region, which is empty.
pub(crate) fn denied(retry: Retry) -> Decision {
    let global = ceiling(Scope::Global, 1000, 380, 59_100_000);
    let mut region = ceiling(Scope::Region, 500, 0, 31_700_000);
    region.retry = Some(retry);
    let facts = facts(Source::Store, vec![global, region]);
    Decision::Denied(Denial::new(facts, Some(retry)))
}

/// Denied without the store.
pub(crate) fn outage(retry: Option<Retry>) -> Decision {
    Decision::Denied(Denial::new(facts(Source::Outage, Vec::new()), retry))
}
