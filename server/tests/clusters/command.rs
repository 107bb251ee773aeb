//! `tidegate chaos` as a shell runs it: its answers, its exit codes, and that it leaves nothing.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs with a directory for temporary files of its own, in which all that it starts works.
fn tidegate(temporary: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args).env("TMPDIR", temporary);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> (String, String) {
    let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (utf8(&output.stdout), utf8(&output.stderr))
}

/// How many nodes work below a directory, and how many instances were told of it.
fn living(temporary: &Path) -> (usize, usize) {
    let (mut nodes, mut instances) = (0, 0);
    let told = format!("TMPDIR={}", temporary.display());
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let of = |file: &str| entry.path().join(file);
        if std::fs::read_link(of("cwd")).is_ok_and(|cwd| cwd.starts_with(temporary)) {
            nodes += 1;
        }
        let command = std::fs::read(of("cmdline")).unwrap_or_default();
        let environment = std::fs::read(of("environ")).unwrap_or_default();
        let mut variables = environment.split(|b| *b == 0);
        if String::from_utf8_lossy(&command).contains("chaos-instance")
            && variables.any(|variable| variable == told.as_bytes())
        {
            instances += 1;
        }
    }
    (nodes, instances)
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "waited in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn json_alone_is_on_standard_output_with_the_promised_members() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let report = report.to_str().unwrap();
    let args = [
        "chaos",
        "script-flush",
        "--seconds",
        "5",
        "--json",
        "--report",
        report,
    ];
    let output = tidegate(dir.path(), &args).output().unwrap();
    let (stdout, stderr) = text(&output);
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let scenario = &json["scenarios"][0];
    assert_eq!(scenario["name"], "script-flush");
    assert_eq!(scenario["repetitions"], 1);
    assert_eq!(scenario["wrongly_admitted"], 0);
    assert_eq!(scenario["wrongly_admitted_bound"], 0);
    // A busy machine may make a call late, or stand still until the end; then that is said, and
    // nothing else.
    let broken: Vec<&str> = scenario["broken"]
        .as_array()
        .unwrap()
        .iter()
        .map(|what| what.as_str().unwrap())
        .collect();
    let is_lateness =
        |what: &&str| what.ends_with("past their deadline") || what.ends_with("never came back");
    assert!(broken.iter().all(is_lateness), "{broken:?}");
    let came_back = !broken.iter().any(|what| what.ends_with("never came back"));
    assert_eq!(scenario["recovery_ms"]["max"].is_number(), came_back);
    let code = if broken.is_empty() { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{stdout}\n{stderr}");
    let page = std::fs::read_to_string(format!("{report}/chaos.html")).unwrap();
    assert!(page.contains("script-flush") && page.contains("<svg"));
    assert_eq!(living(dir.path()), (0, 0));
}

#[test]
fn an_unknown_scenario_is_bad_usage_and_the_known_ones_are_named() {
    let output = tidegate(&std::env::temp_dir(), &["chaos", "meteor"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).1.contains("split-brain"));
}

#[test]
fn an_address_that_nobody_answers_is_an_error_without_its_password() {
    let url = "redis://:s3cret@127.0.0.1:1";
    let args = ["chaos", "steady", "--against", url, "--seconds", "1"];
    let output = tidegate(&std::env::temp_dir(), &args).output().unwrap();
    let (stdout, stderr) = text(&output);
    assert_eq!(output.status.code(), Some(2), "{stdout}{stderr}");
    assert!(stderr.contains("steady could not be run"), "{stderr}");
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

/// Starts a long run, ends it with a signal in its middle, and sees that nothing runs on.
fn interrupted(temporary: &Path, signal: &str) -> Option<i32> {
    let args = [
        "chaos",
        "steady",
        "--seconds",
        "60",
        "--against",
        "processes",
    ];
    let mut child = tidegate(temporary, &args).spawn().unwrap();
    eventually("six nodes and three instances", || {
        living(temporary) == (6, 3)
    });
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &pid])
            .status()
            .unwrap()
            .success()
    );
    let code = child.wait().unwrap().code();
    eventually("everything to end", || living(temporary) == (0, 0));
    code
}

#[test]
fn nothing_is_left_of_an_interrupted_run() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(interrupted(dir.path(), "-INT"), Some(2));
    eventually("its files to go", || {
        std::fs::read_dir(dir.path()).unwrap().count() == 0
    });
}

#[test]
fn nothing_runs_on_after_a_killed_run() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(interrupted(dir.path(), "-KILL"), None);
}
