//! `GET /v1/auth`, as proxies ask it.

use crate::client::Client;
use crate::server::{POLICIES, Server};

#[tokio::test]
async fn an_admission_is_204_without_a_body_and_a_denial_is_a_checks() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let lines = "X-Tidegate-Subject: key-1\r\nX-Tidegate-Region: eu\r\n";
    let path = "/v1/auth?policy=video_top";
    for left in ["2", "1", "0"] {
        let answer = client.get(path, lines).await;
        assert_eq!((answer.status, answer.text()), (204, ""));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert!(answer.header("ratelimit").is_some());
        assert_eq!(answer.header("content-type"), None);
    }
    let answer = client.get(path, lines).await;
    answer.assert_problem(429, "no room");
    assert_eq!(answer.header("retry-after"), Some("60"));
    assert_eq!(answer.json()["subject"], "key-1");
    // Another region has a ceiling of its own.
    let us = "X-Tidegate-Subject: key-1\r\nX-Tidegate-Region: us\r\n";
    assert_eq!(client.get(path, us).await.status, 204);
}

#[tokio::test]
async fn the_clients_address_is_the_subject_when_no_other_is_named() {
    let yaml = format!("{POLICIES}\nserver: {{trusted_proxies: [127.0.0.1]}}");
    let server = Server::start(&yaml).await;
    let mut client = Client::connect(server.address).await;
    let mut ask = async |forwarded: &str| {
        let lines = format!("X-Forwarded-For: {forwarded}\r\n");
        client.get("/v1/auth?policy=plain", &lines).await.status
    };
    assert_eq!(ask("203.0.113.7").await, 204);
    // What a client writes itself stands further left, and counts for nothing.
    assert_eq!(ask("198.51.100.1, 203.0.113.7").await, 204);
    assert_eq!(ask("198.51.100.2, 203.0.113.7").await, 429);
    assert_eq!(ask("::ffff:203.0.113.7").await, 429);
    assert_eq!(ask("203.0.113.8").await, 204);
    // A network's IPv6 clients are one subject.
    assert_eq!(ask("2001:db8:1:2::a").await, 204);
    assert_eq!(ask("2001:db8:1:2:ffff::b").await, 204);
    assert_eq!(ask("2001:db8:1:2::c").await, 429);
    assert_eq!(ask("2001:db8:1:3::c").await, 204);
}

#[tokio::test]
async fn nobody_is_believed_by_default() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    for (n, status) in [(1, 204), (2, 204), (3, 429)] {
        let lines = format!("X-Forwarded-For: 203.0.113.{n}\r\n");
        let answer = client.get("/v1/auth?policy=plain", &lines).await;
        assert_eq!(answer.status, status);
    }
}

#[tokio::test]
async fn costs_ids_and_header_names_are_read() {
    let yaml = format!(
        "{POLICIES}
server: {{subject_header: X-API-Key, region_header: X-Where, policy_header: X-Rule}}"
    );
    let server = Server::start(&yaml).await;
    let mut client = Client::connect(server.address).await;
    let lines = "X-API-Key: k\r\nX-Where: us\r\nX-Rule: video_top\r\nX-Tidegate-Cost: 4\r\n\
                 X-Tidegate-Id: r-1\r\n";
    for _ in 0..2 {
        let answer = client.get("/v1/auth", lines).await;
        assert_eq!(answer.status, 204);
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("1"));
    }
    let peek = "X-API-Key: k\r\nX-Where: us\r\nX-Rule: video_top\r\nX-Tidegate-Cost: 0\r\n";
    let answer = client.get("/v1/auth", peek).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("1"));
}

#[tokio::test]
async fn a_proxy_that_asks_wrongly_is_told_what_is_wrong() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    for (path, lines, status, words) in [
        ("/v1/auth", "", 400, "policy"),
        ("/v1/auth?policy=nope", "", 404, "nope"),
        ("/v1/auth?policy=plain&cost=x", "", 400, "cost"),
        ("/v1/auth?policy=plain&polcy=x", "", 400, "polcy"),
        ("/v1/auth?policy=video_top", "", 400, "region"),
        (
            "/v1/auth?policy=plain",
            "X-Tidegate-Subject: ip:1.2.3.4\r\n",
            400,
            "ip:",
        ),
        (
            "/v1/auth?policy=plain",
            "X-Tidegate-Subject: a\r\nX-Tidegate-Subject: b\r\n",
            400,
            "twice",
        ),
        ("/v1/auth?policy=plain", "X-Tidegate-Id: a b\r\n", 400, "id"),
    ] {
        client.get(path, lines).await.assert_problem(status, words);
    }
}
