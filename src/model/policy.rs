//! Named rules: which ceilings a subject has in a region, and what happens without the store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use super::ceiling::{Allowance, Ceiling, CeilingRule, Scope};
use super::lease::LeaseRule;
use super::subject::{Region, Subject};

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
#[non_exhaustive]
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
#[non_exhaustive]
pub enum ClockSource {
    /// The store's: one clock for a subject.
    #[default]
    Store,
    /// The caller's. Callers may be 100 ms apart, or a tenth of a shorter window: a sliding log then
    /// admits at most its limit in any window that is shorter by as much. What is further behind is
    /// taken for a clock's step back. The skew is the operator's to bound.
    Caller,
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

/// A named rule. Invariant: it has a ceiling, and regions differ only from a region's ceiling.
///
/// ```
/// use tidegate::model::{Algorithm, CeilingRule, OnOutage, Policy, PolicyName};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let global = CeilingRule::new(Algorithm::SlidingLog, "1000/min".parse()?);
/// let region = CeilingRule::new(Algorithm::SlidingLog, "300/min".parse()?);
/// let policy = Policy::new(PolicyName::new("video_top")?, Some(global), Some(region))?
///     .with_on_outage(OnOutage::Admit);
/// assert_eq!(policy.name().as_str(), "video_top");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) name: PolicyName,
    pub(crate) global: Option<CeilingRule>,
    pub(crate) region: Option<CeilingRule>,
    pub(crate) regions: BTreeMap<Region, Allowance>,
    pub(crate) overrides: BTreeMap<Subject, Override>,
    pub(crate) on_outage: OnOutage,
    pub(crate) clock: ClockSource,
    pub(crate) lease: Option<LeaseRule>,
    pub(crate) description: String,
}

/// Why a policy can't be used, or not for this check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
        policy.validated()
    }

    fn validated(self) -> Result<Self, PolicyError> {
        if self.global.is_none() && self.region.is_none() {
            return Err(PolicyError::NoCeiling(self.name));
        }
        let mut overrides = self.overrides.values();
        let differs = !self.regions.is_empty()
            || overrides.any(|o| o.region.is_some() || !o.regions.is_empty());
        if self.region.is_none() && differs {
            return Err(PolicyError::RegionsWithoutRule(self.name));
        }
        Ok(self)
    }

    /// With these regions' own allowances instead of the region ceiling's.
    ///
    /// # Errors
    /// When there is no region ceiling to differ from.
    pub fn with_regions(self, regions: BTreeMap<Region, Allowance>) -> Result<Self, PolicyError> {
        Policy { regions, ..self }.validated()
    }

    /// With what differs for these subjects.
    ///
    /// # Errors
    /// When a region differs and there is no region ceiling to differ from.
    pub fn with_overrides(
        self,
        overrides: BTreeMap<Subject, Override>,
    ) -> Result<Self, PolicyError> {
        Policy { overrides, ..self }.validated()
    }

    /// With this answer while the store can't give one in time.
    #[must_use]
    pub fn with_on_outage(self, on_outage: OnOutage) -> Self {
        Policy { on_outage, ..self }
    }

    /// With charges stamped by this clock.
    #[must_use]
    pub fn with_clock(self, clock: ClockSource) -> Self {
        Policy { clock, ..self }
    }

    /// With leases for hot keys, or without.
    #[must_use]
    pub fn with_lease(self, lease: Option<LeaseRule>) -> Self {
        Policy { lease, ..self }
    }

    /// With a description for people.
    #[must_use]
    pub fn with_description(self, description: impl Into<String>) -> Self {
        let description = description.into();
        Policy {
            description,
            ..self
        }
    }

    /// Its name.
    pub const fn name(&self) -> &PolicyName {
        &self.name
    }

    /// The ceiling over all regions.
    pub const fn global(&self) -> Option<CeilingRule> {
        self.global
    }

    /// The ceiling of each region.
    pub const fn region(&self) -> Option<CeilingRule> {
        self.region
    }

    /// Regions that differ.
    pub const fn regions(&self) -> &BTreeMap<Region, Allowance> {
        &self.regions
    }

    /// Subjects that differ.
    pub const fn overrides(&self) -> &BTreeMap<Subject, Override> {
        &self.overrides
    }

    /// What happens without the store.
    pub const fn on_outage(&self) -> OnOutage {
        self.on_outage
    }

    /// Whose clock stamps a charge.
    pub const fn clock(&self) -> ClockSource {
        self.clock
    }

    /// Leases, when hot keys may have them.
    pub const fn lease(&self) -> Option<LeaseRule> {
        self.lease
    }

    /// For people.
    pub fn description(&self) -> &str {
        &self.description
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
    /// When two share a name.
    pub fn new(policies: impl IntoIterator<Item = Policy>) -> Result<Self, PolicyError> {
        let mut by_name = BTreeMap::new();
        for policy in policies {
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
