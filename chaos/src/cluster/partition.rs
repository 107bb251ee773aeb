//! Nodes that can't reach each other: drawn with iptables, on this machine's loopback between
//! processes, in the node's own network namespace between containers.
//!
//! Silence, not refusal: packets vanish, as they do behind a broken switch. Never touches a rule
//! that isn't of the cluster's own chain or namespace.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use tokio::process::Command;

use super::loopback::OWN_ADDRESSES;
use super::nodes::Nodes;
use super::processes::Processes;
use super::{ClusterError, containers::Containers};

/// From whom a node is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// It hears nobody and nobody hears it.
    Everyone,
    /// It hears clients, and they hear it: a split brain.
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
        match nodes {
            Nodes::Processes(processes) => {
                self.require_chain(processes).await?;
                for rule in rules(nodes, node, cut) {
                    iptables(None, &[&["-A", &self.chain], &words(&rule)[..]].concat()).await?;
                }
            }
            Nodes::Containers(containers) => match cut {
                Cut::Everyone => containers.disconnect_node(node).await?,
                Cut::Peers => {
                    for (from, to) in pairs(nodes, node) {
                        let chain = if to == nodes.address(node)?.ip() {
                            "INPUT"
                        } else {
                            "OUTPUT"
                        };
                        let rule = drop_rule(Some(from), Some(to));
                        let args = [&["-A", chain], &words(&rule)[..]].concat();
                        iptables(Some(namespace(containers, node).await?), &args).await?;
                    }
                }
            },
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
                for rule in rules(nodes, node, cut) {
                    iptables(None, &[&["-D", &self.chain], &words(&rule)[..]].concat()).await?;
                }
                Ok(())
            }
            (Nodes::Containers(containers), Cut::Everyone) => containers.reconnect_node(node).await,
            (Nodes::Containers(containers), Cut::Peers) => {
                // A node that has ended took its namespace, and the rules, with it.
                if let Some(pid) = containers.pid(node).await? {
                    iptables(Some(pid), &["-F"]).await?;
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
        iptables(None, &["-L", "INPUT", "-n"]).await?;
        processes.undo(&format!(
            "PATH=$PATH:/usr/sbin:/sbin; iptables -w 5 -D INPUT -j {chain}; \
             iptables -w 5 -F {chain}; iptables -w 5 -X {chain}"
        ))?;
        iptables(None, &["-N", chain]).await?;
        iptables(None, &["-I", "INPUT", "-j", chain]).await?;
        *chained = true;
        Ok(())
    }
}

async fn namespace(containers: &Containers, node: usize) -> Result<u32, ClusterError> {
    let pid = containers.pid(node).await?;
    pid.ok_or_else(|| unsupported(format!("node {node} isn't running"), "Start it first"))
}

/// The rules of a cut between processes. Clients' packets come from 127.0.0.1, a node's from its
/// own address.
fn rules(nodes: &Nodes, node: usize, cut: Cut) -> Vec<Vec<String>> {
    match cut {
        Cut::Peers => pairs(nodes, node)
            .into_iter()
            .map(|(from, to)| drop_rule(Some(from), Some(to)))
            .collect(),
        Cut::Everyone => match nodes.addresses().get(node) {
            Some(own) => vec![
                drop_rule(Some(own.ip()), None),
                drop_rule(None, Some(own.ip())),
            ],
            None => Vec::new(),
        },
    }
}

/// Sources and destinations between a node and each of its peers, both ways.
fn pairs(nodes: &Nodes, node: usize) -> Vec<(IpAddr, IpAddr)> {
    let addresses = nodes.addresses();
    let Some(own) = addresses.get(node) else {
        return Vec::new();
    };
    let peers = addresses.iter().filter(|peer| *peer != own);
    peers
        .flat_map(|peer| [(own.ip(), peer.ip()), (peer.ip(), own.ip())])
        .collect()
}

fn drop_rule(from: Option<IpAddr>, to: Option<IpAddr>) -> Vec<String> {
    let from = from
        .into_iter()
        .flat_map(|ip| ["-s".to_owned(), ip.to_string()]);
    let to = to
        .into_iter()
        .flat_map(|ip| ["-d".to_owned(), ip.to_string()]);
    let target = ["-j", "DROP"].map(str::to_owned);
    from.chain(to).chain(target).collect()
}

fn words(rule: &[String]) -> Vec<&str> {
    rule.iter().map(String::as_str).collect()
}

/// Runs iptables here, or in the network namespace of a process.
async fn iptables(namespace: Option<u32>, args: &[&str]) -> Result<(), ClusterError> {
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
    command.args(["-w", "5"]).args(args).stdin(Stdio::null());
    let output = command
        .output()
        .await
        .map_err(|source| ClusterError::Program {
            program: "iptables".into(),
            cure: "Install it (Debian: `apt-get install iptables`); tests/run does so by itself"
                .into(),
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
