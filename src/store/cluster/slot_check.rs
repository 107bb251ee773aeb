//! The self-test of keys: that all of a target share a slot, as we calculate it and as the server
//! does. A key in another slot would be answered with CROSSSLOT on each call, for ever.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::types::Value;

use super::node::Node;
use super::script::reset_keys;
use crate::model::{
    Algorithm, Allowance, CeilingRule, KeyPrefix, Micros, Policy, PolicyName, Quota, Region, Slot,
    Subject, Target,
};

/// Subjects and regions that would break a careless key.
const AWKWARD: [&str; 6] = ["key-1", "", "}", "{", "a:b}{c", "x{y}z"];

/// How long a node may take to answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(1);

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
pub(super) fn misplaced_key(prefix: &KeyPrefix) -> Option<String> {
    samples().iter().find_map(|target| {
        let keys = reset_keys(prefix, target);
        let slot = keys.first().map(|key| Slot::of(key.as_bytes()));
        let mut keys = keys.into_iter();
        keys.find(|key| Some(Slot::of(key.as_bytes())) != slot)
    })
}

/// Whether the server calculates slots as we do, by its `CLUSTER KEYSLOT`; nothing when it may not
/// be asked. The text names the key.
pub(super) async fn disputed_key(prefix: &KeyPrefix, node: &Node) -> Option<String> {
    let connection = node.connection().ok()?;
    let deadline = Instant::now() + ANSWER_WAIT_MAX;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_awkward_subject_has_a_key_elsewhere() {
        assert_eq!(samples().len(), AWKWARD.len());
        assert_eq!(misplaced_key(&KeyPrefix::default()), None);
    }
}
