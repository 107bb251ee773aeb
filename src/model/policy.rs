//! Named rules: which ceilings a subject has in a region, and what happens without the store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use super::ceiling::{Allowance, Ceiling, CeilingRule, Scope};
use super::subject::{Region, Subject};
use super::time::Micros;

/// A policy's name: `[a-z][a-z0-9_-]{0,62}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyName(SmolStr);

/// Why a [`PolicyName`] can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` can't be a policy's name: a lower-case letter, then up to 62 of a-z 0-9 _ -")]
pub struct PolicyNameError(String);

impl PolicyName {
    /// A name.
    ///
    /// # Errors
    /// When it doesn't match `[a-z][a-z0-9_-]{0,62}`.
    pub fn new(text: &str) -> Result<Self, PolicyNameError> {
        let mut bytes = text.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
        let rest =
            bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
        if !first || !rest || text.len() > 63 {
            return Err(PolicyNameError(text.to_owned()));
        }
        Ok(PolicyName(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a check gets when the store can't answer in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnOutage {
    /// Admit it, uncounted.
    Admit,
    /// Deny it, as "could not decide" (503).
    #[default]
    Deny,
    /// Decide by this node's share of each ceiling: nodes times share is at most the limit.
    Local,
}

/// Whose clock stamps a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClockSource {
    /// The store's: one clock for a subject.
    #[default]
    Store,
    /// The caller's. Callers may be 100 ms apart, or a tenth of a shorter window: a sliding log then
    /// admits at most its limit in any window that is shorter by as much. What is further behind is
    /// taken for a clock's step back. The skew is the operator's to bound.
    Caller,
}

/// How far a hot key's capacity may be charged ahead by one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRule {
    /// How long a lease is held at most; a node is at most this conservative.
    pub period: Micros,
    /// The largest part of a ceiling one lease may take, in thousandths of its limit (1..=500).
    pub share_max_permille: u16,
}

/// What differs for one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    /// Instead of the policy's global allowance.
    pub global: Option<Allowance>,
    /// Instead of the policy's allowance of each region.
    pub region: Option<Allowance>,
    /// Instead of both, for these regions.
    pub regions: BTreeMap<Region, Allowance>,
}

/// A named rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: PolicyName,
    /// The ceiling over all regions.
    pub global: Option<CeilingRule>,
    /// The ceiling of each region.
    pub region: Option<CeilingRule>,
    /// Regions that differ.
    pub regions: BTreeMap<Region, Allowance>,
    /// Subjects that differ.
    pub overrides: BTreeMap<Subject, Override>,
    /// What happens without the store.
    pub on_outage: OnOutage,
    /// Whose clock counts.
    pub clock: ClockSource,
    /// Leases, when hot keys may have them.
    pub lease: Option<LeaseRule>,
    /// For people.
    pub description: String,
}

/// Why a policy can't be used, or not for this check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Neither a global nor a region ceiling.
    #[error("policy `{0}` has no ceiling: give at least one of global and region")]
    NoCeiling(PolicyName),
    /// Regions that differ from nothing.
    #[error("policy `{0}` names regions but has no region ceiling for them to differ from")]
    RegionsWithoutRule(PolicyName),
    /// The check names no region.
    #[error("policy `{0}` has ceilings by region: the check must name its region")]
    RegionNeeded(PolicyName),
    /// Two policies of one name.
    #[error("policy `{0}` is defined twice")]
    Twice(PolicyName),
}

impl Policy {
    /// A policy with these ceilings; everything else at its default.
    ///
    /// # Errors
    /// When there is no ceiling.
    pub fn new(
        name: PolicyName,
        global: Option<CeilingRule>,
        region: Option<CeilingRule>,
    ) -> Result<Self, PolicyError> {
        let policy = Policy {
            name,
            global,
            region,
            regions: BTreeMap::new(),
            overrides: BTreeMap::new(),
            on_outage: OnOutage::default(),
            clock: ClockSource::default(),
            lease: None,
            description: String::new(),
        };
        policy.validate().map(|()| policy)
    }

    /// Whether the parts fit together.
    ///
    /// # Errors
    /// When there is no ceiling, or regions differ from none.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if self.global.is_none() && self.region.is_none() {
            return Err(PolicyError::NoCeiling(self.name.clone()));
        }
        let differs = !self.regions.is_empty()
            || self
                .overrides
                .values()
                .any(|o| o.region.is_some() || !o.regions.is_empty());
        if self.region.is_none() && differs {
            return Err(PolicyError::RegionsWithoutRule(self.name.clone()));
        }
        Ok(())
    }

    /// The ceilings that apply to `subject` in `region`, global first. Empty when all of them are
    /// unlimited.
    ///
    /// # Errors
    /// When the policy counts by region and the check names none.
    pub fn ceilings(
        &self,
        subject: &Subject,
        region: Option<&Region>,
    ) -> Result<Vec<Ceiling>, PolicyError> {
        let differs = self.overrides.get(subject);
        let mut ceilings = Vec::with_capacity(2);
        if let Some(rule) = &self.global {
            let allowance = differs.and_then(|o| o.global).unwrap_or(rule.allowance);
            ceilings.extend(ceiling(Scope::Global, rule, allowance));
        }
        if let Some(rule) = &self.region {
            let region = region.ok_or_else(|| PolicyError::RegionNeeded(self.name.clone()))?;
            let allowance = differs
                .and_then(|o| o.regions.get(region).copied().or(o.region))
                .or_else(|| self.regions.get(region).copied())
                .unwrap_or(rule.allowance);
            ceilings.extend(ceiling(Scope::Region, rule, allowance));
        }
        Ok(ceilings)
    }
}

fn ceiling(scope: Scope, rule: &CeilingRule, allowance: Allowance) -> Option<Ceiling> {
    let CeilingRule {
        algorithm, delay, ..
    } = *rule;
    match allowance {
        Allowance::Unlimited => None,
        Allowance::Limited(quota) => Some(Ceiling {
            scope,
            algorithm,
            quota,
            delay,
        }),
    }
}

/// All policies of one configuration: a snapshot that never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    by_name: BTreeMap<SmolStr, Arc<Policy>>,
}

impl Policies {
    /// A set of policies.
    ///
    /// # Errors
    /// When two share a name, or one is not valid.
    pub fn new(policies: impl IntoIterator<Item = Policy>) -> Result<Self, PolicyError> {
        let mut by_name = BTreeMap::new();
        for policy in policies {
            policy.validate()?;
            let name = policy.name.clone();
            if by_name.insert(name.0.clone(), Arc::new(policy)).is_some() {
                return Err(PolicyError::Twice(name));
            }
        }
        Ok(Policies { by_name })
    }

    /// The policy of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Policy>> {
        self.by_name.get(name)
    }

    /// All policies, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.by_name.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

/// What a check is charged to: a subject under a policy, in a region, with the ceilings that
/// apply. Two targets with the same policy, subject and region share their counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The policy, as it stood when the check came.
    pub policy: Arc<Policy>,
    /// Who.
    pub subject: Subject,
    /// Where; absent when the policy has no ceiling by region.
    pub region: Option<Region>,
    /// The ceilings, global first; not empty.
    pub ceilings: Vec<Ceiling>,
}
