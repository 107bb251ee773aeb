//! The cluster as one node sees it: `CLUSTER NODES`, read.
//!
//! Views differ while a failover or a partition lasts; nothing here decides which one is right.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// One line of `CLUSTER NODES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// The node's index in the cluster under test; none for a stranger.
    pub node: Option<usize>,
    /// Its name in the cluster: 40 hexadecimal digits.
    pub id: String,
    /// Whether this is the node that was asked.
    pub myself: bool,
    /// Whether it is a primary.
    pub primary: bool,
    /// The name of its primary, for a replica.
    pub primary_id: Option<String>,
    /// Whether a majority holds it for failed (`fail`).
    pub failed: bool,
    /// Whether the node that was asked suspects it (`fail?`).
    pub suspected: bool,
    /// Whether the asked node has a bus link to it.
    pub linked: bool,
    /// The version of its claim on its slots; the highest wins.
    pub config_epoch: u64,
    /// The slots that it owns.
    pub slots: Vec<RangeInclusive<u16>>,
}

impl NodeView {
    /// Whether it owns the slot.
    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    /// How many slots it owns.
    pub fn slot_count(&self) -> usize {
        self.slots.iter().map(|r| r.clone().count()).sum()
    }

    /// A line: `id ip:port@bus[,name] flags primary ping pong epoch link slot...`
    fn parse(line: &str, addresses: &[SocketAddr]) -> Option<Self> {
        let mut words = line.split(' ');
        let id = words.next()?.to_owned();
        let address: Option<SocketAddr> = words.next()?.split('@').next()?.parse().ok();
        let flags: Vec<&str> = words.next()?.split(',').collect();
        let primary_id = Some(words.next()?).filter(|&word| word != "-");
        let config_epoch = words.nth(2)?.parse().ok()?;
        let linked = words.next()? == "connected";
        Some(Self {
            node: addresses.iter().position(|&a| Some(a) == address),
            id,
            myself: flags.contains(&"myself"),
            primary: flags.contains(&"master"),
            primary_id: primary_id.map(str::to_owned),
            failed: flags.contains(&"fail"),
            suspected: flags.contains(&"fail?"),
            linked,
            config_epoch,
            slots: words.filter_map(slot_range).collect(),
        })
    }
}

/// `17` or `0-5460`; a slot on its way (`[17->-id]`) is none.
fn slot_range(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Everything that one node knows about the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// One entry a known node.
    pub nodes: Vec<NodeView>,
}

impl ClusterView {
    /// Reads the reply of `CLUSTER NODES`; `addresses` are those of the nodes, by index.
    pub(crate) fn parse(text: &str, addresses: &[SocketAddr]) -> Option<Self> {
        let nodes: Option<Vec<_>> = text
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| NodeView::parse(line, addresses))
            .collect();
        nodes.map(|nodes| Self { nodes })
    }

    /// What it says of a node, by the node's index.
    pub fn node(&self, node: usize) -> Option<&NodeView> {
        self.nodes.iter().find(|view| view.node == Some(node))
    }

    /// What the asked node says of itself.
    pub fn myself(&self) -> Option<&NodeView> {
        self.nodes.iter().find(|view| view.myself)
    }

    /// The primary that owns the slot.
    pub fn owner(&self, slot: u16) -> Option<&NodeView> {
        self.nodes.iter().find(|view| view.owns(slot))
    }

    /// The replicas of a primary.
    pub fn replicas_of<'a>(&'a self, primary: &'a NodeView) -> impl Iterator<Item = &'a NodeView> {
        self.nodes
            .iter()
            .filter(move |view| view.primary_id.as_ref() == Some(&primary.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_replica_a_failed_primary_and_a_slot_on_its_way() {
        let addresses = ["127.0.0.1:7000", "127.0.0.1:7001"].map(|a| a.parse().unwrap());
        let text = "aa 127.0.0.1:7000@17000 myself,slave bb 0 1 3 connected\n\
            bb 127.0.0.1:7001@17001,name master,fail - 0 1 3 disconnected 0-9 17 [18->-aa]\n\
            cc 10.0.0.1:7001@17001 master,fail? - 0 1 4 connected\n";
        let view = ClusterView::parse(text, &addresses).unwrap();
        let (replica, primary) = (view.node(0).unwrap(), view.node(1).unwrap());
        assert!(replica.myself && !replica.primary && replica.linked);
        assert_eq!(replica.primary_id.as_deref(), Some("bb"));
        assert!(primary.primary && primary.failed && !primary.suspected && !primary.linked);
        assert_eq!((primary.config_epoch, primary.slot_count()), (3, 11));
        assert_eq!(view.owner(17), Some(primary));
        assert_eq!(view.owner(18), None);
        assert_eq!(view.replicas_of(primary).count(), 1);
        assert!(view.nodes[2].suspected && view.nodes[2].node.is_none());
    }

    #[test]
    fn refuses_what_is_no_list_of_nodes() {
        assert_eq!(ClusterView::parse("ERR unknown command", &[]), None);
    }
}
