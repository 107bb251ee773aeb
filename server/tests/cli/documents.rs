//! Completion scripts and manual pages, as their readers take them.

use std::process::Command;

use super::{tidegate, tidegate_reading};

#[test]
fn completions_know_every_command_and_bash_can_read_them() {
    for shell in ["bash", "zsh", "fish"] {
        let script = tidegate(&["completions", shell]).expect(0).out;
        for command in [
            "serve", "check", "peek", "refund", "reset", "config", "load", "man",
        ] {
            assert!(script.contains(command), "{shell}: {command}");
        }
        assert!(script.contains("redis-ca-file"), "{shell}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tidegate.bash");
    std::fs::write(&file, tidegate(&["completions", "bash"]).out).unwrap();
    let offered = Command::new("bash")
        .args(["--norc", "-c"])
        .arg(format!(
            ". {} && COMP_WORDS=(tidegate con) COMP_CWORD=1 && _tidegate tidegate con tidegate \
             && echo ${{COMPREPLY[@]}}",
            file.display()
        ))
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&offered.stdout).trim(),
        "config",
        "{offered:?}"
    );
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let page = tidegate(&["man"]).expect(0).out;
    assert!(
        page.contains(".TH tidegate 1") && page.contains("Exit codes"),
        "{page}"
    );
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().to_str().unwrap();
    tidegate(&["man", "--directory", name]).expect(0);
    for command in [
        "",
        "-serve",
        "-check",
        "-config",
        "-config-check",
        "-load",
        "-man",
    ] {
        let page = directory.path().join(format!("tidegate{command}.1"));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{page:?}: {e}"));
        assert!(page.contains(".SH EXAMPLES"), "{command}");
        let has_variables = !matches!(command, "" | "-config");
        assert_eq!(page.contains("TIDEGATE_"), has_variables, "{command}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let piped = Command::new("bash")
        .args(["-c", "set -o pipefail; \"$0\" config schema | head -c 10"])
        .arg(env!("CARGO_BIN_EXE_tidegate"))
        .output()
        .unwrap();
    assert!(
        piped.status.success() && piped.stderr.is_empty(),
        "{piped:?}"
    );
    tidegate_reading(&["config", "schema"], "").expect(0);
}
