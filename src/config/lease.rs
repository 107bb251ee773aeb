//! A policy's `lease:`: how far a hot key's capacity may be charged ahead. Off unless written.

use super::fault::{Faults, KeyPath, Mark, shown};
use super::read::{self, Given};
use super::yaml::{Entry, Node};
use crate::model::{Algorithm, Allowance, CeilingRule, LeaseRule, Micros};

/// A lease's keys.
pub(super) const LEASE_KEYS: &[&str] = &["period", "share_max"];

/// A lease as the file has it.
pub(super) struct RawLease {
    at: Mark,
    path: KeyPath,
    period: Given<Micros>,
    share_max_permille: Given<u16>,
}

/// Reads a lease.
pub(super) fn raw_lease(entry: &Entry, path: &KeyPath, faults: &mut Faults) -> Option<RawLease> {
    let what = "a map such as {period: 1s, share_max: 0.1}";
    let entries = read::map(&entry.value, path, what, faults)?;
    let mut raw = RawLease {
        at: entry.at,
        path: path.clone(),
        period: Given::Absent,
        share_max_permille: Given::Absent,
    };
    for entry in entries {
        let (path, node) = (path.key(&entry.key), &entry.value);
        match entry.key.as_str() {
            "period" => {
                let period = read::duration(node, &path, LeaseRule::PERIOD_BOUNDS, faults);
                raw.period = Given::of(node.at, period);
            }
            "share_max" => {
                raw.share_max_permille = Given::of(node.at, share(node, &path, faults));
            }
            _ => read::unknown_key(entry, &raw.path, LEASE_KEYS, faults),
        }
    }
    if raw.period.is_absent() {
        let cure = "write how long capacity may be held ahead, such as `period: 1s`";
        faults.add_with(raw.at, path, "there is no `period`", cure);
    }
    Some(raw)
}

/// A share in thousandths: `0.25` or `25%`.
fn share(node: &Node, path: &KeyPath, faults: &mut Faults) -> Option<u16> {
    let what = "a share from 0.001 to 0.5, such as 0.1 or 10%";
    let text = read::text(node, path, what, faults)?;
    let permille = match text.strip_suffix('%') {
        Some(percent) => thousandths(percent).map(|n| n / 100),
        None => thousandths(text),
    };
    match permille {
        Some(permille @ 1..=500) => Some(permille as u16),
        _ => {
            let problem = format!("`{}` is no share that a lease may take", shown(text));
            faults.add_with(node.at, path, problem, format!("write {what}"));
            None
        }
    }
}

/// A decimal number in whole thousandths; absent when it isn't one or has a finer part.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.len() <= 3 && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    format!("{whole}{part:0<3}").parse().ok()
}

impl RawLease {
    /// The rule, when the policy's ceilings can be leased: only a sliding log can hold a charge
    /// that is dated ahead.
    pub(super) fn fit<'a>(
        &self,
        ceilings: impl Iterator<Item = &'a CeilingRule>,
        faults: &mut Faults,
    ) -> Option<LeaseRule> {
        let period = *self.period.value()?;
        for rule in ceilings {
            if rule.algorithm != Algorithm::SlidingLog {
                let problem = format!("a ceiling counted by {} can't be leased", rule.algorithm);
                let cure = "leases need sliding_log: take `lease` out or change the algorithm";
                faults.add_with(self.at, &self.path, problem, cure);
                return None;
            }
            if let Allowance::Limited(quota) = rule.allowance
                && period > quota.window()
            {
                let window = quota.window();
                let problem = format!("a lease of {period} s outlasts the window of {window} s");
                let cure = "choose a period well below the window";
                faults.add_with(self.at, &self.path, problem, cure);
                return None;
            }
        }
        if matches!(self.share_max_permille, Given::Wrong) {
            return None;
        }
        let share_max_permille = self.share_max_permille.value().copied();
        let share_max_permille =
            share_max_permille.unwrap_or(LeaseRule::SHARE_MAX_PERMILLE_DEFAULT);
        LeaseRule::new(period, share_max_permille).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_exact_or_refused() {
        assert_eq!(thousandths("0.1"), Some(100));
        assert_eq!(thousandths("0.001"), Some(1));
        assert_eq!(thousandths("25"), Some(25_000));
        for bad in ["", ".", "0.0001", "-1", "1e2", "1.", "0x1"] {
            assert_eq!(thousandths(bad), None, "{bad}");
        }
    }
}
