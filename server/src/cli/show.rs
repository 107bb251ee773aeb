//! A decision for people: one clear line, then its ceilings as a table.

use std::fmt::Write as _;

use crate::edge::protocol::DecisionKind;
use tidegate::model::{CeilingStatus, Decision, Micros, Quota, Source};

/// What a decision answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Charged when admitted.
    Check,
    /// Nothing was charged.
    Peek,
}

/// The decision in a few lines, without the last line's end.
pub(super) fn decision(decision: &Decision, operation: Operation) -> String {
    let facts = decision.facts();
    let mut text = headline(decision, operation);
    let _ = match facts.source {
        Source::Outage => write!(text, "\n  degraded: decided by the policy's outage choice"),
        source => write!(
            text,
            "\n  answered by the {}",
            source.name().replace('_', " ")
        ),
    };
    if operation == Operation::Check && decision.is_admitted() && facts.cost > 0 {
        let _ = write!(text, "; charge id {}", facts.id);
    }
    if !facts.ceilings.is_empty() {
        text.push_str("\n\n");
        text.push_str(&table(decision));
    }
    text
}

fn headline(decision: &Decision, operation: Operation) -> String {
    let facts = decision.facts();
    let place = facts
        .region
        .as_ref()
        .map(|region| format!(" in {region}"))
        .unwrap_or_default();
    let who = format!("{}{place} under {}", facts.subject, facts.policy);
    let cost = facts.cost;
    let units = if cost == 1 {
        "1 unit"
    } else {
        &format!("{cost} units")
    };
    match (DecisionKind::of(decision), operation) {
        (DecisionKind::Admitted, Operation::Check) => {
            let delay = match decision {
                Decision::Admitted(grant) => grant.delay.filter(|delay| *delay > Micros::ZERO),
                Decision::Denied(_) => None,
            };
            let wait = delay
                .map(|delay| format!(", after waiting {delay} s"))
                .unwrap_or_default();
            format!("admitted: {units} for {who}{wait}")
        }
        (DecisionKind::Admitted, Operation::Peek) => format!("would admit {units} for {who}"),
        (DecisionKind::RateLimited, operation) => {
            let verb = if operation == Operation::Peek {
                "would deny"
            } else {
                "denied:"
            };
            let wait = decision
                .retry_after()
                .map(|wait| format!("; again in {wait} s"))
                .unwrap_or_default();
            format!("{verb} {units} for {who}{wait}")
        }
        (DecisionKind::NeverAdmitted, _) => {
            format!("denied for good: {units} for {who} is more than a ceiling ever allows")
        }
        (DecisionKind::Unavailable, _) => {
            format!(
                "could not decide {units} for {who}: the store did not answer in time, and the policy denies without it"
            )
        }
    }
}

fn table(decision: &Decision) -> String {
    let facts = decision.facts();
    let binding = decision.binding();
    let rows: Vec<[String; 4]> =
        std::iter::once(["ceiling", "limit", "left", "whole again in"].map(str::to_owned))
            .chain(facts.ceilings.iter().map(row))
            .collect();
    let widths: [usize; 4] = std::array::from_fn(|column| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    });
    let mut text = String::new();
    for (n, [ceiling, limit, left, whole]) in rows.iter().enumerate() {
        let [w0, w1, w2, w3] = widths;
        let mark = match n.checked_sub(1).and_then(|n| facts.ceilings.get(n)) {
            Some(ceiling) if Some(ceiling) == binding && ceiling.retry.is_some() => "  denies",
            _ => "",
        };
        let line = format!("  {ceiling:<w0$}  {limit:>w1$}  {left:>w2$}  {whole:>w3$}{mark}");
        let _ = write!(
            text,
            "{}{}",
            if n == 0 { "" } else { "\n" },
            line.trim_end()
        );
    }
    text
}

fn row(ceiling: &CeilingStatus) -> [String; 4] {
    let name = match &ceiling.region {
        Some(region) => format!("region {region}"),
        None => ceiling.scope.name().to_owned(),
    };
    let limit = match Quota::new(ceiling.limit, ceiling.window) {
        Ok(quota) => quota.to_string(),
        Err(_) => ceiling.limit.to_string(),
    };
    let whole = match ceiling.reset_after {
        Micros::ZERO => "-".to_owned(),
        wait => format!("{wait} s"),
    };
    [name, limit, ceiling.remaining.to_string(), whole]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: serde_json::Value) -> Decision {
        serde_json::from_value(json).unwrap()
    }

    fn denied() -> serde_json::Value {
        serde_json::json!({
            "admitted": false, "policy": "video_top", "subject": "key-1", "region": "us",
            "cost": 1, "id": "a", "retry_after": 12.340561, "never": false, "degraded": false,
            "source": "store", "binding": "region", "ceilings": [
                {"scope": "global", "limit": 1000, "window": 60, "remaining": 380,
                 "reset_after": 59.1},
                {"scope": "region", "region": "us", "limit": 500, "window": 60, "remaining": 0,
                 "reset_after": 31.7}]
        })
    }

    #[test]
    fn a_denial_says_when_to_come_again_and_which_ceiling_denies() {
        let expected = "\
denied: 1 unit for key-1 in us under video_top; again in 12.340561 s
  answered by the store

  ceiling       limit  left  whole again in
  global     1000/min   380          59.1 s
  region us   500/min     0          31.7 s  denies";
        assert_eq!(decision(&read(denied()), Operation::Check), expected);
        let peeked = decision(&read(denied()), Operation::Peek);
        assert!(
            peeked.starts_with("would deny 1 unit for key-1"),
            "{peeked}"
        );
    }

    #[test]
    fn an_admission_says_its_id_and_its_wait() {
        let mut json = denied();
        json["admitted"] = true.into();
        json["delay"] = 0.25.into();
        json.as_object_mut().unwrap().remove("retry_after");
        let text = decision(&read(json), Operation::Check);
        let first = "admitted: 1 unit for key-1 in us under video_top, after waiting 0.25 s\n";
        assert!(text.starts_with(first), "{text}");
        assert!(
            text.contains("charge id a") && !text.contains("denies"),
            "{text}"
        );
    }

    #[test]
    fn what_never_fits_and_what_nobody_decided_are_not_mere_denials() {
        let mut json = denied();
        json["never"] = true.into();
        let text = decision(&read(json), Operation::Check);
        assert!(text.starts_with("denied for good: "), "{text}");
        let mut json = denied();
        json["degraded"] = true.into();
        json["source"] = "outage".into();
        json["ceilings"] = serde_json::json!([]);
        json.as_object_mut().unwrap().remove("binding");
        let text = decision(&read(json), Operation::Check);
        assert!(text.starts_with("could not decide"), "{text}");
        assert!(text.contains("degraded"), "{text}");
    }
}
