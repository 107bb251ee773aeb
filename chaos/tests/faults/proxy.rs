//! The proxy: what it does to a link, measured at both ends; and before a cluster's nodes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_chaos::cluster::{ClusterSpec, ClusterUnderTest};
use tidegate_chaos::proxy::{Impairment, Proxy};
use tidegate_chaos::resp::{NodeConnection, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MS: Duration = Duration::from_millis(1);

/// Sends back what it gets.
async fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    address
}

async fn proxied() -> (Proxy, TcpStream) {
    let any = "127.0.0.1:0".parse().unwrap();
    let proxy = Proxy::start(any, echo_server().await).await.unwrap();
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    round_trip(&mut stream).await;
    (proxy, stream)
}

async fn round_trip(stream: &mut TcpStream) -> Duration {
    let begun = Instant::now();
    stream.write_all(b"x").await.unwrap();
    stream.read_exact(&mut [0]).await.unwrap();
    begun.elapsed()
}

#[tokio::test]
async fn a_delay_is_added_each_way_and_does_not_narrow_the_link() {
    let (proxy, mut stream) = proxied().await;
    assert!(round_trip(&mut stream).await < 60 * MS);
    proxy.impair(Impairment {
        delay: 40 * MS,
        ..Impairment::default()
    });
    let took = round_trip(&mut stream).await;
    assert!(took >= 80 * MS && took < 300 * MS, "{took:?}");

    // A hundred messages, each sent without waiting for the last one's answer: still one trip.
    let begun = Instant::now();
    let (mut reader, mut writer) = stream.split();
    let write = async {
        for _ in 0..100 {
            writer.write_all(b"y").await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let mut answers = [0; 100];
    let read = reader.read_exact(&mut answers);
    let (_, read) = tokio::join!(write, read);
    read.unwrap();
    let took = begun.elapsed();
    assert!(took >= 80 * MS && took < 2_000 * MS, "{took:?}");

    proxy.impair(Impairment::default());
    assert!(round_trip(&mut stream).await < 60 * MS);
}

#[tokio::test]
async fn a_narrow_link_takes_its_bytes_time_on_each_connection() {
    let (proxy, mut first) = proxied().await;
    let mut second = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.impair(Impairment {
        bytes_per_second: Some(100_000),
        ..Impairment::default()
    });
    let begun = Instant::now();
    let send = async |stream: &mut TcpStream| {
        let (mut reader, mut writer) = stream.split();
        let mut answer = vec![0; 80_000];
        let write = async { writer.write_all(&[b'z'; 80_000]).await.unwrap() };
        tokio::join!(write, reader.read_exact(&mut answer))
            .1
            .unwrap();
        assert!(answer.iter().all(|&byte| byte == b'z'));
    };
    tokio::join!(send(&mut first), send(&mut second));
    let took = begun.elapsed();
    // 800 ms each way, which overlap but for one piece; both connections at once.
    assert!(took >= 800 * MS && took < 1_500 * MS, "{took:?}");
}

#[tokio::test]
async fn what_is_lost_comes_late_and_in_order() {
    let (proxy, mut stream) = proxied().await;
    proxy.impair(Impairment {
        loss_permille: 500,
        ..Impairment::default()
    });
    let mut late = 0;
    for _ in 0..10 {
        late += u32::from(round_trip(&mut stream).await >= 200 * MS);
    }
    // Both ways are free of loss in a quarter of the trips: none late comes once in a million.
    assert!((1..=10).contains(&late), "{late} of 10");
    proxy.impair(Impairment {
        loss_permille: 1000,
        ..Impairment::default()
    });
    let (mut reader, mut writer) = stream.split();
    writer.write_all(b"abc").await.unwrap();
    proxy.impair(Impairment::default());
    writer.write_all(b"def").await.unwrap();
    let mut answer = [0; 6];
    reader.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"abcdef");
}

#[tokio::test]
async fn resets_are_seen_at_both_ends() {
    let (proxy, mut stream) = proxied().await;
    let mut idle = TcpStream::connect(proxy.address()).await.unwrap();
    round_trip(&mut idle).await;
    proxy.reset_connections();
    for stream in [&mut stream, &mut idle] {
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    round_trip(&mut next).await;
    proxy.impair(Impairment {
        reset_permille: 1000,
        ..Impairment::default()
    });
    next.write_all(b"x").await.unwrap();
    let error = next.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_close_passes_through_and_a_dropped_proxy_ends_everything() {
    let (proxy, mut stream) = proxied().await;
    let address = proxy.address();
    let mut other = TcpStream::connect(address).await.unwrap();
    round_trip(&mut other).await;
    stream.write_all(b"last").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"last");
    drop(proxy);
    assert!(other.read(&mut [0]).await.is_err());
    assert!(TcpStream::connect(address).await.is_err());
}

/// The slot table sends clients through the proxies, redirects too; the nodes don't go through.
#[tokio::test]
async fn a_cluster_behind_proxies_sends_its_clients_through_them() {
    let options = ClusterSpec::default().proxied(true);
    let cluster = ClusterUnderTest::start(options).await.unwrap();
    for node in 0..6 {
        let delay = 50 * MS;
        cluster.proxy(node).unwrap().impair(Impairment {
            delay,
            ..Impairment::default()
        });
    }
    let key = "{foo}";
    let primary = cluster.primary_of(key).await.unwrap();
    let front = cluster.client_address(primary).unwrap();
    assert_ne!(front, cluster.address(primary).unwrap());
    assert!(cluster.redis_url().contains(&front.to_string()));

    let moved = cluster.run(0, &["GET", key]).await.unwrap_err().to_string();
    assert!(moved.contains(&format!("MOVED 12182 {front}")), "{moved}");
    let limit = Duration::from_secs(5);
    let mut client = NodeConnection::open(front, limit, limit).await.unwrap();
    let begun = Instant::now();
    let reply = client.command(&["SET", key, "1"]).await.unwrap();
    assert_eq!(reply, Reply::Text("OK".into()));
    assert!(begun.elapsed() >= 100 * MS);
    let begun = Instant::now();
    cluster.run(primary, &["WAIT", "1", "1000"]).await.unwrap();
    assert!(begun.elapsed() < 100 * MS, "{:?}", begun.elapsed());
}
