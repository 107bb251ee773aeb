//! What the log says at the start, and what it must never hold.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tidegate::model::Algorithm;
use tidegate::store::Store;
use tidegate_chaos::cluster::ClusterSpec as TestOptions;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{charge, global, ready, start, target, unready_store};

/// All that was logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}

// On one thread: that is where the subscriber hears everything.
#[tokio::test]
async fn an_evicting_server_is_warned_of_once_and_no_password_is_logged() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(lines.clone());
    let _heard = tracing::subscriber::set_default(subscriber.finish());
    let options = TestOptions::single().setting("maxmemory-policy", "allkeys-lru");
    let cluster = start(options.password("correct-horse")).await;
    let store = unready_store(&cluster);
    ready(&store).await;
    let target = target(&global(Algorithm::SlidingLog, 100), "key-1");
    for _ in 0..3 {
        store.charge(charge(&target, 1, 1_000)).await.unwrap();
        cluster
            .run(0, &["CLIENT", "KILL", "TYPE", "normal"])
            .await
            .unwrap();
    }
    store.charge(charge(&target, 1, 5_000)).await.unwrap();
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(
        text.matches("maxmemory-policy is not noeviction").count(),
        1,
        "{text}"
    );
    assert!(
        text.contains("allkeys-lru") && text.contains("no connection"),
        "{text}"
    );
    assert!(!text.contains("correct-horse"), "{text}");
}
