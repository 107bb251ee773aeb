//! Which node serves which slot. A snapshot; only the owner of a slot can be corrected in place,
//! by what a node itself says (MOVED). Never asks anybody.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::view::MergedView;
use crate::model::Slot;
use crate::store::cluster::address::NodeAddress;
use crate::store::cluster::node::Node;
use crate::store::shard::{ShardEvent, ShardId, SlotRanges};

/// A slot that nobody serves.
const UNASSIGNED: u16 = u16::MAX;

/// A shard as the map has it.
#[derive(Debug)]
pub(crate) struct Shard {
    pub id: ShardId,
    pub primary: Arc<Node>,
}

/// Who serves what.
#[derive(Debug)]
pub(crate) struct SlotMap {
    /// Every known node, and the shard that it belongs to; primaries first, in shard order.
    members: Vec<(Arc<Node>, ShardId)>,
    pub shards: Vec<Shard>,
    owners: Vec<AtomicU16>,
    ids_used: u32,
}

impl SlotMap {
    /// Nothing is known yet.
    pub fn empty() -> Self {
        SlotMap {
            members: Vec::new(),
            shards: Vec::new(),
            owners: Vec::new(),
            ids_used: 0,
        }
    }

    /// One server for everything.
    pub fn single(node: Arc<Node>) -> Self {
        let id = ShardId::new(1);
        SlotMap {
            members: vec![(Arc::clone(&node), id)],
            shards: vec![Shard { id, primary: node }],
            owners: all_slots(|_| 0),
            ids_used: 1,
        }
    }

    /// The map of a merged view. A shard keeps the number that it had in `before`: by its
    /// primary, else by the new primary having been one of its replicas.
    pub(super) fn clustered(
        merged: &MergedView,
        before: &SlotMap,
        mut node_at: impl FnMut(&NodeAddress) -> Option<Arc<Node>>,
    ) -> Self {
        let mut ids_used = before.ids_used;
        let ids = inherit(merged, before, &mut ids_used);
        let mut members = Vec::new();
        let mut shards = Vec::new();
        let mut indexes = Vec::with_capacity(merged.shards.len());
        for (shard, id) in merged.shards.iter().zip(&ids) {
            let Some(primary) = node_at(&shard.primary) else {
                indexes.push(UNASSIGNED);
                continue;
            };
            indexes.push(u16::try_from(members.len()).unwrap_or(UNASSIGNED));
            members.push((Arc::clone(&primary), *id));
            shards.push(Shard { id: *id, primary });
        }
        for (shard, id) in merged.shards.iter().zip(&ids) {
            let replicas = shard.replicas.iter().filter_map(&mut node_at);
            members.extend(replicas.map(|replica| (replica, *id)));
        }
        members.truncate(usize::from(UNASSIGNED));
        let owner = |slot: usize| {
            let shard = merged.owners.get(slot).copied().flatten();
            shard
                .and_then(|s| indexes.get(usize::from(s)).copied())
                .unwrap_or(UNASSIGNED)
        };
        SlotMap {
            owners: all_slots(owner),
            members,
            shards,
            ids_used,
        }
    }

    fn member(&self, slot: Slot) -> Option<&(Arc<Node>, ShardId)> {
        let owner = self
            .owners
            .get(usize::from(slot.get()))?
            .load(Ordering::Relaxed);
        self.members.get(usize::from(owner))
    }

    /// Who serves `slot`.
    pub fn owner(&self, slot: Slot) -> Option<&Arc<Node>> {
        self.member(slot).map(|(node, _)| node)
    }

    /// The shard of `slot`; the whole store while nobody serves it.
    pub fn shard_of(&self, slot: Slot) -> ShardId {
        self.member(slot)
            .map_or(ShardId::WHOLE, |(_, shard)| *shard)
    }

    /// The shard of which `address` is a member that isn't its primary.
    pub fn shard_of_replica(&self, address: &NodeAddress) -> Option<ShardId> {
        let replicas = self.members.get(self.shards.len()..)?;
        let found = replicas.iter().find(|(node, _)| node.address() == address);
        found.map(|(_, shard)| *shard)
    }

    /// Takes a node's word that `address` serves `slot`. Returns the shard that it went to, when
    /// it is another than before.
    pub fn reassign(&self, slot: Slot, address: &NodeAddress) -> Option<ShardId> {
        let mut members = self.members.iter();
        let index = members.position(|(node, _)| node.address() == address)?;
        let owner = self.owners.get(usize::from(slot.get()))?;
        let (_, shard) = self.members.get(index)?;
        let before = self.shard_of(slot);
        owner.store(
            u16::try_from(index).unwrap_or(UNASSIGNED),
            Ordering::Relaxed,
        );
        (before != *shard).then_some(*shard)
    }

    /// The slots of a shard.
    pub fn slots_of(&self, shard: ShardId) -> SlotRanges {
        SlotRanges::from_ascending(slots().filter(|slot| self.shard_of(*slot) == shard))
    }

    /// Slots that nobody serves.
    pub fn unassigned(&self) -> usize {
        slots().filter(|slot| self.owner(*slot).is_none()).count()
    }

    /// Every known node.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.members.iter().map(|(node, _)| node)
    }

    /// What changed since `before`: promotions, and slots that went from shard to shard.
    pub fn events_since(&self, before: &SlotMap) -> Vec<ShardEvent> {
        let mut events = Vec::new();
        let mut came: HashMap<ShardId, Vec<Slot>> = HashMap::new();
        for slot in slots() {
            let (was, is) = (before.shard_of(slot), self.shard_of(slot));
            if was != is && was != ShardId::WHOLE {
                came.entry(is).or_default().push(slot);
            }
        }
        for shard in &self.shards {
            let old = before.shards.iter().find(|old| old.id == shard.id);
            let to = shard.primary.address();
            if let Some(old) = old.filter(|old| old.primary.address() != to) {
                events.push(ShardEvent::Promoted {
                    shard: shard.id,
                    slots: self.slots_of(shard.id),
                    from: old.primary.address().to_string(),
                    to: to.to_string(),
                });
            }
            if let Some(came) = came.remove(&shard.id) {
                let (shard, slots) = (shard.id, SlotRanges::from_ascending(came));
                events.push(ShardEvent::Moved { shard, slots });
            }
        }
        events
    }
}

fn slots() -> impl Iterator<Item = Slot> {
    (0..Slot::COUNT).filter_map(Slot::new)
}

fn all_slots(owner: impl Fn(usize) -> u16) -> Vec<AtomicU16> {
    (0..usize::from(Slot::COUNT))
        .map(|slot| AtomicU16::new(owner(slot)))
        .collect()
}

/// The shards' numbers: what they had before, else new ones.
fn inherit(merged: &MergedView, before: &SlotMap, ids_used: &mut u32) -> Vec<ShardId> {
    let primaries = before.shards.iter().map(|s| (s.primary.address(), s.id));
    let primaries: HashMap<_, _> = primaries.collect();
    let members = before
        .members
        .iter()
        .map(|(node, id)| (node.address(), *id));
    let members: HashMap<_, _> = members.collect();
    let mut ids: Vec<Option<ShardId>> = merged
        .shards
        .iter()
        .map(|shard| primaries.get(&shard.primary).copied())
        .collect();
    for index in 0..ids.len() {
        let (Some(None), Some(shard)) = (ids.get(index), merged.shards.get(index)) else {
            continue;
        };
        let was = members.get(&shard.primary).copied();
        let id = was
            .filter(|id| !ids.contains(&Some(*id)))
            .unwrap_or_else(|| {
                *ids_used += 1;
                ShardId::new(*ids_used)
            });
        if let Some(slot) = ids.get_mut(index) {
            *slot = Some(id);
        }
    }
    ids.into_iter()
        .map(|id| id.unwrap_or(ShardId::WHOLE))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::pool::Pool;
    use super::super::view::MergedShard;
    use super::*;
    use crate::store::cluster::node::connector::Connector;
    use crate::store::cluster::options::ClusterOptions;

    fn at(name: &str) -> NodeAddress {
        NodeAddress::new(&format!("{name}.invalid"), 1)
    }

    /// Shards of one primary and its replicas, each with an equal part of the slots.
    fn merged(shards: &[&[&str]]) -> MergedView {
        let part = usize::from(Slot::COUNT).div_ceil(shards.len());
        let shard = |names: &&[&str]| MergedShard {
            primary: at(names[0]),
            replicas: names[1..].iter().map(|name| at(name)).collect(),
        };
        MergedView {
            shards: shards.iter().map(shard).collect(),
            owners: (0..usize::from(Slot::COUNT))
                .map(|slot| u16::try_from(slot / part).ok())
                .collect(),
        }
    }

    fn slot(n: u16) -> Slot {
        Slot::new(n).unwrap()
    }

    struct Maps(Pool);

    impl Maps {
        fn new() -> Self {
            let options = ClusterOptions::from_url("redis://a.invalid:1").unwrap();
            Maps(Pool::new(Arc::new(Connector::new(options).unwrap())))
        }

        fn map(&self, shards: &[&[&str]], before: &SlotMap) -> SlotMap {
            SlotMap::clustered(&merged(shards), before, |at| self.0.get_or_start(at))
        }
    }

    #[tokio::test]
    async fn a_promoted_replica_takes_over_its_shards_number_and_that_is_news() {
        let maps = Maps::new();
        let first = maps.map(&[&["a", "b"], &["c", "d"]], &SlotMap::empty());
        let ids = [first.shard_of(slot(0)), first.shard_of(slot(16_383))];
        assert_eq!(ids.map(ShardId::get), [1, 2]);
        assert!(first.events_since(&SlotMap::empty()).is_empty());
        let next = maps.map(&[&["c", "d"], &["b", "a"]], &first);
        let events = next.events_since(&first);
        assert_eq!(next.shard_of(slot(16_383)), ids[0], "b served what a had");
        let promoted = events.iter().find_map(|event| match event {
            ShardEvent::Promoted {
                shard, from, to, ..
            } => Some((*shard, from, to)),
            _ => None,
        });
        let (shard, from, to) = promoted.unwrap();
        assert_eq!(shard, ids[0]);
        assert_eq!((from.as_str(), to.as_str()), ("a.invalid:1", "b.invalid:1"));
    }

    #[tokio::test]
    async fn a_shard_that_is_new_gets_a_number_that_none_had() {
        let maps = Maps::new();
        let first = maps.map(&[&["a"], &["b"]], &SlotMap::empty());
        let second = maps.map(&[&["a"], &["c"]], &first);
        let third = maps.map(&[&["a"], &["b"]], &second);
        let ids = [&first, &second, &third].map(|map| map.shard_of(slot(16_383)).get());
        assert_eq!(ids, [2, 3, 4]);
        assert_eq!(third.shard_of(slot(0)).get(), 1);
    }

    #[tokio::test]
    async fn slots_that_change_their_shard_are_news() {
        let maps = Maps::new();
        let first = maps.map(&[&["a"], &["b"]], &SlotMap::empty());
        let next = maps.map(&[&["a"], &["b"], &["c"]], &first);
        let moved: Vec<_> = next
            .events_since(&first)
            .into_iter()
            .filter_map(|event| match event {
                ShardEvent::Moved { shard, slots } => Some((shard.get(), slots.to_string())),
                _ => None,
            })
            .collect();
        let expected = [(2, "5462-8191"), (3, "10924-16383")].map(|(n, s)| (n, s.to_owned()));
        assert_eq!(moved, expected);
    }

    #[tokio::test]
    async fn a_nodes_word_corrects_one_slot_and_only_towards_a_known_node() {
        let maps = Maps::new();
        let map = maps.map(&[&["a", "r"], &["b"]], &SlotMap::empty());
        assert_eq!(map.reassign(slot(7), &at("stranger")), None);
        assert_eq!(map.reassign(slot(7), &at("b")), Some(ShardId::new(2)));
        assert_eq!(map.owner(slot(7)).unwrap().address(), &at("b"));
        assert_eq!(map.owner(slot(8)).unwrap().address(), &at("a"));
        assert_eq!(map.reassign(slot(8), &at("r")), None, "the same shard");
        assert_eq!(map.owner(slot(8)).unwrap().address(), &at("r"));
        assert_eq!(map.shard_of_replica(&at("r")), Some(ShardId::new(1)));
        assert_eq!(map.shard_of_replica(&at("a")), None);
    }

    #[tokio::test]
    async fn a_single_server_serves_every_slot() {
        let maps = Maps::new();
        let map = SlotMap::single(maps.0.get_or_start(&at("a")).unwrap());
        assert_eq!(map.unassigned(), 0);
        assert_eq!(map.slots_of(ShardId::new(1)).to_string(), "0-16383");
        assert_eq!(SlotMap::empty().unassigned(), 16_384);
    }
}
