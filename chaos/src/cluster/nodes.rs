//! The nodes of a cluster under test, whichever kind they are. Never chooses the kind by itself.

use std::net::SocketAddr;

use super::containers::Containers;
use super::processes::Processes;
use super::spec::NodeAction;
use super::{ClusterError, ClusterKind, ClusterSpec};

/// The running nodes.
#[derive(Debug)]
pub(super) enum Nodes {
    Processes(Processes),
    Containers(Containers),
}

impl Nodes {
    pub(super) async fn start(kind: ClusterKind, spec: ClusterSpec) -> Result<Self, ClusterError> {
        Ok(match kind {
            ClusterKind::Processes => Self::Processes(Processes::start(spec).await?),
            ClusterKind::Containers => Self::Containers(Containers::start(spec).await?),
        })
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        match self {
            Self::Processes(nodes) => nodes.addresses(),
            Self::Containers(nodes) => nodes.addresses(),
        }
    }

    /// A node's address, by its index.
    pub(super) fn address(&self, node: usize) -> Result<SocketAddr, ClusterError> {
        let addresses = self.addresses();
        ClusterError::no_such_node(addresses.get(node).copied(), node, addresses.len())
    }

    /// Where clients are sent instead of to the nodes; empty without proxies.
    pub(super) fn proxy_addresses(&self) -> &[SocketAddr] {
        match self {
            Self::Processes(nodes) => nodes.proxy_addresses(),
            Self::Containers(nodes) => nodes.proxy_addresses(),
        }
    }

    pub(super) async fn apply(&self, node: usize, action: NodeAction) -> Result<(), ClusterError> {
        self.address(node)?;
        match self {
            Self::Processes(nodes) => nodes.apply(node, action).await,
            Self::Containers(nodes) => nodes.apply(node, action).await,
        }
    }

    pub(super) async fn log(&self, node: usize) -> Result<String, ClusterError> {
        match self {
            Self::Processes(nodes) => Ok(nodes.log(node)),
            Self::Containers(nodes) => nodes.log(node).await,
        }
    }
}
