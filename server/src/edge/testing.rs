//! Decisions for the edge's own tests.

#![cfg(test)]

use tidegate::model::{
    CeilingStatus, ChargeId, Decision, DecisionFacts, Denial, Grant, Micros, PolicyName, Region,
    Retry, Scope, Source, Subject,
};

/// A ceiling of 60 s: global, or the region `us`.
pub(crate) fn ceiling(scope: Scope, limit: u64, remaining: u64, reset_us: u64) -> CeilingStatus {
    CeilingStatus {
        scope,
        region: (scope == Scope::Region).then(|| Region::new("us").unwrap()),
        limit,
        window: Micros::from_secs(60),
        remaining,
        reset_after: Micros::new(reset_us),
        retry: None,
    }
}

pub(crate) fn facts(source: Source, ceilings: Vec<CeilingStatus>) -> DecisionFacts {
    DecisionFacts {
        policy: PolicyName::new("video_top").unwrap(),
        subject: Subject::new("key-1").unwrap(),
        region: Some(Region::new("us").unwrap()),
        cost: 1,
        id: ChargeId::new("01J").unwrap(),
        degraded: source == Source::Outage,
        source,
        ceilings,
    }
}

/// Admitted: global 380 of 1000 left, region 120 of 500.
pub(crate) fn admitted() -> Decision {
    let global = ceiling(Scope::Global, 1000, 380, 59_100_000);
    let region = ceiling(Scope::Region, 500, 120, 31_700_000);
    Decision::Admitted(Grant {
        facts: facts(Source::Store, vec![global, region]),
        delay: None,
    })
}

/// Denied by the region, which is empty.
pub(crate) fn denied(retry: Retry) -> Decision {
    let global = ceiling(Scope::Global, 1000, 380, 59_100_000);
    let mut region = ceiling(Scope::Region, 500, 0, 31_700_000);
    region.retry = Some(retry);
    Decision::Denied(Denial {
        facts: facts(Source::Store, vec![global, region]),
        retry: Some(retry),
    })
}

/// Denied without the store.
pub(crate) fn outage(retry: Option<Retry>) -> Decision {
    Decision::Denied(Denial {
        facts: facts(Source::Outage, Vec::new()),
        retry,
    })
}
