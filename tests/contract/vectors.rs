//! The shared vectors of `tests/vectors/`: what is asked and the right answer, for the pure
//! algorithms (through the memory store) and their twins on the server (through the cluster).
//!
//! Times are seconds after a day's beginning. A step charges a cost of 1 unless it says `cost`;
//! `peek`, `refund`, `reset` and `limits` say what else it does. What a step doesn't mention isn't
//! compared, but that it is admitted unless it says `retry` or `never`.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tidegate::model::{Algorithm, Ceiling, Micros, Quota, Scope};
use tidegate::store::{ChargeRequest, Outcome, Refunded, Store};

use crate::common::probe::{Probe, Reading, at, fresh, named, s};

pub async fn sliding_log<S: Store>(store: Arc<S>) {
    play(&store, "sliding_log").await;
}

pub async fn sliding_counter<S: Store>(store: Arc<S>) {
    play(&store, "sliding_counter").await;
}

pub async fn fixed_window<S: Store>(store: Arc<S>) {
    play(&store, "fixed_window").await;
}

pub async fn token_bucket<S: Store>(store: Arc<S>) {
    play(&store, "token_bucket").await;
}

pub async fn leaky_bucket<S: Store>(store: Arc<S>) {
    play(&store, "leaky_bucket").await;
}

pub async fn several_ceilings<S: Store>(store: Arc<S>) {
    play(&store, "several_ceilings").await;
}

async fn play<S: Store>(store: &Arc<S>, file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap();
    let cases: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= 4, "{file} holds {} cases", cases.len());
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let mut probe = Probe::new(store, "vector", ceilings(&case["ceilings"]));
        for (n, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let place = format!("{file}, {name}, step {n}: {step}");
            known_words(step, &place);
            if let Some(region) = step["region"].as_str() {
                probe = probe.region(region);
            }
            if step["limits"].is_array() {
                probe = probe.ceilings(ceilings(&step["limits"]));
            } else if step["reset"].as_bool() == Some(true) {
                probe.reset().await;
            } else if let Some(id) = step["refund"].as_str() {
                let cost = step["cost"].as_u64();
                let given = probe.refund(at(number(&step["at"])), id, cost).await;
                let expected = match step["gives"].as_u64() {
                    Some(units) => Refunded::Units(units),
                    None => Refunded::NotFound,
                };
                assert_eq!(given, expected, "{place}");
            } else {
                compare(step, &ask(&probe, step).await, &place);
            }
        }
    }
}

/// A word with a typing error would compare nothing.
fn known_words(step: &Value, place: &str) {
    const WORDS: [&str; 18] = [
        "at",
        "cost",
        "id",
        "held",
        "peek",
        "region",
        "refund",
        "gives",
        "reset",
        "limits",
        "retry",
        "never",
        "remaining",
        "resets",
        "delay",
        "repeated",
        "refused_by",
        "note",
    ];
    for word in step.as_object().unwrap().keys() {
        assert!(WORDS.contains(&word.as_str()), "{place}: `{word}`");
    }
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn ceilings(list: &Value) -> Vec<Ceiling> {
    let one = |of: &Value| {
        let quota = match of["window"].as_f64() {
            Some(window) => Quota::new(of["limit"].as_u64().unwrap(), s(window)).unwrap(),
            None => of["rate"].as_str().unwrap().parse().unwrap(),
        };
        let burst = of["burst"].as_u64();
        let algorithm: Algorithm = of["algorithm"].as_str().unwrap().parse().unwrap();
        Ceiling {
            scope: match of["scope"].as_str().unwrap() {
                "global" => Scope::Global,
                "region" => Scope::Region,
                other => panic!("no scope: {other}"),
            },
            algorithm,
            quota: burst.map_or(quota, |burst| quota.with_burst(burst).unwrap()),
            delay: of["delay"].as_bool().unwrap_or(true),
        }
    };
    list.as_array().unwrap().iter().map(one).collect()
}

async fn ask<S: Store>(probe: &Probe<S>, step: &Value) -> Outcome {
    let now = at(number(&step["at"]));
    let cost = step["cost"].as_u64().unwrap_or(1);
    if step["peek"].as_bool() == Some(true) {
        return probe.peek(now, cost).await;
    }
    let request = match step["id"].as_str() {
        Some(id) => named(id, cost),
        None => fresh(cost),
    };
    let held_for = step["held"].as_f64().map(s);
    probe
        .request(
            now,
            ChargeRequest {
                held_for,
                ..request
            },
        )
        .await
}

fn compare(step: &Value, outcome: &Outcome, place: &str) {
    let never = step["never"].as_bool().unwrap_or(false);
    let retry = step["retry"].as_f64().map(s);
    assert_eq!(outcome.never(), never, "{place}: {outcome:?}");
    assert_eq!(outcome.wait().filter(|_| !never), retry, "{place}");
    assert_eq!(outcome.is_admitted(), retry.is_none() && !never, "{place}");
    let repeated = step["repeated"].as_bool().unwrap_or(false);
    assert_eq!(outcome.repeated, repeated, "{place}");
    if let Some(remaining) = step["remaining"].as_array() {
        let remaining: Vec<_> = remaining.iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!(outcome.remaining(), remaining, "{place}");
    }
    if let Some(resets) = step["resets"].as_array() {
        let resets: Vec<Micros> = resets.iter().map(|n| s(number(n))).collect();
        assert_eq!(outcome.reset(), resets, "{place}");
    }
    if let Some(refusing) = step["refused_by"].as_array() {
        let refused: Vec<bool> = outcome.ceilings.iter().map(|c| c.retry.is_some()).collect();
        let refusing: Vec<bool> = refusing.iter().map(|b| b.as_bool().unwrap()).collect();
        assert_eq!(refused, refusing, "{place}");
    }
    let delay = outcome.ceilings.iter().filter_map(|c| c.delay).max();
    if !step["delay"].is_null() {
        assert_eq!(delay, step["delay"].as_f64().map(s), "{place}");
    }
}
