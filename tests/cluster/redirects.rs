//! Slots on their way from one shard to another.

use std::sync::Arc;
use std::time::Duration;

use tidegate::model::Algorithm;
use tidegate::store::cluster::ClusterStore;
use tidegate::store::{ShardEvent, Store};
use tidegate_chaos::cluster::{ClusterSpec as TestOptions, ClusterUnderTest};

use crate::support::{
    charge, dual, eventually, global, primary_of, six_nodes, slot_of, store, subjects_by_shard,
    used,
};

/// A node of a cluster under test.
type At<'a> = (&'a ClusterUnderTest, usize);

/// A slot between its `SETSLOT MIGRATING` and its `SETSLOT NODE`, the classic way.
struct Migration<'a> {
    slot: String,
    from: At<'a>,
    to: At<'a>,
}

impl<'a> Migration<'a> {
    async fn begin(slot: u16, from: At<'a>, to: At<'a>) -> Self {
        let slot = slot.to_string();
        let (source, sink) = (id_of(from).await, id_of(to).await);
        run(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]).await;
        run(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &sink]).await;
        Migration { slot, from, to }
    }

    async fn move_keys(&self) {
        let keys = ["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"];
        let keys = run(self.from, &keys).await;
        let to = self.to.0.address(self.to.1).unwrap();
        let (host, port) = (to.ip().to_string(), to.port().to_string());
        for key in keys.array().unwrap() {
            let key = key.text().unwrap();
            run(self.from, &["MIGRATE", &host, &port, key, "0", "5000"]).await;
        }
    }

    async fn end(self) {
        let sink = id_of(self.to).await;
        for node in [self.to, self.from] {
            run(node, &["CLUSTER", "SETSLOT", &self.slot, "NODE", &sink]).await;
        }
    }
}

async fn run(at: At<'_>, args: &[&str]) -> tidegate_chaos::resp::Reply {
    at.0.run(at.1, args).await.unwrap_or_else(|e| panic!("{e}"))
}

async fn id_of(at: At<'_>) -> String {
    run(at, &["CLUSTER", "MYID"])
        .await
        .text()
        .unwrap()
        .to_owned()
}

async fn six_and_store() -> (ClusterUnderTest, Arc<ClusterStore>) {
    let cluster = six_nodes().await;
    let store = Arc::new(store(&cluster).await);
    (cluster, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_follow_ask_one_by_one_and_nobody_gets_anothers_reply() {
    let (cluster, store) = six_and_store().await;
    // One key a subject: what has several can't be served while its keys may be apart.
    let policy = global(Algorithm::TokenBucket, 1_000_000);
    let shards = subjects_by_shard(&store, &policy, 4);
    let moving = Arc::clone(&shards[0].1[0]);
    let from = (&cluster, primary_of(&cluster, &moving).await);
    let to = (&cluster, primary_of(&cluster, &shards[1].1[0]).await);
    store.charge(charge(&moving, 5, 1_000)).await.unwrap();
    let migration = Migration::begin(slot_of(&moving).get(), from, to).await;
    assert_eq!(used(&store, &moving).await, 5, "still at the source");
    migration.move_keys().await;
    // Together with other callers on the same two nodes, so that a reply could be shifted.
    let mut tasks = Vec::new();
    for (n, (_, targets)) in shards.iter().enumerate() {
        for (m, target) in targets.iter().enumerate() {
            let (store, target) = (Arc::clone(&store), Arc::clone(target));
            tasks.push(tokio::spawn(async move {
                let mut before = u64::MAX;
                for _ in 0..100 {
                    let reply = store.charge(charge(&target, 1, 1_000)).await.unwrap();
                    let left = reply.outcomes[0].ceilings[0].remaining;
                    assert!(
                        left < before,
                        "shard {n} subject {m}: {before}, then {left}"
                    );
                    before = left;
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(used(&store, &moving).await, 105);
    assert_eq!(
        store.shard_of(&moving),
        shards[0].0,
        "ASK moves nothing in the table"
    );
    migration.end().await;
    store.charge(charge(&moving, 1, 1_000)).await.unwrap();
    assert_eq!(used(&store, &moving).await, 106);
    assert_eq!(store.shard_of(&moving), shards[1].0, "MOVED does, at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_of_several_keys_waits_for_the_end_of_the_migration() {
    let (cluster, store) = six_and_store().await;
    let mut events = store.shard_events();
    let policy = dual(Algorithm::SlidingLog, 1_000, 900);
    let shards = subjects_by_shard(&store, &policy, 1);
    let moving = Arc::clone(&shards[0].1[0]);
    let from = (&cluster, primary_of(&cluster, &moving).await);
    let to = (&cluster, primary_of(&cluster, &shards[1].1[0]).await);
    store.charge(charge(&moving, 2, 1_000)).await.unwrap();
    let migration = Migration::begin(slot_of(&moving).get(), from, to).await;
    let waiting = tokio::spawn({
        let (store, moving) = (Arc::clone(&store), Arc::clone(&moving));
        async move { store.charge(charge(&moving, 1, 5_000)).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    migration.move_keys().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    migration.end().await;
    assert!(waiting.await.unwrap().unwrap().outcomes[0].is_admitted());
    assert_eq!(used(&store, &moving).await, 3);
    let slot = slot_of(&moving);
    eventually("the news", async || {
        let news = std::iter::from_fn(|| events.try_recv().ok());
        news.into_iter().any(|event| match event {
            ShardEvent::Moved { shard, slots } => shard == shards[1].0 && slots.contains(slot),
            _ => false,
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_nobody_knew_is_used_once_it_has_the_scripts() {
    let (cluster, store) = six_and_store().await;
    let stranger = TestOptions::single().setting("cluster-enabled", "yes");
    let stranger = crate::support::start(stranger).await;
    let policy = global(Algorithm::FixedWindow, 1_000);
    let (_, targets) = subjects_by_shard(&store, &policy, 1).remove(0);
    let moving = &targets[0];
    store.charge(charge(moving, 1, 1_000)).await.unwrap();
    let from = (&cluster, primary_of(&cluster, moving).await);
    let to = (&stranger, 0);
    // Others would take it for the address that its packets come from.
    let own = stranger.address(0).unwrap().ip().to_string();
    run(to, &["CONFIG", "SET", "cluster-announce-ip", &own]).await;
    let address = cluster.address(from.1).unwrap();
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    run(to, &["CLUSTER", "MEET", &host, &port]).await;
    for (node, other) in [(from, to), (to, from)] {
        let id = id_of(other).await;
        eventually("the two to meet", async || {
            let nodes = run(node, &["CLUSTER", "NODES"]).await;
            let line = nodes
                .text()
                .unwrap()
                .lines()
                .find(|line| line.starts_with(&id));
            line.is_some_and(|line| line.contains(" connected") && !line.contains("handshake"))
        })
        .await;
    }
    eventually("the stranger to trust the cluster", async || {
        let info = run(to, &["CLUSTER", "INFO"]).await;
        info.text().unwrap().contains("cluster_state:ok")
    })
    .await;
    let migration = Migration::begin(slot_of(moving).get(), from, to).await;
    migration.move_keys().await;
    // ASK and MOVED name a node that the store has never heard of.
    store.charge(charge(moving, 1, 2_000)).await.unwrap();
    migration.end().await;
    store.charge(charge(moving, 1, 2_000)).await.unwrap();
    assert_eq!(used(&store, moving).await, 3);
    let known = run(to, &["DBSIZE"]).await.int();
    assert_eq!(known, Some(1), "it is there");
}
