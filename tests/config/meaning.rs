//! What good files mean.

use tidegate::model::{
    Algorithm, Allowance, Ceiling, ClockSource, Micros, OnOutage, Policies, Policy, Region, Scope,
    Subject,
};

use super::{EXAMPLES, policy};

fn ceilings(policy: &Policy, subject: &str, region: &str) -> Vec<Ceiling> {
    let (subject, region) = (Subject::new(subject), Region::new(region));
    policy
        .ceilings(&subject.unwrap(), Some(&region.unwrap()))
        .unwrap()
}

fn limits(policy: &Policy, subject: &str, region: &str) -> Vec<u64> {
    let ceilings = ceilings(policy, subject, region);
    ceilings.iter().map(|c| c.quota.limit()).collect()
}

#[test]
fn the_documented_policy_means_what_it_says() {
    let policy = policy(
        "algorithm: sliding_log
global: 1000/min
region: 300/min
regions: {us: 500/min, eu: 0/min}
overrides:
  key-42: {global: 5000/min, regions: {us: 2500/min}}
on_outage: local
clock: caller
description: Top tier of the video API",
    );
    assert_eq!(limits(&policy, "key-1", "ap"), [1000, 300]);
    assert_eq!(limits(&policy, "key-1", "us"), [1000, 500]);
    assert_eq!(limits(&policy, "key-1", "eu"), [1000, 0]);
    assert_eq!(limits(&policy, "key-42", "us"), [5000, 2500]);
    assert_eq!(limits(&policy, "key-42", "ap"), [5000, 300]);
    assert_eq!(policy.on_outage(), OnOutage::Local);
    assert_eq!(policy.clock(), ClockSource::Caller);
    assert_eq!(policy.description(), "Top tier of the video API");
    assert_eq!(policy.lease(), None);
}

#[test]
fn what_is_left_out_is_the_safe_choice() {
    let policy = policy("algorithm: fixed_window\nglobal: 5/90s");
    assert_eq!(policy.on_outage(), OnOutage::Deny);
    assert_eq!(policy.clock(), ClockSource::Store);
    assert_eq!(policy.lease(), None);
    let quota = ceilings(&policy, "s", "us")[0].quota;
    assert_eq!((quota.limit(), quota.window()), (5, Micros::from_secs(90)));
}

#[test]
fn ceilings_may_count_differently() {
    let policy = policy(
        "global: {rate: 600/min, algorithm: sliding_counter}
region: {rate: 100/min, algorithm: sliding_log}",
    );
    let ceilings = ceilings(&policy, "s", "us");
    let counted: Vec<_> = ceilings.iter().map(|c| (c.scope, c.algorithm)).collect();
    let expected = [
        (Scope::Global, Algorithm::SlidingCounter),
        (Scope::Region, Algorithm::SlidingLog),
    ];
    assert_eq!(counted, expected);
}

#[test]
fn a_burst_is_inherited_unless_a_rate_has_its_own() {
    let policy = policy(
        "algorithm: token_bucket
global: 100/s
region: {rate: 50/s, burst: 20}
burst: 80
regions: {us: 60/s, eu: {rate: 60/s, burst: 30}, zero: 0/s, free: unlimited}
overrides:
  big: {global: 1000/s, region: {rate: 500/s, burst: 400}}",
    );
    let bursts = |subject, region| -> Vec<u64> {
        let ceilings = ceilings(&policy, subject, region);
        ceilings.iter().map(|c| c.quota.burst()).collect()
    };
    assert_eq!(bursts("s", "ap"), [80, 20]);
    assert_eq!(bursts("s", "us"), [80, 20]);
    assert_eq!(bursts("s", "eu"), [80, 30]);
    assert_eq!(bursts("s", "zero"), [80, 0]);
    assert_eq!(bursts("s", "free"), [80]);
    assert_eq!(bursts("big", "ap"), [80, 400]);
}

#[test]
fn a_bucket_without_a_burst_holds_one_window() {
    let policy = policy("algorithm: token_bucket\nglobal: 10000/s");
    assert_eq!(ceilings(&policy, "s", "us")[0].quota.burst(), 10_000);
}

#[test]
fn a_leaky_bucket_delays_unless_told_otherwise() {
    let delays = |lines: &str| ceilings(&policy(lines), "s", "us")[0].delay;
    assert!(delays("algorithm: leaky_bucket\nglobal: 5/s"));
    assert!(!delays(
        "algorithm: leaky_bucket\nglobal: 5/s\ndelay: false"
    ));
    assert!(!delays(
        "algorithm: leaky_bucket\nglobal: {rate: 5/s, delay: false}"
    ));
    assert!(delays(
        "algorithm: leaky_bucket\nglobal: {rate: 5/s, delay: true}\ndelay: false"
    ));
}

#[test]
fn unlimited_is_a_word_and_zero_is_a_limit() {
    let policy = policy("algorithm: sliding_log\nglobal: unlimited\nregion: 0/s");
    assert_eq!(limits(&policy, "s", "us"), [0]);
    let rule = policy.global().unwrap();
    assert_eq!(rule.allowance, Allowance::Unlimited);
}

#[test]
fn a_lease_has_a_period_and_a_share() {
    let lease = |text: &str| {
        let lines = format!("algorithm: sliding_log\nglobal: 1000/min\nlease: {text}");
        let lease = policy(&lines).lease().unwrap();
        (lease.period(), lease.share_max_permille())
    };
    let half_a_second = Micros::from_millis(500);
    assert_eq!(lease("{period: 500ms}"), (half_a_second, 100));
    assert_eq!(
        lease("{period: 500ms, share_max: 0.25}"),
        (half_a_second, 250)
    );
    assert_eq!(
        lease("{period: 500ms, share_max: 2.5%}"),
        (half_a_second, 25)
    );
}

#[test]
fn subjects_and_regions_are_taken_as_written() {
    let policy = policy(
        "algorithm: sliding_log
global: 5/s
overrides:
  42: {global: 6/s}
  'true': {global: 7/s}
  ~: {global: 8/s}
  a:b {c}: {global: 9/s}
  '': {global: 10/s}",
    );
    for (subject, limit) in [("42", 6), ("true", 7), ("~", 8), ("a:b {c}", 9), ("", 10)] {
        assert_eq!(limits(&policy, subject, "us"), [limit], "{subject}");
    }
}

#[test]
fn the_examples_are_the_ones_that_were_promised() {
    let files = EXAMPLES.map(|yaml| Policies::from_yaml(yaml).unwrap());
    let example = |name: &str| {
        let found = files.iter().find_map(|policies| policies.get(name));
        found.unwrap_or_else(|| panic!("{name}"))
    };
    let ceiling = |name: &str, region: &str| {
        let ceilings = ceilings(example(name), "s", region);
        let last = *ceilings.last().unwrap();
        (last.algorithm, last.quota.to_string(), last.quota.burst())
    };
    let rate = |text: &str| text.to_owned();
    assert_eq!(
        ceiling("video_anonymous", "us"),
        (Algorithm::SlidingCounter, rate("600/min"), 600)
    );
    assert_eq!(
        ceiling("video_authenticated", "us"),
        (Algorithm::SlidingLog, rate("100/min"), 100)
    );
    assert_ne!(ceiling("video_top", "us"), ceiling("video_top", "eu"));
    assert_eq!(
        ceiling("api_gateway", "us"),
        (Algorithm::TokenBucket, rate("10000/s"), 5_000)
    );
    assert_eq!(ceiling("encoder", "us").0, Algorithm::LeakyBucket);
    assert_eq!(ceiling("internal", "us").0, Algorithm::FixedWindow);
    assert_eq!(example("payments").on_outage(), OnOutage::Deny);
}
