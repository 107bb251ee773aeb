//! How much: `1000/min`, `unlimited`, or a map with a rate and more. Never reads a number
//! without its unit, and never makes a zero into "unlimited".

use super::fault::{Faults, KeyPath, Mark, shown};
use super::read::{self, Given, Located};
use super::yaml::{Node, Value};
use crate::model::{Algorithm, Allowance, Quota, QuotaError, RateError, UNITS_MAX};

/// What a rate looks like, for messages.
pub(super) const RATE: &str = "a rate such as 1000/min, 50/s or 10/90s, or `unlimited`";

/// A rate as the file has it, before it meets its algorithm.
#[derive(Clone, Debug)]
pub(super) struct RawRate {
    /// The rate without a burst; absent when it was wrong and is reported.
    pub allowance: Option<Allowance>,
    /// Its own algorithm.
    pub algorithm: Given<Algorithm>,
    /// Its own burst.
    pub burst: Given<u64>,
    /// Its own delay.
    pub delay: Given<bool>,
    /// Where the rate stands.
    pub at: Mark,
    /// The way to it.
    pub path: KeyPath,
}

/// Which keys a rate's map may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RateKeys {
    /// A ceiling's: rate, algorithm, burst, delay.
    Ceiling,
    /// A region's or a subject's that differs: rate, burst.
    Differing,
}

impl RateKeys {
    pub(super) const fn known(self) -> &'static [&'static str] {
        match self {
            RateKeys::Ceiling => &["rate", "algorithm", "burst", "delay"],
            RateKeys::Differing => &["rate", "burst"],
        }
    }
}

/// Reads a rate, written alone or as a map.
pub(super) fn raw_rate(
    node: &Node,
    path: &KeyPath,
    keys: RateKeys,
    faults: &mut Faults,
) -> RawRate {
    let mut raw = RawRate {
        allowance: None,
        algorithm: Given::Absent,
        burst: Given::Absent,
        delay: Given::Absent,
        at: node.at,
        path: path.clone(),
    };
    let Value::Map(entries) = &node.value else {
        raw.allowance = allowance(node, path, faults);
        return raw;
    };
    let mut has_rate = false;
    for entry in entries {
        let (path, value) = (path.key(&entry.key), &entry.value);
        match (entry.key.as_str(), keys) {
            ("rate", _) => {
                has_rate = true;
                raw.at = value.at;
                raw.allowance = allowance(value, &path, faults);
            }
            ("burst", _) => raw.burst = Given::of(value.at, burst(value, &path, faults)),
            ("algorithm", RateKeys::Ceiling) => {
                raw.algorithm = Given::of(value.at, algorithm(value, &path, faults));
            }
            ("delay", RateKeys::Ceiling) => {
                raw.delay = Given::of(value.at, read::boolean(value, &path, faults));
            }
            _ => read::unknown_key(entry, &raw.path, keys.known(), faults),
        }
    }
    if !has_rate {
        faults.add_with(node.at, path, "there is no `rate`", format!("write {RATE}"));
    }
    raw
}

/// Reads an algorithm's name.
pub(super) fn algorithm(node: &Node, path: &KeyPath, faults: &mut Faults) -> Option<Algorithm> {
    let choices = Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
    read::word(node, path, &choices, faults)
}

/// Reads a burst.
pub(super) fn burst(node: &Node, path: &KeyPath, faults: &mut Faults) -> Option<u64> {
    read::whole(node, path, (1, UNITS_MAX), faults)
}

fn allowance(node: &Node, path: &KeyPath, faults: &mut Faults) -> Option<Allowance> {
    let text = read::text(node, path, RATE, faults)?;
    if text == "unlimited" {
        return Some(Allowance::Unlimited);
    }
    match text.parse::<Quota>() {
        Ok(quota) => Some(Allowance::Limited(quota)),
        Err(RateError::Quota(error)) => {
            let problem = format!("`{}`: {error}", shown(text));
            faults.add_with(node.at, path, problem, bound_cure(&error));
            None
        }
        Err(RateError::Malformed(_)) => {
            let problem = format!("`{}` is no rate", shown(text));
            faults.add_with(node.at, path, problem, rate_cure(text));
            None
        }
    }
}

fn bound_cure(error: &QuotaError) -> String {
    match error {
        QuotaError::LimitTooLarge(_) => {
            "for no limit at all write `unlimited`, else choose a shorter window".to_owned()
        }
        _ => "choose a window from 1s to 366d".to_owned(),
    }
}

/// What was probably meant by a malformed rate.
fn rate_cure(text: &str) -> String {
    let meant = |rate: String| match rate.parse::<Quota>() {
        Ok(_) => Some(format!("did you mean `{rate}`?")),
        Err(_) => None,
    };
    let compact: String = text.to_lowercase().split_whitespace().collect();
    let compact = compact.replace("per", "/");
    let suggestion = match compact.split_once('/') {
        Some((limit, per)) => {
            let unit_at = per.find(|c: char| !c.is_ascii_digit()).unwrap_or(per.len());
            let (count, unit) = per.split_at(unit_at);
            let limit = limit.replace(['_', ',', '\''], "");
            short_unit(unit).and_then(|unit| meant(format!("{limit}/{count}{unit}")))
        }
        None if matches!(compact.as_str(), "none" | "infinite" | "inf" | "-1" | "off") => {
            Some("for no limit write `unlimited`; 0/s denies all".to_owned())
        }
        None => meant(format!("{compact}/s"))
            .map(|_| format!("a rate carries its unit: {compact}/s, {compact}/min, {compact}/h")),
    };
    suggestion.unwrap_or_else(|| {
        "write N/s, N/min, N/h, N/d, or N/90s, N/15min (N a whole number), or `unlimited`"
            .to_owned()
    })
}

fn short_unit(unit: &str) -> Option<&'static str> {
    Some(match unit.trim_end_matches('s') {
        "" | "ec" | "sec" | "second" => "s",
        "m" | "min" | "mn" | "minute" => "min",
        "h" | "hr" | "hour" => "h",
        "d" | "day" => "d",
        _ => return None,
    })
}

impl RawRate {
    /// The allowance with the burst that applies: its own, else `inherited`, else the limit.
    /// `inherited` is a ceiling's or a policy's; a limit of 0 has no burst.
    pub(super) fn with_burst(
        &self,
        algorithm: Algorithm,
        inherited: Option<Located<u64>>,
        faults: &mut Faults,
    ) -> Option<Allowance> {
        if let (Given::Value(burst), false) = (&self.burst, algorithm.has_burst()) {
            let path = self.path.key("burst");
            no_burst(burst.at, &path, algorithm, faults);
            return None;
        }
        let own = match &self.burst {
            Given::Value(burst) => Some(*burst),
            Given::Absent | Given::Wrong => None,
        };
        match (self.allowance?, own.or(inherited)) {
            (Allowance::Limited(quota), Some(burst)) if algorithm.has_burst() => {
                if quota.limit() == 0 {
                    return self.closed(quota, own, faults);
                }
                match quota.with_burst(burst.value) {
                    Ok(quota) => Some(Allowance::Limited(quota)),
                    Err(error) => {
                        let cure = "choose a smaller burst or a higher rate";
                        let at = own.map_or(self.at, |own| own.at);
                        faults.add_with(at, &self.path, error.to_string(), cure);
                        None
                    }
                }
            }
            (allowance, _) => Some(allowance),
        }
    }

    /// A rate of 0 denies all, so a burst written beside it contradicts it.
    fn closed(
        &self,
        quota: Quota,
        own: Option<Located<u64>>,
        faults: &mut Faults,
    ) -> Option<Allowance> {
        let Some(own) = own else {
            return Some(Allowance::Limited(quota));
        };
        let problem = format!("a burst of {} contradicts a rate of 0", own.value);
        let cure = "a rate of 0 denies all: take the burst out";
        faults.add_with(own.at, &self.path.key("burst"), problem, cure);
        None
    }
}

/// Notes a burst where none applies.
pub(super) fn no_burst(at: Mark, path: &KeyPath, algorithm: Algorithm, faults: &mut Faults) {
    let problem = format!("a burst means nothing to {algorithm}");
    let cure = "take it out, or choose token_bucket or leaky_bucket";
    faults.add_with(at, path, problem, cure);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_rate_is_told_what_was_probably_meant() {
        for (given, cure) in [
            ("1000/m", "did you mean `1000/min`?"),
            ("10 / second", "did you mean `10/s`?"),
            ("1_000 per hour", "did you mean `1000/h`?"),
            ("5/10minutes", "did you mean `5/10min`?"),
            ("1000", "a rate carries its unit: 1000/s, 1000/min, 1000/h"),
            ("none", "for no limit write `unlimited`; 0/s denies all"),
        ] {
            assert_eq!(rate_cure(given), cure);
        }
        for given in ["", "1.5/s", "-3/s", "x/y", "/"] {
            assert!(rate_cure(given).starts_with("write N/s"), "{given}");
        }
    }
}
