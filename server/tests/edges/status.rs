//! Health, readiness, metrics, and what the logs may say.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tidegate_server::config::Secret;
use tidegate_server::telemetry::logs::{LogFormat, subscriber};

use crate::client::{Client, get};
use crate::server::{POLICIES, Server, TOKEN};

#[tokio::test]
async fn health_is_the_processs_and_readiness_lasts_from_the_stores_first_answer() {
    let server = Server::start(POLICIES).await;
    let status = async |path| get(server.address, path, "").await.status;
    server.store().away.store(true, Ordering::SeqCst);
    for path in ["/readyz", "/readyz?strict"] {
        let answer = get(server.address, path, "").await;
        answer.assert_problem(503, "the store is away");
    }
    server.store().away.store(false, Ordering::SeqCst);
    for path in ["/livez", "/healthz", "/readyz", "/readyz?strict"] {
        assert_eq!(status(path).await, 200, "{path}");
    }
    // From here on the policies' outage choices serve: nobody is sent away.
    server.store().away.store(true, Ordering::SeqCst);
    assert_eq!(status("/healthz").await, 200);
    assert_eq!(status("/readyz").await, 200);
    for strict in ["/readyz?strict", "/readyz?strict=1", "/readyz?x&strict"] {
        let answer = get(server.address, strict, "").await;
        answer.assert_problem(503, "the store is away");
    }
}

#[tokio::test]
async fn metrics_count_decisions_and_requests_and_name_no_subject() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    let check = r#"{"policy":"plain","subject":"sk_live_subject","id":"id-of-mine"}"#;
    client.post("/v1/check", check).await;
    let other = r#"{"policy":"plain","subject":"sk_live_subject"}"#;
    for _ in 0..2 {
        client.post("/v1/check", other).await;
    }
    let unknown = r#"{"policy":"sk_live_policy","subject":"s"}"#;
    client.post("/v1/check", unknown).await;
    client.get("/nowhere-1", "").await;
    client.get("/nowhere-2", "").await;
    let answer = client.get("/metrics", "").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = answer.text();
    for line in [
        r#"tidegate_decisions_total{policy="plain",outcome="admitted",source="store"} 2"#,
        r#"tidegate_decisions_total{policy="plain",outcome="denied",source="store"} 1"#,
        r#"tidegate_check_duration_seconds_count{source="store"} 3"#,
        r#"tidegate_http_requests_total{endpoint="/v1/check",status="200"} 2"#,
        r#"tidegate_http_requests_total{endpoint="/v1/check",status="429"} 1"#,
        r#"tidegate_http_requests_total{endpoint="/v1/check",status="404"} 1"#,
        r#"tidegate_http_requests_total{endpoint="elsewhere",status="404"} 2"#,
        "tidegate_store_ready 1",
        "tidegate_http_connections 1",
        "tidegate_http_requests_in_flight 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
    assert!(!text.contains("sk_live") && !text.contains("id-of-mine"));
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs on one thread, whose default subscriber then sees the server's tasks, too.
#[tokio::test(flavor = "current_thread")]
async fn logs_hold_no_secret_at_any_level() {
    let lines = Lines::default();
    let writer = lines.clone();
    let filter = "trace,hyper=info";
    let logs = subscriber(LogFormat::Json, filter, false, move || writer.clone()).unwrap();
    let _logs = tracing::subscriber::set_default(logs);
    let server = Server::start_with(POLICIES, |settings| {
        settings.admin_token = Some(Secret::new(TOKEN).unwrap());
    })
    .await;
    let mut client = Client::connect(server.address).await;
    let check = r#"{"policy":"plain","subject":"sk_live_1","region":"r\u0085"}"#;
    client.post("/v1/check", check).await;
    let check = r#"{"policy":"plain","subject":"sk_live_1","region":"eu","id":"id-of-mine"}"#;
    client.post("/v1/check", check).await;
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    client.post_with("/v1/reset", &bearer, check).await;
    let wrong = "Authorization: Bearer wrong-wrong-wrong-wrong\r\n";
    client.post_with("/v1/reset", wrong, check).await;
    let auth = "X-Tidegate-Subject: sk_live_2\r\n";
    client.get("/v1/auth?policy=plain", auth).await;
    server.store().away.store(true, Ordering::SeqCst);
    client.post("/v1/peek", check).await;
    drop(client);
    server.stop().await;
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    // The lines are there, with all that may be said.
    assert_eq!(text.matches(r#""message":"decided""#).count(), 2, "{text}");
    assert!(text.contains(r#""region":"\"eu\"""#), "{text}");
    assert!(text.contains("the store could not answer"), "{text}");
    for secret in ["sk_live", TOKEN, "wrong-wrong", "id-of-mine"] {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
}
