//! Supervised tasks: they end with their owner, and are started again when they fail.

use std::time::Duration;

use tokio::task::JoinHandle;

/// Between a task's unexpected end and its next start.
const RESTART_WAIT: Duration = Duration::from_millis(100);

/// A task that is aborted when this is dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    pub fn new(handle: JoinHandle<T>) -> Self {
        AbortOnDrop(handle)
    }

    /// Waits for its end.
    pub fn join(&mut self) -> &mut JoinHandle<T> {
        &mut self.0
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a task that should never end; should it end or panic all the same, that is logged and
/// it is started again.
pub(super) fn supervise<F>(
    name: String,
    mut make: impl FnMut() -> F + Send + 'static,
) -> AbortOnDrop<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    AbortOnDrop::new(tokio::spawn(async move {
        loop {
            let mut task = AbortOnDrop::new(tokio::spawn(make()));
            match task.join().await {
                Ok(()) => tracing::error!(task = %name, "a task ended that never should"),
                Err(error) => tracing::error!(task = %name, %error, "a task failed"),
            }
            tokio::time::sleep(RESTART_WAIT).await;
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_or_ends_is_started_again_until_its_owner_goes() {
        let starts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&starts);
        let task = supervise("test".into(), move || {
            let start = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match start {
                    0 => std::panic::panic_any("on purpose"),
                    1 => {}
                    _ => std::future::pending().await,
                }
            }
        });
        tokio::time::sleep(RESTART_WAIT * 5).await;
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        drop(task);
        tokio::time::sleep(RESTART_WAIT * 5).await;
        assert_eq!(Arc::strong_count(&starts), 1, "the task is gone");
    }
}
