//! How a store begins, and what it says before it can decide.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::model::Algorithm;
use tidegate::store::cluster::{AddressMap, ClusterOptions, ClusterStore, NodeAddress, Resp};
use tidegate::store::{Readiness, Store, StoreErrorKind};
use tidegate_chaos::cluster::ClusterSpec as TestOptions;

use crate::support::{
    charge, eventually, global, primary_of, ready, six_nodes, start, store_with, subjects_by_shard,
    target, unready_store, used,
};

fn why(store: &ClusterStore) -> String {
    match store.readiness() {
        Readiness::Ready => panic!("ready"),
        Readiness::NotReady(why) => why,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_absent_at_the_start_is_connected_when_it_comes() {
    let cluster = six_nodes().await;
    for node in 0..cluster.node_count() {
        cluster.kill(node).await.unwrap();
    }
    let store = unready_store(&cluster);
    let target = target(&global(Algorithm::TokenBucket, 100), "key-1");
    eventually("a reason", async || why(&store).contains("refused")).await;
    let begun = Instant::now();
    let error = store.charge(charge(&target, 1, 100)).await.unwrap_err();
    assert_eq!(
        (error.kind, error.may_have_run),
        (StoreErrorKind::Unavailable, false)
    );
    assert!(
        begun.elapsed() < Duration::from_millis(500),
        "by its deadline"
    );
    assert_eq!(store.calls_sent(), 0);
    for node in 0..cluster.node_count() {
        cluster.restart(node).await.unwrap();
    }
    ready(&store).await;
    assert!(
        store
            .charge(charge(&target, 1, 5_000))
            .await
            .unwrap()
            .outcomes[0]
            .is_admitted()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_cluster_goes_and_comes_back() {
    let cluster = start(TestOptions::default().persistent(true)).await;
    let store = unready_store(&cluster);
    ready(&store).await;
    let policy = global(Algorithm::SlidingLog, 100);
    let shards = subjects_by_shard(&store, &policy, 1);
    for (_, targets) in &shards {
        store.charge(charge(&targets[0], 1, 1_000)).await.unwrap();
    }
    for node in 0..cluster.node_count() {
        cluster.stop(node).await.unwrap();
    }
    eventually("it to say so", async || {
        store.readiness() != Readiness::Ready
    })
    .await;
    for node in 0..cluster.node_count() {
        cluster.restart(node).await.unwrap();
    }
    for (_, targets) in &shards {
        store.charge(charge(&targets[0], 1, 15_000)).await.unwrap();
        assert_eq!(used(&store, &targets[0]).await, 2);
    }
    assert_eq!(store.readiness(), Readiness::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_seed_is_enough_and_both_protocols_are_spoken() {
    let cluster = six_nodes().await;
    for resp in [Resp::V2, Resp::V3] {
        let store = store_with(&cluster.node_url(4).unwrap(), |o| o.resp = resp);
        ready(&store).await;
        let policy = global(Algorithm::SlidingLog, 100);
        for (_, targets) in subjects_by_shard(&store, &policy, 2) {
            for target in targets {
                let before = used(&store, &target).await;
                store.charge(charge(&target, 3, 1_000)).await.unwrap();
                assert_eq!(used(&store, &target).await, before + 3);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_reached_where_the_map_says_not_where_they_announce() {
    let cluster = six_nodes().await;
    let mut pairs = Vec::new();
    for node in 0..cluster.node_count() {
        let (name, real) = (
            format!("node-{node}.invalid"),
            cluster.address(node).unwrap(),
        );
        for (setting, value) in [
            ("cluster-announce-hostname", name.as_str()),
            ("cluster-preferred-endpoint-type", "hostname"),
        ] {
            cluster
                .run(node, &["CONFIG", "SET", setting, value])
                .await
                .unwrap();
        }
        let reached = NodeAddress::new(&real.ip().to_string(), real.port());
        pairs.push((NodeAddress::new(&name, real.port()), reached));
    }
    for node in 0..cluster.node_count() {
        eventually("all to know all names", async || {
            let slots = cluster.run(node, &["CLUSTER", "SLOTS"]).await.unwrap();
            let slots = format!("{slots:?}");
            (0..cluster.node_count()).all(|n| slots.contains(&format!("node-{n}.invalid")))
        })
        .await;
    }
    let url = cluster.node_url(0).unwrap();
    let lost = ClusterStore::connect(ClusterOptions::from_url(&url).unwrap()).unwrap();
    assert!(lost.wait_ready(Duration::from_millis(1_000)).await.is_err());
    assert!(why(&lost).contains(".invalid"), "{}", why(&lost));
    let store = store_with(&url, |o| o.address_map = AddressMap::new(pairs));
    ready(&store).await;
    // Redirects name the same hosts.
    let policy = global(Algorithm::SlidingLog, 100);
    let (_, targets) = subjects_by_shard(&store, &policy, 1).remove(0);
    let primary = primary_of(&cluster, &targets[0]).await;
    let replica = primary + 3;
    cluster
        .run(replica, &["CLUSTER", "FAILOVER"])
        .await
        .unwrap();
    eventually("a charge at the new primary", async || {
        store.charge(charge(&targets[0], 1, 2_000)).await.unwrap();
        primary_of(&cluster, &targets[0]).await == replica
    })
    .await;
    store.charge(charge(&targets[0], 1, 2_000)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_store_leaves_no_connection() {
    let cluster = crate::support::single().await;
    let connected = async || {
        let clients = cluster
            .info(0, &["INFO", "clients"], "connected_clients")
            .await;
        clients.unwrap().parse::<u32>().unwrap()
    };
    let before = connected().await;
    let store = Arc::new(unready_store(&cluster));
    ready(&store).await;
    assert_eq!(connected().await, before + 1);
    drop(store);
    eventually("the connection to close", async || {
        connected().await == before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reached_by_its_ipv6_address() {
    let cluster = start(TestOptions::single().setting("bind", "* ::1")).await;
    let port = cluster.address(0).unwrap().port();
    let url = format!("redis://[::1]:{port}");
    let store = ClusterStore::connect(ClusterOptions::from_url(&url).unwrap()).unwrap();
    ready(&store).await;
    let target = target(&global(Algorithm::FixedWindow, 10), "key-1");
    store.charge(charge(&target, 1, 1_000)).await.unwrap();
}

#[test]
fn a_store_needs_a_runtime() {
    let options = ClusterOptions::from_url("redis://127.0.0.1:1").unwrap();
    let error = ClusterStore::connect(options).unwrap_err().to_string();
    assert!(error.contains("runtime"), "{error}");
}
