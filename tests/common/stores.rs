//! The stores under test. A store that can't be started fails its tests.

use std::future::Future;
use std::sync::{Arc, LazyLock};

use tidegate::MemoryStore;
use tidegate::store::Store;
use tokio::runtime::Runtime;

/// A store, and how to run what awaits it.
pub trait Fixture {
    type S: Store;

    fn store() -> Arc<Self::S>;

    fn runtime() -> &'static Runtime;

    fn run<F: Future>(scenario: impl FnOnce(Arc<Self::S>) -> F) -> F::Output {
        // The store may connect in the background, so it is made where that can run.
        let runtime = Self::runtime();
        runtime.block_on(async { scenario(Self::store()).await })
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
