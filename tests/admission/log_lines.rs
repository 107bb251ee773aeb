//! One line a transition, not a check.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::model::OnOutage;
use tokio::time::advance;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::world::{MS, World, check, global, on_outage};

/// Keeps each line of the local stage.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tidegate::admission")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Lines {
    fn count(&self, part: &str) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(part)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_when_it_begins_and_when_it_ends() {
    let lines = Lines::default();
    let _default = tracing::subscriber::set_default(lines.clone());
    let world = World::one(on_outage(global("100/min"), OnOutage::Deny));
    world.node().weather(|w| w.is_cut = true);
    for _ in 0..500 {
        assert!(world.node().check(&check("a")).await.facts().degraded);
    }
    assert_eq!(lines.count("breaker opened"), 1, "{:?}", lines.0);
    assert_eq!(lines.count("reason=\"deadline\""), 1);
    world.node().weather(|w| w.is_cut = false);
    advance(Duration::from_secs(1)).await;
    for _ in 0..50 {
        assert!(world.node().check(&check("a")).await.is_admitted());
    }
    assert_eq!(lines.count("breaker closed"), 1);
    assert_eq!(lines.0.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_told_once_in_a_while() {
    let lines = Lines::default();
    let _default = tracing::subscriber::set_default(lines.clone());
    let world = World::one(on_outage(global("100/min"), OnOutage::Admit));
    world.node().weather(|w| w.refuses = true);
    for _ in 0..100 {
        world.node().check(&check("a")).await;
        advance(100 * MS).await;
    }
    assert_eq!(lines.count("reason=\"store_error\""), 1, "{:?}", lines.0);
}
