//! ARCHITECTURE.md, held against the house: what it names is there, what is there it names, and
//! the way of one check is as it says.

use std::collections::BTreeSet;
use std::fs;

use crate::{SOURCES, circles, root};

/// The most files that a reader opens from a request to its script call.
const WAY_FILES_MAX: usize = 20;

fn map() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// What stands in backticks and is a path.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.contains('/') && !word.contains([' ', '{', '<', '*', ':']))
}

#[test]
fn every_path_that_the_map_names_exists() {
    let map = map();
    let missing: Vec<_> = paths(&map)
        .filter(|path| !root().join(path).exists())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(paths(&map).count() > 20, "the map names hardly a file");
}

#[test]
fn every_part_of_the_house_is_on_the_map() {
    let map = map();
    let named: BTreeSet<&str> = paths(&map).map(|path| path.trim_end_matches('/')).collect();
    for dir in SOURCES {
        for entry in fs::read_dir(root().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_part = path.is_dir() || (name.ends_with(".rs") && !is_entry(&name));
            let part = format!("{dir}/{name}");
            assert!(!is_part || named.contains(part.as_str()), "{part}");
        }
    }
}

fn is_entry(name: &str) -> bool {
    matches!(name, "lib.rs" | "main.rs")
}

/// The numbered files under "The way of one check".
fn way(map: &str) -> Vec<String> {
    let (_, after) = map.split_once("## The way of one check").unwrap();
    let section = after.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| {
        let number = line.split(". ").next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    lines
        .map(|line| paths(line).next().expect("a file in each step").to_owned())
        .collect()
}

#[test]
fn one_checks_way_is_short_and_each_file_on_it_is_tied_to_one_before() {
    let way = way(&map());
    assert!(way.len() > 5 && way.len() <= WAY_FILES_MAX, "{way:?}");
    assert!(way[0].starts_with("server/src"), "begins at a request");
    let last = way.last().unwrap();
    assert!(last.starts_with("lua/"), "ends at the script: {last}");
    for dir in SOURCES {
        let inside = way
            .iter()
            .filter(|file| file.ends_with(".rs") && file.starts_with(&format!("{dir}/")));
        let inside: Vec<&str> = inside.map(String::as_str).collect();
        for (n, file) in inside.iter().enumerate().skip(1) {
            // An adapter is not named by who calls its port: it names the port.
            let tied = |before: &&str| {
                circles::reached_from(dir, before).contains(*file)
                    || circles::reached_from(dir, file).contains(*before)
            };
            assert!(
                inside[..n].iter().any(tied),
                "nothing before leads to {file}"
            );
        }
    }
}
