//! The stores under test. A store that can't be started fails its tests.

use std::future::Future;
use std::sync::{Arc, LazyLock};

use std::time::Duration;

use tidegate::MemoryStore;
use tidegate::store::Store;
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate_chaos::cluster::{ClusterKind, ClusterSpec as TestOptions, ClusterUnderTest};
use tokio::runtime::Runtime;

/// A store, and how to run what awaits it.
pub trait Fixture {
    type S: Store;

    fn store() -> Arc<Self::S>;

    fn runtime() -> &'static Runtime;

    fn run<F: Future>(scenario: impl FnOnce(Arc<Self::S>) -> F) -> F::Output {
        let store = Self::store();
        Self::runtime().block_on(scenario(store))
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
});

/// The embedded store.
#[allow(non_camel_case_types)]
pub struct memory;

impl Fixture for memory {
    type S = MemoryStore;

    fn store() -> Arc<MemoryStore> {
        Arc::new(MemoryStore::default())
    }

    fn runtime() -> &'static Runtime {
        &RUNTIME
    }
}

/// Three primaries and three replicas, and a store on them.
pub struct Running {
    pub nodes: ClusterUnderTest,
    pub store: Arc<ClusterStore>,
}

/// One for all tests of a binary; its watchdog ends it with the process.
static RUNNING: LazyLock<Running> = LazyLock::new(|| RUNTIME.block_on(start()));

async fn start() -> Running {
    let options = TestOptions::default().kind(ClusterKind::Processes);
    let nodes = ClusterUnderTest::start(options)
        .await
        .unwrap_or_else(|error| panic!("no cluster to test on: {error}"));
    let options = ClusterOptions::from_url(&nodes.redis_url()).unwrap();
    let store = ClusterStore::connect(options).unwrap();
    store
        .wait_ready(Duration::from_secs(20))
        .await
        .unwrap_or_else(|error| panic!("the cluster is not ready: {error}"));
    let store = Arc::new(store);
    Running { nodes, store }
}

/// The store on a real cluster.
#[allow(non_camel_case_types)]
pub struct cluster;

impl cluster {
    /// The nodes, for what only they can tell.
    pub fn running() -> &'static Running {
        &RUNNING
    }
}

impl Fixture for cluster {
    type S = ClusterStore;

    fn store() -> Arc<ClusterStore> {
        Arc::clone(&RUNNING.store)
    }

    fn runtime() -> &'static Runtime {
        &RUNTIME
    }
}
