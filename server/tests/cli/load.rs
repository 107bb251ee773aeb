//! `tidegate load`: what it counts adds up, and is what it drove.

use serde_json::Value;

use super::redis::Redis;
use super::served::Served;
use super::{Run, command, tidegate};

/// Whether the numbers of a result fit each other.
fn adds_up(json: &Value) {
    let n = |name: &str| {
        json[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name}: {json}"))
    };
    assert_eq!(
        n("checks"),
        n("admitted") + n("denied") + n("errors"),
        "{json}"
    );
    let by_source = json["by_source"].as_object().unwrap();
    let names: Vec<_> = by_source.keys().map(String::as_str).collect();
    let mut expected = ["denial_cache", "lease", "node_ceiling", "outage", "store"].to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);
    let decided: u64 = by_source
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(decided, n("admitted") + n("denied"), "{json}");
    assert!(n("degraded") <= decided);
    let latency = |name: &str| json["latency_ms"][name].as_f64().unwrap();
    let latencies = ["p50", "p95", "p99", "p999", "max"].map(latency);
    assert!(latencies.is_sorted() && latencies[0] > 0.0, "{json}");
    let rate = n("checks") as f64 / json["seconds"].as_f64().unwrap();
    assert!(
        (rate - json["per_second"].as_f64().unwrap()).abs() <= rate * 1e-2,
        "{json}"
    );
}

fn load(arguments: &[&str]) -> Value {
    let mut all = vec!["load", "--json"];
    all.extend(arguments);
    let run = tidegate(&all).expect(0);
    assert!(run.err.is_empty(), "{run:#?}");
    let json = run.json();
    adds_up(&json);
    json
}

#[test]
fn so_many_checks_are_so_many_and_the_ceiling_holds() {
    let json = load(&[
        "--policy",
        "payments",
        "--subjects",
        "1",
        "--checks",
        "500",
        "--tasks",
        "7",
    ]);
    assert_eq!(
        (&json["checks"], &json["admitted"]),
        (&500.into(), &60.into())
    );
    assert_eq!(json["store_calls"], 0);
    let json = load(&[
        "--policy",
        "payments",
        "--subjects",
        "1",
        "--checks",
        "10",
        "--cost",
        "30",
    ]);
    assert_eq!(json["admitted"], 2);
}

#[test]
fn subjects_and_regions_are_those_that_were_asked_for() {
    // 10 subjects of 60 units each: no more can be admitted, and uniform traffic reaches all.
    let json = load(&[
        "--policy",
        "payments",
        "--subjects",
        "10",
        "--checks",
        "5000",
    ]);
    assert_eq!(json["admitted"], 600);
    let zipf = [
        "--subjects",
        "100000",
        "--distribution",
        "zipf:2.0",
        "--checks",
        "1000",
    ];
    let json = load(&[&["--policy", "payments"][..], &zipf].concat());
    // P(1) = 6/pi^2: the first subject alone asks about 608 times, and 60 of these are admitted.
    let denied = json["denied"].as_u64().unwrap();
    assert!((500..850).contains(&denied), "{json}");
    let nowhere = [
        "--policy",
        "video_top",
        "--regions",
        "antarctica",
        "--checks",
        "100",
    ];
    assert_eq!(load(&nowhere)["admitted"], 0);
    let both = [
        "--policy",
        "video_authenticated",
        "--regions",
        "us,eu",
        "--subjects",
        "1",
    ];
    let json = load(&[&both[..], &["--checks", "1000"]].concat());
    assert_eq!(json["admitted"], 200);
}

#[test]
fn a_rate_is_kept_and_what_could_not_be_sent_is_told() {
    let json = load(&["--policy", "internal", "--rate", "1000/s", "--seconds", "1"]);
    let n = |name: &str| json[name].as_u64().unwrap_or(0);
    assert_eq!(n("checks") + n("unsent"), 1000, "{json}");
    assert!(n("checks") > 500, "{json}");
    let json = load(&[
        "--policy", "internal", "--rate", "2000/s", "--checks", "400",
    ]);
    assert_eq!(json["checks"], 400);
    assert!(json["seconds"].as_f64().unwrap() >= 0.199, "{json}");
    let json = load(&[
        "--policy",
        "internal",
        "--rate",
        "90000000/s",
        "--seconds",
        "0.3",
    ]);
    assert!(json["unsent"].as_u64().unwrap() > 1_000_000, "{json}");
    // The check that was sent last had been due long before: that is its latency.
    assert!(
        json["latency_ms"]["max"].as_f64().unwrap() > 100.0,
        "{json}"
    );
}

#[test]
fn people_get_a_table() {
    let run = tidegate(&[
        "load",
        "--policy",
        "payments",
        "--subjects",
        "1",
        "--checks",
        "100",
    ]);
    let run = run.expect(0);
    assert!(
        run.err.is_empty(),
        "no progress without a terminal: {run:#?}"
    );
    for row in [
        "1 subject (uniform)",
        "admitted",
        "60.0 %",
        "latency p99",
        "counted in memory",
    ] {
        assert!(run.out.contains(row), "{row}: {run:#?}");
    }
}

#[test]
fn calls_to_redis_are_counted() {
    let redis = Redis::start();
    let words = [
        "load",
        "--json",
        "--policy",
        "payments",
        "--subjects",
        "1",
        "--checks",
        "200",
    ];
    let run = command(&words).env("TIDEGATE_REDIS", redis.url()).output();
    let json = Run::from(run.unwrap()).expect(0).json();
    adds_up(&json);
    assert_eq!(json["admitted"], 60);
    let calls = json["store_calls"].as_u64().unwrap();
    // The first calls may find that the server doesn't have the script yet.
    assert!((1..=400).contains(&calls), "{json}");
}

#[test]
fn each_part_of_the_local_stage_can_be_switched_off_and_tells_what_it_saved() {
    let redis = Redis::start();
    let drive = |flags: &[&str]| {
        // One subject at 100 times what it may: denials, and checks that arrive together.
        let mut all = vec!["load", "--json", "--policy", "payments", "--subjects", "1"];
        // Time enough for a busy machine: what is degraded asks nobody.
        all.extend(["--checks", "6000", "--tasks", "32", "--deadline", "10s"]);
        all.extend(flags);
        let output = command(&all).env("TIDEGATE_REDIS", redis.url()).output();
        let json = Run::from(output.unwrap()).expect(0).json();
        adds_up(&json);
        let n = |value: &Value| value.as_u64().unwrap();
        let by = json["by_source"].clone();
        (
            n(&json["store_calls"]),
            n(&by["denial_cache"]),
            n(&by["node_ceiling"]),
        )
    };
    // Which of the two denies a check first is a matter of luck; that nearly all are, is not.
    let (calls, cached, cut) = drive(&[]);
    assert!(
        calls < 1_000 && cached + cut > 5_000,
        "{calls} calls, {cached} cached, {cut} cut"
    );
    let (_, cached, cut) = drive(&["--no-node-ceiling"]);
    assert!(cached > 1_000 && cut == 0, "{cached} cached, {cut} cut");
    let (_, cached, cut) = drive(&["--no-denial-cache"]);
    assert!(cached == 0 && cut > 1_000, "{cached} cached, {cut} cut");
    let (_, cached, cut) = drive(&["--no-denial-cache", "--no-node-ceiling"]);
    assert_eq!((cached, cut), (0, 0));
    let all_off = [
        "--no-denial-cache",
        "--no-node-ceiling",
        "--no-lanes",
        "--no-leases",
    ];
    let (calls, ..) = drive(&all_off);
    assert!(calls >= 6_000, "{calls} calls");
}

#[test]
fn a_server_is_driven_over_its_connections_and_tells_its_calls() {
    let redis = Redis::start();
    let served = Served::start(&["--deadline", "10s"], &[("TIDEGATE_REDIS", &redis.url())]);
    served.logged("the store is ready");
    let json = load(&[
        "--server",
        &served.url,
        "--policy",
        "payments",
        "--subjects",
        "1",
        "--checks",
        "300",
    ]);
    assert_eq!(
        (&json["checks"], &json["admitted"]),
        (&300.into(), &60.into())
    );
    let calls = json["store_calls"].as_u64().unwrap();
    assert!((1..=600).contains(&calls), "{json}");
}

#[test]
fn what_nobody_answers_is_an_error_each() {
    let mut served = Served::start(&[], &[]);
    let url = served.url.clone();
    served.signal("-TERM");
    served.ended();
    let json = load(&["--server", &url, "--policy", "internal", "--checks", "20"]);
    assert_eq!((&json["errors"], &json["checks"]), (&20.into(), &20.into()));
    assert!(json["store_calls"].is_null(), "{json}");
}
