//! What is typed, rightly and wrongly.

use super::{command, tidegate};

const COMMANDS: &[&[&str]] = &[
    &["serve"],
    &["check"],
    &["peek"],
    &["refund"],
    &["reset"],
    &["config", "check"],
    &["config", "schema"],
    &["config", "example"],
    &["load"],
    &["completions"],
    &["man"],
];

#[test]
fn help_teaches_each_command_by_examples_and_names_each_flags_variable() {
    for path in COMMANDS {
        let mut arguments = path.to_vec();
        arguments.push("--help");
        let help = tidegate(&arguments).expect(0).out;
        let unwrapped = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("Examples:"), "{path:?}");
        for line in help.lines().map(str::trim_start) {
            let Some(flag) = line
                .split_whitespace()
                .find_map(|word| word.strip_prefix("--"))
            else {
                continue;
            };
            let is_heading = line.starts_with("--") || line.starts_with('-');
            if !is_heading || matches!(flag, "help" | "version") {
                continue;
            }
            let variable = format!("[env: TIDEGATE_{}", flag.replace('-', "_").to_uppercase());
            assert!(unwrapped.contains(&variable), "{path:?} {flag}: {help}");
        }
    }
    let help = tidegate(&["check", "--help"]).out;
    assert!(help.contains("Exit codes: 0 admitted, 1 denied, 2 could not decide"));
}

#[test]
fn help_and_version_are_answers_and_no_arguments_are_bad_usage() {
    let help = tidegate(&["--help"]).expect(0);
    assert!(help.err.is_empty() && help.out.contains("tidegate serve"));
    let version = tidegate(&["--version"]).expect(0);
    assert_eq!(
        version.out,
        format!("tidegate {}\n", env!("CARGO_PKG_VERSION"))
    );
    let nothing = tidegate(&[]).expect(2);
    assert!(nothing.out.is_empty() && nothing.err.contains("Usage: tidegate"));
}

#[test]
fn bad_usage_says_what_was_wrong_and_exits_with_2() {
    for (arguments, said) in [
        (&["chekc"][..], "check"),
        (&["check", "--subject", "s"], "--policy"),
        (&["check", "--policy", "payments"], "--subject"),
        (
            &[
                "check",
                "--policy",
                "payments",
                "--subject",
                "s",
                "--cost",
                "-1",
            ],
            "from 0 to",
        ),
        (
            &[
                "check",
                "--policy",
                "payments",
                "--subject",
                "s",
                "--cost",
                "1.5",
            ],
            "from 0 to",
        ),
        (
            &[
                "check",
                "--policy",
                "payments",
                "--subject",
                "s",
                "--deadline",
                "50",
            ],
            "50ms",
        ),
        (
            &[
                "check",
                "--policy",
                "payments",
                "--subject",
                "s",
                "--deadline",
                "2min",
            ],
            "60 s",
        ),
        (
            &[
                "check",
                "--policy",
                "payments",
                "--subject",
                "s",
                "--key-prefix",
                "a{b",
            ],
            "prefix",
        ),
        (
            &["check", "--policy", "paymnets", "--subject", "s"],
            "payments",
        ),
        (
            &["check", "--policy", "video_top", "--subject", "s"],
            "--region",
        ),
        (
            &[
                "check",
                "--policy",
                "payments",
                "--subject",
                "s",
                "--id",
                "a b",
            ],
            "charge id",
        ),
        (&["load", "--policy", "internal", "--rate", "500"], "1/s"),
        (
            &["load", "--policy", "internal", "--distribution", "normal"],
            "zipf:S",
        ),
        (
            &[
                "load",
                "--policy",
                "internal",
                "--seconds",
                "1",
                "--checks",
                "1",
            ],
            "--checks",
        ),
        (
            &["load", "--policy", "nothing", "--seconds", "1"],
            "no policy is named",
        ),
        (
            &["load", "--policy", "video_top", "--seconds", "1"],
            "--regions",
        ),
        (&["serve", "--listen", "nowhere"], "127.0.0.1:8080"),
        (&["serve", "--trusted-proxies", "10.1.0.0/8"], "10.0.0.0/8"),
        (&["serve", "--log-level", "x=loud"], "log filter"),
        (&["serve", "--admin-token", "short"], "too short"),
        (
            &["serve", "--redis", "redis://a", "--batch-len-max", "0"],
            "batch_len_max",
        ),
        (
            &[
                "serve",
                "--redis",
                "redis://a",
                "--redis-connections-per-node",
                "0",
            ],
            "--redis",
        ),
        (&["serve", "--breaker-cool-down", "0s"], "above 0"),
        (&["config", "example", "nothing"], "payments"),
        (&["completions", "csh"], "fish"),
        (
            &["reset", "--policy", "payments", "--subject", "s"],
            "--redis",
        ),
        (
            &[
                "refund",
                "--policy",
                "payments",
                "--subject",
                "s",
                "--id",
                "a",
            ],
            "--redis",
        ),
    ] {
        let run = tidegate(arguments).expect(2);
        assert!(run.err.contains(said), "{arguments:?}: {run:#?}");
        assert!(run.out.is_empty(), "{arguments:?}: {run:#?}");
    }
}

#[test]
fn a_variable_stands_for_its_flag_and_the_flag_goes_first() {
    let run = |flags: &[&str]| {
        let output = command(flags)
            .env("TIDEGATE_POLICY", "video_top")
            .env("TIDEGATE_SUBJECT", "key-1")
            .env("TIDEGATE_REGION", "antarctica")
            .env("TIDEGATE_JSON", "true")
            .env("TIDEGATE_REDIS", "")
            .env("TIDEGATE_CONFIG", "")
            .output();
        super::Run::from(output.unwrap())
    };
    let denied = run(&["check"]).expect(1);
    assert_eq!(denied.json()["region"], "antarctica");
    let admitted = run(&["check", "--region", "us"]).expect(0);
    assert_eq!(admitted.json()["region"], "us");
}
