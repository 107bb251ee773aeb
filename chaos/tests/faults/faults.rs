//! Faults that end, freeze or cut off nodes: each seen through the nodes, then healed.

use std::time::{Duration, Instant};

use tidegate_chaos::cluster::{ClusterError, ClusterSpec, ClusterUnderTest};
use tidegate_chaos::fault::Fault;
use tidegate_chaos::proxy::Impairment;
use tidegate_chaos::resp::NodeConnection;

const MS: Duration = Duration::from_millis(1);
/// In slot 12182, so of the last third.
const KEY: &str = "{foo}";

pub async fn start() -> ClusterUnderTest {
    let options = ClusterSpec::default();
    ClusterUnderTest::start(options).await.unwrap()
}

/// Whether the node answers a client within 300 ms.
async fn answers(cluster: &ClusterUnderTest, node: usize) -> bool {
    let address = cluster.address(node).unwrap();
    let Ok(mut client) = NodeConnection::open(address, 300 * MS, 300 * MS).await else {
        return false;
    };
    client.command(&["PING"]).await.is_ok()
}

/// Waits until another node than `former` serves the key, and says which and after how long.
async fn successor(cluster: &ClusterUnderTest, former: usize) -> (usize, Duration) {
    let begun = Instant::now();
    while begun.elapsed() < 10_000 * MS {
        let primary = cluster.primary_of(KEY).await.unwrap();
        if primary != former && cluster.run(primary, &["SET", KEY, "new"]).await.is_ok() {
            println!(
                "node {primary} took over after {} ms",
                begun.elapsed().as_millis()
            );
            return (primary, begun.elapsed());
        }
        tokio::time::sleep(20 * MS).await;
    }
    panic!(
        "nobody took over from node {former}: {}",
        cluster.log(former).await.unwrap()
    );
}

async fn is_primary(cluster: &ClusterUnderTest, node: usize) -> bool {
    cluster.view(node).await.unwrap().myself().unwrap().primary
}

#[tokio::test]
async fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    let cluster = start().await;
    let primary = cluster.primary_of(KEY).await.unwrap();
    let fault = Fault::Kill(vec![primary]).apply(&cluster).await.unwrap();
    assert!(!answers(&cluster, primary).await);
    let (new, took) = successor(&cluster, primary).await;
    // The node timeout, and at most a second or so of agreeing; more only on a busy machine.
    assert!(took >= 500 * MS && took < 6_000 * MS, "{took:?}");
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
    assert!(answers(&cluster, primary).await);
    assert!(!is_primary(&cluster, primary).await);
    assert_eq!(cluster.primary_of(KEY).await.unwrap(), new);
}

#[tokio::test]
async fn a_stopped_replica_is_gone_until_it_starts_again() {
    let cluster = start().await;
    let fault = Fault::Stop(vec![3]).apply(&cluster).await.unwrap();
    assert!(!answers(&cluster, 3).await);
    let log = cluster.log(3).await.unwrap();
    assert!(
        log.contains("Received SIGTERM") || log.contains("User requested shutdown"),
        "{log}"
    );
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
    assert!(answers(&cluster, 3).await);
}

#[tokio::test]
async fn a_paused_node_accepts_and_stays_silent() {
    let cluster = start().await;
    let primary = cluster.primary_of(KEY).await.unwrap();
    let fault = Fault::Pause(vec![primary]).apply(&cluster).await.unwrap();
    let address = cluster.address(primary).unwrap();
    let mut client = NodeConnection::open(address, 300 * MS, 300 * MS)
        .await
        .unwrap();
    let silence = client.command(&["PING"]).await.unwrap_err();
    assert_eq!(silence.kind(), std::io::ErrorKind::TimedOut);
    successor(&cluster, primary).await;
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
    assert!(answers(&cluster, primary).await);
}

#[tokio::test]
async fn a_node_that_is_cut_off_hears_nobody_and_is_replaced() {
    let cluster = start().await;
    let primary = cluster.primary_of(KEY).await.unwrap();
    let fault = Fault::CutOff(vec![primary]).apply(&cluster).await.unwrap();
    assert!(!answers(&cluster, primary).await);
    let (new, _) = successor(&cluster, primary).await;
    assert!(
        cluster
            .view(new)
            .await
            .unwrap()
            .node(primary)
            .unwrap()
            .failed
    );
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
    assert!(!is_primary(&cluster, primary).await);
}

#[tokio::test]
async fn a_split_brain_has_two_primaries_and_the_old_one_loses_what_it_took() {
    let cluster = start().await;
    let old = cluster.primary_of(KEY).await.unwrap();
    let fault = Fault::CutOffFromPeers(old).apply(&cluster).await.unwrap();
    cluster.run(old, &["SET", "{foo}lost", "1"]).await.unwrap();
    let (new, _) = successor(&cluster, old).await;
    assert!(answers(&cluster, old).await && is_primary(&cluster, old).await);
    cluster
        .wait_for("the old primary to give up", || async {
            let refused = cluster.run(old, &["SET", KEY, "old"]).await;
            let refused = refused
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            let down = refused.contains("CLUSTERDOWN");
            if down {
                Ok(())
            } else {
                Err(ClusterError::NotYet(refused))
            }
        })
        .await
        .unwrap();
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
    assert!(!is_primary(&cluster, old).await);
    let lost = cluster.run(new, &["EXISTS", "{foo}lost"]).await.unwrap();
    assert_eq!(lost.int(), Some(0));
}

#[tokio::test]
async fn without_two_of_three_primaries_nobody_takes_over() {
    let cluster = start().await;
    let fault = Fault::Kill(vec![0, 1]).apply(&cluster).await.unwrap();
    cluster
        .wait_for("the last primary to give up", || async {
            let state = cluster
                .info(2, &["CLUSTER", "INFO"], "cluster_state")
                .await?;
            if state == "fail" {
                Ok(())
            } else {
                Err(ClusterError::NotYet(state))
            }
        })
        .await
        .unwrap();
    tokio::time::sleep(2_000 * MS).await;
    assert!(!is_primary(&cluster, 3).await && !is_primary(&cluster, 4).await);
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
}

#[tokio::test]
async fn a_whole_cluster_comes_back_with_what_it_had_persisted() {
    let options = ClusterSpec::default().persistent(true);
    let cluster = ClusterUnderTest::start(options).await.unwrap();
    let primary = cluster.primary_of(KEY).await.unwrap();
    cluster.run(primary, &["SET", KEY, "kept"]).await.unwrap();
    let all: Vec<usize> = (0..6).collect();
    let fault = Fault::Stop(all).apply(&cluster).await.unwrap();
    for node in 0..6 {
        assert!(!answers(&cluster, node).await);
    }
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
    let primary = cluster.primary_of(KEY).await.unwrap();
    let kept = cluster.run(primary, &["GET", KEY]).await.unwrap();
    assert_eq!(kept.text(), Some("kept"));
}

#[tokio::test]
async fn a_rolling_restart_reaches_every_node_and_keeps_the_data() {
    let cluster = start().await;
    let primary = cluster.primary_of(KEY).await.unwrap();
    cluster.run(primary, &["SET", KEY, "kept"]).await.unwrap();
    let mut former = Vec::new();
    for node in 0..6 {
        former.push(
            cluster
                .info(node, &["INFO", "server"], "run_id")
                .await
                .unwrap(),
        );
    }
    let fault = Fault::RollingRestart.apply(&cluster).await.unwrap();
    for (node, former) in former.iter().enumerate() {
        let run_id = cluster
            .info(node, &["INFO", "server"], "run_id")
            .await
            .unwrap();
        assert_ne!(&run_id, former, "node {node}");
    }
    let primary = cluster.primary_of(KEY).await.unwrap();
    let kept = cluster.run(primary, &["GET", KEY]).await.unwrap();
    assert_eq!(kept.text(), Some("kept"));
    fault.heal(&cluster).await.unwrap();
}

#[tokio::test]
async fn a_slow_link_is_seen_by_clients_until_it_is_healed() {
    let options = ClusterSpec::single().proxied(true);
    let node = ClusterUnderTest::start(options).await.unwrap();
    let slow = Impairment {
        delay: 40 * MS,
        ..Impairment::default()
    };
    let address = node.client_address(0).unwrap();
    let mut client = NodeConnection::open(address, 2_000 * MS, 2_000 * MS)
        .await
        .unwrap();
    let mut ping = async || {
        let begun = Instant::now();
        client.command(&["PING"]).await.unwrap();
        begun.elapsed()
    };
    assert!(ping().await < 60 * MS);
    let fault = Fault::Impair(vec![0], slow).apply(&node).await.unwrap();
    assert!(ping().await >= 80 * MS);
    fault.heal(&node).await.unwrap();
    assert!(ping().await < 60 * MS);

    let direct = ClusterUnderTest::start(ClusterSpec::single())
        .await
        .unwrap();
    let error = Fault::Impair(vec![0], slow)
        .apply(&direct)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("proxied(true)"), "{error}");
}

#[tokio::test]
async fn what_failed_half_way_is_undone() {
    let node = ClusterUnderTest::start(ClusterSpec::single())
        .await
        .unwrap();
    let error = Fault::Kill(vec![0, 7]).apply(&node).await.unwrap_err();
    assert!(
        matches!(error, ClusterError::NoSuchNode { node: 7, count: 1 }),
        "{error}"
    );
    assert!(answers(&node, 0).await);
    let error = Fault::Failover(0).apply(&node).await.unwrap_err();
    assert!(error.to_string().contains("node 0"), "{error}");
}
