//! `POST /v1/checks` and stalls, on a real Redis: how many calls a batch makes, when it ends, and what
//! is left of a budget after answers that came too late.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::file;
use super::redis::Redis;
use super::served::Served;

const POLICIES: &str = "version: 1
policies:
  wide: {algorithm: sliding_log, global: 1000000/h, on_outage: deny}
  log: {algorithm: sliding_log, global: 100/h, region: 50/h, on_outage: deny}
";

fn served(redis: &Redis, arguments: &[&str]) -> (tempfile::NamedTempFile, Served) {
    let config = file(POLICIES);
    let mut all = vec!["--config", config.path().to_str().unwrap()];
    all.extend(arguments);
    let served = Served::start(&all, &[("TIDEGATE_REDIS", &redis.url())]);
    served.logged("the store is ready");
    (config, served)
}

fn post(served: &Served, path: &str, body: &Value) -> Value {
    let mut curl = Command::new("curl")
        .args([
            "-s",
            "--max-time",
            "20",
            "-H",
            "content-type: application/json",
        ])
        .args(["--data-binary", "@-"])
        .arg(format!("{}{path}", served.url))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = curl.stdin.take().unwrap();
    stdin.write_all(body.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = curl.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn metric(served: &Served, name: &str) -> u64 {
    let curl = Command::new("curl")
        .args(["-s", &format!("{}/metrics", served.url)])
        .output();
    let text = String::from_utf8(curl.unwrap().stdout).unwrap();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("{name} in\n{text}"))
        .parse()
        .unwrap()
}

fn remaining(served: &Served) -> u64 {
    let peek = json!({"policy": "log", "subject": "s", "region": "us", "cost": 0});
    post(served, "/v1/peek", &peek)["ceilings"][0]["remaining"]
        .as_u64()
        .unwrap()
}

#[test]
fn a_batchs_entries_of_one_key_ride_together() {
    let redis = Redis::start();
    let (_config, served) = served(&redis, &["--deadline", "2s"]);
    let calls = || metric(&served, "tidegate_stage_calls_total");
    let before = calls();
    let checks: Vec<_> = (0..1_000)
        .map(|_| json!({"policy": "wide", "subject": "s"}))
        .collect();
    let answer = post(&served, "/v1/checks", &json!({"checks": checks}));
    let decisions = answer["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 1_000);
    // One goes ahead alone; the others fill calls of 256.
    assert!(calls() - before <= 5, "{}", calls() - before);
    for (n, decision) in decisions.iter().enumerate() {
        assert_eq!(decision["admitted"], true, "{decision}");
        assert_eq!(
            decision["ceilings"][0]["remaining"],
            999_999 - n,
            "in their order"
        );
    }
}

#[test]
fn a_batch_ends_by_one_deadline_though_the_store_stalls() {
    let redis = Redis::start();
    let (_config, served) = served(&redis, &["--deadline", "400ms"]);
    redis.pause();
    let checks: Vec<_> = (0..1_000)
        .map(|n| json!({"policy": "wide", "subject": format!("s{n}")}))
        .collect();
    let began = Instant::now();
    let answer = post(&served, "/v1/checks", &json!({"checks": checks}));
    let took = began.elapsed();
    let decisions = answer["decisions"].as_array().unwrap();
    assert!(decisions.iter().all(|d| d["admitted"] == false), "{answer}");
    assert!(took < Duration::from_millis(800), "{took:?}");
}

#[test]
fn what_was_told_503_while_the_store_stalled_is_given_back() {
    let redis = Redis::start();
    let (_config, served) = served(&redis, &["--deadline", "50ms"]);
    let check = json!({"policy": "log", "subject": "s", "region": "us"});
    assert_eq!(post(&served, "/v1/check", &check)["admitted"], true);
    assert_eq!(remaining(&served), 99);
    redis.pause();
    for _ in 0..4 {
        let answer = post(&served, "/v1/check", &check);
        assert_eq!(answer["status"], 503, "{answer}");
    }
    redis.resume();
    let began = Instant::now();
    let waiting = || metric(&served, "tidegate_refunds_waiting");
    while waiting() > 0 || metric(&served, "tidegate_unused_charges_refunded_total") == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{} wait",
            waiting()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(remaining(&served), 99, "nobody was admitted meanwhile");
}
