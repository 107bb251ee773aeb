//! The `policies:` part of a file, key by key. Never judges how the parts of a policy fit: that is
//! [`super::fit`]'s.

use super::fault::{Faults, KeyPath, Mark, shown};
use super::lease;
use super::rate::{self, RateKeys, RawRate, raw_rate};
use super::read::{self, Given};
use super::yaml::{Entry, Node};
use crate::model::{Algorithm, ClockSource, OnOutage, Policy, PolicyName, Region, Subject};

/// The most policies in a file.
pub const POLICIES_MAX: usize = 10_000;

/// The longest description, in characters.
const DESCRIPTION_LEN_MAX: usize = 1_000;

/// A policy's keys, in the order of the documentation.
pub(super) const POLICY_KEYS: &[&str] = &[
    "algorithm",
    "global",
    "region",
    "burst",
    "delay",
    "regions",
    "overrides",
    "on_outage",
    "clock",
    "lease",
    "description",
];

/// An override's keys.
pub(super) const OVERRIDE_KEYS: &[&str] = &["global", "region", "regions"];

/// The words of `on_outage`.
pub(super) const ON_OUTAGE: &[(&str, OnOutage)] = &[
    ("admit", OnOutage::Admit),
    ("deny", OnOutage::Deny),
    ("local", OnOutage::Local),
];

/// The words of `clock`.
pub(super) const CLOCK: &[(&str, ClockSource)] = &[
    ("store", ClockSource::Store),
    ("caller", ClockSource::Caller),
];

/// Reads all policies; those with faults are left out, and the faults say so.
pub(super) fn policies(node: &Node, path: &KeyPath, faults: &mut Faults) -> Vec<Policy> {
    let what = "a map of policies by name";
    let Some(entries) = read::map(node, path, what, faults) else {
        return Vec::new();
    };
    if entries.is_empty() {
        faults.add(node.at, path, "there is no policy");
    }
    if entries.len() > POLICIES_MAX {
        let problem = format!("{} policies are too many", entries.len());
        faults.add_with(
            node.at,
            path,
            problem,
            format!("the most is {POLICIES_MAX}"),
        );
        return Vec::new();
    }
    entries
        .iter()
        .filter_map(|entry| policy(entry, &path.key(&entry.key), faults))
        .collect()
}

/// A policy as the file has it.
pub(super) struct RawPolicy {
    pub at: Mark,
    pub path: KeyPath,
    pub algorithm: Given<Algorithm>,
    pub global: Option<RawRate>,
    pub region: Option<RawRate>,
    pub burst: Given<u64>,
    pub delay: Given<bool>,
    pub regions: Option<RawRegions>,
    pub overrides: Vec<RawOverride>,
    pub on_outage: Given<OnOutage>,
    pub clock: Given<ClockSource>,
    pub lease: Option<lease::RawLease>,
    pub description: String,
}

/// Regions that differ.
pub(super) struct RawRegions {
    pub at: Mark,
    pub path: KeyPath,
    pub rates: Vec<(Region, RawRate)>,
}

/// A subject that differs.
pub(super) struct RawOverride {
    pub subject: Subject,
    pub path: KeyPath,
    pub global: Option<RawRate>,
    pub region: Option<RawRate>,
    pub regions: Option<RawRegions>,
}

fn policy(entry: &Entry, path: &KeyPath, faults: &mut Faults) -> Option<Policy> {
    let name = match PolicyName::new(&entry.key) {
        Ok(name) => Some(name),
        Err(_) => {
            let problem = format!("`{}` can't be a policy's name", shown(&entry.key));
            let cure = "a lower-case letter, then up to 62 of a-z 0-9 _ -";
            faults.add_with(entry.at, path, problem, cure);
            None
        }
    };
    let raw = raw_policy(entry, path, faults)?;
    raw.fit(name, faults)
}

fn raw_policy(entry: &Entry, path: &KeyPath, faults: &mut Faults) -> Option<RawPolicy> {
    let what = "a policy: a map with at least one of global and region";
    let entries = read::map(&entry.value, path, what, faults)?;
    let mut raw = RawPolicy {
        at: entry.at,
        path: path.clone(),
        algorithm: Given::Absent,
        global: None,
        region: None,
        burst: Given::Absent,
        delay: Given::Absent,
        regions: None,
        overrides: Vec::new(),
        on_outage: Given::Absent,
        clock: Given::Absent,
        lease: None,
        description: String::new(),
    };
    for entry in entries {
        let (path, node) = (path.key(&entry.key), &entry.value);
        let at = node.at;
        match entry.key.as_str() {
            "algorithm" => {
                raw.algorithm = Given::of(at, rate::algorithm(node, &path, faults));
            }
            "global" => raw.global = Some(raw_rate(node, &path, RateKeys::Ceiling, faults)),
            "region" => raw.region = Some(raw_rate(node, &path, RateKeys::Ceiling, faults)),
            "burst" => raw.burst = Given::of(at, rate::burst(node, &path, faults)),
            "delay" => raw.delay = Given::of(at, read::boolean(node, &path, faults)),
            "regions" => raw.regions = raw_regions(entry, &path, faults),
            "overrides" => raw.overrides = raw_overrides(node, &path, faults),
            "on_outage" => {
                raw.on_outage = Given::of(at, read::word(node, &path, ON_OUTAGE, faults));
            }
            "clock" => raw.clock = Given::of(at, read::word(node, &path, CLOCK, faults)),
            "lease" => raw.lease = lease::raw_lease(entry, &path, faults),
            "description" => raw.description = description(node, &path, faults),
            _ => read::unknown_key(entry, &raw.path, POLICY_KEYS, faults),
        }
    }
    Some(raw)
}

fn description(node: &Node, path: &KeyPath, faults: &mut Faults) -> String {
    let text = read::text(node, path, "a text", faults).unwrap_or_default();
    if text.chars().count() > DESCRIPTION_LEN_MAX {
        let problem = format!("a description has at most {DESCRIPTION_LEN_MAX} characters");
        faults.add(node.at, path, problem);
    }
    text.to_owned()
}

fn raw_regions(entry: &Entry, path: &KeyPath, faults: &mut Faults) -> Option<RawRegions> {
    let what = "a map of rates by region";
    let entries = read::map(&entry.value, path, what, faults)?;
    let mut rates = Vec::with_capacity(entries.len());
    for entry in entries {
        let path = path.key(&entry.key);
        let rate = raw_rate(&entry.value, &path, RateKeys::Differing, faults);
        match Region::new(entry.key.as_str()) {
            Ok(region) => rates.push((region, rate)),
            Err(error) => faults.add(entry.at, &path, error.to_string()),
        }
    }
    Some(RawRegions {
        at: entry.at,
        path: path.clone(),
        rates,
    })
}

fn raw_overrides(node: &Node, path: &KeyPath, faults: &mut Faults) -> Vec<RawOverride> {
    let entries = read::map(node, path, "a map of overrides by subject", faults);
    entries
        .unwrap_or_default()
        .iter()
        .filter_map(|entry| raw_override(entry, &path.key(&entry.key), faults))
        .collect()
}

fn raw_override(entry: &Entry, path: &KeyPath, faults: &mut Faults) -> Option<RawOverride> {
    let subject = match Subject::new(entry.key.as_str()) {
        Ok(subject) => subject,
        Err(error) => {
            faults.add(entry.at, path, error.to_string());
            return None;
        }
    };
    let what = "an override: a map with global, region or regions";
    let entries = read::map(&entry.value, path, what, faults)?;
    if entries.is_empty() {
        let cure = "give it global, region or regions, or take it out";
        faults.add_with(entry.at, path, "an override that changes nothing", cure);
    }
    let mut raw = RawOverride {
        subject,
        path: path.clone(),
        global: None,
        region: None,
        regions: None,
    };
    for entry in entries {
        let (path, node) = (path.key(&entry.key), &entry.value);
        match entry.key.as_str() {
            "global" => raw.global = Some(raw_rate(node, &path, RateKeys::Differing, faults)),
            "region" => raw.region = Some(raw_rate(node, &path, RateKeys::Differing, faults)),
            "regions" => raw.regions = raw_regions(entry, &path, faults),
            _ => read::unknown_key(entry, &raw.path, OVERRIDE_KEYS, faults),
        }
    }
    Some(raw)
}
