//! Requests that are wrong: each a clear refusal that changes nothing, and never the end of the
//! server.

use proptest::prelude::*;

use crate::client::{Client, get, post};
use crate::server::{POLICIES, Server};

/// Asserts that `subject` of `plain` has used nothing.
async fn assert_untouched(server: &Server, subject: &str) {
    let peek = format!(r#"{{"policy":"plain","subject":"{subject}","cost":0}}"#);
    let body = post(server.address, "/v1/peek", &peek).await.json();
    assert_eq!(body["ceilings"][0]["remaining"], 2);
}

#[tokio::test]
async fn a_malformed_body_is_400_that_names_the_member() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let long = format!(r#"{{"policy":"plain","subject":"{}"}}"#, "x".repeat(4_097));
    let region = format!(
        r#"{{"policy":"plain","subject":"s","region":"{}"}}"#,
        "x".repeat(65)
    );
    let id = format!(
        r#"{{"policy":"plain","subject":"s","id":"{}"}}"#,
        "x".repeat(65)
    );
    for (body, words) in [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("null", "object"),
        (r#"["plain","s"]"#, "object"),
        (r#"{"policy":"plain","subject":"s"}{"#, "no JSON"),
        (r#"{"policy":"plain"}"#, "subject"),
        (r#"{"subject":"s"}"#, "policy"),
        (r#"{"policy":"plain","subject":"s","burst":1}"#, "burst"),
        (
            r#"{"policy":"plain","subject":"s","subject":"t"}"#,
            "subject",
        ),
        (r#"{"policy":"plain","subject":"s","cost":-1}"#, "cost"),
        (r#"{"policy":"plain","subject":"s","cost":1.5}"#, "cost"),
        (r#"{"policy":"plain","subject":"s","cost":"1"}"#, "cost"),
        (r#"{"policy":"plain","subject":"s","cost":1e99}"#, "cost"),
        (
            r#"{"policy":"plain","subject":"s","cost":99999999999999999999}"#,
            "cost",
        ),
        (
            r#"{"policy":"plain","subject":"s","cost":1000000000001}"#,
            "cost",
        ),
        (r#"{"policy":"plain","subject":""}"#, "subject"),
        (r#"{"policy":"plain","subject":"s\u0000"}"#, "subject"),
        (r#"{"policy":"plain","subject":7}"#, "subject"),
        (&long, "subject"),
        (&region, "region"),
        (r#"{"policy":"plain","subject":"s","region":""}"#, "region"),
        (
            r#"{"policy":"plain","subject":"s","region":"\n"}"#,
            "region",
        ),
        (r#"{"policy":"video_top","subject":"s"}"#, "region"),
        (&id, "id"),
        (r#"{"policy":"plain","subject":"s","id":""}"#, "id"),
        (r#"{"policy":"plain","subject":"s","id":"a b"}"#, "id"),
        (r#"{"policy":"plain","subject":"s","id":"\u0001"}"#, "id"),
    ] {
        for path in ["/v1/check", "/v1/peek"] {
            let answer = client.post(path, body).await;
            assert_eq!(answer.status, 400, "{body}");
            answer.assert_problem(400, words);
        }
    }
    assert_untouched(&server, "s").await;
}

#[tokio::test]
async fn an_unknown_policy_is_404_with_the_one_that_was_meant() {
    let server = Server::start(POLICIES).await;
    let answer = post(
        server.address,
        "/v1/check",
        r#"{"policy":"video-tpo","subject":"s"}"#,
    )
    .await;
    answer.assert_problem(404, "did you mean `video_top`?");
    answer.assert_problem(404, "there are: aligned, bucket");
    let long = format!(r#"{{"policy":"{}","subject":"s"}}"#, "p".repeat(100_000));
    let answer = post(server.address, "/v1/check", &long).await;
    answer.assert_problem(404, "no policy is named");
    assert!(answer.body.len() < 1_000);
}

#[tokio::test]
async fn addresses_methods_and_types_that_are_not_known_are_problems_too() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    for path in ["/", "/v1", "/v1/check/", "/v2/check", "/favicon.ico"] {
        client.get(path, "").await.assert_problem(404, path);
    }
    for path in [
        "/v1/check",
        "/v1/checks",
        "/v1/peek",
        "/v1/refund",
        "/v1/reset",
    ] {
        let answer = client.get(path, "").await;
        answer.assert_problem(405, "POST");
        assert_eq!(answer.header("allow"), Some("POST"), "{path}");
    }
    for path in ["/v1/auth", "/healthz", "/readyz", "/metrics"] {
        let answer = client.post(path, "{}").await;
        answer.assert_problem(405, "GET");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"), "{path}");
    }
    client
        .send(
            "POST /v1/check HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\
             \r\nContent-Length: 2\r\n\r\n{}",
        )
        .await;
    client.read().await.assert_problem(415, "text/plain");
    let body = r#"{"policy":"plain","subject":"typeless"}"#;
    let length = body.len();
    client
        .send(format!(
            "POST /v1/check HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await;
    assert_eq!(client.read().await.status, 200);
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_server_goes_on() {
    let server = Server::start(POLICIES).await;
    for bytes in [
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET /healthz HTTP/9.9\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: t\r\nA b: c\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}",
    ] {
        let mut client = Client::connect(server.address).await;
        client.send(bytes).await;
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await;
        if let Some(answer) = client.try_read().await {
            assert!(
                (400..500).contains(&answer.status),
                "{bytes:?}: {}",
                answer.head
            );
        }
    }
    assert_eq!(get(server.address, "/healthz", "").await.status, 200);
}

/// Bodies near to a check: the members that there are, and some that there aren't, with values of
/// every kind.
fn bodies() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        Just("policy"),
        Just("subject"),
        Just("region"),
        Just("cost"),
        Just("id"),
        Just("x"),
    ];
    let value = prop_oneof![
        Just("\"plain\"".to_owned()),
        Just("\"video_top\"".to_owned()),
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
        Just("null".to_owned()),
        Just("[{}]".to_owned()),
    ];
    proptest::collection::vec((member, value), 0..7).prop_map(|members| {
        let members: Vec<_> = members
            .into_iter()
            .map(|(member, value)| format!("\"{member}\":{value}"))
            .collect();
        format!("{{{}}}", members.join(","))
    })
}

#[test]
fn whatever_is_sent_is_answered_and_the_server_goes_on() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(Server::start(POLICIES));
    let client = std::cell::RefCell::new(runtime.block_on(Client::connect(server.address)));
    let paths = [
        "/v1/check",
        "/v1/checks",
        "/v1/peek",
        "/v1/refund",
        "/v1/reset",
    ];
    let config = ProptestConfig::with_cases(500);
    proptest!(config, |(at in 0..paths.len(), body in bodies())| {
        let answer = runtime.block_on(client.borrow_mut().post(paths[at], &body));
        prop_assert!(
            matches!(answer.status, 200 | 400 | 403 | 404 | 429),
            "{} to {}: {}", answer.status, body, answer.text()
        );
        prop_assert!(answer.json().is_object());
    });
}
