//! `POST /v1/refund` and `/v1/reset`.

use crate::client::{Client, get, post};
use crate::server::{POLICIES, Server, TOKEN};
use tidegate_server::config::Secret;

async fn started() -> (Server, Client) {
    let server = Server::start_with(POLICIES, |settings| {
        settings.admin_token = Some(Secret::new(TOKEN).unwrap());
    })
    .await;
    let client = Client::connect(server.address).await;
    (server, client)
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

#[tokio::test]
async fn without_a_token_administration_is_off_and_says_so() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    for path in ["/v1/refund", "/v1/reset"] {
        let answer = client
            .post_with(
                path,
                &bearer(),
                r#"{"policy":"plain","subject":"s","id":"a"}"#,
            )
            .await;
        answer.assert_problem(403, "without an administrator's token");
    }
}

#[tokio::test]
async fn a_wrong_token_is_401_and_changes_nothing() {
    let (_server, mut client) = started().await;
    let reset = r#"{"policy":"plain","subject":"s"}"#;
    for _ in 0..2 {
        client.post("/v1/check", reset).await;
    }
    for lines in [
        String::new(),
        format!("Authorization: Basic {TOKEN}\r\n"),
        format!("Authorization: Bearer {TOKEN}x\r\n"),
        format!("Authorization: Bearer {}\r\n", &TOKEN[1..]),
        format!("Authorization: {TOKEN}\r\n"),
        "Authorization: Bearer\r\n".to_owned(),
        "Authorization: Bearer \u{fc}\r\n".to_owned(),
    ] {
        let answer = client.post_with("/v1/reset", &lines, reset).await;
        answer.assert_problem(401, "Bearer");
        assert!(answer.header("www-authenticate").is_some());
        assert!(!answer.text().contains(TOKEN));
    }
    assert_eq!(client.post("/v1/check", reset).await.status, 429);
}

#[tokio::test]
async fn a_refund_gives_back_a_charge_whole_or_in_part_once() {
    let (_server, mut client) = started().await;
    let charge = r#"{"policy":"video_top","subject":"s","region":"us","cost":5,"id":"order-7"}"#;
    assert_eq!(client.post("/v1/check", charge).await.status, 200);
    let refund = |more: &str| {
        format!(r#"{{"policy":"video_top","subject":"s","region":"us","id":"order-7"{more}}}"#)
    };
    let answer = client
        .post_with("/v1/refund", &bearer(), &refund(r#","cost":2"#))
        .await;
    assert_eq!((answer.status, answer.text()), (200, r#"{"refunded":2}"#));
    let peek = r#"{"policy":"video_top","subject":"s","region":"us","cost":0}"#;
    let body = client.post("/v1/peek", peek).await.json();
    assert_eq!(body["ceilings"][0]["remaining"], 5);
    assert_eq!(body["ceilings"][1]["remaining"], 2);
    let answer = client.post_with("/v1/refund", &bearer(), &refund("")).await;
    assert_eq!((answer.status, answer.text()), (200, r#"{"refunded":3}"#));
    let answer = client.post_with("/v1/refund", &bearer(), &refund("")).await;
    answer.assert_problem(404, "no such charge");
}

#[tokio::test]
async fn a_refund_that_means_nothing_is_refused_by_name() {
    let (_server, mut client) = started().await;
    for (body, words) in [
        (r#"{"policy":"plain","subject":"s"}"#, "id"),
        (r#"{"policy":"plain","subject":"s","id":""}"#, "id"),
        (
            r#"{"policy":"plain","subject":"s","id":"a","cost":0}"#,
            "cost",
        ),
        (
            r#"{"policy":"plain","subject":"s","id":"a","cost":-1}"#,
            "cost",
        ),
        (
            r#"{"policy":"plain","subject":"s","id":"a","cost":1.5}"#,
            "cost",
        ),
    ] {
        let answer = client.post_with("/v1/refund", &bearer(), body).await;
        answer.assert_problem(400, words);
    }
    let unknown = r#"{"policy":"nope","subject":"s","id":"a"}"#;
    let answer = client.post_with("/v1/refund", &bearer(), unknown).await;
    answer.assert_problem(404, "policy: no policy is named `nope`");
}

#[tokio::test]
async fn a_reset_forgets_what_was_used() {
    let (_server, mut client) = started().await;
    let body = r#"{"policy":"plain","subject":"s"}"#;
    for status in [200, 200, 429] {
        assert_eq!(client.post("/v1/check", body).await.status, status);
    }
    let answer = client.post_with("/v1/reset", &bearer(), body).await;
    assert_eq!((answer.status, answer.text()), (204, ""));
    assert_eq!(client.post("/v1/check", body).await.status, 200);
}

#[tokio::test]
async fn a_listener_of_their_own_takes_metrics_and_administrators_calls_from_the_public_one() {
    let server = Server::start_with_admin(POLICIES).await;
    let admin = server.admin.unwrap();
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(get(server.address, path, "").await.status, 200, "{path}");
        assert_eq!(get(admin, path, "").await.status, 200, "{path}");
    }
    assert_eq!(get(admin, "/metrics", "").await.status, 200);
    let elsewhere = get(server.address, "/metrics", "").await;
    elsewhere.assert_problem(404, "--admin-listen");
    for path in ["/v1/refund", "/v1/reset"] {
        post(server.address, path, "{}")
            .await
            .assert_problem(404, "--admin-listen");
        assert_ne!(post(admin, path, "{}").await.status, 404);
    }
    let check = r#"{"policy":"plain","subject":"s"}"#;
    assert_eq!(post(server.address, "/v1/check", check).await.status, 200);
    post(admin, "/v1/check", check)
        .await
        .assert_problem(404, "nothing is at");
}
