//! What limiter nodes tell each other.

use std::time::Duration;

use tidegate::store::{Announcement, Membership, Subscription};
use tidegate_chaos::cluster::ClusterUnderTest;

use crate::support::{eventually, single, six_nodes, store, within};

async fn nodes_are_counted_while_they_live(cluster: ClusterUnderTest) {
    let store = store(&cluster).await;
    let second = Duration::from_secs(10);
    assert_eq!(
        store.heartbeat("a", second, within(1000)).await,
        Ok(Some(1))
    );
    assert_eq!(
        store.heartbeat("b", second, within(1000)).await,
        Ok(Some(2))
    );
    assert_eq!(
        store.heartbeat("a", second, within(1000)).await,
        Ok(Some(2))
    );
    assert_eq!(
        store
            .heartbeat("c", Duration::from_millis(60), within(1000))
            .await,
        Ok(Some(3))
    );
    let primary = cluster.primary_of("tg:{nodes}").await.unwrap();
    let live = async || {
        let members = cluster.run(primary, &["ZRANGE", "tg:{nodes}", "0", "-1"]);
        let members = members.await.unwrap();
        let names = members.array().unwrap().iter();
        let mut live: Vec<_> = names.map(|name| name.text().unwrap().to_owned()).collect();
        live.sort();
        live
    };
    assert_eq!(live().await, ["a", "b", "c"]);
    eventually("c to be forgotten", async || {
        assert!(store.heartbeat("a", second, within(1000)).await.is_ok());
        live().await == ["a", "b"]
    })
    .await;
    assert_eq!(
        store.heartbeat("b", Duration::ZERO, within(1000)).await,
        Ok(Some(1))
    );
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
    let mut heard = [here.subscribe(), there.subscribe()];
    for heard in &mut heard {
        assert_eq!(
            heard.next().await,
            Announcement::Missed,
            "told when it begins"
        );
    }
    assert_eq!(here.announce(b"one", within(1000)).await, Ok(2));
    for heard in &mut heard {
        assert_eq!(heard.next().await, Announcement::Message(b"one"[..].into()));
    }
    let primary = cluster.primary_of("tg:{news}:channel").await.unwrap();
    cluster.kill(primary).await.unwrap();
    for heard in &mut heard {
        assert_eq!(
            heard.next().await,
            Announcement::Missed,
            "told when it begins again"
        );
    }
    assert_eq!(there.announce(b"two", within(5000)).await, Ok(2));
    for heard in &mut heard {
        assert_eq!(heard.next().await, Announcement::Message(b"two"[..].into()));
    }
}
