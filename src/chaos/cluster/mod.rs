//! A cluster under test: real nodes, started for one owner and ended with it.
//!
//! ```no_run
//! # use tidegate::chaos::cluster::{ClusterOptions, ClusterUnderTest};
//! # async fn example() -> Result<(), tidegate::chaos::cluster::ClusterError> {
//! let cluster = ClusterUnderTest::start(ClusterOptions::default()).await?;
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

mod aside;
mod containers;
mod create;
mod docker;
mod error;
mod kind;
mod loopback;
mod node_conf;
mod nodes;
mod options;
mod owner;
mod partition;
mod processes;
mod view;
mod watchdog;

use std::net::SocketAddr;
use std::time::Duration;

pub use error::ClusterError;
pub use kind::ClusterKind;
pub use options::ClusterOptions;
pub use view::{ClusterView, NodeView};

use super::proxy::Proxy;
use super::resp::{Connection, Reply};
use create::wait_for;
use nodes::{Nodes, address_of};
use options::Shape;
use partition::{Cut, Partitions};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// A running cluster (or a single node). Dropped, it ends and leaves nothing, also when its owner
/// panics or is killed.
#[derive(Debug)]
pub struct ClusterUnderTest {
    shape: Shape,
    password: Option<String>,
    start_timeout: Duration,
    kind: ClusterKind,
    partitions: Partitions,
    proxies: Vec<Proxy>,
    nodes: Nodes,
}

impl ClusterUnderTest {
    /// Starts the nodes and joins them; returns when every slot is served, every node sees all
    /// others and every replica has synced.
    ///
    /// # Errors
    /// A program is missing, a node ended by itself, or the cluster didn't come together in 30 s.
    pub async fn start(options: ClusterOptions) -> Result<Self, ClusterError> {
        let kind = kind::resolve(&options).await?;
        let (shape, start_timeout) = (options.shape, options.start_timeout);
        let password = options.password.clone();
        let nodes = Nodes::start(kind, options).await?;
        let mut cluster = Self {
            shape,
            password,
            start_timeout,
            kind,
            partitions: Partitions::new(),
            proxies: Vec::new(),
            nodes,
        };
        create::create(&cluster, shape).await?;
        cluster.proxies = start_proxies(&cluster.nodes).await?;
        kind::say_once(&cluster.description());
        Ok(cluster)
    }

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
        address_of(self.nodes.addresses(), node)
    }

    /// All nodes as `--redis` takes them: `redis://[:password@]host:port`, separated by commas.
    pub fn redis_url(&self) -> String {
        let urls: Vec<_> = self
            .nodes
            .addresses()
            .iter()
            .map(|a| self.url(*a))
            .collect();
        urls.join(",")
    }

    /// One node as `--redis` takes it.
    ///
    /// # Errors
    /// [`ClusterError::NoSuchNode`].
    pub fn node_url(&self, node: usize) -> Result<String, ClusterError> {
        Ok(self.url(self.address(node)?))
    }

    fn url(&self, address: SocketAddr) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@{address}"),
            None => format!("redis://{address}"),
        }
    }

    /// Runs one command on one node, over a connection of its own, without following redirects.
    ///
    /// # Errors
    /// [`ClusterError::NoAnswer`] (within 1 s to connect, 5 s to answer), or
    /// [`ClusterError::Refused`] with the node's error reply.
    pub async fn run(&self, node: usize, args: &[&str]) -> Result<Reply, ClusterError> {
        let mut connection = self.connect(node).await?;
        let reply = connection.command(args).await;
        match reply.map_err(no_answer(node, args))? {
            Reply::Error(message) => Err(ClusterError::Refused {
                node,
                command: args.join(" "),
                message,
            }),
            reply => Ok(reply),
        }
    }

    /// Opens a connection to a node, authenticated where the cluster has a password.
    ///
    /// # Errors
    /// [`ClusterError::NoAnswer`] or [`ClusterError::Refused`].
    pub async fn connect(&self, node: usize) -> Result<Connection, ClusterError> {
        let address = self.address(node)?;
        let connection = Connection::open(address, CONNECT_TIMEOUT, REPLY_TIMEOUT).await;
        let mut connection = connection.map_err(no_answer(node, &["connect"]))?;
        if let Some(password) = &self.password {
            let reply = connection.command(&["AUTH", password]).await;
            if let Reply::Error(message) = reply.map_err(no_answer(node, &["AUTH"]))? {
                return Err(ClusterError::Refused {
                    node,
                    command: "AUTH".into(),
                    message,
                });
            }
        }
        Ok(connection)
    }

    /// The cluster as that node sees it.
    ///
    /// # Errors
    /// As [`ClusterUnderTest::run`].
    pub async fn view(&self, node: usize) -> Result<ClusterView, ClusterError> {
        let args = ["CLUSTER", "NODES"];
        let reply = self.run(node, &args).await?;
        let text = reply.text().unwrap_or_default();
        ClusterView::parse(text, self.nodes.addresses()).ok_or_else(|| ClusterError::Unexpected {
            node,
            command: args.join(" "),
            reply: format!("{reply:?}"),
        })
    }

    /// A field of `INFO` or `CLUSTER INFO`: `info(0, &["INFO", "replication"], "role")`.
    ///
    /// # Errors
    /// As [`ClusterUnderTest::run`]; [`ClusterError::Unexpected`] when there is no such field.
    pub async fn info(
        &self,
        node: usize,
        args: &[&str],
        field: &str,
    ) -> Result<String, ClusterError> {
        let reply = self.run(node, args).await?;
        let text = reply.text().unwrap_or_default();
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        match fields.find(|(name, _)| *name == field) {
            Some((_, value)) => Ok(value.trim().to_owned()),
            None => Err(ClusterError::Unexpected {
                node,
                command: args.join(" "),
                reply: format!("no field {field:?}"),
            }),
        }
    }

    /// The slot of a key, by the server's own reckoning.
    ///
    /// # Errors
    /// As [`ClusterUnderTest::run`], when no node answers.
    pub async fn slot_of(&self, key: &str) -> Result<u16, ClusterError> {
        let mut last = Ok(0);
        for node in 0..self.node_count() {
            let args = ["CLUSTER", "KEYSLOT", key];
            match self.run(node, &args).await {
                Ok(reply) => {
                    let slot = reply.int().and_then(|slot| u16::try_from(slot).ok());
                    return slot.ok_or_else(|| ClusterError::Unexpected {
                        node,
                        command: args.join(" "),
                        reply: format!("{reply:?}"),
                    });
                }
                Err(error) => last = Err(error),
            }
        }
        last
    }

    /// The index of the primary that serves a key: of all claims that the answering nodes know,
    /// the one with the highest epoch, as the nodes themselves settle it.
    ///
    /// # Errors
    /// As [`ClusterUnderTest::run`] when no node answers; [`ClusterError::TimedOut`] when nobody
    /// claims the slot.
    pub async fn primary_of(&self, key: &str) -> Result<usize, ClusterError> {
        if self.shape == Shape::Single {
            return Ok(0);
        }
        let slot = self.slot_of(key).await?;
        let mut best: Option<(u64, usize)> = None;
        for node in 0..self.node_count() {
            let Ok(view) = self.view(node).await else {
                continue;
            };
            let claims = view.nodes.iter().filter(|claim| claim.owns(slot));
            for claim in claims.filter_map(|c| Some((c.config_epoch, c.node?))) {
                best = best.max(Some(claim));
            }
        }
        best.map(|(_, node)| node)
            .ok_or_else(|| ClusterError::TimedOut {
                what: format!("an owner of slot {slot}"),
                seen: "no node that answers claims it or knows who does".into(),
                waited: Duration::ZERO,
            })
    }

    /// Waits (30 s at most) until the cluster is whole: every node answers, says
    /// `cluster_state:ok`, links and trusts all others; all slots are owned, and all nodes agree
    /// by whom; every replica's link to its primary is up.
    ///
    /// # Errors
    /// [`ClusterError::TimedOut`] with what is missing.
    pub async fn wait_whole(&self) -> Result<(), ClusterError> {
        if self.shape == Shape::Single {
            return self.run(0, &["PING"]).await.map(drop);
        }
        let limit = self.start_timeout;
        wait_for("a whole cluster", limit, || self.wholeness()).await
    }

    /// `Ok(Err(_))` names the first thing that isn't whole.
    async fn wholeness(&self) -> Result<Result<(), String>, ClusterError> {
        let mut owners: Option<Vec<(String, usize)>> = None;
        for node in 0..self.node_count() {
            let state = self
                .info(node, &["CLUSTER", "INFO"], "cluster_state")
                .await?;
            if state != "ok" {
                return Ok(Err(format!("node {node} says cluster_state:{state}")));
            }
            let view = self.view(node).await?;
            if let Err(missing) = whole_view(&view, self.node_count()) {
                return Ok(Err(format!("node {node} {missing}")));
            }
            let primaries = view.nodes.iter().filter(|other| other.primary);
            let mut seen: Vec<_> = primaries
                .map(|primary| (primary.id.clone(), primary.slot_count()))
                .collect();
            seen.sort();
            if owners.get_or_insert_with(|| seen.clone()) != &seen {
                return Ok(Err(format!("node {node} sees other primaries than node 0")));
            }
            if view.myself().is_some_and(|myself| !myself.primary) {
                let args = ["INFO", "replication"];
                let link = self.info(node, &args, "master_link_status").await?;
                if link != "up" {
                    return Ok(Err(format!("node {node} says master_link_status:{link}")));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Ends a node at once; unsent and unwritten data are lost. A dead node stays dead.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn kill(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.kill(node).await
    }

    /// Has a node end in order (SIGTERM), as a service manager does, and waits for that.
    ///
    /// # Errors
    /// The operating system's, or [`ClusterError::TimedOut`] after 30 s.
    pub async fn stop(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.stop(node).await
    }

    /// Starts a node that was killed or stopped: the same address, and what it had persisted.
    /// Returns when it listens; [`ClusterUnderTest::wait_whole`] waits for the rest.
    ///
    /// # Errors
    /// As [`ClusterUnderTest::start`].
    pub async fn restart(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.restart(node).await
    }

    /// Freezes a node: connections stay, new ones are accepted by the kernel, nothing is answered.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn pause(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.pause(node).await
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn resume(&self, node: usize) -> Result<(), ClusterError> {
        self.nodes.resume(node).await
    }

    /// Cuts a node off from everyone, clients included. A cut that it has already is replaced.
    ///
    /// # Errors
    /// [`ClusterError::Unsupported`]: processes need Linux, root and iptables for it.
    pub async fn cut_off(&self, node: usize) -> Result<(), ClusterError> {
        self.partitions.cut(&self.nodes, node, Cut::Everyone).await
    }

    /// Cuts a node off from all other nodes, while clients still reach it: a split brain, in which
    /// a primary accepts writes until its own node timeout is over.
    ///
    /// # Errors
    /// [`ClusterError::Unsupported`]: it needs Linux, root and iptables.
    pub async fn cut_off_from_peers(&self, node: usize) -> Result<(), ClusterError> {
        self.partitions.cut(&self.nodes, node, Cut::Peers).await
    }

    /// Ends a node's cut; does nothing when it has none.
    ///
    /// # Errors
    /// The operating system's, or Docker's.
    pub async fn reconnect(&self, node: usize) -> Result<(), ClusterError> {
        self.partitions.mend(&self.nodes, node).await
    }

    /// All that a node has logged, for a report or a test's message.
    ///
    /// # Errors
    /// Docker's.
    pub async fn log(&self, node: usize) -> Result<String, ClusterError> {
        self.nodes.log(node).await
    }

    pub(crate) fn start_timeout(&self) -> Duration {
        self.start_timeout
    }
}

/// One before each node, unimpaired; none where none were asked for.
async fn start_proxies(nodes: &Nodes) -> Result<Vec<Proxy>, ClusterError> {
    let mut proxies = Vec::new();
    for (front, upstream) in nodes.fronts().into_iter().zip(nodes.addresses().to_vec()) {
        let started = aside::aside(async move {
            let started = Proxy::start(front, upstream).await;
            started.map_err(ClusterError::io(format!(
                "listening on {front} for a proxy"
            )))
        });
        proxies.push(started.await?);
    }
    Ok(proxies)
}

fn whole_view(view: &ClusterView, count: usize) -> Result<(), String> {
    let known = view.nodes.iter().filter(|other| other.node.is_some());
    let sound = known.filter(|o| o.linked && !o.failed && !o.suspected);
    let (sound, slots) = sound.fold((0, 0), |(n, slots), o| (n + 1, slots + o.slot_count()));
    if sound < count {
        return Err(format!("sees {sound} sound nodes of {count}"));
    }
    if slots < 16_384 {
        return Err(format!("sees {slots} slots of 16384 owned"));
    }
    Ok(())
}

fn no_answer<'a>(
    node: usize,
    args: &'a [&'a str],
) -> impl FnOnce(std::io::Error) -> ClusterError + 'a {
    move |source| ClusterError::NoAnswer {
        node,
        command: args.join(" "),
        source,
    }
}
