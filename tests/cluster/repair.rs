//! What a failover takes away, and what comes back: charges are taken from the primary behind the
//! store's back, which is what an unreplicated write looks like afterwards.

use std::sync::Arc;

use tidegate::model::{Algorithm, Cost, Target};
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate::store::{CallClock, ChargeCall, RefundCall, Refunded, Store};
use tidegate_chaos::cluster::ClusterUnderTest;
use tidegate_chaos::resp::Reply;

use crate::support::{
    charge, dual, eventually, primary_of, ready, six_nodes, store, target, used, within,
};

/// Replicas follow the primaries in number.
const PRIMARIES: usize = 3;

fn subject() -> Arc<Target> {
    target(&dual(Algorithm::SlidingLog, 10, 10), "key-1")
}

async fn admitted(store: &ClusterStore, target: &Arc<Target>, cost: Cost) -> bool {
    let reply = store.charge(charge(target, cost, 10_000)).await.unwrap();
    reply.outcomes[0].is_admitted()
}

fn keys(target: &Target) -> [String; 2] {
    let stem = format!("tg:{{{}}}:{}", target.subject, target.policy.name());
    [format!("{stem}:g"), format!("{stem}:r:us")]
}

/// Every entry of both logs with its instant, and what heavy ones weigh.
async fn entries(cluster: &ClusterUnderTest, node: usize, target: &Target) -> Vec<Reply> {
    let mut found = Vec::new();
    for key in keys(target) {
        let log = ["ZRANGE", &key, "0", "-1", "WITHSCORES"];
        found.push(cluster.run(node, &log).await.unwrap());
        for field in ["\tsum", "heavy"] {
            let weight = ["HGET", &format!("{key}:x"), field];
            found.push(cluster.run(node, &weight).await.unwrap());
        }
    }
    found
}

async fn lose_everything(cluster: &ClusterUnderTest, node: usize, target: &Target) {
    for key in keys(target) {
        let companion = format!("{key}:x");
        cluster.run(node, &["DEL", &key, &companion]).await.unwrap();
    }
}

/// Has a node take over from the target's primary, and waits until that one knows: before, it
/// would still answer peeks.
async fn fail_over_to(cluster: &ClusterUnderTest, target: &Target, node: usize) {
    let demoted = primary_of(cluster, target).await;
    cluster.run(node, &["CLUSTER", "FAILOVER"]).await.unwrap();
    eventually("the failover", async || {
        let view = cluster.view(demoted).await.unwrap();
        !view.myself().unwrap().primary && primary_of(cluster, target).await == node
    })
    .await;
}

/// Has the replica take over, and returns it.
async fn fail_over(cluster: &ClusterUnderTest, target: &Target) -> usize {
    let replica = primary_of(cluster, target).await + PRIMARIES;
    fail_over_to(cluster, target, replica).await;
    replica
}

/// Three charges, one of them heavy and named.
async fn charge_three(store: &ClusterStore, target: &Arc<Target>) {
    assert!(admitted(store, target, 1).await && admitted(store, target, 1).await);
    let mut heavy: ChargeCall = charge(target, 5, 10_000);
    heavy.requests[0].id = tidegate::model::ChargeId::new("heavy").unwrap();
    let reply = store.charge(heavy).await.unwrap();
    assert!(reply.outcomes[0].is_admitted());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_is_back_at_its_own_instant_before_anything_is_charged_anew() {
    let cluster = six_nodes().await;
    let (store, target) = (store(&cluster).await, subject());
    charge_three(&store, &target).await;
    let primary = primary_of(&cluster, &target).await;
    let before = entries(&cluster, primary, &target).await;
    lose_everything(&cluster, primary, &target).await;
    let replica = fail_over(&cluster, &target).await;
    // 7 of 10 were used; the first call after the failover must know it.
    assert!(!admitted(&store, &target, 4).await);
    assert_eq!(entries(&cluster, replica, &target).await, before);
    assert_eq!(store.restored(), 3);
    assert!(admitted(&store, &target, 3).await);
    for key in keys(&target) {
        let expiry = cluster.run(replica, &["PTTL", &key]).await.unwrap();
        assert!(expiry.int().unwrap() > 0, "{key} lives for ever");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_journal_what_was_lost_is_admitted_again() {
    let cluster = six_nodes().await;
    let mut options = ClusterOptions::from_url(&cluster.redis_url()).unwrap();
    options.journal_len_max = 0;
    let (store, target) = (ClusterStore::connect(options).unwrap(), subject());
    ready(&store).await;
    charge_three(&store, &target).await;
    let primary = primary_of(&cluster, &target).await;
    lose_everything(&cluster, primary, &target).await;
    fail_over(&cluster, &target).await;
    assert!(admitted(&store, &target, 10).await);
    assert_eq!(store.restored(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_replicated_or_given_back_stays_as_it_is() {
    let cluster = six_nodes().await;
    let (store, target) = (store(&cluster).await, subject());
    charge_three(&store, &target).await;
    let refund = RefundCall {
        target: Arc::clone(&target),
        id: tidegate::model::ChargeId::new("heavy").unwrap(),
        cost: Some(2),
        clock: CallClock::Store,
        deadline: within(10_000),
    };
    assert_eq!(store.refund(refund).await.unwrap(), Refunded::Units(2));
    let primary = primary_of(&cluster, &target).await;
    let before = entries(&cluster, primary, &target).await;
    let replica = fail_over(&cluster, &target).await;
    assert_eq!(used(&store, &target).await, 5);
    assert_eq!(entries(&cluster, replica, &target).await, before);
    assert_eq!(store.restored(), 0);

    // Lost now, it comes back without what was given back.
    lose_everything(&cluster, replica, &target).await;
    cluster.wait_healthy().await.unwrap();
    fail_over_to(&cluster, &target, primary).await;
    assert_eq!(used(&store, &target).await, 5);
    assert_eq!(store.restored(), 3);
}
