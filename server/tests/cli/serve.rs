//! `tidegate serve` from its first line to its last.

use std::process::Command;

use super::redis::{Redis, free_port};
use super::served::Served;
use super::{file, tidegate};

const POLICIES: &str = "version: 1\npolicies: {first: {algorithm: sliding_log, global: 5/min}}\n";
const OTHERS: &str = "version: 1\npolicies: {second: {algorithm: sliding_log, global: 5/min}}\n";

fn knows(served: &Served, policy: &str) -> bool {
    let ask = [
        "peek",
        "--server",
        &served.url,
        "--policy",
        policy,
        "--subject",
        "s",
    ];
    tidegate(&ask).code == 0
}

#[test]
fn it_says_what_it_does_and_the_line_to_try_works() {
    let served = Served::spawn(
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ],
        &[],
    );
    served.logged("listening");
    let log = served.log();
    for said in [
        "examples, built in",
        "video_top",
        "memory: this process alone counts",
        "metrics   http://127.0.0.1:",
    ] {
        assert!(log.contains(said), "{log}");
    }
    let curl = log
        .lines()
        .find_map(|line| line.trim().strip_prefix("try"))
        .expect("a line");
    let answer = Command::new("sh")
        .args(["-c", curl.trim()])
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.stdout)
        .unwrap_or_else(|error| panic!("{error}: {curl}: {answer:?}"));
    assert_eq!(answer["admitted"], true, "{answer}");
}

#[test]
fn a_file_is_read_again_when_it_changes() {
    let config = file(POLICIES);
    let served = Served::start(&["--config", config.path().to_str().unwrap()], &[]);
    assert!(knows(&served, "first") && !knows(&served, "second"));
    std::fs::write(config.path(), OTHERS).unwrap();
    served.logged("new policies are in force");
    assert!(knows(&served, "second") && !knows(&served, "first"));
}

#[test]
fn a_hangup_reads_the_file_and_one_with_faults_changes_nothing() {
    let config = file(POLICIES);
    let served = Served::start(
        &["--no-watch", "--config", config.path().to_str().unwrap()],
        &[],
    );
    std::fs::write(
        config.path(),
        "version: 1\npolicies:\n  second: {algorithm: x}\n",
    )
    .unwrap();
    served.signal("-HUP");
    let refused = served.logged("the policies stay as they were");
    assert!(refused.contains(r#""faults":2"#), "{refused}");
    let fault = served.logged("policies.second.algorithm");
    assert!(
        fault.contains(r#""line":3"#) && fault.contains(r#""column":23"#),
        "{fault}"
    );
    assert!(knows(&served, "first"));
    std::fs::write(config.path(), OTHERS).unwrap();
    served.signal("-HUP");
    served.logged("new policies are in force");
    assert!(knows(&served, "second"));
}

#[test]
fn settings_come_from_the_file_and_flags_go_first() {
    let config = file(&format!(
        "{POLICIES}server: {{subject_header: x-api-key, policy_header: x-plan}}\n"
    ));
    let served = Served::start(
        &[
            "--config",
            config.path().to_str().unwrap(),
            "--policy-header",
            "X-Tier",
        ],
        &[],
    );
    let status = |policy_header: &str| {
        let answer = Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}"])
            .args([
                "-H",
                &format!("{policy_header}: first"),
                "-H",
                "x-api-key: s",
            ])
            .arg(format!("{}/v1/auth", served.url))
            .output()
            .unwrap();
        String::from_utf8(answer.stdout).unwrap()
    };
    assert_eq!(status("x-tier"), "204");
    assert_eq!(status("x-plan"), "400");
}

#[test]
fn it_ends_as_told_and_well() {
    for signal in ["-TERM", "-INT"] {
        let mut served = Served::start(&[], &[]);
        served.signal(signal);
        assert_eq!(served.ended(), Some(0), "{signal}: {}", served.log());
        served.logged(r#""message":"stopped""#);
    }
}

#[test]
fn a_port_in_use_is_said_with_a_cure() {
    let served = Served::start(&[], &[]);
    let address = served.url.strip_prefix("http://").unwrap();
    let run = tidegate(&["serve", "--listen", address]).expect(2);
    assert!(
        run.err.contains(&format!("can't listen on {address}")),
        "{run:#?}"
    );
    assert!(run.err.contains("--listen"), "{run:#?}");
}

#[test]
fn without_its_store_it_starts_says_so_and_connects_when_it_comes() {
    let absent = format!("redis://127.0.0.1:{}", free_port());
    let served = Served::start(&[], &[("TIDEGATE_REDIS", &absent)]);
    let ready = |served: &Served| {
        let answer = Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}"])
            .arg(format!("{}/readyz", served.url))
            .output()
            .unwrap();
        String::from_utf8(answer.stdout).unwrap()
    };
    assert_eq!(ready(&served), "503");
    let redis = Redis::start();
    let served = Served::start(&[], &[("TIDEGATE_REDIS", &redis.url())]);
    served.logged("the store is ready");
    assert_eq!(ready(&served), "200");
}

#[test]
fn metrics_and_administrators_calls_have_a_listener_of_their_own() {
    let served = Served::start(&["--admin-listen", "127.0.0.1:0"], &[]);
    let line = served.logged(r#""message":"listening""#);
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let admin = line["admin_address"].as_str().unwrap();
    let status = |url: String| {
        let answer = Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &url])
            .output()
            .unwrap();
        String::from_utf8(answer.stdout).unwrap()
    };
    assert_eq!(status(format!("http://{admin}/metrics")), "200");
    assert_eq!(status(format!("{}/metrics", served.url)), "404");
    assert_eq!(status(format!("{}/livez", served.url)), "200");
    // One that is asked for and taken is an error, with the cure.
    let taken = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", admin];
    let run = tidegate(&taken).expect(2);
    assert!(run.err.contains("--admin-listen"), "{run:#?}");
}
