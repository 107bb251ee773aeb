//! What a node's connections know of it.

use std::sync::Mutex;

use super::error::ConnectError;
use super::info::NodeInfo;
use crate::store::cluster::address::NodeAddress;
use crate::store::lock::lock;

/// What is known of a node.
#[derive(Debug)]
pub(super) struct NodeState {
    pub address: NodeAddress,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    info: NodeInfo,
    error: Option<ConnectError>,
    warned: Option<NodeInfo>,
}

impl NodeState {
    pub fn new(address: NodeAddress) -> Self {
        NodeState {
            address,
            known: Mutex::default(),
        }
    }

    pub fn info(&self) -> NodeInfo {
        lock(&self.known).info.clone()
    }

    /// Why the last connection could not be made, or ended.
    pub fn error(&self) -> Option<ConnectError> {
        lock(&self.known).error.clone()
    }

    /// Keeps what the node says of itself; warns once of what is wrong with it.
    pub fn set_info(&self, info: NodeInfo) {
        let mut known = lock(&self.known);
        if known.warned.as_ref() != Some(&info) {
            info.warn(&self.address);
            known.warned = Some(info.clone());
        }
        known.info = info;
    }

    /// Keeps why there is no connection; the log has it once a change.
    pub fn set_disconnected(&self, error: &ConnectError) {
        let mut known = lock(&self.known);
        if known.error.as_ref() != Some(error) {
            tracing::warn!(node = %self.address, why = %error.detail, "no connection");
            known.error = Some(error.clone());
        }
    }

    /// There is a connection again.
    pub fn set_connected(&self) {
        lock(&self.known).error = None;
        tracing::info!(node = %self.address, "connected");
    }
}
