//! The nodes of a cluster under test, whichever kind they are. Never chooses the kind by itself.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::containers::Containers;
use super::processes::Processes;
use super::{ClusterError, ClusterKind, ClusterSpec};

/// Lines of a node's log that an error shows.
const LOG_LINES_MAX: usize = 12;
/// How long a node may take until it listens.
const LISTEN_MAX: Duration = Duration::from_secs(30);

/// The running nodes.
#[derive(Debug)]
pub(super) enum Nodes {
    Processes(Processes),
    Containers(Containers),
}

impl Nodes {
    pub(super) async fn start(
        kind: ClusterKind,
        options: ClusterSpec,
    ) -> Result<Self, ClusterError> {
        Ok(match kind {
            ClusterKind::Processes => Self::Processes(Processes::start(options).await?),
            ClusterKind::Containers => Self::Containers(Containers::start(options).await?),
        })
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        match self {
            Self::Processes(nodes) => nodes.addresses(),
            Self::Containers(nodes) => nodes.addresses(),
        }
    }

    /// Where clients are sent instead of to the nodes; empty without proxies.
    pub(super) fn proxy_addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Processes(nodes) => nodes.proxy_addresses(),
            Self::Containers(nodes) => nodes.proxy_addresses(),
        }
    }

    pub(super) async fn kill(&self, node: usize) -> Result<(), ClusterError> {
        match self {
            Self::Processes(nodes) => nodes.kill_node(node),
            Self::Containers(nodes) => nodes.kill_node(node).await,
        }
    }

    pub(super) async fn stop(&self, node: usize) -> Result<(), ClusterError> {
        match self {
            Self::Processes(nodes) => nodes.stop_node(node).await,
            Self::Containers(nodes) => nodes.stop_node(node).await,
        }
    }

    pub(super) async fn restart(&self, node: usize) -> Result<(), ClusterError> {
        match self {
            Self::Processes(nodes) => nodes.start_node(node).await,
            Self::Containers(nodes) => nodes.start_node(node).await,
        }
    }

    pub(super) async fn pause(&self, node: usize) -> Result<(), ClusterError> {
        match self {
            Self::Processes(nodes) => nodes.pause_node(node),
            Self::Containers(nodes) => nodes.pause_node(node).await,
        }
    }

    pub(super) async fn resume(&self, node: usize) -> Result<(), ClusterError> {
        match self {
            Self::Processes(nodes) => nodes.resume_node(node),
            Self::Containers(nodes) => nodes.resume_node(node).await,
        }
    }

    pub(super) async fn log(&self, node: usize) -> Result<String, ClusterError> {
        match self {
            Self::Processes(nodes) => Ok(nodes.log(node)),
            Self::Containers(nodes) => nodes.log(node).await,
        }
    }
}

/// A node's address, by its index.
pub(super) fn address_of(
    addresses: &[SocketAddr],
    node: usize,
) -> Result<SocketAddr, ClusterError> {
    let address = addresses.get(node).copied();
    address.ok_or(ClusterError::NoSuchNode {
        node,
        count: addresses.len(),
    })
}

/// Waits until something accepts at the address; `ended` says how the node ended, if it did.
pub(super) async fn wait_listening<E, L>(
    node: usize,
    address: SocketAddr,
    ended: impl Fn() -> E,
    log: impl Fn() -> L,
) -> Result<(), ClusterError>
where
    E: Future<Output = Result<Option<String>, ClusterError>>,
    L: Future<Output = String>,
{
    let begun = Instant::now();
    loop {
        let connect = tokio::net::TcpStream::connect(address);
        let connected = tokio::time::timeout(Duration::from_secs(1), connect).await;
        // Asked in any case: a stranger may listen where the node couldn't.
        if let Some(status) = ended().await? {
            return Err(ClusterError::NodeEnded {
                node,
                status,
                log: last_lines(&log().await),
            });
        }
        if let Ok(Ok(_)) = connected {
            return Ok(());
        }
        if begun.elapsed() > LISTEN_MAX {
            return Err(ClusterError::TimedOut {
                what: format!("node {node} to listen on {address}"),
                seen: last_lines(&log().await),
                waited: begun.elapsed(),
            });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The end of a log, as an error shows it.
pub(super) fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let first = lines.len().saturating_sub(LOG_LINES_MAX);
    lines.get(first..).unwrap_or_default().join("\n")
}
