//! What one client may take up: bodies, heads, time, connections, requests in flight.

use std::time::{Duration, Instant};

use crate::client::{Client, get, post};
use crate::server::{POLICIES, SOON, Server};

const PLAIN: &str = r#"{"policy":"plain","subject":"s"}"#;

#[tokio::test]
async fn a_body_too_long_is_413_whether_it_says_so_or_not() {
    let server = Server::start_with(POLICIES, |settings| settings.body_bytes_max = 1_024).await;
    let fits = format!("{PLAIN}{}", " ".repeat(1_024 - PLAIN.len()));
    assert_eq!(post(server.address, "/v1/check", &fits).await.status, 200);
    let long = format!("{fits} ");
    post(server.address, "/v1/check", &long)
        .await
        .assert_problem(413, "1024 bytes");
    let mut client = Client::connect(server.address).await;
    client
        .send("POST /v1/check HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    client.send(format!("{:x}\r\n{long}\r\n", long.len())).await;
    client.read().await.assert_problem(413, "1024 bytes");
    // Said to be huge: refused before it is sent.
    let mut client = Client::connect(server.address).await;
    client
        .send("POST /v1/check HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\n\r\n")
        .await;
    client.read().await.assert_problem(413, "1024 bytes");
    let peek = post(server.address, "/v1/peek", PLAIN).await.json();
    assert_eq!(peek["ceilings"][0]["remaining"], 1);
}

#[tokio::test]
async fn a_head_too_large_is_431() {
    let server = Server::start_with(POLICIES, |s| s.bounds.head_bytes_max = 2_048).await;
    let line = |n| format!("X-Filler: {}\r\n", "x".repeat(n));
    assert_eq!(
        get(server.address, "/healthz", &line(1_500)).await.status,
        200
    );
    assert_eq!(
        get(server.address, "/healthz", &line(3_000)).await.status,
        431
    );
    let many: String = (0..200).map(|n| format!("X-{n}: 1\r\n")).collect();
    assert_eq!(get(server.address, "/healthz", &many).await.status, 431);
}

#[tokio::test]
async fn who_sends_a_head_byte_by_byte_is_cut_off() {
    let timeout = Duration::from_millis(200);
    let server = Server::start_with(POLICIES, |s| s.bounds.head_timeout = timeout).await;
    let began = Instant::now();
    let mut slow = Client::connect(server.address).await;
    let mut dripped = 0;
    let cut_off = loop {
        // One more byte of a head that never ends, every so often.
        let byte = tokio::io::AsyncWriteExt::write_all(&mut slow.stream, b"G").await;
        dripped += 1;
        let closed = tokio::time::timeout(Duration::from_millis(20), slow.is_closed()).await;
        if byte.is_err() || closed.is_ok() {
            break began.elapsed();
        }
        assert!(began.elapsed() < SOON, "still open after {dripped} bytes");
    };
    assert!(cut_off >= timeout, "{cut_off:?}");
    // Silence is cut off as well: before a first request, and after one.
    let mut silent = Client::connect(server.address).await;
    let closed = tokio::time::timeout(SOON, silent.is_closed()).await;
    assert_eq!(closed, Ok(true));
    let mut idle = Client::connect(server.address).await;
    assert_eq!(idle.get("/healthz", "").await.status, 200);
    let closed = tokio::time::timeout(SOON, idle.is_closed()).await;
    assert_eq!(closed, Ok(true));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let timeout = Duration::from_millis(100);
    let server = Server::start_with(POLICIES, |s| s.bounds.body_timeout = timeout).await;
    let mut client = Client::connect(server.address).await;
    client
        .send("POST /v1/check HTTP/1.1\r\nHost: t\r\nContent-Length: 32\r\n\r\n{\"policy\"")
        .await;
    let answer = tokio::time::timeout(SOON, client.read()).await.unwrap();
    answer.assert_problem(408, "0.1 s");
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_says_when_it_ends() {
    let server = Server::start(POLICIES).await;
    let mut client = Client::connect(server.address).await;
    for _ in 0..50 {
        assert_eq!(client.get("/healthz", "").await.status, 200);
    }
    let answer = client.get("/healthz", "Connection: close\r\n").await;
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.is_closed().await);
    // Requests sent ahead are answered in their order.
    let mut client = Client::connect(server.address).await;
    let ahead = "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\nGET /none HTTP/1.1\r\nHost: t\r\n\r\n";
    client.send(ahead).await;
    assert_eq!(client.read().await.status, 200);
    assert_eq!(client.read().await.status, 404);
}

#[tokio::test]
async fn beyond_the_bound_in_flight_a_request_is_refused_at_once() {
    let server = Server::start_with(POLICIES, |s| s.bounds.in_flight_max = 2).await;
    server.store().hold();
    let address = server.address;
    let held: Vec<_> = (0..2)
        .map(|n| {
            let body = format!(r#"{{"policy":"plain","subject":"held-{n}"}}"#);
            tokio::spawn(async move { post(address, "/v1/check", &body).await })
        })
        .collect();
    server.store().until_waiting(2).await;
    let refused = tokio::time::timeout(SOON, post(address, "/v1/check", PLAIN));
    let refused = refused.await.expect("it was let in, and waits");
    refused.assert_problem(503, "nothing was charged");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Who watches the server reaches it all the same.
    assert_eq!(get(address, "/healthz", "").await.status, 200);
    let metrics = get(address, "/metrics", "").await;
    assert!(
        metrics
            .text()
            .contains("tidegate_http_requests_shed_total 1\n")
    );
    assert!(
        metrics
            .text()
            .contains("tidegate_http_requests_in_flight 2\n")
    );
    server.store().release(3);
    for answer in held {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    assert_eq!(post(address, "/v1/check", PLAIN).await.status, 200);
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_and_closed() {
    let server = Server::start_with(POLICIES, |s| s.bounds.connections_max = 2).await;
    let mut first = Client::connect(server.address).await;
    let mut second = Client::connect(server.address).await;
    for client in [&mut first, &mut second] {
        assert_eq!(client.get("/healthz", "").await.status, 200);
    }
    let mut third = Client::connect(server.address).await;
    let refused = third.post("/v1/check", PLAIN).await;
    refused.assert_problem(503, "nothing was charged");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(third.is_closed().await);
    // Who watches the server is answered all the same.
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(get(server.address, path, "").await.status, 200, "{path}");
    }
    let metrics = first.get("/metrics", "").await;
    assert!(
        metrics
            .text()
            .contains("tidegate_http_connections_shed_total 4\n")
    );
    drop(second);
    // The place is free again as soon as the server has seen the end of it.
    let began = Instant::now();
    loop {
        let mut next = Client::connect(server.address).await;
        let ask = tokio::io::AsyncWriteExt::write_all(
            &mut next.stream,
            b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
        );
        if ask.await.is_ok() && next.try_read().await.is_some_and(|a| a.status == 200) {
            break;
        }
        assert!(began.elapsed() < SOON, "the place was not freed");
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_takes_nothing_along() {
    let server = Server::start_with(POLICIES, |s| s.bounds.in_flight_max = 1).await;
    server.store().hold();
    let mut gone = Client::connect(server.address).await;
    let length = PLAIN.len();
    gone.send(format!(
        "POST /v1/check HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{PLAIN}"
    ))
    .await;
    server.store().until_waiting(1).await;
    drop(gone);
    server.store().release(100);
    // Its place in flight is free again, whether its check was dropped or done.
    let began = Instant::now();
    let other = r#"{"policy":"plain","subject":"other"}"#;
    while post(server.address, "/v1/check", other).await.status == 503 {
        assert!(began.elapsed() < SOON, "the place was not freed");
    }
}

#[tokio::test]
async fn who_asks_and_never_reads_is_cut_off() {
    let timeout = Duration::from_millis(200);
    let server = Server::start_with(POLICIES, |s| s.bounds.body_timeout = timeout).await;
    let mut deaf = Client::connect(server.address).await;
    let many = "GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n".repeat(1_000);
    let cut_off = async {
        // Sends on until the server has given up; every buffer between is full long before.
        while tokio::io::AsyncWriteExt::write_all(&mut deaf.stream, many.as_bytes())
            .await
            .is_ok()
        {}
    };
    tokio::time::timeout(SOON, cut_off)
        .await
        .expect("it is still waited for");
    let metrics = get(server.address, "/metrics", "").await;
    assert!(metrics.text().contains("tidegate_http_connections 1\n"));
}

#[tokio::test]
async fn who_holds_every_connection_with_half_a_head_keeps_nobody_from_the_servers_health() {
    let server = Server::start_with(POLICIES, |s| s.bounds.connections_max = 50).await;
    let mut half_open = Vec::new();
    for _ in 0..200 {
        let mut client = Client::connect(server.address).await;
        // Those beyond all places are closed at once.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, b"GET /healthz HT").await;
        half_open.push(client);
    }
    // Spare places are taken for a second at most.
    let began = Instant::now();
    loop {
        let mut client = Client::connect(server.address).await;
        let ask = tokio::io::AsyncWriteExt::write_all(
            &mut client.stream,
            b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
        );
        if ask.await.is_ok() && client.try_read().await.is_some_and(|a| a.status == 200) {
            break;
        }
        assert!(began.elapsed() < SOON, "nobody was answered");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
