//! What can be done to a cluster under test: one vocabulary for processes and containers.
//!
//! ```no_run
//! # use tidegate_chaos::cluster::{ClusterError, ClusterUnderTest};
//! # use tidegate_chaos::fault::Fault;
//! # async fn example(cluster: &ClusterUnderTest) -> Result<(), ClusterError> {
//! let primary = cluster.primary_of("tg:{key-1}:video_top:g").await?;
//! let fault = Fault::Kill(vec![primary]).apply(cluster).await?;
//! // ... what is to be seen ...
//! fault.heal(cluster).await?;
//! cluster.wait_healthy().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A fault is in force when [`Fault::apply`] returns. Never judges what it does to anyone: that is
//! the oracle's.

mod restart;
mod slots;

use std::fmt;
use std::ops::RangeInclusive;

use super::cluster::{ClusterError, ClusterUnderTest, Cut};
use super::proxy::Impairment;
use slots::Moving;

/// How slots change their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// Key by key with MIGRATE, the old way, which all servers have: clients meet ASK and TRYAGAIN
    /// meanwhile. Half of the keys have moved when the fault is in force, the rest move, and the
    /// owner changes, when it is healed.
    Classic,
    /// All at once by `CLUSTER MIGRATESLOTS` (Valkey 9 or newer): clients only meet MOVED.
    Atomic,
}

/// An injected fault. Nodes are named by their index.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The nodes end at once. Healed: they start again, with what they had persisted.
    Kill(Vec<usize>),
    /// The nodes end in order (SIGTERM), one after the other. Healed as [`Fault::Kill`].
    Stop(Vec<usize>),
    /// The nodes freeze: connections stay open, nothing is answered. Healed: they go on.
    Pause(Vec<usize>),
    /// The nodes reach nobody and nobody reaches them, clients included.
    CutOff(Vec<usize>),
    /// The node reaches no other node, while clients still reach it: a split brain.
    CutOffFromPeers(usize),
    /// The nodes close all their clients' connections, once (`CLIENT KILL TYPE normal`).
    ResetConnections(Vec<usize>),
    /// The links of clients to the nodes become slow, lossy or narrow; the cluster must have been
    /// started with [`ClusterSpec::proxied`](super::cluster::ClusterSpec::proxied).
    Impair(Vec<usize>, Impairment),
    /// The replica of this primary takes over in agreement with it (`CLUSTER FAILOVER`): no
    /// acknowledged write is lost. There is nothing to heal.
    Failover(usize),
    /// The slots, all of one owner, move to another primary.
    MigrateSlots {
        /// Which.
        slots: RangeInclusive<u16>,
        /// The index of their new owner.
        to: usize,
        /// In which way.
        by: Migration,
    },
    /// The nodes forget all scripts, once (`SCRIPT FLUSH`); replicas are not told.
    ForgetScripts(Vec<usize>),
    /// The primary forgets all data, once (`FLUSHALL`), and so do its replicas.
    ForgetData(usize),
    /// The nodes refuse writes for want of memory (`maxmemory 1`). Healed: the former maximum.
    FillMemory(Vec<usize>),
    /// All nodes end in order and start again, one after the other, each primary after a planned
    /// failover; done when the last one has synced. There is nothing to heal.
    RollingRestart,
}

/// A fault that is in force.
#[derive(Debug)]
#[must_use = "a fault stays in force until it is healed or the cluster ends"]
pub struct ActiveFault {
    undo: Vec<Undo>,
}

/// One thing that ends (a part of) a fault.
#[derive(Debug)]
enum Undo {
    Restart(usize),
    Resume(usize),
    Reconnect(usize),
    Impair(usize, Impairment),
    MaxMemory(usize, String),
    Move(Moving),
}

impl Fault {
    /// Its name in scenarios and reports: `[a-z-]+`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::Stop(_) => "stop",
            Self::Pause(_) => "pause",
            Self::CutOff(_) => "cut-off",
            Self::CutOffFromPeers(_) => "split-brain",
            Self::ResetConnections(_) => "reset-connections",
            Self::Impair(..) => "impair",
            Self::Failover(_) => "failover",
            Self::MigrateSlots {
                by: Migration::Classic,
                ..
            } => "migrate-classic",
            Self::MigrateSlots {
                by: Migration::Atomic,
                ..
            } => "migrate-atomic",
            Self::ForgetScripts(_) => "forget-scripts",
            Self::ForgetData(_) => "forget-data",
            Self::FillMemory(_) => "fill-memory",
            Self::RollingRestart => "rolling-restart",
        }
    }

    /// Has it happen; it is in force when this returns. What failed half-way is undone again.
    ///
    /// # Errors
    /// [`ClusterError::Unsupported`] where this machine or server can't do it, with the cure; else
    /// what the operating system, Docker or a node said.
    pub async fn apply(&self, cluster: &ClusterUnderTest) -> Result<ActiveFault, ClusterError> {
        let mut active = ActiveFault { undo: Vec::new() };
        match self.inflict(cluster, &mut active.undo).await {
            Ok(()) => Ok(active),
            Err(error) => {
                // The first error is the one that tells.
                let _ = active.heal(cluster).await;
                Err(error)
            }
        }
    }

    async fn inflict(
        &self,
        cluster: &ClusterUnderTest,
        undo: &mut Vec<Undo>,
    ) -> Result<(), ClusterError> {
        match self {
            Self::Kill(nodes) => {
                for &node in nodes {
                    cluster.kill(node).await?;
                    undo.push(Undo::Restart(node));
                }
            }
            Self::Stop(nodes) => {
                for &node in nodes {
                    cluster.stop(node).await?;
                    undo.push(Undo::Restart(node));
                }
            }
            Self::Pause(nodes) => {
                for &node in nodes {
                    cluster.pause(node).await?;
                    undo.push(Undo::Resume(node));
                }
            }
            Self::CutOff(nodes) => {
                for &node in nodes {
                    undo.push(Undo::Reconnect(node));
                    cluster.cut(node, Cut::Everyone).await?;
                }
            }
            Self::CutOffFromPeers(node) => {
                undo.push(Undo::Reconnect(*node));
                cluster.cut(*node, Cut::Peers).await?;
            }
            Self::ResetConnections(nodes) => {
                let command = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
                run_on(cluster, nodes, &command).await?;
            }
            Self::Impair(nodes, impairment) => {
                for &node in nodes {
                    let proxy = cluster.proxy(node)?;
                    undo.push(Undo::Impair(node, proxy.impairment()));
                    proxy.impair(*impairment);
                }
            }
            Self::Failover(primary) => restart::fail_over(cluster, *primary).await?,
            Self::MigrateSlots { slots, to, by } => match by {
                Migration::Classic => {
                    let moving = Moving::begin(cluster, slots.clone(), *to).await?;
                    undo.push(Undo::Move(moving));
                }
                Migration::Atomic => slots::migrate_atomically(cluster, slots, *to).await?,
            },
            Self::ForgetScripts(nodes) => run_on(cluster, nodes, &["SCRIPT", "FLUSH"]).await?,
            Self::ForgetData(node) => run_on(cluster, &[*node], &["FLUSHALL"]).await?,
            Self::FillMemory(nodes) => {
                for &node in nodes {
                    let former = cluster.info(node, &["INFO", "memory"], "maxmemory").await?;
                    undo.push(Undo::MaxMemory(node, former));
                    run_on(cluster, &[node], &["CONFIG", "SET", "maxmemory", "1"]).await?;
                }
            }
            Self::RollingRestart => restart::all_in_turn(cluster).await?,
        }
        Ok(())
    }
}

impl ActiveFault {
    /// Ends it; [`ClusterUnderTest::wait_healthy`] waits for what follows from that.
    ///
    /// # Errors
    /// The first of what couldn't be undone; the rest is.
    pub async fn heal(self, cluster: &ClusterUnderTest) -> Result<(), ClusterError> {
        let mut healed = Ok(());
        for undo in self.undo {
            healed = healed.and(undo.run(cluster).await);
        }
        healed
    }
}

impl Undo {
    async fn run(self, cluster: &ClusterUnderTest) -> Result<(), ClusterError> {
        match self {
            Self::Restart(node) => cluster.restart(node).await,
            Self::Resume(node) => cluster.resume(node).await,
            Self::Reconnect(node) => cluster.reconnect(node).await,
            Self::Impair(node, former) => {
                cluster.proxy(node)?.impair(former);
                Ok(())
            }
            Self::MaxMemory(node, former) => {
                run_on(cluster, &[node], &["CONFIG", "SET", "maxmemory", &former]).await
            }
            Self::Move(moving) => moving.finish(cluster).await,
        }
    }
}

async fn run_on(
    cluster: &ClusterUnderTest,
    nodes: &[usize],
    command: &[&str],
) -> Result<(), ClusterError> {
    for &node in nodes {
        cluster.run(node, command).await?;
    }
    Ok(())
}

impl fmt::Display for Fault {
    /// For people: `kill of nodes 0 and 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = match self {
            Self::Kill(nodes)
            | Self::Stop(nodes)
            | Self::Pause(nodes)
            | Self::CutOff(nodes)
            | Self::ResetConnections(nodes)
            | Self::Impair(nodes, _)
            | Self::ForgetScripts(nodes)
            | Self::FillMemory(nodes) => nodes.as_slice(),
            Self::CutOffFromPeers(node) | Self::Failover(node) | Self::ForgetData(node) => {
                std::slice::from_ref(node)
            }
            Self::MigrateSlots { slots, to, .. } => {
                let (first, last) = (slots.start(), slots.end());
                return write!(f, "{} of slots {first} to {last} to node {to}", self.name());
            }
            Self::RollingRestart => return f.write_str(self.name()),
        };
        let nodes: Vec<_> = nodes.iter().map(usize::to_string).collect();
        let plural = if nodes.len() == 1 { "" } else { "s" };
        write!(f, "{} of node{plural} {}", self.name(), nodes.join(", "))
    }
}
