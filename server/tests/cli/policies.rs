//! `tidegate config`, and policy files at the start of the others.

use super::{file, tidegate, tidegate_reading};

const FAULTY: &str = "version: 1
policies:
  top:
    algorithm: sliding_lgo
    global: 1000/m
    regoin: 300/min
  empty: {}
";

#[test]
fn every_fault_is_printed_in_order_with_its_line_and_column() {
    let faulty = file(FAULTY);
    let name = faulty.path().to_str().unwrap();
    let run = tidegate(&["config", "check", name]).expect(2);
    let heads: Vec<&str> = run
        .out
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .collect();
    let places: Vec<&str> = heads
        .iter()
        .map(|head| &head[..head.find(": ").unwrap()])
        .collect();
    assert_eq!(places, ["4:16", "5:13", "6:5", "7:3"], "{run:#?}");
    for cure in [
        "did you mean `sliding_log`?",
        "did you mean `1000/min`?",
        "did you mean `region`?",
    ] {
        assert!(run.out.contains(cure), "{run:#?}");
    }
}

#[test]
fn faults_come_as_json_too() {
    let run = tidegate_reading(&["config", "check", "--json", "-"], FAULTY).expect(2);
    let json = run.json();
    assert_eq!(json["valid"], false);
    let lines: Vec<_> = json["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| &f["line"])
        .collect();
    assert_eq!(lines, [4, 5, 6, 7]);
    assert_eq!(json["faults"][0]["path"], "policies.top.algorithm");
}

#[test]
fn a_file_that_is_not_valid_stops_every_command_that_needs_it() {
    let faulty = file(FAULTY);
    let name = faulty.path().to_str().unwrap();
    for command in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["check", "--policy", "top", "--subject", "s"],
        &["load", "--policy", "top", "--seconds", "1"],
    ] {
        let mut all = command.to_vec();
        all.extend(["--config", name]);
        let run = tidegate(&all).expect(2);
        assert!(run.err.contains(&format!("4 faults in {name}")), "{run:#?}");
        assert!(run.err.contains(":7:3: "), "{run:#?}");
        assert!(run.out.is_empty(), "{run:#?}");
    }
}

#[test]
fn a_file_that_is_not_there_is_said_with_a_cure() {
    for command in ["check", "serve"] {
        let mut all = vec![command, "--config", "/nowhere/policies.yaml"];
        if command == "check" {
            all.extend(["--policy", "p", "--subject", "s"]);
        }
        let run = tidegate(&all).expect(2);
        assert!(
            run.err.contains("can't read /nowhere/policies.yaml"),
            "{run:#?}"
        );
        assert!(run.err.contains("tidegate config example"), "{run:#?}");
    }
    tidegate(&["config", "check", "/nowhere/policies.yaml"]).expect(2);
}

#[test]
fn what_is_printed_to_start_from_is_valid() {
    for name in [
        "",
        "video",
        "payments",
        "api-gateway",
        "backend",
        "internal",
    ] {
        let mut words = vec!["config", "example"];
        words.extend(Some(name).filter(|name| !name.is_empty()));
        let example = tidegate(&words).expect(0).out;
        let run = tidegate_reading(&["config", "check", "-"], &example).expect(0);
        assert!(run.out.contains("valid"), "{run:#?}");
    }
    let json = tidegate_reading(
        &["config", "check", "-", "--json"],
        &tidegate(&["config", "example"]).out,
    );
    assert_eq!(json.expect(0).json()["valid"], true);
    let schema = tidegate(&["config", "schema"]).expect(0).json();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
}
