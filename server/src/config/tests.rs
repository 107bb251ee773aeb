//! Policy files with the server's settings, as operators write them.

#![cfg(test)]

use std::time::Duration;

use boon::{Compiler, Draft, Schemas};
use serde_json::{Value, json};

use super::*;

#[test]
fn all_faults_of_a_file_come_at_once_in_its_order() {
    let faults = Config::parse(
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
  ipv6_prefix: 32
  admin_token: hunter2hunter2hunter2
",
    )
    .unwrap_err();
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
        "21:16: server.ipv6_prefix: `32` stands here, but a whole number from 48 to 128 is needed",
        "22:3: server.admin_token: a secret has no place in this file | give it as \
         --admin-token-file FILE or in TIDEGATE_ADMIN_TOKEN",
    ];
    assert_eq!(said, expected);
    assert!(!faults.to_string().contains("hunter2"));
}

#[test]
fn server_settings_are_read_and_have_defaults() {
    let policies = "policies: {p: {algorithm: sliding_log, global: 5/s}}";
    let parse = |text: &str| Config::parse(text).unwrap_or_else(|faults| panic!("{faults}"));
    let plain = parse(&format!("version: 1\n{policies}"));
    assert_eq!(plain.settings, Settings::default());
    let set = parse(&format!(
        "version: 1\n{policies}
server:
  policy_header: X-Policy
  subject_header: X-API-Key
  region_header: X-Region
  trusted_proxies: [10.0.0.0/8, 2001:db8::/32, 192.0.2.7]
  ipv6_prefix: 56
  error_body: short
  ratelimit_headers: draft-12
  x_ratelimit_reset: delta
  batch_max: 50
  body_bytes_max: 65536
  connections_max: 7
  in_flight_max: 8
  head_bytes_max: 2048
  head_timeout: 3s
  body_timeout: 400ms
  drain: 20s
  shutdown_timeout: 5s
"
    ))
    .settings;
    assert_eq!(set.policy_header.as_str(), "x-policy");
    assert_eq!(set.subject_header.as_str(), "x-api-key");
    assert_eq!(set.region_header.as_str(), "x-region");
    assert!(set.trusts("192.0.2.7".parse().unwrap()) && set.trusted_proxies.len() == 3);
    assert_eq!(set.ipv6_prefix, 56);
    assert_eq!(set.error_body, ErrorBody::Short);
    assert_eq!(set.ratelimit_headers, RateLimitHeaders::Draft12);
    assert_eq!(set.x_ratelimit_reset, XRateLimitReset::Delta);
    assert_eq!((set.batch_max, set.body_bytes_max), (50, 65_536));
    let bounds = Bounds {
        connections_max: 7,
        in_flight_max: 8,
        head_bytes_max: 2_048,
        head_timeout: Duration::from_secs(3),
        body_timeout: Duration::from_millis(400),
        drain: Duration::from_secs(20),
        shutdown_timeout: Duration::from_secs(5),
    };
    assert_eq!(set.bounds, bounds);
}

#[test]
fn one_file_holds_the_policies_of_all() {
    let all = Config::examples().unwrap();
    let mut names = 0;
    for example in EXAMPLES {
        let one = Config::parse(example.yaml)
            .unwrap_or_else(|faults| panic!("{}:\n{faults}", example.name));
        for policy in one.policies.iter() {
            assert_eq!(all.policies.get(policy.name().as_str()), Some(policy));
            names += 1;
        }
    }
    assert_eq!(names, all.policies.len());
}

fn is_valid(file: &Value) -> bool {
    let schema: Value = serde_json::from_str(&schema_json()).unwrap();
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.set_default_draft(Draft::V2020_12);
    compiler.add_resource("tidegate.json", schema).unwrap();
    let index = compiler.compile("tidegate.json", &mut schemas).unwrap();
    schemas.validate(file, index).is_ok()
}

fn with_settings(settings: Value) -> Value {
    let policies = json!({"p": {"algorithm": "sliding_log", "global": "5/s"}});
    json!({"version": 1, "policies": policies, "server": settings})
}

#[test]
fn the_schema_takes_what_the_reader_takes_and_refuses_what_is_misshapen() {
    let all = json!({
        "policy_header": "X-Policy", "subject_header": "X-API-Key", "region_header": "X-Region",
        "trusted_proxies": ["10.0.0.0/8", "2001:db8::/32"], "ipv6_prefix": 56,
        "error_body": "short", "ratelimit_headers": "draft-12", "x_ratelimit_reset": "delta",
        "batch_max": 50, "body_bytes_max": 65536, "connections_max": 7, "in_flight_max": 8,
        "head_bytes_max": 2048, "head_timeout": "3s", "body_timeout": "400ms",
        "drain": "20s", "shutdown_timeout": "5s",
    });
    let file = with_settings(all.clone());
    // JSON is YAML, too.
    Config::parse(file.to_string()).unwrap_or_else(|faults| panic!("{faults}"));
    assert!(is_valid(&file));
    assert!(is_valid(&with_settings(json!({}))));
    let schema: Value = serde_json::from_str(&schema_json()).unwrap();
    let described = schema["properties"]["server"]["properties"].as_object();
    let described: Vec<_> = described.unwrap().keys().collect();
    let taken: Vec<_> = all.as_object().unwrap().keys().collect();
    assert_eq!(described, taken);
    for bad in [
        json!({"admin_token": "x"}),
        json!({"ipv6_prefix": 32}),
        json!({"error_body": "xml"}),
        json!({"region_header": "x y"}),
        json!([]),
    ] {
        assert!(!is_valid(&with_settings(bad.clone())), "{bad}");
        let file = with_settings(bad.clone()).to_string();
        assert!(Config::parse(file).is_err(), "{bad}");
    }
}

#[test]
fn a_setting_that_is_misspelt_is_told_the_one_that_was_meant() {
    let faults = Config::parse(
        "version: 1\npolicies: {p: {algorithm: sliding_log, global: 5/s}}\nserver: {bach_max: 1, x: 2}",
    )
    .unwrap_err()
    .to_string();
    assert!(
        faults.contains("3:10: server.bach_max: `bach_max` means nothing here"),
        "{faults}"
    );
    assert!(faults.contains("did you mean `batch_max`?"), "{faults}");
    assert!(
        faults.contains("there are: policy_header, subject_header"),
        "{faults}"
    );
}
