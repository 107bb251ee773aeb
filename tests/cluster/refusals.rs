//! What a server can answer instead of deciding, and what the store makes of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::model::{Algorithm, Policies};
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate::store::{Readiness, ShardEvent, Store, StoreError, StoreErrorKind};
use tidegate_chaos::cluster::ClusterSpec as TestOptions;

use crate::support::{
    charge, dual, eventually, global, primary_of, ready, single, six_nodes, start, store,
    store_with, subjects_by_shard, target, used,
};

fn is(error: &StoreError, kind: StoreErrorKind, may_have_run: bool, word: &str) {
    let found = (error.kind, error.may_have_run, error.detail.contains(word));
    assert_eq!(found, (kind, may_have_run, true), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_charges_and_takes_refunds_of_memory() {
    let cluster = single().await;
    let store = store(&cluster).await;
    for algorithm in Algorithm::ALL {
        let target = target(&global(algorithm, 100), "key-1");
        store.charge(charge(&target, 1, 1_000)).await.unwrap();
        cluster
            .run(0, &["CONFIG", "SET", "maxmemory", "1"])
            .await
            .unwrap();
        let begun = Instant::now();
        let error = store.charge(charge(&target, 1, 1_000)).await.unwrap_err();
        is(&error, StoreErrorKind::Overloaded, false, "OOM");
        assert!(
            begun.elapsed() < Duration::from_millis(500),
            "no use in waiting"
        );
        assert_eq!(
            used(&store, &target).await,
            1,
            "{algorithm}: it may be looked at"
        );
        cluster
            .run(0, &["CONFIG", "SET", "maxmemory", "0"])
            .await
            .unwrap();
        store.charge(charge(&target, 1, 1_000)).await.unwrap();
        assert_eq!(used(&store, &target).await, 2, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_replicas_refuses_charges() {
    let cluster = single().await;
    let store = store(&cluster).await;
    let target = target(&global(Algorithm::FixedWindow, 100), "key-1");
    cluster
        .run(0, &["CONFIG", "SET", "min-replicas-to-write", "1"])
        .await
        .unwrap();
    let error = store.charge(charge(&target, 1, 1_000)).await.unwrap_err();
    is(&error, StoreErrorKind::Overloaded, false, "NOREPLICAS");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_is_nobody_elses_trouble() {
    let cluster = single().await;
    let store = store(&cluster).await;
    let policy = dual(Algorithm::SlidingLog, 100, 50);
    let (hurt, sound) = (target(&policy, "hurt"), target(&policy, "sound"));
    let key = format!("tg:{{hurt}}:{}:r:us", policy.name());
    cluster.run(0, &["SET", &key, "x"]).await.unwrap();
    let error = store.charge(charge(&hurt, 1, 1_000)).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Refused, "{error:?}");
    assert!(error.detail.contains("WRONGTYPE"), "{error:?}");
    store.charge(charge(&sound, 1, 1_000)).await.unwrap();
    cluster.run(0, &["DEL", &key]).await.unwrap();
    assert_eq!(used(&store, &hurt).await, 0, "all or none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_waited_for() {
    let cluster = single().await;
    let store = Arc::new(store(&cluster).await);
    cluster
        .run(0, &["CONFIG", "SET", "busy-reply-threshold", "100"])
        .await
        .unwrap();
    let target = target(&global(Algorithm::FixedWindow, 100), "key-1");
    store.charge(charge(&target, 1, 1_000)).await.unwrap();
    let mut connection = cluster.connect(0).await.unwrap();
    let endless = tokio::spawn(async move {
        connection
            .command(&["EVAL", "while true do end", "0"])
            .await
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    // On a busy machine the server's word may come later than that.
    let mut error = store.charge(charge(&target, 1, 200)).await.unwrap_err();
    let mut silent = 0;
    while error.kind == StoreErrorKind::Deadline && silent < 5 {
        silent += 1;
        error = store.charge(charge(&target, 1, 1_000)).await.unwrap_err();
    }
    is(&error, StoreErrorKind::Overloaded, false, "BUSY");
    let waiting = tokio::spawn({
        let (store, call) = (Arc::clone(&store), charge(&target, 1, 5_000));
        async move { store.charge(call).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    cluster.run(0, &["SCRIPT", "KILL"]).await.unwrap();
    endless.await.unwrap().unwrap();
    assert!(waiting.await.unwrap().unwrap().outcomes[0].is_admitted());
    // What was silent may have been charged all the same; what was refused was not.
    let used = used(&store, &target).await;
    assert!((2..=2 + silent).contains(&used), "{used}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_server_that_was_demoted_hands_over_to_the_one_that_was_promoted() {
    let (old, new) = (single().await, single().await);
    let (a, b) = (old.address(0).unwrap(), new.address(0).unwrap());
    let (host, port) = (a.ip().to_string(), a.port().to_string());
    new.run(0, &["REPLICAOF", &host, &port]).await.unwrap();
    eventually("the replica to sync", async || {
        new.info(0, &["INFO", "replication"], "master_link_status")
            .await
            .unwrap()
            == "up"
    })
    .await;
    let url = format!("redis://{b},redis://{a}");
    let store = ClusterStore::connect(ClusterOptions::from_url(&url).unwrap()).unwrap();
    ready(&store).await;
    let target = target(&global(Algorithm::FixedWindow, 100), "key-1");
    // Which of the two is the primary is found out, whichever was named first.
    eventually("the primary to be found", async || {
        store.charge(charge(&target, 1, 2_000)).await.is_ok()
    })
    .await;
    let (host, port) = (b.ip().to_string(), b.port().to_string());
    new.run(0, &["REPLICAOF", "NO", "ONE"]).await.unwrap();
    old.run(0, &["REPLICAOF", &host, &port]).await.unwrap();
    let reply = store.charge(charge(&target, 1, 5_000)).await.unwrap();
    assert!(reply.outcomes[0].is_admitted());
    let keys = new.run(0, &["DBSIZE"]).await.unwrap().int();
    assert_eq!(keys, Some(1), "it is at the new primary");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_majority_says_so_and_comes_back() {
    let cluster = start(TestOptions::shards(3, false).persistent(true)).await;
    let store = store(&cluster).await;
    let mut events = store.shard_events();
    let policy = global(Algorithm::SlidingLog, 100);
    let shards = subjects_by_shard(&store, &policy, 1);
    let last = &shards[2].1[0];
    let mut dead = Vec::new();
    for (_, targets) in &shards[..2] {
        let node = primary_of(&cluster, &targets[0]).await;
        cluster.kill(node).await.unwrap();
        dead.push(node);
    }
    let mut down = None;
    eventually("CLUSTERDOWN", async || {
        let reply = store.charge(charge(last, 1, 100)).await;
        down = reply
            .err()
            .filter(|error| error.detail.contains("cluster is down"));
        down.is_some()
    })
    .await;
    assert_eq!(down.unwrap().kind, StoreErrorKind::Unavailable);
    // It is asked only whether that is over: no call costs a connection any more.
    let connections = async || {
        let node = primary_of(&cluster, last).await;
        let made = cluster
            .info(node, &["INFO", "stats"], "total_connections_received")
            .await;
        made.unwrap().parse::<u64>().unwrap()
    };
    let before = connections().await;
    for _ in 0..20 {
        let error = store.charge(charge(last, 1, 20)).await.unwrap_err();
        assert!(!error.may_have_run, "{error:?}");
    }
    let observed = connections().await - before;
    // Each look at the figure makes connections of its own.
    println!("20 calls to a cluster that is down: {observed} connections made meanwhile");
    assert!(observed < 20, "{observed}");
    for node in dead {
        cluster.restart(node).await.unwrap();
    }
    for (_, targets) in &shards {
        store.charge(charge(&targets[0], 1, 15_000)).await.unwrap();
    }
    assert_eq!(store.readiness(), Readiness::Ready);
    let news: Vec<_> = std::iter::from_fn(|| events.try_recv().ok()).collect();
    for (shard, _) in &shards[..2] {
        assert!(
            news.contains(&ShardEvent::Lost { shard: *shard }),
            "{news:?}"
        );
        assert!(
            news.contains(&ShardEvent::Found { shard: *shard }),
            "{news:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_on_a_paused_node_is_bounded_and_a_long_silence_ends_the_connection() {
    let cluster = single().await;
    let store = Arc::new(store_with(&cluster.redis_url(), |options| {
        options.unanswered_per_connection_max = 10;
        options.silence_max = Duration::from_millis(600);
        options.probe_period = Duration::from_millis(50);
    }));
    ready(&store).await;
    let target = target(&global(Algorithm::SlidingLog, 100), "key-1");
    store.charge(charge(&target, 1, 1_000)).await.unwrap();
    cluster.pause(0).await.unwrap();
    let calls = (0..30).map(|_| {
        let (store, call) = (Arc::clone(&store), charge(&target, 1, 100));
        tokio::spawn(async move { store.charge(call).await.unwrap_err() })
    });
    let calls: Vec<_> = calls.collect();
    let mut kinds = Vec::new();
    for call in calls {
        let error = call.await.unwrap();
        assert_eq!(
            error.may_have_run,
            error.kind == StoreErrorKind::Deadline,
            "{error:?}"
        );
        kinds.push(error.kind);
    }
    let silent = kinds
        .iter()
        .filter(|kind| **kind == StoreErrorKind::Deadline)
        .count();
    // A probe takes a place too.
    assert!((8..=10).contains(&silent), "{kinds:?}");
    let full = kinds
        .iter()
        .filter(|kind| **kind == StoreErrorKind::Overloaded)
        .count();
    assert_eq!(silent + full, 30, "{kinds:?}");
    eventually("the connection to be given up", async || {
        let error = store.charge(charge(&target, 1, 10)).await.unwrap_err();
        error.kind == StoreErrorKind::Unavailable && !error.may_have_run
    })
    .await;
    cluster.resume(0).await.unwrap();
    store.charge(charge(&target, 1, 5_000)).await.unwrap();
    let used = used(&store, &target).await;
    assert!(
        (2..=12).contains(&used),
        "{used}: no abandoned call runs after its connection"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_scripts_are_there_before_the_first_call() {
    let cluster = six_nodes().await;
    let store = store(&cluster).await;
    let policy = dual(Algorithm::SlidingLog, 100, 50);
    store.prepare(&Policies::new([(*policy).clone()]).unwrap());
    for node in 0..cluster.node_count() {
        eventually("the scripts", async || {
            let memory = cluster.info(node, &["INFO", "memory"], "number_of_cached_scripts");
            memory.await.unwrap().parse::<u32>().unwrap() == 9
        })
        .await;
    }
    let before = store.calls_sent();
    for (_, targets) in subjects_by_shard(&store, &policy, 1) {
        store.charge(charge(&targets[0], 1, 1_000)).await.unwrap();
    }
    assert_eq!(store.calls_sent() - before, 3, "one call each, no NOSCRIPT");
}
