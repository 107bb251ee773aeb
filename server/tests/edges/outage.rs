//! What clients are told while the store can't answer.

use std::sync::atomic::Ordering;

use serde_json::json;
use tidegate_server::config::Secret;

use crate::client::Client;
use crate::server::{POLICIES, Server, TOKEN};

#[tokio::test]
async fn a_denial_that_the_store_could_not_confirm_is_503_and_not_429() {
    let server = Server::start(POLICIES).await;
    server.store().away.store(true, Ordering::SeqCst);
    let mut client = Client::connect(server.address).await;
    let plain = r#"{"policy":"plain","subject":"s"}"#;
    let lines = "X-Tidegate-Subject: s\r\n";
    for answer in [
        client.post("/v1/check", plain).await,
        client.get("/v1/auth?policy=plain", lines).await,
    ] {
        answer.assert_problem(503, "could not confirm");
        let body = answer.json();
        assert_eq!(
            body["type"],
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
        );
        assert_eq!(
            (&body["degraded"], &body["source"]),
            (&json!(true), &json!("outage"))
        );
        assert_eq!(body["admitted"], false);
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("ratelimit"), None);
    }
    server.store().away.store(false, Ordering::SeqCst);
    assert_eq!(client.post("/v1/check", plain).await.status, 200);
}

#[tokio::test]
async fn an_admission_by_the_policys_choice_says_that_it_was_degraded() {
    let server = Server::start(POLICIES).await;
    server.store().away.store(true, Ordering::SeqCst);
    let mut client = Client::connect(server.address).await;
    for _ in 0..3 {
        let answer = client
            .post("/v1/check", r#"{"policy":"lenient","subject":"s"}"#)
            .await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["degraded"], true);
        assert_eq!(answer.json()["source"], "outage");
    }
}

#[tokio::test]
async fn what_only_the_store_knows_is_503() {
    let server = Server::start_with(POLICIES, |settings| {
        settings.admin_token = Some(Secret::new(TOKEN).unwrap());
    })
    .await;
    server.store().away.store(true, Ordering::SeqCst);
    let mut client = Client::connect(server.address).await;
    let lines = format!("Authorization: Bearer {TOKEN}\r\n");
    let plain = r#"{"policy":"plain","subject":"s"}"#;
    let charge = r#"{"policy":"plain","subject":"s","id":"a"}"#;
    for answer in [
        client.post("/v1/peek", plain).await,
        client.post_with("/v1/refund", &lines, charge).await,
        client.post_with("/v1/reset", &lines, plain).await,
    ] {
        answer.assert_problem(503, "the store");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

#[tokio::test]
async fn a_batch_in_an_outage_answers_each_entry_by_its_policy() {
    let server = Server::start(POLICIES).await;
    server.store().away.store(true, Ordering::SeqCst);
    let mut client = Client::connect(server.address).await;
    let body =
        r#"{"checks":[{"policy":"plain","subject":"s"},{"policy":"lenient","subject":"s"}]}"#;
    let answer = client.post("/v1/checks", body).await;
    assert_eq!(answer.status, 200);
    let decisions = answer.json()["decisions"].clone();
    assert_eq!(decisions[0]["admitted"], false);
    assert_eq!(decisions[1]["admitted"], true);
    assert_eq!(decisions[0]["degraded"], true);
}
