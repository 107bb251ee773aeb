//! `POST /v1/checks`.

use serde_json::{Value, json};

use crate::client::{Client, post};
use crate::server::{POLICIES, Server};

fn check(policy: &str, subject: &str) -> Value {
    json!({"policy": policy, "subject": subject})
}

async fn ask(server: &Server, checks: Vec<Value>) -> Vec<Value> {
    let body = json!({"checks": checks}).to_string();
    let answer = post(server.address, "/v1/checks", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let mut body = answer.json();
    match body["decisions"].take() {
        Value::Array(decisions) => decisions,
        other => panic!("no list: {other}"),
    }
}

#[tokio::test]
async fn decisions_come_in_order_and_the_first_come_first_served() {
    let server = Server::start(POLICIES).await;
    let checks = vec![
        check("plain", "a"),
        check("plain", "b"),
        check("plain", "a"),
        check("plain", "a"),
        check("bucket", "a"),
    ];
    let decisions = ask(&server, checks).await;
    let subjects: Vec<_> = decisions.iter().map(|d| d["subject"].clone()).collect();
    assert_eq!(subjects, ["a", "b", "a", "a", "a"]);
    let admitted: Vec<_> = decisions.iter().map(|d| d["admitted"].clone()).collect();
    assert_eq!(admitted, [true, true, true, false, true]);
    assert_eq!(decisions[0]["ceilings"][0]["remaining"], 1);
    assert_eq!(decisions[2]["ceilings"][0]["remaining"], 0);
    assert_eq!(decisions[3]["retry_after"], 60);
}

#[tokio::test]
async fn one_bad_entry_is_that_entrys_error() {
    let server = Server::start(POLICIES).await;
    let decisions = ask(
        &server,
        vec![
            check("plain", "a"),
            check("plan", "a"),
            json!({"policy": "plain", "subject": "a", "cost": -1}),
            json!({"policy": "plain"}),
            json!(7),
            json!({"policy": "video_top", "subject": "a"}),
            check("plain", "a"),
        ],
    )
    .await;
    let statuses: Vec<_> = decisions
        .iter()
        .map(|d| d["error"]["status"].as_u64().unwrap_or(200))
        .collect();
    assert_eq!(statuses, [200, 404, 400, 400, 400, 400, 200]);
    let detail = |n: usize| decisions[n]["error"]["detail"].as_str().unwrap();
    assert!(detail(1).contains("did you mean `plain`"), "{}", detail(1));
    assert!(detail(2).starts_with("cost: "));
    assert!(detail(3).contains("subject"));
    assert!(detail(5).starts_with("region: "));
    assert_eq!(decisions[6]["ceilings"][0]["remaining"], 0);
}

#[tokio::test]
async fn a_batch_is_bounded_and_a_refused_one_charges_nothing() {
    let server = Server::start_with(POLICIES, |settings| settings.batch_max = 3).await;
    let mut client = Client::connect(server.address).await;
    let four = json!({"checks": vec![check("plain", "a"); 4]}).to_string();
    client
        .post("/v1/checks", &four)
        .await
        .assert_problem(400, "at most 3");
    for (body, words) in [
        ("", "no JSON"),
        ("[]", "object"),
        ("{}", "checks"),
        (r#"{"checks":{}}"#, "list"),
        (r#"{"checks":[],"more":1}"#, "more"),
        (r#"{"checks":[{"policy":"plain","subject":"a"}"#, "checks"),
        (
            r#"{"checks":[{"policy":"plain","subject":"a"},]}"#,
            "checks",
        ),
    ] {
        let answer = client.post("/v1/checks", body).await;
        answer.assert_problem(400, words);
    }
    let decisions = ask(&server, vec![check("plain", "a"); 3]).await;
    let admitted: Vec<_> = decisions.iter().map(|d| d["admitted"].clone()).collect();
    assert_eq!(admitted, [true, true, false]);
    assert!(ask(&server, vec![]).await.is_empty());
}

#[tokio::test]
async fn entries_of_different_subjects_run_side_by_side() {
    let server = Server::start(POLICIES).await;
    server.store().hold();
    let checks: Vec<_> = (0..20).map(|n| check("plain", &format!("s{n}"))).collect();
    let body = json!({"checks": checks}).to_string();
    let mut client = Client::connect(server.address).await;
    let answered = async { client.post("/v1/checks", &body).await };
    let released = async {
        // All twenty wait at the store at once: one after the other, only one ever would.
        server.store().until_waiting(20).await;
        server.store().release(20);
    };
    let (answer, ()) = tokio::join!(answered, released);
    assert_eq!(answer.json()["decisions"].as_array().unwrap().len(), 20);
}
