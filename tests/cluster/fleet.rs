//! What limiter nodes tell each other.

use std::time::Duration;

use tidegate::store::FleetNews;
use tidegate_chaos::cluster::ClusterUnderTest;

use crate::support::{eventually, single, six_nodes, store, within};

async fn nodes_are_counted_while_they_live(cluster: ClusterUnderTest) {
    let store = store(&cluster).await;
    let second = Duration::from_secs(10);
    assert_eq!(store.heartbeat("a", second, within(1000)).await, Ok(1));
    assert_eq!(store.heartbeat("b", second, within(1000)).await, Ok(2));
    assert_eq!(store.heartbeat("a", second, within(1000)).await, Ok(2));
    assert_eq!(
        store
            .heartbeat("c", Duration::from_millis(60), within(1000))
            .await,
        Ok(3)
    );
    assert_eq!(
        store.live_nodes(within(1000)).await.unwrap(),
        ["a", "b", "c"].map(String::from)
    );
    eventually("c to be forgotten", async || {
        store.live_nodes(within(1000)).await.unwrap() == ["a", "b"]
    })
    .await;
    assert_eq!(
        store.heartbeat("b", Duration::ZERO, within(1000)).await,
        Ok(1)
    );
    let primary = cluster.primary_of("tg:{nodes}").await.unwrap();
    let left = cluster
        .run(primary, &["PTTL", "tg:{nodes}"])
        .await
        .unwrap()
        .int()
        .unwrap();
    assert!((1..=30_000).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_counted_while_they_live_on_a_cluster() {
    nodes_are_counted_while_they_live(six_nodes().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_counted_while_they_live_on_a_single_server() {
    nodes_are_counted_while_they_live(single().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_reach_all_who_listen_also_after_a_failover() {
    let cluster = six_nodes().await;
    let (here, there) = (store(&cluster).await, store(&cluster).await);
    let channel = here.channel("denials");
    let mut heard = [here.subscribe(&channel), there.subscribe(&channel)];
    for heard in &mut heard {
        assert_eq!(heard.next().await, FleetNews::Missed, "told when it begins");
    }
    assert_eq!(here.publish(&channel, b"one", within(1000)).await, Ok(2));
    for heard in &mut heard {
        assert_eq!(heard.next().await, FleetNews::Message(b"one"[..].into()));
    }
    let primary = cluster.primary_of("tg:{denials}:channel").await.unwrap();
    cluster.kill(primary).await.unwrap();
    for heard in &mut heard {
        assert_eq!(
            heard.next().await,
            FleetNews::Missed,
            "told when it begins again"
        );
    }
    assert_eq!(there.publish(&channel, b"two", within(5000)).await, Ok(2));
    for heard in &mut heard {
        assert_eq!(heard.next().await, FleetNews::Message(b"two"[..].into()));
    }
}
