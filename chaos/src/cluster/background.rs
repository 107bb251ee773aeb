//! A runtime in the background, for what clusters under test keep open: connections to the Docker
//! engine, proxies.
//!
//! So a cluster may be shared by tests with runtimes of their own, and dropped outside of any.
//! Never ends before the process does.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};

use super::ClusterError;

/// Runs `work` there, to its end even if the caller gives up.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl Future<Output = Result<T, ClusterError>> + Send + 'static,
) -> Result<T, ClusterError> {
    match runtime()?.spawn(work).await {
        Ok(result) => result,
        Err(ended) => Err(ClusterError::Io {
            operation: "work for a cluster under test".into(),
            source: ended.into(),
        }),
    }
}

/// The runtime itself; it lives as long as this process.
pub(super) fn runtime() -> Result<Handle, ClusterError> {
    static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = runtime.as_ref() {
        return Ok(runtime.handle().clone());
    }
    // testcontainers' destructors block in place, which only this flavour allows.
    let started = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("clusters-under-test")
        .enable_all()
        .build()
        .map_err(ClusterError::io(
            "starting a runtime for clusters under test",
        ))?;
    Ok(runtime.insert(started).handle().clone())
}
