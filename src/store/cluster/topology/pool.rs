//! All nodes that the store is connected to. Never holds more than its bound.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::store::cluster::address::NodeAddress;
use crate::store::cluster::node::Node;
use crate::store::cluster::node::connector::Connector;
use crate::store::lock::lock;

/// The nodes, by where they are reached.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Arc<Connector>,
    nodes: Mutex<HashMap<NodeAddress, Arc<Node>>>,
}

impl Pool {
    pub fn new(connector: Arc<Connector>) -> Self {
        Pool {
            connector,
            nodes: Mutex::default(),
        }
    }

    /// The node at `address`; begins to connect to it when it is new. Nothing when there are too
    /// many already.
    pub fn get_or_start(&self, address: &NodeAddress) -> Option<Arc<Node>> {
        let mut nodes = lock(&self.nodes);
        if let Some(node) = nodes.get(address) {
            return Some(Arc::clone(node));
        }
        let nodes_max = self.connector.options.nodes_max;
        if nodes.len() >= nodes_max {
            tracing::warn!(node = %address, nodes_max, "too many nodes: this one is ignored");
            return None;
        }
        let node = Node::start(&self.connector, address.clone());
        nodes.insert(address.clone(), Arc::clone(&node));
        Some(node)
    }

    /// Begins to connect to the nodes that were named at the start.
    pub fn start_seeds(&self) {
        for seed in self.connector.options.url.seeds() {
            self.get_or_start(seed);
        }
    }

    /// Lets go of every node but these. A call that still waits on one keeps it until it ends.
    pub fn keep_only(&self, known: &HashSet<NodeAddress>) {
        lock(&self.nodes).retain(|address, _| {
            let stays = known.contains(address);
            if !stays {
                tracing::info!(node = %address, "no longer part of the store");
            }
            stays
        });
    }

    /// Every node, in no order.
    pub fn all(&self) -> Vec<Arc<Node>> {
        lock(&self.nodes).values().cloned().collect()
    }
}
