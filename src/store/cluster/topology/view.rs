//! The cluster as its nodes see it, and what several views say together.
//!
//! Views differ while a failover or a partition lasts. Each claim on a slot carries the epoch of
//! the claiming primary's configuration, and the highest wins, as the nodes themselves settle it
//! (Redis Cluster specification, "Hash slots configuration propagation"). So a primary that was
//! cut off and replaced never wins it back by being asked first.
//!
//! `CLUSTER SLOTS` names the endpoints that clients are meant to use, `CLUSTER NODES` the epochs.
//! Never asks a node itself.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use fred::types::Value;

use crate::model::Slot;
use crate::store::cluster::address::NodeAddress;

/// A server's name for a node.
type NodeId = String;

/// A primary and its replicas, as one view has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub id: NodeId,
    pub primary: NodeAddress,
    pub replicas: Vec<NodeAddress>,
    pub epoch: u64,
    pub slots: Vec<RangeInclusive<u16>>,
}

/// What one node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// Where that node is reached.
    pub of: NodeAddress,
    pub claims: Vec<Claim>,
}

/// A shard of the merged view. Its slots are those of [`MergedView::owners`] with its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MergedShard {
    pub primary: NodeAddress,
    pub replicas: Vec<NodeAddress>,
}

/// What all views say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MergedView {
    pub shards: Vec<MergedShard>,
    /// For each slot, the index of its shard.
    pub owners: Vec<Option<u16>>,
}

impl View {
    /// Reads `CLUSTER SLOTS` of the node reached as `asked`; `nodes` is its `CLUSTER NODES`, or
    /// nothing when it may not be read: then all epochs are 0.
    pub fn parse(slots: Value, nodes: Option<&str>, asked: &NodeAddress) -> Option<Self> {
        let epochs = nodes.map(epochs).unwrap_or_default();
        let mut claims: Vec<Claim> = Vec::new();
        for range in array(slots)? {
            let mut parts = array(range)?.into_iter();
            let first = u16::try_from(parts.next()?.as_i64()?).ok()?;
            let last = u16::try_from(parts.next()?.as_i64()?).ok()?;
            if first > last || last >= Slot::COUNT {
                return None;
            }
            let (id, primary) = endpoint(parts.next()?, asked)?;
            if let Some(claim) = claims.iter_mut().find(|claim| claim.id == id) {
                claim.slots.push(first..=last);
                continue;
            }
            // A replica without a usable endpoint is no reason to reject the rest.
            let replicas = parts.filter_map(|part| endpoint(part, asked));
            claims.push(Claim {
                replicas: replicas.map(|(_, address)| address).collect(),
                epoch: epochs.get(id.as_str()).copied().unwrap_or(0),
                id,
                primary,
                slots: vec![first..=last],
            });
        }
        let of = asked.clone();
        Some(View { of, claims })
    }
}

/// `[endpoint, port, id, ...]`. No endpoint, an empty one and `?` mean the host that was asked.
fn endpoint(value: Value, asked: &NodeAddress) -> Option<(NodeId, NodeAddress)> {
    let mut parts = array(value)?.into_iter();
    let host = parts.next()?.into_string().unwrap_or_default();
    let port = parts
        .next()?
        .as_i64()
        .and_then(|port| u16::try_from(port).ok())?;
    if port == 0 {
        return None;
    }
    let host = match host.as_str() {
        "" | "?" => asked.host(),
        host => host,
    };
    let address = NodeAddress::new(host, port);
    // Servers before 4.0 give no id.
    let id = parts.next().and_then(Value::into_string);
    Some((id.unwrap_or_else(|| address.to_string()), address))
}

fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

/// Lines of `id address flags primary ping pong epoch link slots...`.
fn epochs(nodes: &str) -> HashMap<&str, u64> {
    nodes
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.nth(5)?.parse().ok()?))
        })
        .collect()
}

/// A primary's claim on slots, by its shard's index among the shards that were met.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Contender {
    epoch: u64,
    shard: usize,
}

/// Where claims on slots begin or end.
struct Edge {
    at: u16,
    begins: bool,
    contender: Contender,
}

/// Settles what the views dispute: for each slot the claim of the highest epoch, of equal ones
/// the claim that more views make.
pub(super) fn merge<'a>(views: impl IntoIterator<Item = &'a View>) -> MergedView {
    let mut shards: Vec<(&NodeId, MergedShard, u64)> = Vec::new();
    let mut edges = Vec::new();
    for claim in views.into_iter().flat_map(|view| &view.claims) {
        let known = shards.iter().position(|(id, ..)| *id == &claim.id);
        let shard = known.unwrap_or(shards.len());
        match shards.get_mut(shard) {
            // The newest claim knows the replicas best.
            Some((_, merged, epoch)) if claim.epoch > *epoch => {
                *epoch = claim.epoch;
                merged.replicas.clone_from(&claim.replicas);
            }
            Some(_) => {}
            None => {
                let (primary, replicas) = (claim.primary.clone(), claim.replicas.clone());
                shards.push((&claim.id, MergedShard { primary, replicas }, claim.epoch));
            }
        }
        let epoch = claim.epoch;
        for slots in &claim.slots {
            let edge = |at, begins| Edge {
                at,
                begins,
                contender: Contender { epoch, shard },
            };
            edges.push(edge(*slots.start(), true));
            edges.push(edge(slots.end().saturating_add(1), false));
        }
    }
    compact(
        shards.into_iter().map(|(_, shard, _)| shard).collect(),
        owners(edges),
    )
}

/// Who wins each slot. Between two edges all slots are claimed alike, so one look settles them.
fn owners(mut edges: Vec<Edge>) -> Vec<Option<usize>> {
    edges.sort_by_key(|edge| edge.at);
    let mut owners = vec![None; usize::from(Slot::COUNT)];
    // The claims on the slots from `from` on, and how many views make each.
    let mut claims: Vec<(Contender, u32)> = Vec::new();
    let mut from = 0;
    for edge in edges {
        if edge.at > from {
            let best = claims
                .iter()
                .max_by_key(|(claim, votes)| (claim.epoch, *votes));
            let winner = best.map(|(claim, _)| claim.shard);
            if let Some(alike) = owners.get_mut(usize::from(from)..usize::from(edge.at)) {
                alike.fill(winner);
            }
            from = edge.at;
        }
        let known = claims
            .iter()
            .position(|(claim, _)| *claim == edge.contender);
        match known.and_then(|index| claims.get_mut(index)) {
            Some((_, votes)) if edge.begins => *votes += 1,
            Some((_, votes)) => {
                *votes -= 1;
                claims.retain(|(_, votes)| *votes > 0);
            }
            None => claims.push((edge.contender, 1)),
        }
    }
    owners
}

/// Drops the shards that own nothing.
fn compact(shards: Vec<MergedShard>, owners: Vec<Option<usize>>) -> MergedView {
    let mut owning = vec![false; shards.len()];
    for owner in owners.iter().copied().flatten() {
        if let Some(owns) = owning.get_mut(owner) {
            *owns = true;
        }
    }
    let mut indexes = Vec::with_capacity(shards.len());
    let mut kept = Vec::new();
    for (shard, owns) in shards.into_iter().zip(owning) {
        indexes.push(owns.then(|| u16::try_from(kept.len()).unwrap_or(u16::MAX)));
        if owns {
            kept.push(shard);
        }
    }
    let index = |owner: usize| indexes.get(owner).copied().flatten();
    MergedView {
        owners: owners
            .into_iter()
            .map(|owner| owner.and_then(index))
            .collect(),
        shards: kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(id: &str, epoch: u64, slots: RangeInclusive<u16>) -> Claim {
        Claim {
            id: id.into(),
            primary: NodeAddress::new(id, 1),
            replicas: vec![NodeAddress::new(&format!("{id}{epoch}"), 2)],
            epoch,
            slots: vec![slots],
        }
    }

    fn view(claims: Vec<Claim>) -> View {
        let of = NodeAddress::new("asked", 1);
        View { of, claims }
    }

    fn owner(merged: &MergedView, slot: usize) -> Option<&str> {
        let shard = merged.owners[slot]?;
        Some(merged.shards[usize::from(shard)].primary.host())
    }

    fn text(s: &str) -> Value {
        Value::from(s.to_owned())
    }

    fn node(host: Value, port: i64, id: &str) -> Value {
        Value::Array(vec![host, port.into(), text(id), Value::Array(Vec::new())])
    }

    #[test]
    fn a_view_is_read_with_its_epochs_and_hosts_that_are_not_named() {
        let slots = Value::Array(vec![
            Value::Array(vec![
                0.into(),
                5.into(),
                node(text("10.0.0.1"), 7000, "aa"),
                node(text("::1"), 7003, "bb"),
            ]),
            Value::Array(vec![9.into(), 9.into(), node(text("10.0.0.1"), 7000, "aa")]),
            Value::Array(vec![6.into(), 8.into(), node(Value::Null, 7001, "cc")]),
        ]);
        let nodes = "aa 10.0.0.1:7000@17000 myself,master - 0 1 7 connected 0-5 9\n\
                     bb [::1]:7003@17003 slave aa 0 1 7 connected\n";
        let view = View::parse(slots, Some(nodes), &NodeAddress::new("asked", 1)).unwrap();
        assert_eq!(view.claims.len(), 2);
        let first = &view.claims[0];
        assert_eq!((first.epoch, first.slots.len()), (7, 2));
        assert_eq!(first.replicas[0].to_string(), "[::1]:7003");
        assert_eq!(view.claims[1].primary, NodeAddress::new("asked", 7001));
        assert_eq!(view.claims[1].epoch, 0);
    }

    #[test]
    fn what_is_no_view_is_rejected() {
        let asked = NodeAddress::new("a", 1);
        let beyond = Value::Array(vec![Value::Array(vec![
            0.into(),
            16_384.into(),
            node(text("a"), 1, "aa"),
        ])]);
        for value in [Value::Null, text("OK"), beyond] {
            assert_eq!(View::parse(value, None, &asked), None);
        }
    }

    #[test]
    fn the_highest_epoch_wins_whoever_is_asked_first() {
        let old = view(vec![claim("old", 1, 0..=99), claim("b", 2, 100..=199)]);
        let new = view(vec![claim("new", 9, 0..=99), claim("b", 2, 100..=199)]);
        for views in [
            [old.clone(), new.clone(), old.clone()],
            [new, old.clone(), old],
        ] {
            let merged = merge(&views);
            assert_eq!(owner(&merged, 50), Some("new"));
            assert_eq!(owner(&merged, 150), Some("b"));
            assert_eq!(owner(&merged, 200), None);
            assert_eq!(merged.shards.len(), 2, "the old primary owns nothing");
        }
    }

    #[test]
    fn of_equal_epochs_the_claim_of_more_views_wins() {
        let view = |id| view(vec![claim(id, 0, 0..=0)]);
        let merged = merge(&[view("a"), view("b"), view("b")]);
        assert_eq!(owner(&merged, 0), Some("b"));
    }

    #[test]
    fn the_newest_claim_names_the_replicas() {
        let view = |epoch| view(vec![claim("a", epoch, 0..=0)]);
        let merged = merge(&[view(3), view(5), view(4)]);
        assert_eq!(merged.shards[0].replicas, [NodeAddress::new("a5", 2)]);
    }

    #[test]
    fn each_slot_is_settled_as_if_it_were_looked_at_alone() {
        // A step of Knuth's MMIX generator.
        let mut random = 7_u64;
        let mut below = |n: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        for _ in 0..200 {
            let mut random_claim = || {
                let first = below(60) as u16;
                let id = ["a", "b", "c", "d"][below(4) as usize];
                claim(id, below(3), first..=first + below(20) as u16)
            };
            let views: Vec<View> = (0..5)
                .map(|_| view((0..4).map(|_| random_claim()).collect()))
                .collect();
            let merged = merge(&views);
            for slot in 0..100_u16 {
                let claims = || views.iter().flat_map(|view| &view.claims);
                let claims = || claims().filter(|c| c.slots[0].contains(&slot));
                let weight = |c: &Claim| {
                    let same = claims().filter(|o| (&o.id, o.epoch) == (&c.id, c.epoch));
                    (c.epoch, same.count())
                };
                let best = claims().map(weight).max();
                let won = owner(&merged, slot.into());
                let fits = |c: &Claim| Some(c.id.as_str()) == won && Some(weight(c)) == best;
                assert!(
                    best.is_none() == won.is_none() && (won.is_none() || claims().any(fits)),
                    "slot {slot} went to {won:?}"
                );
            }
        }
    }
}
