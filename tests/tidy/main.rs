//! The house's rules, as tests: what a reader relies on without looking.

mod circles;
mod map;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 400;

/// What ships, and the chaos bench.
const SOURCES: &[&str] = &["src", "server/src", "chaos/src"];

/// What tests and measures it.
const TESTS: &[&str] = &[
    "tests",
    "benches",
    "server/tests",
    "server/benches",
    "chaos/tests",
];

fn sources() -> impl Iterator<Item = (PathBuf, String)> {
    SOURCES.iter().flat_map(|dir| files(dir, "rs"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(dir: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(dir)];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no .{extension} below {dir}");
    found
}

/// The part of a source file that ships: what stands before its unit tests, without comments.
fn shipped(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !matches!(line.trim(), "#[cfg(test)]" | "#![cfg(test)]"))
        .map(|(n, line)| (n + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn no_file_is_longer_than_four_hundred_lines() {
    let sources = SOURCES.iter().chain(TESTS).flat_map(|dir| files(dir, "rs"));
    let long: Vec<_> = sources
        .chain(files("lua", "lua"))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .collect();
    assert!(long.is_empty(), "split by concept: {long:?}");
}

#[test]
fn model_and_algorithm_know_no_clock_socket_or_store() {
    let forbidden = [
        "tokio",
        "fred",
        "Instant::now",
        "SystemTime",
        "std::net",
        "crate::store",
        "crate::clock",
    ];
    for (path, text) in files("src/model", "rs")
        .into_iter()
        .chain(files("src/algorithm", "rs"))
    {
        for (n, line) in shipped(&text) {
            for word in forbidden {
                assert!(!line.contains(word), "{}:{n} names {word}", path.display());
            }
        }
    }
}

/// A module, and those of its own crate that it may name.
type Place = (&'static str, &'static [&'static str]);

/// Which modules of its own crate a module may name. One that isn't here has no place in the
/// house yet.
const MAY_NAME: &[(&str, &[Place])] = &[
    (
        "src",
        &[
            ("model", &[]),
            ("clock", &["model"]),
            ("algorithm", &["model"]),
            ("store", &["model", "clock", "algorithm"]),
            ("admission", &["model", "clock", "algorithm", "store"]),
            (
                "limiter",
                &["model", "clock", "algorithm", "store", "admission"],
            ),
            ("wire", &["model"]),
            ("config", &["model"]),
        ],
    ),
    (
        "server/src",
        &[
            ("config", &[]),
            ("telemetry", &[]),
            ("edge", &["config", "telemetry"]),
            ("cli", &["config", "telemetry", "edge"]),
        ],
    ),
    (
        "chaos/src",
        &[
            ("resp", &[]),
            ("proxy", &[]),
            ("cluster", &["resp", "proxy"]),
            ("fault", &["resp", "cluster", "proxy"]),
            ("oracle", &[]),
            ("load", &["oracle"]),
            ("report", &["oracle", "load"]),
            (
                "scenario",
                &[
                    "resp", "proxy", "cluster", "fault", "oracle", "load", "report",
                ],
            ),
        ],
    ),
];

#[test]
fn dependencies_point_down_only() {
    for (dir, places) in MAY_NAME {
        for (path, text) in files(dir, "rs") {
            let inside = path.strip_prefix(dir).unwrap();
            let top = inside.components().next().unwrap().as_os_str();
            let top = top.to_string_lossy().into_owned();
            let module = top.trim_end_matches(".rs");
            if matches!(module, "lib" | "main") {
                continue;
            }
            let (_, allowed) = places
                .iter()
                .find(|(name, _)| *name == module)
                .unwrap_or_else(|| {
                    panic!("{dir}/{module} has no place in the house: see MAY_NAME")
                });
            for (n, line) in shipped(&text) {
                for named in line.split("crate::").skip(1) {
                    let end = named.find(|c: char| !c.is_ascii_lowercase() && c != '_');
                    let named = &named[..end.unwrap_or(named.len())];
                    assert!(
                        named.is_empty() || named == module || allowed.contains(&named),
                        "{}:{n}: {module} must not name {named}",
                        path.display()
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_that_ships_can_panic_by_word() {
    let words = [".unwrap()", "panic!(", "unimplemented!(", "todo!("];
    for (path, text) in sources() {
        for (n, line) in shipped(&text) {
            for word in words {
                assert!(!line.contains(word), "{}:{n} holds {word}", path.display());
            }
        }
    }
}

#[test]
fn every_module_says_what_it_is() {
    for (path, text) in sources() {
        assert!(
            text.starts_with("//!"),
            "{} has no module documentation",
            path.display()
        );
    }
}

#[test]
fn every_algorithm_has_its_lua_twin() {
    for name in [
        "sliding_log",
        "sliding_counter",
        "fixed_window",
        "token_bucket",
        "leaky_bucket",
    ] {
        assert!(
            root().join(format!("src/algorithm/{name}.rs")).exists(),
            "{name}.rs"
        );
        assert!(
            root().join(format!("lua/{name}.lua")).exists(),
            "{name}.lua"
        );
    }
}

#[test]
fn no_test_is_switched_off() {
    let tests = TESTS.iter().flat_map(|dir| files(dir, "rs"));
    for (path, text) in sources().chain(tests) {
        for (n, line) in text.lines().enumerate() {
            let off = line.trim_start().starts_with("#[ignore");
            assert!(!off, "{}:{}", path.display(), n + 1);
        }
    }
}

#[test]
fn no_module_bears_a_crates_name() {
    let taken = [
        "core", "http", "redis", "metrics", "tokio", "fred", "moka", "governor", "utils",
    ];
    for (path, _) in sources() {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(!taken.contains(&stem.as_str()), "{}", path.display());
    }
}
