//! What the parts of one store share. Never knows which node serves what.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, broadcast};

use super::carrier::Carrier;
use super::options::{ClusterOptions, ClusterOptionsError};
use super::repair::Repair;
use super::source::ScriptSet;
use crate::store::ShardEvent;

/// How long after a call waited in vain another node may have taken over unnoticed: the table is
/// read as in trouble.
const DOUBT: Duration = Duration::from_secs(1);

/// Options, scripts, and the bells that one part rings for another.
pub(super) struct Shared {
    pub options: ClusterOptions,
    pub carrier: Carrier,
    pub scripts: ScriptSet,
    /// A connection came or went, or the slot table changed: who waits may look again.
    pub changed: Notify,
    /// The slot table may be wrong: read it anew.
    pub refresh: Notify,
    pub events: broadcast::Sender<ShardEvent>,
    pub repair: Repair,
    /// Script calls sent so far.
    pub calls_sent: AtomicU64,
    /// How often a shard got another node, or was reached again.
    pub recoveries: AtomicU64,
    began: Instant,
    /// Until when there is doubt, in microseconds from the beginning on.
    doubt_until: AtomicU64,
}

impl Shared {
    pub fn new(options: ClusterOptions) -> Result<Self, ClusterOptionsError> {
        options.validate()?;
        let tls = match options.url.tls {
            true => Some(options.tls.connector()?),
            false => None,
        };
        let (events, _) = broadcast::channel(options.events_len_max);
        Ok(Shared {
            repair: Repair::new(options.journal_len_max),
            carrier: Carrier::new(tls),
            options,
            scripts: ScriptSet::new(),
            changed: Notify::new(),
            refresh: Notify::new(),
            events,
            calls_sent: AtomicU64::new(0),
            recoveries: AtomicU64::new(0),
            began: Instant::now(),
            doubt_until: AtomicU64::new(0),
        })
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// A call waited in vain: its node may be gone, though its connection stands.
    pub fn doubt(&self) {
        let doubt = u64::try_from(DOUBT.as_micros()).unwrap_or(u64::MAX);
        let until = self.elapsed_us().saturating_add(doubt);
        self.doubt_until.fetch_max(until, Ordering::Relaxed);
        self.refresh.notify_one();
    }

    /// Whether a call waited in vain lately.
    pub fn is_in_doubt(&self) -> bool {
        let until = self.doubt_until.load(Ordering::Relaxed);
        until > 0 && self.elapsed_us() < until
    }

    /// Tells who listens; nobody need. What a promotion may have lost is to be repaired from
    /// this moment on.
    pub fn tell(&self, event: ShardEvent) {
        if let ShardEvent::Promoted { slots, .. } = &event {
            self.repair.promoted(slots);
        }
        tracing::info!(?event, "a shard changed");
        let _ = self.events.send(event);
    }
}
