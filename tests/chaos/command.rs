//! `tidegate chaos` as a shell runs it: its answers, its exit codes, and that it leaves nothing.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Inherited by every process that a command starts.
const MARK: &str = "TIDEGATE_TEST_MARK";

fn tidegate(mark: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args).env(MARK, mark).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> (String, String) {
    let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (utf8(&output.stdout), utf8(&output.stderr))
}

/// Processes that bear the mark, with their command lines.
fn marked(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let environment = read("environ");
        if environment
            .split(|b| *b == 0)
            .any(|variable| variable == wanted.as_bytes())
        {
            found.push((
                pid,
                String::from_utf8_lossy(&read("cmdline")).replace('\0', " "),
            ));
        }
    }
    found
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
    let output = tidegate("json", &args).output().unwrap();
    let (stdout, stderr) = text(&output);
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let scenario = &json["scenarios"][0];
    assert_eq!(scenario["name"], "script-flush");
    assert_eq!(scenario["repetitions"], 1);
    assert_eq!(scenario["wrongly_admitted"], 0);
    assert_eq!(scenario["wrongly_admitted_bound"], 0);
    assert!(scenario["recovery_ms"]["max"].is_number());
    let page = std::fs::read_to_string(format!("{report}/chaos.html")).unwrap();
    assert!(page.contains("script-flush") && page.contains("<svg"));
    assert!(marked("json").is_empty(), "{:?}", marked("json"));
}

#[test]
fn an_unknown_scenario_is_bad_usage_and_the_known_ones_are_named() {
    let output = tidegate("unknown", &["chaos", "meteor"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).1.contains("split-brain"));
}

#[test]
fn an_address_that_nobody_answers_is_an_error_without_its_password() {
    let url = "redis://:s3cret@127.0.0.1:1";
    let args = ["chaos", "steady", "--against", url, "--seconds", "1"];
    let output = tidegate("nobody", &args).output().unwrap();
    let (stdout, stderr) = text(&output);
    assert_eq!(output.status.code(), Some(2), "{stdout}{stderr}");
    assert!(stderr.contains("steady could not be run"), "{stderr}");
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

/// Starts a long run, ends it with a signal in its middle, and sees that nothing stays.
fn interrupted(mark: &str, signal: &str) -> Option<i32> {
    let args = [
        "chaos",
        "steady",
        "--seconds",
        "60",
        "--against",
        "processes",
    ];
    let mut child = tidegate(mark, &args).spawn().unwrap();
    let instances = || {
        let all = marked(mark);
        let instances = all
            .iter()
            .filter(|(_, line)| line.contains("chaos-instance"));
        (
            instances.count(),
            all.iter()
                .filter(|(_, line)| line.contains("redis-server"))
                .count(),
        )
    };
    eventually("three instances and six nodes", || instances() == (3, 6));
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &pid])
            .status()
            .unwrap()
            .success()
    );
    let code = child.wait().unwrap().code();
    eventually("everything to end", || marked(mark).is_empty());
    code
}

#[test]
fn nothing_is_left_of_an_interrupted_run() {
    assert_eq!(interrupted("interrupted", "-INT"), Some(2));
}

#[test]
fn nothing_is_left_of_a_killed_run() {
    assert_eq!(interrupted("killed", "-KILL"), None);
}
