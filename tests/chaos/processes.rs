//! Clusters of processes: whole when they say so, and gone with their owner.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate::chaos::cluster::{ClusterError, ClusterOptions, ClusterUnderTest};

/// Whether something accepts at the address.
fn listens(address: std::net::SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
}

fn addresses(cluster: &ClusterUnderTest) -> Vec<std::net::SocketAddr> {
    (0..cluster.node_count())
        .map(|node| cluster.address(node).unwrap())
        .collect()
}

#[tokio::test]
async fn a_cluster_is_whole_when_it_has_started_and_gone_when_dropped() {
    let begun = Instant::now();
    let cluster = ClusterUnderTest::start(ClusterOptions::default())
        .await
        .unwrap();
    println!("whole after {} ms", begun.elapsed().as_millis());
    assert_eq!(cluster.node_count(), 6);
    for node in 0..6 {
        let view = cluster.view(node).await.unwrap();
        let slots: usize = view.nodes.iter().map(|other| other.slot_count()).sum();
        assert_eq!(slots, 16_384);
        assert_eq!(view.nodes.iter().filter(|other| other.primary).count(), 3);
        let myself = view.myself().unwrap();
        assert_eq!(myself.primary, node < 3);
        if node >= 3 {
            let primary = view.node(node - 3).unwrap();
            assert_eq!(myself.primary_id.as_ref(), Some(&primary.id));
            let args = ["INFO", "replication"];
            let link = cluster
                .info(node, &args, "master_link_status")
                .await
                .unwrap();
            assert_eq!(link, "up");
        }
    }
    // "foo" is in slot 12182 by the cluster specification, so with the last third.
    assert_eq!(cluster.slot_of("{foo}bar").await.unwrap(), 12_182);
    let primary = cluster.primary_of("{foo}bar").await.unwrap();
    assert_eq!(primary, 2);
    cluster
        .run(primary, &["SET", "{foo}bar", "1"])
        .await
        .unwrap();
    let elsewhere = cluster.run(0, &["SET", "{foo}bar", "1"]).await.unwrap_err();
    let moved = format!("MOVED 12182 {}", cluster.address(2).unwrap());
    assert!(elsewhere.to_string().contains(&moved), "{elsewhere}");

    let addresses = addresses(&cluster);
    drop(cluster);
    assert!(!addresses.into_iter().any(listens));
}

#[tokio::test]
async fn a_single_node_takes_a_password_and_settings() {
    let options = ClusterOptions::single()
        .password("s3cret")
        .setting("maxmemory", "64mb");
    let node = ClusterUnderTest::start(options).await.unwrap();
    assert!(node.redis_url().starts_with("redis://:s3cret@127."));
    let info = node
        .info(0, &["INFO", "memory"], "maxmemory")
        .await
        .unwrap();
    assert_eq!(info, (64 << 20).to_string());
    let enabled = node
        .info(0, &["INFO", "cluster"], "cluster_enabled")
        .await
        .unwrap();
    assert_eq!(enabled, "0");
    let address = node.address(0).unwrap();
    let second = Duration::from_secs(1);
    let open = tidegate::chaos::resp::Connection::open(address, second, second);
    let reply = open.await.unwrap().command(&["PING"]).await.unwrap();
    assert!(format!("{reply:?}").contains("NOAUTH"), "{reply:?}");
}

#[tokio::test]
async fn a_missing_server_is_an_error_that_names_the_cure() {
    let options = ClusterOptions::single().program("/nonexistent/redis-server");
    let error = ClusterUnderTest::start(options).await.unwrap_err();
    assert!(matches!(error, ClusterError::Program { .. }), "{error}");
    assert!(
        error.to_string().contains("apt-get install redis-server"),
        "{error}"
    );
}

#[tokio::test]
async fn a_setting_that_the_server_refuses_is_an_error_with_its_log() {
    let options = ClusterOptions::single().setting("maxmemory-policy", "no-such-policy");
    let error = ClusterUnderTest::start(options).await.unwrap_err();
    assert!(matches!(error, ClusterError::NodeEnded { .. }), "{error}");
}

/// Run by [`nothing_is_left_of_a_killed_owner`] in a process of its own; alone it does nothing.
#[tokio::test]
async fn owner_that_waits_to_be_killed() {
    if std::env::var_os("TIDEGATE_TEST_OWNER").is_none() {
        return;
    }
    let cluster = ClusterUnderTest::start(ClusterOptions::default())
        .await
        .unwrap();
    println!("started {:?}", addresses(&cluster));
    std::future::pending::<()>().await;
}

#[test]
fn nothing_is_left_of_a_killed_owner() {
    for signal in ["-KILL", "-INT", "-TERM"] {
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "processes::owner_that_waits_to_be_killed",
                "--nocapture",
            ])
            .env("TIDEGATE_TEST_OWNER", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = std::io::BufReader::new(owner.stdout.take().unwrap());
        let started = std::io::BufRead::lines(stdout)
            .map(Result::unwrap)
            .find_map(|line| line.split_once("started ").map(|(_, list)| list.to_owned()))
            .unwrap();
        let addresses: Vec<std::net::SocketAddr> = started
            .trim_matches(['[', ']'])
            .split(", ")
            .map(|address| address.parse().unwrap())
            .collect();
        assert_eq!(addresses.len(), 6);
        assert!(addresses.iter().all(|&address| listens(address)));
        let pid = owner.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        owner.wait().unwrap();
        let begun = Instant::now();
        while addresses.iter().any(|&address| listens(address)) {
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "nodes outlived {signal}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
