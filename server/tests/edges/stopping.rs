//! How a server ends.

use std::time::Duration;

use tokio::net::TcpStream;

use crate::client::{Client, get, post};
use crate::server::{POLICIES, Server};

const PLAIN: &str = r#"{"policy":"plain","subject":"s"}"#;

#[tokio::test]
async fn requests_in_flight_are_answered_before_the_end_and_no_more_are_taken() {
    let mut server = Server::start(POLICIES).await;
    let address = server.address;
    let mut idle = Client::connect(address).await;
    assert_eq!(idle.get("/readyz", "").await.status, 200);
    server.store().hold();
    let in_flight = tokio::spawn(async move { post(address, "/v1/check", PLAIN).await });
    server.store().until_waiting(1).await;
    server.begin_stop();
    // An idle connection is closed at once, a new one is refused.
    assert!(idle.is_closed().await);
    assert!(TcpStream::connect(address).await.is_err());
    server.store().release(1);
    let answer = in_flight.await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(server.stop().await.cut_off, 0);
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_cut_off_and_counted() {
    let timeout = Duration::from_millis(100);
    let server = Server::start_with(POLICIES, |s| s.bounds.shutdown_timeout = timeout).await;
    let address = server.address;
    server.store().hold();
    let in_flight = tokio::spawn(async move {
        let mut client = Client::connect(address).await;
        client
            .send(format!(
                "POST /v1/check HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n{PLAIN}",
                PLAIN.len()
            ))
            .await;
        client.try_read().await.is_none()
    });
    server.store().until_waiting(1).await;
    assert_eq!(server.stop().await.cut_off, 1);
    assert!(in_flight.await.unwrap(), "it was answered after all");
}

#[tokio::test]
async fn a_request_that_is_half_sent_does_not_hold_the_end_up() {
    let timeout = Duration::from_millis(200);
    let server = Server::start_with(POLICIES, |s| s.bounds.shutdown_timeout = timeout).await;
    let mut half = Client::connect(server.address).await;
    half.send("POST /v1/check HTTP/1.1\r\nHost:").await;
    let began = std::time::Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(half.is_closed().await);
}

#[tokio::test]
async fn a_drain_delay_serves_on_not_ready_and_tells_clients_to_close() {
    let drain = Duration::from_millis(300);
    let mut server = Server::start_with(POLICIES, |s| s.bounds.drain = drain).await;
    let address = server.address;
    let mut kept = Client::connect(address).await;
    assert_eq!(kept.post("/v1/peek", PLAIN).await.status, 200);
    let began = std::time::Instant::now();
    server.begin_stop();
    while get(address, "/readyz", "").await.status != 503 {
        assert!(began.elapsed() < drain, "still ready");
    }
    // The open connection and a new one are served, and told that they end.
    let answer = kept.post("/v1/check", PLAIN).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(kept.is_closed().await);
    let answer = post(address, "/v1/check", PLAIN).await;
    assert_eq!(
        (answer.status, answer.header("connection")),
        (200, Some("close"))
    );
    assert_eq!(server.stop().await.cut_off, 0);
    assert!(began.elapsed() >= drain);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn busy_keep_alive_clients_lose_no_request_to_a_stop_with_a_drain_delay() {
    let drain = Duration::from_millis(500);
    let mut server = Server::start_with(POLICIES, |s| s.bounds.drain = drain).await;
    let address = server.address;
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..48 {
        clients.spawn(async move {
            let body = format!(r#"{{"policy":"free","subject":"s{n}"}}"#);
            let mut client = Client::connect(address).await;
            for asked in 1.. {
                let answer = client.post("/v1/check", &body).await;
                assert_eq!(answer.status, 200);
                if answer.header("connection") == Some("close") {
                    return asked;
                }
            }
            0
        });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.begin_stop();
    let asked: usize = clients.join_all().await.into_iter().sum();
    assert!(asked > 48, "{asked}");
    assert_eq!(server.stop().await.cut_off, 0);
}
