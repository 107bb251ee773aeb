//! What is proven before the first call: that all keys of a target share a slot, by our reckoning
//! and by the server's; and that a policy's scripts are there.
//!
//! A key in another slot would be refused with CROSSSLOT on each call, for ever. Never changes
//! anything in the store but its script cache.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::types::Value;

use super::ClusterStore;
use super::node::Node;
use super::script::{ChargeScript, RefundScript, ReplayScript, Scripts, reset_keys};
use crate::model::{
    Algorithm, Allowance, Ceiling, CeilingRule, ChargeId, KeyPrefix, Micros, Policies, Policy,
    PolicyName, Quota, Region, Slot, Subject, Target,
};
use crate::store::{CallClock, CallKind, ChargeCall, ChargeRequest, IdOrigin, RefundCall};

/// Subjects and regions that would break a careless key.
const AWKWARD: [&str; 6] = ["key-1", "", "}", "{", "a:b}{c", "x{y}z"];

/// How long a node may take to load scripts.
const LOAD_WAIT_MAX: Duration = Duration::from_secs(1);

/// The targets of a self-test: every awkward subject in an awkward region.
fn samples() -> Vec<Target> {
    let quota = Quota::new(1, Micros::from_secs(1)).ok();
    let rule = quota.map(|quota| CeilingRule {
        algorithm: Algorithm::SlidingLog,
        allowance: Allowance::Limited(quota),
        delay: false,
    });
    let name = PolicyName::new("self-test").ok();
    let policy = name.and_then(|name| Policy::new(name, rule, rule).ok());
    let Some(policy) = policy.map(Arc::new) else {
        return Vec::new();
    };
    let sample = |text: &str| {
        let subject = Subject::new(text).ok()?;
        let region = Region::new(if text.is_empty() { "r" } else { text }).ok();
        Some(Target {
            ceilings: policy.ceilings(&subject, region.as_ref()).ok()?,
            policy: Arc::clone(&policy),
            subject,
            region,
        })
    };
    AWKWARD.iter().filter_map(|text| sample(text)).collect()
}

/// A key that isn't in the slot of its target; nothing when all is well.
pub(super) fn stray_key(prefix: &KeyPrefix) -> Option<String> {
    samples().iter().find_map(|target| {
        let keys = reset_keys(prefix, target);
        let slot = keys.first().map(|key| Slot::of(key.as_bytes()));
        let mut keys = keys.into_iter();
        keys.find(|key| Some(Slot::of(key.as_bytes())) != slot)
    })
}

/// Whether the server reckons slots as we do, by its `CLUSTER KEYSLOT`; nothing when it may not
/// be asked. The text names the key.
pub(super) async fn disputed_key(prefix: &KeyPrefix, node: &Node) -> Option<String> {
    let connection = node.connection().ok()?;
    let deadline = Instant::now() + LOAD_WAIT_MAX;
    for target in samples() {
        for key in reset_keys(prefix, &target) {
            let args = vec![Value::from_static_str("KEYSLOT"), key.as_str().into()];
            let slot = connection.command("CLUSTER", args, deadline).await;
            let theirs = slot.ok()?.as_i64();
            if theirs != Some(i64::from(Slot::of(key.as_bytes()).get())) {
                return Some(key);
            }
        }
    }
    None
}

impl ClusterStore {
    /// Composes the scripts of these policies and loads them on every node, so that no call has
    /// to. Without it the first call of each kind on each node takes two round trips more.
    pub(super) fn load_scripts_of(&self, policies: &Policies) {
        let before = self.shared.scripts.in_use().len();
        for policy in policies.iter() {
            compose_all(&self.shared.scripts.charging, self.key_prefix(), policy);
        }
        if self.shared.scripts.in_use().len() == before {
            return;
        }
        for node in self.router.nodes() {
            let shared = Arc::clone(&self.shared);
            self.runtime.spawn(async move {
                let deadline = Instant::now() + LOAD_WAIT_MAX;
                let Ok(connection) = node.connection() else {
                    return; // It gets them when it is there.
                };
                if let Err(fault) = connection.load_new(&shared.scripts, deadline).await {
                    let why = fault.describe(node.address());
                    tracing::warn!(why, "the scripts aren't loaded yet");
                }
            });
        }
    }
}

/// Every script that a policy's checks may run: with both ceilings, or with one where the other
/// is unlimited.
fn compose_all(scripts: &Scripts, prefix: &KeyPrefix, policy: &Arc<Policy>) {
    let limited = |rule: CeilingRule| {
        let quota = match rule.allowance {
            Allowance::Limited(quota) => quota,
            Allowance::Unlimited => Quota::new(1, Micros::from_secs(1)).ok()?,
        };
        Some((rule, quota))
    };
    let ceiling = |rule: Option<CeilingRule>, scope| {
        let (rule, quota) = rule.and_then(limited)?;
        let (algorithm, delay) = (rule.algorithm, rule.delay);
        Some(Ceiling {
            scope,
            algorithm,
            quota,
            delay,
        })
    };
    let global = ceiling(policy.global, crate::model::Scope::Global);
    let region = ceiling(policy.region, crate::model::Scope::Region);
    let sets = [[global, region], [global, None], [None, region]];
    for ceilings in sets.map(|set| set.into_iter().flatten().collect::<Vec<_>>()) {
        let names = (Subject::new(""), Region::new("r"), ChargeId::new("x"));
        let (Ok(subject), Ok(region), Ok(id), false) =
            (names.0, names.1, names.2, ceilings.is_empty())
        else {
            continue;
        };
        let target = Arc::new(Target {
            policy: Arc::clone(policy),
            subject,
            region: Some(region),
            ceilings,
        });
        compose(scripts, prefix, &target, &id);
    }
}

fn compose(scripts: &Scripts, prefix: &KeyPrefix, target: &Arc<Target>, id: &ChargeId) {
    let (clock, deadline) = (CallClock::Store, Instant::now());
    for kind in [CallKind::Charge, CallKind::Peek] {
        for origin in [IdOrigin::Fresh, IdOrigin::Caller] {
            let request = ChargeRequest {
                id: id.clone(),
                origin,
                cost: 1,
                held_for: None,
            };
            let requests = vec![request];
            let target = Arc::clone(target);
            // It can't be refused, and if it were, the first call would say why.
            let call = ChargeCall {
                target,
                requests,
                clock,
                kind,
                deadline,
            };
            let _ = ChargeScript::new(scripts, prefix, call);
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

    #[test]
    fn no_awkward_subject_has_a_key_elsewhere() {
        assert_eq!(samples().len(), AWKWARD.len());
        assert_eq!(stray_key(&KeyPrefix::default()), None);
    }

    #[test]
    fn every_script_of_a_policy_is_composed() {
        let policy = Arc::clone(&samples()[0].policy);
        let scripts = Scripts::default();
        compose_all(&scripts, &KeyPrefix::default(), &policy);
        // Charge, peek, refund and replay, of two logs and of one.
        assert_eq!(scripts.composed().len(), 8);
    }
}
