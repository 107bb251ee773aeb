//! Clusters, stores and policies that the tests share.

use std::time::{Duration, Instant};

use tidegate::chaos::cluster::{ClusterOptions as TestOptions, ClusterUnderTest};
use tidegate::store::cluster::{ClusterOptions, ClusterStore};

/// Three primaries and three replicas, whole.
pub async fn six_nodes() -> ClusterUnderTest {
    start(TestOptions::default()).await
}

/// A server that is no cluster.
pub async fn single() -> ClusterUnderTest {
    start(TestOptions::single()).await
}

pub async fn start(options: TestOptions) -> ClusterUnderTest {
    ClusterUnderTest::start(options)
        .await
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A store on all nodes, that waits for nothing.
pub fn unready_store(cluster: &ClusterUnderTest) -> ClusterStore {
    ClusterStore::connect(ClusterOptions::from_url(&cluster.redis_url()).unwrap()).unwrap()
}

/// A store that is ready.
pub async fn store(cluster: &ClusterUnderTest) -> ClusterStore {
    let store = unready_store(cluster);
    ready(&store).await;
    store
}

pub async fn ready(store: &ClusterStore) {
    store
        .wait_ready(Duration::from_secs(20))
        .await
        .unwrap_or_else(|e| panic!("not ready: {e}"));
}

pub fn within(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

/// Looks until it is so, 20 s at most.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "waited in vain for {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
