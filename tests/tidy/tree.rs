//! What comes along with `cargo add tidegate`.

use std::collections::BTreeSet;
use std::process::Command;

/// The crates that the library needs with these features, itself among them.
fn crates(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "tidegate", "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}", "--locked"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_library_alone_brings_few_crates_and_nothing_of_a_server() {
    let crates = crates(&[]);
    assert!(crates.contains("tidegate"), "{crates:?}");
    assert!(crates.len() < 40, "{}: {crates:?}", crates.len());
    for foreign in [
        "tokio",
        "fred",
        "moka",
        "axum",
        "clap",
        "testcontainers",
        "hyper",
    ] {
        assert!(!crates.contains(foreign), "{foreign}");
    }
}

#[test]
fn the_cluster_store_brings_nothing_of_a_server() {
    let crates = crates(&["--all-features"]);
    assert!(crates.contains("fred"), "{crates:?}");
    for foreign in [
        "axum",
        "hyper",
        "clap",
        "testcontainers",
        "mimalloc",
        "indicatif",
    ] {
        assert!(!crates.contains(foreign), "{foreign}");
    }
}
