//! The parts of a policy, fitted together. Never makes a policy of which any part was wrong.

use std::collections::BTreeMap;

use super::fault::{Faults, KeyPath, Mark};
use super::policy::{RawPolicy, RawRegions};
use super::rate::{self, RawRate};
use super::read::{Given, Located};
use crate::model::{
    Algorithm, Allowance, CeilingRule, Override, Policy, PolicyName, Region, Subject,
};

/// What became of a scope's ceiling.
enum Fit {
    /// The policy has none.
    Absent,
    /// It is wrong, and reported.
    Wrong,
    /// Its algorithm is known.
    Ceiling(Fitted),
}

/// A ceiling whose algorithm is known, and what differing rates inherit from it.
struct Fitted {
    rule: Option<CeilingRule>,
    algorithm: Algorithm,
    burst: Option<Located<u64>>,
}

impl RawPolicy {
    /// Fits the parts together.
    pub(super) fn fit(self, name: Option<PolicyName>, faults: &mut Faults) -> Option<Policy> {
        if self.global.is_none() && self.region.is_none() {
            let cure = format!("add `global:` or `region:` with {}", rate::RATE);
            faults.add_with(self.at, &self.path, "this policy has no ceiling", cure);
        }
        let global = self.ceiling(self.global.as_ref(), faults);
        let region = self.ceiling(self.region.as_ref(), faults);
        self.unused(&global, &region, faults);
        let regions = self.regions.as_ref();
        let regions = regions.map(|raw| differing(raw, &region, faults));
        let overrides = self.fit_overrides(&global, &region, faults);
        let (global, region) = (global.rule(), region.rule());
        let lease = self.lease.as_ref();
        let lease = lease.and_then(|raw| raw.fit(global.iter().chain(&region), faults));
        let mut policy = Policy::new(name?, global, region).ok()?;
        policy.regions = regions.unwrap_or_default();
        policy.overrides = overrides;
        policy.on_outage = self.on_outage.value().copied().unwrap_or_default();
        policy.clock = self.clock.value().copied().unwrap_or_default();
        policy.lease = lease;
        policy.description = self.description;
        Some(policy)
    }

    /// A ceiling's rule: its own words first, then the policy's.
    fn ceiling(&self, raw: Option<&RawRate>, faults: &mut Faults) -> Fit {
        let Some(raw) = raw else { return Fit::Absent };
        let algorithm = match (&raw.algorithm, &self.algorithm) {
            (Given::Value(own), _) => own.value,
            (Given::Absent, Given::Value(policys)) => policys.value,
            (Given::Wrong, _) | (Given::Absent, Given::Wrong) => return Fit::Wrong,
            (Given::Absent, Given::Absent) => {
                let names = Algorithm::ALL.map(Algorithm::name).join(", ");
                let cure = format!("add `algorithm:` to the policy, one of {names}");
                faults.add_with(raw.at, &raw.path, "no algorithm counts this ceiling", cure);
                return Fit::Wrong;
            }
        };
        if let (Given::Value(delay), true) = (&raw.delay, algorithm != Algorithm::LeakyBucket) {
            no_delay(delay.at, &raw.path.key("delay"), algorithm, faults);
        }
        let policys_burst = located(&self.burst);
        let allowance = raw.with_burst(algorithm, policys_burst, faults);
        let delay = raw.delay.value().or(self.delay.value());
        Fit::Ceiling(Fitted {
            rule: allowance.map(|allowance| CeilingRule {
                algorithm,
                allowance,
                delay: delay.copied().unwrap_or(true),
            }),
            algorithm,
            burst: located(&raw.burst).or(policys_burst),
        })
    }

    /// Notes a burst or a delay of the policy that none of its ceilings can use.
    fn unused(&self, global: &Fit, region: &Fit, faults: &mut Faults) {
        let mut algorithms = Vec::with_capacity(2);
        for fit in [global, region] {
            match fit {
                Fit::Ceiling(fitted) => algorithms.push(fitted.algorithm),
                Fit::Wrong => return,
                Fit::Absent => {}
            }
        }
        let Some(&first) = algorithms.first() else {
            return;
        };
        if let (Given::Value(burst), false) =
            (&self.burst, algorithms.iter().any(|a| a.has_burst()))
        {
            rate::no_burst(burst.at, &self.path.key("burst"), first, faults);
        }
        let leaky = algorithms.contains(&Algorithm::LeakyBucket);
        if let (Given::Value(delay), false) = (&self.delay, leaky) {
            no_delay(delay.at, &self.path.key("delay"), first, faults);
        }
    }

    fn fit_overrides(
        &self,
        global: &Fit,
        region: &Fit,
        faults: &mut Faults,
    ) -> BTreeMap<Subject, Override> {
        let mut overrides = BTreeMap::new();
        for raw in &self.overrides {
            let one = |raw: &Option<RawRate>, scope: &str, of, faults: &mut Faults| {
                raw.as_ref()
                    .and_then(|rate| differs(rate, scope, of, faults))
            };
            let value = Override {
                global: one(&raw.global, "global", global, faults),
                region: one(&raw.region, "region", region, faults),
                regions: raw
                    .regions
                    .as_ref()
                    .map(|regions| differing(regions, region, faults))
                    .unwrap_or_default(),
            };
            overrides.insert(raw.subject.clone(), value);
        }
        overrides
    }
}

impl Fit {
    fn rule(&self) -> Option<CeilingRule> {
        match self {
            Fit::Ceiling(fitted) => fitted.rule,
            Fit::Absent | Fit::Wrong => None,
        }
    }
}

fn located(given: &Given<u64>) -> Option<Located<u64>> {
    match given {
        Given::Value(located) => Some(*located),
        Given::Absent | Given::Wrong => None,
    }
}

fn no_delay(at: Mark, path: &KeyPath, algorithm: Algorithm, faults: &mut Faults) {
    let problem = format!("a delay means nothing to {algorithm}");
    faults.add_with(at, path, problem, "take it out, or choose leaky_bucket");
}

/// The allowance of one who differs from the ceiling `of`.
fn differs(raw: &RawRate, scope: &str, of: &Fit, faults: &mut Faults) -> Option<Allowance> {
    match of {
        Fit::Ceiling(fitted) => raw.with_burst(fitted.algorithm, fitted.burst, faults),
        Fit::Wrong => None,
        Fit::Absent => {
            no_ceiling(raw.at, &raw.path, scope, faults);
            None
        }
    }
}

/// The allowances of regions that differ from the ceiling `of` each region.
fn differing(raw: &RawRegions, of: &Fit, faults: &mut Faults) -> BTreeMap<Region, Allowance> {
    if matches!(of, Fit::Absent) {
        no_ceiling(raw.at, &raw.path, "region", faults);
        return BTreeMap::new();
    }
    raw.rates
        .iter()
        .filter_map(|(region, rate)| Some((region.clone(), differs(rate, "region", of, faults)?)))
        .collect()
}

fn no_ceiling(at: Mark, path: &KeyPath, scope: &str, faults: &mut Faults) {
    let problem = format!("the policy has no `{scope}` ceiling for this to differ from");
    let cure =
        format!("add `{scope}:` to the policy; `{scope}: unlimited` limits only who differs");
    faults.add_with(at, path, problem, cure);
}
