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

use super::address::NodeAddress;
use crate::model::Slot;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub claims: Vec<Claim>,
}

/// A shard of the merged view. Its slots are those of [`Merged::owners`] with its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MergedShard {
    pub primary: NodeAddress,
    pub replicas: Vec<NodeAddress>,
}

/// What all views say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Merged {
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
            // A replica without a usable endpoint is no reason to refuse the rest.
            let replicas = parts.filter_map(|part| endpoint(part, asked));
            claims.push(Claim {
                replicas: replicas.map(|(_, address)| address).collect(),
                epoch: epochs.get(id.as_str()).copied().unwrap_or(0),
                id,
                primary,
                slots: vec![first..=last],
            });
        }
        Some(View { claims })
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

/// Settles what the views dispute: for each slot the claim of the highest epoch, of equal ones
/// the claim that more views make.
pub(super) fn merge(views: &[View]) -> Merged {
    let mut shards: Vec<(&NodeId, MergedShard, u64)> = Vec::new();
    // For each slot its shard, the claim's epoch, and how many views make it.
    let mut best: Vec<Vec<(usize, u64, u32)>> = vec![Vec::new(); usize::from(Slot::COUNT)];
    for claim in views.iter().flat_map(|view| &view.claims) {
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
        for slot in claim.slots.iter().cloned().flatten().map(usize::from) {
            let Some(claims) = best.get_mut(slot) else {
                continue;
            };
            match claims
                .iter_mut()
                .find(|(s, e, _)| (*s, *e) == (shard, claim.epoch))
            {
                Some((_, _, votes)) => *votes += 1,
                None => claims.push((shard, claim.epoch, 1)),
            }
        }
    }
    let winner = |claims: Vec<(usize, u64, u32)>| {
        let best = claims
            .into_iter()
            .max_by_key(|(_, epoch, votes)| (*epoch, *votes));
        best.map(|(shard, ..)| shard)
    };
    let owners: Vec<Option<usize>> = best.into_iter().map(winner).collect();
    compact(
        shards.into_iter().map(|(_, shard, _)| shard).collect(),
        owners,
    )
}

/// Drops the shards that own nothing.
fn compact(shards: Vec<MergedShard>, owners: Vec<Option<usize>>) -> Merged {
    let mut owning = vec![false; shards.len()];
    for owner in owners.iter().copied().flatten() {
        if let Some(owns) = owning.get_mut(owner) {
            *owns = true;
        }
    }
    let mut places = Vec::with_capacity(shards.len());
    let mut kept = Vec::new();
    for (shard, owns) in shards.into_iter().zip(owning) {
        places.push(owns.then(|| u16::try_from(kept.len()).unwrap_or(u16::MAX)));
        if owns {
            kept.push(shard);
        }
    }
    let place = |owner: usize| places.get(owner).copied().flatten();
    Merged {
        owners: owners
            .into_iter()
            .map(|owner| owner.and_then(place))
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

    fn owner(merged: &Merged, slot: usize) -> Option<&str> {
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
    fn what_is_no_view_is_refused() {
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
        let old = View {
            claims: vec![claim("old", 1, 0..=99), claim("b", 2, 100..=199)],
        };
        let new = View {
            claims: vec![claim("new", 9, 0..=99), claim("b", 2, 100..=199)],
        };
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
        let view = |id| View {
            claims: vec![claim(id, 0, 0..=0)],
        };
        let merged = merge(&[view("a"), view("b"), view("b")]);
        assert_eq!(owner(&merged, 0), Some("b"));
    }

    #[test]
    fn the_newest_claim_names_the_replicas() {
        let view = |epoch| View {
            claims: vec![claim("a", epoch, 0..=0)],
        };
        let merged = merge(&[view(3), view(5), view(4)]);
        assert_eq!(merged.shards[0].replicas, [NodeAddress::new("a5", 2)]);
    }
}
