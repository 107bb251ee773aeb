//! What is said of bad files: where, what, and what would be right; all of it at once.

use std::io::Write as _;

use tidegate::config::{ConfigError, FAULTS_MAX};
use tidegate::model::Policies;

use super::{faults_of, said_of};

/// The one fault of a policy of these lines.
fn only(lines: &str) -> String {
    let mut said = said_of(lines);
    assert_eq!(said.len(), 1, "{said:#?}");
    said.remove(0)
}

#[test]
fn all_faults_of_a_file_come_at_once_in_its_order() {
    let faults = faults_of(
        "version: 2
policys: {}
policies:
  Video:
    algorithm: sliding_log
    global: 5/s
  top:
    algorithm: sliding_lgo
    global: 1000/m
    regoin: 300/min
    on_outage: allow
  top:
    global: 1/s
  empty: {}
  bucket:
    algorithm: token_bucket
    global: {rate: 10/s, burst: 0}
    overrides:
      key-1: {region: 5/s}
server:
  ipv6_prefix: what the server is told is not looked at
",
    );
    let said: Vec<String> = faults
        .iter()
        .map(|fault| fault.to_string().replace("\n    ", " | "))
        .collect();
    let expected = [
        "1:10: version: version 2 of the format is not known | write 1",
        "2:1: policys: `policys` means nothing here | did you mean `policies`?",
        "4:3: policies.Video: `Video` can't be a policy's name | a lower-case letter, then up to \
         62 of a-z 0-9 _ -",
        "8:16: policies.top.algorithm: `sliding_lgo` is not known here | did you mean \
         `sliding_log`?",
        "9:13: policies.top.global: `1000/m` is no rate | did you mean `1000/min`?",
        "10:5: policies.top.regoin: `regoin` means nothing here | did you mean `region`?",
        "11:16: policies.top.on_outage: `allow` is not known here | there are: admit, deny, local",
        "12:3: policies.top: this key stands twice: first in line 7 | keep one of them",
        "14:3: policies.empty: this policy has no ceiling | add `global:` or `region:` with a \
         rate such as 1000/min, 50/s or 10/90s, or `unlimited`",
        "17:33: policies.bucket.global.burst: `0` stands here, but a whole number from 1 to \
         1000000000000 is needed",
        "19:23: policies.bucket.overrides.key-1.region: the policy has no `region` ceiling for \
         this to differ from | add `region:` to the policy; `region: unlimited` limits only who \
         differs",
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_ceiling_needs_an_algorithm_and_one_wrong_one_is_one_fault() {
    let said = only("global: 5/s");
    assert!(
        said.starts_with("1:13: policies.p.global: no algorithm counts this"),
        "{said}"
    );
    let said = only("algorithm: x\nglobal: 5/s\nregion: 5/s\nregions: {us: 5/s}\nburst: 3");
    assert!(
        said.starts_with("1:16: policies.p.algorithm: `x` is not known"),
        "{said}"
    );
}

#[test]
fn what_means_nothing_to_an_algorithm_is_refused() {
    for (lines, place) in [
        (
            "algorithm: sliding_log\nglobal: 5/s\nburst: 3",
            "3:12: policies.p.burst: a burst means",
        ),
        (
            "algorithm: sliding_log\nglobal: {rate: 5/s, burst: 3}",
            "2:32: policies.p.global.burst: a burst means nothing to sliding_log",
        ),
        (
            "algorithm: fixed_window\nregion: 5/s\nregions: {us: {rate: 5/s, burst: 3}}",
            "3:38: policies.p.regions.us.burst: a burst means nothing to fixed_window",
        ),
        (
            "algorithm: token_bucket\nglobal: 5/s\ndelay: true",
            "3:12: policies.p.delay: a delay means nothing to token_bucket",
        ),
        (
            "algorithm: token_bucket\nglobal: {rate: 5/s, delay: true}",
            "2:32: policies.p.global.delay: a delay means nothing to token_bucket",
        ),
    ] {
        let said = only(lines);
        assert!(said.starts_with(place), "{said}");
    }
}

#[test]
fn a_rate_is_refused_with_what_was_probably_meant() {
    for (rate, cure) in [
        ("1000", "a rate carries its unit: 1000/s, 1000/min, 1000/h"),
        ("10 per second", "did you mean `10/s`?"),
        ("1.5/s", "write N/s"),
        ("-5/s", "write N/s"),
        ("1000000000001/s", "for no limit at all write `unlimited`"),
        ("5/0s", "choose a window from 1s to 366d"),
        ("5/367d", "choose a window from 1s to 366d"),
        ("none", "for no limit write `unlimited`; 0/s denies all"),
    ] {
        let said = only(&format!("algorithm: sliding_log\nglobal: {rate}"));
        assert!(said.starts_with("2:13: policies.p.global: "), "{said}");
        assert!(said.contains(cure), "{said}");
    }
    for nothing in ["", "~", "[]"] {
        let said = only(&format!("algorithm: sliding_log\nglobal: {nothing}"));
        assert!(said.contains("a rate such as 1000/min"), "{said}");
    }
    let said = only("algorithm: sliding_log\nglobal: {algorithm: sliding_log}");
    assert!(said.contains("there is no `rate`"), "{said}");
}

#[test]
fn a_bucket_that_takes_more_than_a_year_to_drain_is_refused() {
    let said = only("algorithm: token_bucket\nglobal: {rate: 1/d, burst: 367}");
    assert!(said.contains("takes more than 366 days to drain"), "{said}");
    let said =
        only("algorithm: token_bucket\nburst: 367\nglobal: 400/d\noverrides: {k: {global: 1/d}}");
    assert!(
        said.starts_with("4:29: policies.p.overrides.k.global: "),
        "{said}"
    );
    let said = only("algorithm: token_bucket\nglobal: {rate: 0/s, burst: 3}");
    assert!(
        said.contains("a burst of 3 contradicts a rate of 0"),
        "{said}"
    );
}

#[test]
fn a_region_differs_from_something() {
    let said = only("algorithm: sliding_log\nglobal: 5/s\nregions: {us: 5/s, eu: 4/s}");
    assert!(
        said.starts_with("3:5: policies.p.regions: the policy has no `region`"),
        "{said}"
    );
    let said = only("algorithm: sliding_log\nregion: 5/s\noverrides: {k: {global: 5/s}}");
    assert!(said.contains("no `global` ceiling"), "{said}");
    let long = "r".repeat(65);
    let said = only(&format!(
        "algorithm: sliding_log\nregion: 5/s\nregions: {{{long}: 5/s}}"
    ));
    assert!(said.contains("65 bytes is too long"), "{said}");
}

#[test]
fn an_override_changes_something_and_its_keys_are_known() {
    let said = only("algorithm: sliding_log\nglobal: 5/s\noverrides: {k: {}}");
    assert!(said.contains("an override that changes nothing"), "{said}");
    let said = only("algorithm: sliding_log\nglobal: 5/s\noverrides: {k: {globl: 5/s}}");
    assert!(said.contains("did you mean `global`?"), "{said}");
    let said = only("algorithm: sliding_log\nglobal: 5/s\noverrides: {k: 5/s}");
    assert!(
        said.contains("`5/s` stands here, but an override"),
        "{said}"
    );
}

#[test]
fn a_lease_needs_a_sliding_log_and_sane_bounds() {
    for (lines, problem) in [
        (
            "algorithm: token_bucket\nglobal: 5/s\nlease: {period: 1s}",
            "token_bucket can't be leased",
        ),
        (
            "algorithm: sliding_log\nglobal: 5/s\nlease: {period: 2s}",
            "outlasts the window of 1 s",
        ),
        (
            "algorithm: sliding_log\nglobal: 5/s\nlease: {}",
            "there is no `period`",
        ),
        (
            "algorithm: sliding_log\nglobal: 5/s\nlease: {period: 5ms}",
            "a duration from 0.01 s to 60 s",
        ),
        (
            "algorithm: sliding_log\nglobal: 5/s\nlease: true",
            "`true` stands here, but a map",
        ),
        (
            "algorithm: sliding_log\nglobal: 5/s\nlease: {period: 1s, share_max: 0.6}",
            "`0.6` is no share",
        ),
        (
            "algorithm: sliding_log\nglobal: 5/s\nlease: {period: 1s, share_max: 0}",
            "`0` is no share",
        ),
    ] {
        let said = only(lines);
        assert!(said.contains(problem), "{said}");
    }
}

#[test]
fn wrong_shapes_are_said_where_they_stand() {
    for (file, said) in [
        ("[1, 2]", "1:1: (file): a list stands here"),
        ("version: 1", "1:1: (file): there is no `policies`"),
        (
            "policies: {p: {algorithm: sliding_log, global: 1/s}}",
            "1:1: (file): there is no `version`",
        ),
        (
            "version: 1\npolicies: []",
            "2:11: policies: a list stands here",
        ),
        (
            "version: 1\npolicies: {}",
            "2:11: policies: there is no policy",
        ),
        (
            "version: 1\npolicies:\n  p: 5/s",
            "3:6: policies.p: `5/s` stands here, but a policy",
        ),
        (
            "version: one\npolicies: {p: {algorithm: sliding_log, global: 1/s}}",
            "1:10: version: `one`",
        ),
    ] {
        let faults = faults_of(file);
        assert_eq!(faults.len(), 1, "{faults}");
        assert!(faults.to_string().starts_with(said), "{faults}");
    }
}

#[test]
fn a_file_of_nothing_but_faults_is_bounded() {
    let mut file = String::from("version: 1\npolicies:\n");
    for n in 0..FAULTS_MAX * 2 {
        file.push_str(&format!("  p{n}: {{algorithm: x, global: 5}}\n"));
    }
    let faults = faults_of(&file);
    assert_eq!(faults.len(), FAULTS_MAX * 4);
    assert!(faults.to_string().ends_with("and 3000 more"));
}

#[test]
fn a_file_on_disk_heads_each_fault_with_its_name() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"version: 1\npolicies: {p: {global: 5}}\nx: \n")
        .unwrap();
    let error = Policies::from_file(file.path()).unwrap_err();
    let name = file.path().display();
    let said = error.to_string();
    let heads = said
        .lines()
        .filter(|line| line.starts_with(&format!("{name}:")));
    assert_eq!(heads.count(), 3, "{said}");

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"version: 1\n\"ab\xff\": 1\n").unwrap();
    let said = Policies::from_file(file.path()).unwrap_err().to_string();
    assert!(
        said.contains(":2:4: (file): this is not UTF-8 text"),
        "{said}"
    );

    let missing = Policies::from_file("/nowhere/at/all.yaml".as_ref()).unwrap_err();
    assert!(matches!(missing, ConfigError::Read { .. }));
    assert!(
        missing
            .to_string()
            .contains("can't read /nowhere/at/all.yaml: ")
    );
}
