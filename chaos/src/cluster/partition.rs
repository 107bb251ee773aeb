//! Nodes that can't reach each other: drawn with iptables, on this machine's loopback between
//! processes, in the node's own network namespace between containers.
//!
//! Silence, not refusal: packets vanish, as they do behind a broken switch. Never touches a rule
//! that isn't of the cluster's own chain or namespace.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use tokio::process::Command;

use super::ClusterError;
use super::loopback::OWN_ADDRESSES;
use super::nodes::Nodes;
use super::processes::Processes;

/// From whom a node is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nobody reaches it, clients included, and it reaches nobody.
    Everyone,
    /// Clients still reach it: a split brain, in which a primary accepts writes until its own node
    /// timeout is over.
    Peers,
}

/// The cuts that are in force, and the chain of rules that makes them between processes.
#[derive(Debug)]
pub(super) struct Partitions {
    chain: String,
    cuts: Mutex<BTreeMap<usize, Cut>>,
    chained: tokio::sync::Mutex<bool>,
}

impl Partitions {
    pub(super) fn new() -> Self {
        Self {
            chain: format!("TIDEGATE-{:016x}", rand::random::<u64>()),
            cuts: Mutex::default(),
            chained: tokio::sync::Mutex::default(),
        }
    }

    /// Cuts a node off; a cut that it has already is replaced.
    pub(super) async fn cut(
        &self,
        nodes: &Nodes,
        node: usize,
        cut: Cut,
    ) -> Result<(), ClusterError> {
        nodes.address(node)?;
        self.heal(nodes, node).await?;
        match (nodes, cut) {
            (Nodes::Processes(processes), _) => {
                self.require_chain(processes).await?;
                for packets in packets(nodes, node, cut) {
                    iptables(None, &format!("-A {} {packets} -j DROP", self.chain)).await?;
                }
            }
            (Nodes::Containers(containers), Cut::Everyone) => {
                containers.disconnect_node(node).await?;
            }
            (Nodes::Containers(containers), Cut::Peers) => {
                let pid = containers.pid(node).await?;
                let pid = pid.ok_or_else(|| {
                    unsupported(format!("node {node} isn't running"), "Start it first")
                })?;
                for peer in peers(nodes, node) {
                    iptables(Some(pid), &format!("-A INPUT -s {peer} -j DROP")).await?;
                    iptables(Some(pid), &format!("-A OUTPUT -d {peer} -j DROP")).await?;
                }
            }
        }
        self.cuts().insert(node, cut);
        Ok(())
    }

    /// Ends a node's cut, if it has one.
    pub(super) async fn heal(&self, nodes: &Nodes, node: usize) -> Result<(), ClusterError> {
        let Some(cut) = self.cuts().remove(&node) else {
            return Ok(());
        };
        match (nodes, cut) {
            (Nodes::Processes(_), _) => {
                for packets in packets(nodes, node, cut) {
                    iptables(None, &format!("-D {} {packets} -j DROP", self.chain)).await?;
                }
                Ok(())
            }
            (Nodes::Containers(containers), Cut::Everyone) => containers.reconnect_node(node).await,
            (Nodes::Containers(containers), Cut::Peers) => {
                // A node that has ended took its namespace, and the rules, with it.
                if let Some(pid) = containers.pid(node).await? {
                    iptables(Some(pid), "-F").await?;
                }
                Ok(())
            }
        }
    }

    fn cuts(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Cut>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster's own chain; the watchdog is told of it before it is there.
    async fn require_chain(&self, processes: &Processes) -> Result<(), ClusterError> {
        if !OWN_ADDRESSES {
            return Err(unsupported(
                "the nodes share one address".into(),
                "Use a Linux machine, or containers",
            ));
        }
        let mut chained = self.chained.lock().await;
        if *chained {
            return Ok(());
        }
        let chain = &self.chain;
        // Whether iptables works at all is found out before anything is promised.
        iptables(None, "-L INPUT -n").await?;
        processes.undo(&format!(
            "PATH=$PATH:/usr/sbin:/sbin; iptables -w 5 -D INPUT -j {chain}; \
             iptables -w 5 -F {chain}; iptables -w 5 -X {chain}"
        ))?;
        iptables(None, &format!("-N {chain}")).await?;
        iptables(None, &format!("-I INPUT -j {chain}")).await?;
        *chained = true;
        Ok(())
    }
}

/// The packets that a cut between processes drops. Clients' come from 127.0.0.1, a node's from
/// its own address.
fn packets(nodes: &Nodes, node: usize, cut: Cut) -> Vec<String> {
    let Some(own) = nodes.addresses().get(node).map(SocketAddr::ip) else {
        return Vec::new();
    };
    match cut {
        Cut::Everyone => vec![format!("-s {own}"), format!("-d {own}")],
        Cut::Peers => peers(nodes, node)
            .flat_map(|peer| [format!("-s {own} -d {peer}"), format!("-s {peer} -d {own}")])
            .collect(),
    }
}

fn peers(nodes: &Nodes, node: usize) -> impl Iterator<Item = IpAddr> {
    let addresses = nodes.addresses().iter().enumerate();
    let peers = addresses.filter(move |(peer, _)| *peer != node);
    peers.map(|(_, address)| address.ip())
}

/// Runs iptables here, or in the network namespace of a process.
async fn iptables(namespace: Option<u32>, words: &str) -> Result<(), ClusterError> {
    let mut command = match namespace {
        None => Command::new("iptables"),
        Some(pid) => {
            let mut command = Command::new("nsenter");
            command.args(["-t", &pid.to_string(), "-n", "iptables"]);
            command
        }
    };
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    // Waits for the lock that other tests hold for a moment.
    command
        .args(["-w", "5"])
        .args(words.split(' '))
        .stdin(Stdio::null());
    let output = command.output().await;
    let output = output.map_err(|source| ClusterError::Program {
        program: "iptables".into(),
        cure: "Install it (Debian: `apt-get install iptables`); tests/run does so by itself".into(),
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(unsupported(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        "Run as root, with iptables and, for containers, nsenter",
    ))
}

fn unsupported(why: String, cure: &str) -> ClusterError {
    ClusterError::Unsupported {
        what: "a partition".into(),
        why,
        cure: cure.into(),
    }
}
