//! `POST /v1/check` and `/v1/peek`: status, header fields, body.

use serde_json::json;
use tidegate::model::Micros;

use crate::client::{Client, get, post};
use crate::server::{POLICIES, START_SECS, Server};

const US: &str = r#"{"policy":"video_top","subject":"key-1","region":"us"}"#;

#[tokio::test]
async fn an_admission_is_200_with_the_decision_and_its_header_fields() {
    let server = Server::start(POLICIES).await;
    let answer = post(server.address, "/v1/check", US).await;
    assert_eq!(answer.status, 200);
    let mut body = answer.json();
    assert!(body["id"].as_str().is_some_and(|id| !id.is_empty()));
    body["id"] = json!("made");
    assert_eq!(
        body,
        json!({"admitted": true, "policy": "video_top", "subject": "key-1", "region": "us",
            "cost": 1, "id": "made", "never": false, "degraded": false, "source": "store",
            "binding": "region", "ceilings": [
                {"scope": "global", "limit": 8, "window": 60, "remaining": 7, "reset_after": 60},
                {"scope": "region", "region": "us", "limit": 5, "window": 60, "remaining": 4,
                 "reset_after": 60}]})
    );
    for (name, value) in [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        (
            "ratelimit-policy",
            r#""video_top.global";q=8;w=60, "video_top.region";q=5;w=60"#,
        ),
        (
            "ratelimit",
            r#""video_top.global";r=7;t=60, "video_top.region";r=4;t=60"#,
        ),
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-remaining", "4"),
        ("x-ratelimit-reset", &(START_SECS + 60).to_string()),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert_eq!(answer.header("retry-after"), None);
}

#[tokio::test]
async fn a_denial_is_429_with_a_problem_and_the_wait_rounded_up() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    for _ in 0..5 {
        assert_eq!(client.post("/v1/check", US).await.status, 200);
        server.clock.advance(Micros::from_millis(500));
    }
    let answer = client.post("/v1/check", US).await;
    assert_eq!(answer.status, 429);
    for (name, value) in [
        ("content-type", "application/problem+json"),
        ("cache-control", "no-store"),
        // 60 s after the first, of which 2.5 s are over.
        ("retry-after", "58"),
        (
            "ratelimit",
            r#""video_top.global";r=3, "video_top.region";r=0;t=58"#,
        ),
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-remaining", "0"),
        // The last was charged at 2.0 s.
        ("x-ratelimit-reset", &(START_SECS + 62).to_string()),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let body = answer.json();
    assert_eq!(
        body["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(body["status"], 429);
    assert_eq!(body["violated-policies"], json!(["video_top.region"]));
    assert_eq!(body["admitted"], false);
    assert_eq!(body["retry_after"], 57.5);
    assert_eq!(body["binding"], "region");
    assert_eq!(body["ceilings"][0]["remaining"], 3);
}

#[tokio::test]
async fn the_wait_that_was_told_is_exact() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let plain = r#"{"policy":"plain","subject":"s"}"#;
    client.post("/v1/check", plain).await;
    server.clock.advance(Micros::new(12_345_678));
    client.post("/v1/check", plain).await;
    let denied = client.post("/v1/check", plain).await;
    assert_eq!(denied.json()["retry_after"], 47.654322);
    assert_eq!(denied.header("retry-after"), Some("48"));
    server.clock.advance(Micros::new(47_654_321));
    assert_eq!(client.post("/v1/check", plain).await.status, 429);
    server.clock.advance(Micros::new(1));
    assert_eq!(client.post("/v1/check", plain).await.status, 200);
}

#[tokio::test]
async fn regions_have_ceilings_of_their_own_under_the_global_one() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let mut admitted = Vec::new();
    for (region, tries) in [("us", 6), ("eu", 4), ("ap", 2)] {
        let body = format!(r#"{{"policy":"video_top","subject":"k","region":"{region}"}}"#);
        for _ in 0..tries {
            if client.post("/v1/check", &body).await.status == 200 {
                admitted.push(region);
            }
        }
    }
    // 5 in us, 3 in eu, and then the global 8 are used up.
    assert_eq!(admitted, [["us"; 5].as_slice(), &["eu"; 3]].concat());
}

#[tokio::test]
async fn what_can_never_be_admitted_is_told_no_time() {
    let server = Server::start(POLICIES).await;
    for (body, words) in [
        (
            r#"{"policy":"plain","subject":"s","cost":3}"#,
            "can never be admitted",
        ),
        (
            r#"{"policy":"plain","subject":"s","cost":1000000000000}"#,
            "can never be admitted",
        ),
        (
            r#"{"policy":"video_top","subject":"s","region":"closed"}"#,
            "is 0",
        ),
    ] {
        let answer = post(server.address, "/v1/check", body).await;
        answer.assert_problem(429, words);
        assert_eq!(answer.header("retry-after"), None);
        assert_eq!(answer.json()["never"], true);
        assert_eq!(answer.json().get("retry_after"), None);
    }
    // Refused costs used nothing up.
    let rest = post(
        server.address,
        "/v1/check",
        r#"{"policy":"plain","subject":"s","cost":2}"#,
    );
    assert_eq!(rest.await.status, 200);
}

#[tokio::test]
async fn a_peek_is_always_200_and_changes_nothing() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let plain = r#"{"policy":"plain","subject":"s","cost":2}"#;
    for _ in 0..3 {
        let answer = client.post("/v1/peek", plain).await;
        assert_eq!(
            (answer.status, &answer.json()["admitted"]),
            (200, &json!(true))
        );
    }
    assert_eq!(client.post("/v1/check", plain).await.status, 200);
    let answer = client.post("/v1/peek", plain).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["admitted"], false);
    assert_eq!(answer.json()["retry_after"], 60);
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(answer.header("retry-after"), None);
    // A check of cost 0 is a peek, too.
    let zero = r#"{"policy":"plain","subject":"t","cost":0}"#;
    for _ in 0..3 {
        let answer = client.post("/v1/check", zero).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["ceilings"][0]["remaining"], 2);
    }
}

#[tokio::test]
async fn a_repeated_id_charges_once_and_answers_the_same() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let body = r#"{"policy":"plain","subject":"s","id":"order-7"}"#;
    for _ in 0..5 {
        let answer = client.post("/v1/check", body).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["id"], "order-7");
        assert_eq!(answer.json()["ceilings"][0]["remaining"], 1);
    }
}

#[tokio::test]
async fn a_queue_tells_how_long_to_wait() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let body = r#"{"policy":"queue","subject":"s"}"#;
    let first = client.post("/v1/check", body).await;
    assert_eq!(first.header("tidegate-delay"), Some("0"));
    let second = client.post("/v1/check", body).await;
    assert_eq!(second.header("tidegate-delay"), Some("0.5"));
    assert_eq!(second.json()["delay"], 0.5);
    let third = client.post("/v1/check", body).await;
    assert_eq!(third.status, 429);
    assert_eq!(third.json()["retry_after"], 0.5);
    assert_eq!(third.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn what_has_no_ceiling_claims_none() {
    let server = Server::start(POLICIES).await;
    let answer = post(
        server.address,
        "/v1/check",
        r#"{"policy":"free","subject":"s"}"#,
    )
    .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["ceilings"], json!([]));
    for name in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn every_algorithm_answers_in_the_same_words() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    for policy in ["bucket", "counter", "aligned"] {
        let body = |cost| format!(r#"{{"policy":"{policy}","subject":"s","cost":{cost}}}"#);
        let answer = client.post("/v1/check", &body(10)).await;
        assert_eq!(answer.status, 200, "{policy}");
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
        let answer = client.post("/v1/check", &body(1)).await;
        assert_eq!(answer.status, 429, "{policy}");
        let told = answer
            .header("retry-after")
            .unwrap()
            .parse::<f64>()
            .unwrap();
        let exact = answer.json()["retry_after"].as_f64().unwrap();
        assert!(
            exact > 0.0 && told == exact.ceil(),
            "{policy}: {told} {exact}"
        );
        let wait = (exact * 1e6).round() as u64;
        server.clock.advance(Micros::new(wait - 1));
        assert_eq!(client.post("/v1/check", &body(1)).await.status, 429);
        server.clock.advance(Micros::new(1));
        assert_eq!(client.post("/v1/check", &body(1)).await.status, 200);
    }
}

#[tokio::test]
async fn the_short_body_delta_resets_and_no_draft_are_settings() {
    let yaml = format!(
        "{POLICIES}
server: {{error_body: short, ratelimit_headers: 'off', x_ratelimit_reset: delta}}"
    );
    let server = Server::start(&yaml).await;
    let mut client = Client::connect(server.address).await;
    let body = r#"{"policy":"video_top","subject":"s","region":"eu","cost":3}"#;
    assert_eq!(client.post("/v1/check", body).await.status, 200);
    let answer = client.post("/v1/check", body).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(
        answer.json(),
        json!({"error": "rate_limited", "retry_after": 60, "region": "eu"})
    );
    assert_eq!(answer.header("ratelimit"), None);
    assert_eq!(answer.header("x-ratelimit-reset"), Some("60"));
    let draft_12 = format!("{POLICIES}\nserver: {{ratelimit_headers: draft-12}}");
    let server = Server::start(&draft_12).await;
    let answer = get(server.address, "/v1/auth?policy=plain", "").await;
    assert_eq!(
        answer.header("ratelimit"),
        Some(r#""plain.global";a=1;w=60;c=1"#)
    );
}

#[tokio::test]
async fn a_limit_changed_at_run_time_counts_from_the_next_check() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let plain = r#"{"policy":"plain","subject":"s"}"#;
    for status in [200, 200, 429] {
        assert_eq!(client.post("/v1/check", plain).await.status, status);
    }
    let raised = "version: 1\npolicies: {plain: {algorithm: sliding_log, global: 3/min}}";
    let raised = tidegate_server::config::Config::parse(raised).unwrap();
    server.limiter.replace_policies(raised.policies).unwrap();
    let answer = client.post("/v1/check", plain).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
}
