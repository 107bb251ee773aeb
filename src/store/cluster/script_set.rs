//! Every script that a store uses: a node gets them all before its first call. Never runs one.

use std::sync::Arc;
use std::time::Instant;

use super::script::{ChargeScript, RefundScript, ReplayScript, Script, Scripts};
use crate::model::{
    Algorithm, Allowance, Ceiling, CeilingRule, ChargeId, KeyPrefix, Micros, Policies, Policy,
    Quota, Region, Scope, Subject, Target,
};
use crate::store::port::{CallClock, CallKind, ChargeCall, ChargeRequest, IdOrigin, RefundCall};

/// The scripts of charges, composed when first asked for, and the heartbeat's.
#[derive(Debug)]
pub(super) struct ScriptSet {
    pub charging: Scripts,
    pub heartbeat: Arc<Script>,
}

impl ScriptSet {
    pub fn new() -> Self {
        let heartbeat = include_str!("../../../lua/fleet.lua");
        ScriptSet {
            charging: Scripts::default(),
            heartbeat: Arc::new(Script::new("fleet".into(), heartbeat.into())),
        }
    }

    /// All that are in use so far.
    pub fn in_use(&self) -> Vec<Arc<Script>> {
        let mut scripts = self.charging.composed();
        scripts.push(Arc::clone(&self.heartbeat));
        scripts
    }

    /// Composes the scripts of these policies; whether there were any new ones.
    pub fn compose(&self, prefix: &KeyPrefix, policies: &Policies) -> bool {
        let before = self.in_use().len();
        for policy in policies.iter() {
            // It fails only where a name of ours were invalid, and none is.
            let _ = compose_all(&self.charging, prefix, policy);
        }
        self.in_use().len() > before
    }
}

/// Every script that a policy's checks may run: with both ceilings, or with one where the other
/// is unlimited.
fn compose_all(scripts: &Scripts, prefix: &KeyPrefix, policy: &Arc<Policy>) -> Option<()> {
    let (subject, region) = (Subject::new("").ok()?, Region::new("r").ok()?);
    let (id, any) = (
        ChargeId::new("x").ok()?,
        Quota::new(1, Micros::from_secs(1)).ok()?,
    );
    let ceiling = |rule: Option<CeilingRule>, scope| {
        rule.map(|rule| Ceiling {
            scope,
            algorithm: rule.algorithm,
            quota: match rule.allowance {
                Allowance::Limited(quota) => quota,
                Allowance::Unlimited => any,
            },
            delay: rule.delay,
        })
    };
    let global = ceiling(policy.global, Scope::Global);
    let regional = ceiling(policy.region, Scope::Region);
    for ceilings in [[global, regional], [global, None], [None, regional]] {
        let ceilings: Vec<_> = ceilings.into_iter().flatten().collect();
        if !ceilings.is_empty() {
            let target = Arc::new(Target {
                policy: Arc::clone(policy),
                subject: subject.clone(),
                region: Some(region.clone()),
                ceilings,
            });
            compose(scripts, prefix, &target, &id);
        }
    }
    Some(())
}

fn compose(scripts: &Scripts, prefix: &KeyPrefix, target: &Arc<Target>, id: &ChargeId) {
    let (clock, deadline) = (CallClock::Store, Instant::now());
    let call = |kind, origin| ChargeCall {
        target: Arc::clone(target),
        requests: vec![ChargeRequest {
            id: id.clone(),
            origin,
            cost: 1,
            held_for: None,
        }],
        clock,
        kind,
        deadline,
    };
    for kind in [CallKind::Charge, CallKind::Peek] {
        for origin in [IdOrigin::Fresh, IdOrigin::Caller] {
            // It is valid, and if it weren't, the first call would say why.
            let _ = ChargeScript::new(scripts, prefix, call(kind, origin));
        }
    }
    let refund = RefundCall {
        target: Arc::clone(target),
        id: id.clone(),
        cost: None,
        clock,
        deadline,
    };
    RefundScript::new(scripts, prefix, refund);
    let is_log = |ceiling: &Ceiling| ceiling.algorithm == Algorithm::SlidingLog;
    if target.ceilings.iter().any(is_log) {
        ReplayScript::new(scripts, prefix, Arc::clone(target), Vec::new(), deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PolicyName;

    #[test]
    fn every_script_of_a_policy_is_composed() {
        let rule = CeilingRule {
            algorithm: Algorithm::SlidingLog,
            allowance: Allowance::Limited("1/s".parse().unwrap()),
            delay: false,
        };
        let name = PolicyName::new("p").unwrap();
        let policy = Policy::new(name, Some(rule), Some(rule)).unwrap();
        let scripts = Scripts::default();
        compose_all(&scripts, &KeyPrefix::default(), &Arc::new(policy)).unwrap();
        // Charge, peek, refund and replay, of two logs and of one.
        assert_eq!(scripts.composed().len(), 8);
    }
}
