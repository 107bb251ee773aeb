//! A limiter as one node of a fleet: it says that it lives, learns how many do, tells the others
//! what they must not believe any more, and learns the same from them. Never on a check's way.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::task::JoinHandle;

use super::operations::Limiter;
use crate::admission::{FleetView, decode, encode};
use crate::store::{Announcement, Membership, Subscription};

/// How a node lives in its fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetOptions {
    /// How long a node that fell silent is counted as alive; it beats three times as often
    /// (100 ms to 1 h).
    pub ttl: Duration,
    /// How long invalidations are collected before they are sent together.
    pub invalidation_wait: Duration,
}

impl Default for FleetOptions {
    fn default() -> Self {
        FleetOptions {
            ttl: Duration::from_secs(6),
            invalidation_wait: Duration::from_millis(2),
        }
    }
}

/// How long a heartbeat or a message may take.
const CALL_WAIT_MAX: Duration = Duration::from_millis(500);

/// A node's membership. Dropped, it falls silent and is forgotten after its `ttl`.
#[derive(Debug)]
pub struct FleetMember {
    tasks: Vec<JoinHandle<()>>,
    view: Arc<FleetView>,
}

impl Drop for FleetMember {
    fn drop(&mut self) {
        self.view.set_joined(false);
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl<S: Membership> Limiter<S> {
    /// Joins the fleet of all limiters on this store. Needed for `on_outage: local` to know how
    /// many nodes share a ceiling, and for a reset or refund here to end denials that other nodes
    /// remember at once instead of after `denial_trust_max`. `None` without a local stage, which
    /// has no use for it. Must run inside a tokio runtime.
    pub fn join_fleet(self: &Arc<Self>, options: FleetOptions) -> Option<FleetMember> {
        let view = Arc::clone(self.admission.stage()?.fleet());
        view.set_joined(true);
        let node = node_number();
        let listener = self.store().subscribe();
        let tasks = vec![
            tokio::spawn(beat(Arc::clone(self), node, options.ttl)),
            tokio::spawn(tell(Arc::clone(self), node, options.invalidation_wait)),
            tokio::spawn(receive(Arc::clone(self), node, listener)),
        ];
        Some(FleetMember { tasks, view })
    }
}

/// Tells nodes apart; random, so that it needs no configuration.
fn node_number() -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    RandomState::new().hash_one((since_epoch.as_nanos(), std::process::id()))
}

async fn beat<S: Membership>(limiter: Arc<Limiter<S>>, node: u64, ttl: Duration) {
    let ttl = ttl.clamp(Duration::from_millis(100), Duration::from_secs(3_600));
    let name = format!("{node:016x}");
    let mut period = tokio::time::interval(ttl / 3);
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        period.tick().await;
        let deadline = Instant::now() + CALL_WAIT_MAX.min(ttl / 3);
        // While the store can't answer, the number that was last known stays: nodes that can't
        // be counted may well go on admitting their share.
        if let Ok(Some(live)) = limiter.store().heartbeat(&name, ttl, deadline).await
            && let Some(stage) = limiter.admission.stage()
        {
            stage.fleet().set_live(live);
        }
    }
}

async fn tell<S: Membership>(limiter: Arc<Limiter<S>>, node: u64, wait: Duration) {
    let Some(stage) = limiter.admission.stage() else {
        return;
    };
    let view = stage.fleet();
    loop {
        view.filled.notified().await;
        tokio::time::sleep(wait).await;
        while let Some(message) = encode(node, || view.next()) {
            let deadline = Instant::now() + CALL_WAIT_MAX;
            if let Err(error) = limiter.store().announce(&message, deadline).await {
                tracing::debug!(%error, "other nodes were not told of a reset or refund");
            }
        }
    }
}

async fn receive<S: Membership>(
    limiter: Arc<Limiter<S>>,
    node: u64,
    mut listener: S::Subscription,
) {
    let Some(stage) = limiter.admission.stage() else {
        return;
    };
    loop {
        match listener.next().await {
            Announcement::Missed => stage.invalidate_denials(),
            Announcement::Message(message) => match decode(&message) {
                Some((sender, invalidations)) if sender != node => {
                    invalidations.iter().for_each(|each| stage.invalidate(each));
                }
                _ => {}
            },
        }
    }
}
