//! Announces what happens to shards, each change once. Never finds out by itself.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

use super::slot_map::SlotMap;
use crate::store::cluster::address::NodeAddress;
use crate::store::lock::lock;
use crate::store::shard::{ShardEvent, ShardId, SlotRanges};

/// Called, before any command goes there, with the slots that another node serves now, perhaps
/// without what the old one acknowledged last. A function and not a channel: who repairs them must know of it
/// before the next call looks up its node.
pub(crate) type TakeoverListener = Box<dyn Fn(&SlotRanges) + Send + Sync>;

/// Who listens to what happens to shards, and what was announced already.
pub(super) struct ShardEvents {
    sender: broadcast::Sender<ShardEvent>,
    on_takeover: TakeoverListener,
    announced: Mutex<Announced>,
    recoveries: AtomicU64,
}

#[derive(Debug, Default)]
struct Announced {
    /// Promotions that a redirect showed before the slot map had them.
    promoted: HashMap<ShardId, NodeAddress>,
    lost: HashSet<ShardId>,
}

impl ShardEvents {
    /// A receiver that lags behind by more than `len_max` events loses the oldest.
    pub fn new(len_max: usize, on_takeover: TakeoverListener) -> Self {
        ShardEvents {
            sender: broadcast::channel(len_max).0,
            on_takeover,
            announced: Mutex::default(),
            recoveries: AtomicU64::new(0),
        }
    }

    pub fn subscribe(&self) -> broadcast::Receiver<ShardEvent> {
        self.sender.subscribe()
    }

    /// How often a shard got another node, or was reached again.
    pub fn recoveries(&self) -> u64 {
        self.recoveries.load(Ordering::Relaxed)
    }

    pub fn count_recovery(&self) {
        self.recoveries.fetch_add(1, Ordering::Relaxed);
    }

    fn send(&self, event: ShardEvent) {
        if let ShardEvent::Promoted { slots, .. } = &event {
            (self.on_takeover)(slots);
        }
        tracing::info!(?event, "a shard changed");
        // Nobody has to listen.
        let _ = self.sender.send(event);
    }

    /// Before calls follow the map `next`: what is new in it, but for what redirects showed
    /// before. Whether anything is.
    pub fn map_changes(&self, before: &SlotMap, next: &SlotMap) -> bool {
        let events = next.events_since(before);
        let is_new = !events.is_empty();
        let mut announced = lock(&self.announced);
        for event in events {
            let is_old = match &event {
                ShardEvent::Promoted { shard, to, .. } => announced
                    .promoted
                    .remove(shard)
                    .is_some_and(|node| node.to_string() == *to),
                _ => false,
            };
            if !is_old {
                self.send(event);
            }
        }
        is_new
    }

    /// A redirect led to `to`, a replica of `shard` as far as `map` knows: it was promoted.
    pub fn replica_promoted(&self, map: &SlotMap, shard: ShardId, to: &NodeAddress) {
        let Some(from) = map.shards.iter().find(|s| s.id == shard) else {
            return;
        };
        if lock(&self.announced)
            .promoted
            .insert(shard, to.clone())
            .as_ref()
            == Some(to)
        {
            return;
        }
        self.send(ShardEvent::Promoted {
            shard,
            slots: map.slots_of(shard),
            from: from.primary.address().to_string(),
            to: to.to_string(),
        });
    }

    /// A redirect led to a node that isn't known as a replica: a migration, or a promotion after
    /// all. To put back what is there anyway does no harm.
    pub fn maybe_promoted(&self, slots: &SlotRanges) {
        (self.on_takeover)(slots);
    }

    /// Slots went to `shard`.
    pub fn moved(&self, shard: ShardId, slots: SlotRanges) {
        self.send(ShardEvent::Moved { shard, slots });
    }

    /// Which shards can't be reached, or can again.
    pub fn reachability(&self, map: &SlotMap) {
        let mut announced = lock(&self.announced);
        for shard in &map.shards {
            let (id, is_up) = (shard.id, shard.primary.is_up());
            if !is_up && announced.lost.insert(id) {
                self.send(ShardEvent::Lost { shard: id });
            } else if is_up && announced.lost.remove(&id) {
                self.send(ShardEvent::Found { shard: id });
                self.count_recovery();
            }
        }
        announced
            .lost
            .retain(|id| map.shards.iter().any(|shard| shard.id == *id));
    }
}
