//! The JSON schema, tried with a validator of its own: it takes every file that the reader takes,
//! and refuses what is misshapen.

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value, json};
use tidegate::config::SCHEMA_JSON;
use tidegate::model::Policies;

use super::EXAMPLES;

struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    fn new() -> Self {
        let schema: Value = serde_json::from_str(SCHEMA_JSON).unwrap();
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.add_resource("tidegate.json", schema).unwrap();
        let index = compiler.compile("tidegate.json", &mut schemas).unwrap();
        Schema { schemas, index }
    }

    fn takes(&self, file: &str) -> Result<(), String> {
        self.schemas
            .validate(&json_of(file), self.index)
            .map_err(|error| error.to_string())
    }
}

/// A YAML file as the JSON value that an editor's schema check sees.
fn json_of(yaml: &str) -> Value {
    let mut open: Vec<(Value, Option<String>)> = Vec::new();
    let mut root = Value::Null;
    for event in Parser::new_from_str(yaml) {
        let done = match event.unwrap().0 {
            Event::MappingStart(..) => {
                open.push((Value::Object(Map::new()), None));
                continue;
            }
            Event::SequenceStart(..) => {
                open.push((json!([]), None));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => open.pop().unwrap().0,
            Event::Scalar(text, style, ..) => match open.last_mut() {
                Some((Value::Object(_), key @ None)) => {
                    *key = Some(text.into_owned());
                    continue;
                }
                _ => scalar(&text, style),
            },
            _ => continue,
        };
        match open.last_mut() {
            None => root = done,
            Some((Value::Array(items), _)) => items.push(done),
            Some((Value::Object(members), key)) => {
                members.insert(key.take().unwrap(), done);
            }
            Some(_) => unreachable!("only lists and maps are open"),
        }
    }
    root
}

/// A scalar by YAML's core schema.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return json!(text);
    }
    match text {
        "true" => json!(true),
        "false" => json!(false),
        "" | "~" | "null" => Value::Null,
        number if number.parse::<i64>().is_ok() => json!(number.parse::<i64>().unwrap()),
        number if number.parse::<f64>().is_ok() => json!(number.parse::<f64>().unwrap()),
        text => json!(text),
    }
}

#[test]
fn every_example_is_valid() {
    let schema = Schema::new();
    for example in EXAMPLES {
        schema
            .takes(example)
            .unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}

#[test]
fn whatever_a_file_may_hold_is_valid() {
    let all = "version: 1
policies:
  p:
    algorithm: leaky_bucket
    global: {rate: 5/90s, burst: 7, delay: false, algorithm: leaky_bucket}
    region: unlimited
    burst: 9
    delay: true
    regions: {us: 0/s, eu: {rate: 3/15min, burst: 4}}
    overrides: {k: {global: unlimited, region: 5/h, regions: {us: 7/d}}}
    on_outage: local
    clock: caller
    description: x
  leased: {algorithm: sliding_log, global: 5/min, lease: {period: 500ms, share_max: 0.1}}
  percent: {algorithm: sliding_log, global: 5/min, lease: {period: 1s, share_max: 2.5%}}
server:
  policy_header: X-Policy
  subject_header: X-API-Key
  region_header: X-Region
  trusted_proxies: [10.0.0.0/8, '2001:db8::/32']
  ipv6_prefix: 56
  error_body: short
  ratelimit_headers: draft-12
  x_ratelimit_reset: delta
  batch_max: 50
  body_bytes_max: 65536
";
    Policies::from_yaml(all).unwrap_or_else(|faults| panic!("{faults}"));
    Schema::new().takes(all).unwrap();
}

#[test]
fn what_is_misshapen_is_refused() {
    let schema = Schema::new();
    let policy = |lines: &str| format!("version: 1\npolicies: {{p: {{{lines}}}}}");
    let good = "algorithm: sliding_log, global: 5/s";
    schema.takes(&policy(good)).unwrap();
    for bad in [
        "{}".to_owned(),
        "version: 2\npolicies: {p: {global: 5/s}}".to_owned(),
        "version: 1\npolicies: {}".to_owned(),
        "version: 1\npolicies: {P: {global: 5/s}}".to_owned(),
        policy("algorithm: sliding_log"),
        policy("algorithm: sliding_lgo, global: 5/s"),
        policy("algorithm: sliding_log, global: 5"),
        policy("algorithm: sliding_log, global: 5/m"),
        policy(&format!("{good}, burst: 0")),
        policy(&format!("{good}, on_outage: allow")),
        policy(&format!("{good}, regions: {{us: 5/s}}")),
        policy(&format!("{good}, overrides: {{k: {{}}}}")),
        policy(&format!("{good}, lease: {{share_max: 0.1}}")),
        policy(&format!("{good}, lease: {{period: 1s, share_max: 0.6}}")),
        policy(&format!("{good}, unknown: 1")),
    ] {
        assert!(schema.takes(&bad).is_err(), "taken: {bad}");
    }
}
