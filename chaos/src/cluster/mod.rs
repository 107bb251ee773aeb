//! A cluster under test: real nodes, started for one owner and ended with it.
//!
//! ```no_run
//! # use tidegate_chaos::cluster::{ClusterSpec, ClusterUnderTest};
//! # async fn example() -> Result<(), tidegate_chaos::cluster::ClusterError> {
//! let cluster = ClusterUnderTest::start(ClusterSpec::default()).await?;
//! println!("tidegate serve --redis {}", cluster.redis_url());
//! let primary = cluster.primary_of("tg:{key-1}:video_top:g").await?;
//! cluster.run(primary, &["INFO", "commandstats"]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Nodes are named by index. At the start `0..primaries` are primaries and `primaries + i` is the
//! replica of `i`; after a failover ask [`ClusterUnderTest::primary_of`] or a
//! [`ClusterUnderTest::view`]. Never serves anyone else: nothing here is meant for production.

mod background;
mod client;
mod containers;
mod create;
mod docker;
mod error;
mod kind;
mod loopback;
mod node_conf;
mod nodes;
mod observe;
mod owner;
mod partition;
mod processes;
mod spec;
mod view;
mod wait;
mod watchdog;

use std::net::SocketAddr;
use std::time::Duration;

pub(crate) use client::NodeClient;
pub use error::ClusterError;
pub use kind::ClusterKind;
pub(crate) use partition::Cut;
pub use spec::ClusterSpec;
pub use view::{ClusterView, NodeView};

use super::proxy::Proxy;
use nodes::Nodes;
use partition::Partitions;
use spec::{NodeAction, Shape};
use wait::wait_for;

/// A running cluster (or a single node). Dropped, it ends and leaves nothing, also when its owner
/// panics or is killed.
#[derive(Debug)]
pub struct ClusterUnderTest {
    shape: Shape,
    client: NodeClient,
    start_timeout: Duration,
    kind: ClusterKind,
    partitions: Partitions,
    proxies: Vec<Proxy>,
    nodes: Nodes,
}

impl ClusterUnderTest {
    /// What the nodes are.
    pub fn kind(&self) -> ClusterKind {
        self.kind
    }

    /// What its traces on this machine are called: its folder, or its network and the label
    /// `tidegate.cluster` of its containers.
    pub fn name(&self) -> String {
        match &self.nodes {
            Nodes::Processes(processes) => processes.dir().display().to_string(),
            Nodes::Containers(containers) => containers.network().to_owned(),
        }
    }

    /// What runs here, for people: `3 primaries and 3 replicas, containers of tidegate-redis:7.0`.
    pub fn description(&self) -> String {
        let nodes = match self.shape {
            Shape::Single => "a single node".to_owned(),
            Shape::Cluster {
                primaries,
                replicas,
            } => format!("{primaries} primaries and {replicas} replicas"),
        };
        match &self.nodes {
            Nodes::Processes(processes) => {
                format!("{nodes}, processes of {}", processes.program().display())
            }
            Nodes::Containers(containers) => {
                format!("{nodes}, containers of {}", containers.image())
            }
        }
    }

    /// How many nodes there are, dead ones included.
    pub fn node_count(&self) -> usize {
        self.shape.node_count()
    }

    /// Where a node listens; it stays the same when the node restarts.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchNode`].
    pub fn address(&self, node: usize) -> Result<SocketAddr, ClusterError> {
        self.client.address(node)
    }

    /// Where clients are to reach a node: its proxy if there is one, else
    /// [`ClusterUnderTest::address`].
    ///
    /// # Errors
    /// [`ClusterError::NoSuchNode`].
    pub fn client_address(&self, node: usize) -> Result<SocketAddr, ClusterError> {
        match self.proxies.get(node) {
            Some(proxy) => Ok(proxy.address()),
            None => self.address(node),
        }
    }

    /// The proxy before a node, in a cluster that was started with [`ClusterSpec::proxied`].
    ///
    /// # Errors
    /// [`ClusterError::Unsupported`] without proxies, [`ClusterError::NoSuchNode`].
    pub fn proxy(&self, node: usize) -> Result<&Proxy, ClusterError> {
        self.address(node)?;
        self.proxies
            .get(node)
            .ok_or_else(|| ClusterError::Unsupported {
                what: "impairing the link to a node".into(),
                why: "no proxy stands before the nodes".into(),
                cure: "Start the cluster with ClusterSpec::proxied(true)".into(),
            })
    }

    /// All nodes as `--redis` takes them: `redis://[:password@]host:port`, separated by commas;
    /// where there are proxies, these.
    pub fn redis_url(&self) -> String {
        let addresses = (0..self.node_count()).filter_map(|n| self.client_address(n).ok());
        let urls: Vec<_> = addresses.map(|address| self.url(address)).collect();
        urls.join(",")
    }

    /// One node as `--redis` takes it.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchNode`].
    pub fn node_url(&self, node: usize) -> Result<String, ClusterError> {
        Ok(self.url(self.client_address(node)?))
    }

    fn url(&self, address: SocketAddr) -> String {
        match self.password() {
            Some(password) => format!("redis://:{password}@{address}"),
            None => format!("redis://{address}"),
        }
    }

    /// Ends a node at once; unsent and unwritten data are lost. A dead node stays dead.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn kill(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.apply(node, NodeAction::Kill).await
    }

    /// Has a node end in order (SIGTERM), as a service manager does, and waits for that.
    ///
    /// # Errors
    /// The operating system's, or [`ClusterError::TimedOut`] after 30 s.
    pub async fn stop(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.apply(node, NodeAction::Stop).await
    }

    /// Starts a node that was killed or stopped: the same address, and what it had persisted.
    /// Returns when it listens; [`ClusterUnderTest::wait_healthy`] waits for the rest.
    ///
    /// # Errors
    /// As [`ClusterUnderTest::start`].
    pub async fn restart(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.apply(node, NodeAction::Start).await
    }

    /// Freezes a node: connections stay, new ones are accepted by the kernel, nothing is answered.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn pause(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.apply(node, NodeAction::Pause).await
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn resume(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.apply(node, NodeAction::Resume).await
    }

    /// Cuts a node off; a cut that it has already is replaced. Processes need Linux, root and
    /// iptables for it.
    pub(crate) async fn cut(&self, node: usize, cut: Cut) -> Result<(), ClusterError> {
        self.partitions.cut(&self.nodes, node, cut).await
    }

    /// Ends a node's cut; does nothing when it has none.
    pub(crate) async fn reconnect(&self, node: usize) -> Result<(), ClusterError> {
        self.partitions.heal(&self.nodes, node).await
    }

    /// All that a node has logged, for a report or a test's message.
    ///
    /// # Errors
    /// Docker's.
    pub async fn log(&self, node: usize) -> Result<String, ClusterError> {
        self.nodes.log(node).await
    }

    pub(crate) fn client(&self) -> &NodeClient {
        &self.client
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.client.password.as_deref()
    }

    /// Asks until the answer is `Ok`, for 30 s at most; [`ClusterError::NotYet`] says what is there
    /// instead. A node that doesn't answer is waited for like one that isn't ready.
    ///
    /// # Errors
    /// [`ClusterError::TimedOut`], or what the probe fails with.
    pub async fn wait_for<F>(
        &self,
        what: &str,
        probe: impl FnMut() -> F,
    ) -> Result<(), ClusterError>
    where
        F: Future<Output = Result<(), ClusterError>>,
    {
        wait_for(what, self.start_timeout, probe).await
    }
}
