//! Makes one cluster of nodes that know nothing of each other, and waits until it is healthy.
//!
//! Our own commands instead of `redis-cli --cluster create`, which sleeps between its steps and
//! returns before the replicas have synced: a primary killed then is never replaced.

use super::background::in_background;
use super::nodes::Nodes;
use super::partition::Partitions;
use super::spec::{ClusterSpec, Shape};
use super::{ClusterError, ClusterUnderTest, NodeClient, kind};
use crate::proxy::Proxy;
use crate::resp::Reply;

const SLOT_COUNT: usize = 16_384;

impl ClusterUnderTest {
    /// Starts the nodes and joins them; returns when every slot is served, every node sees all
    /// others and every replica has synced.
    ///
    /// # Errors
    /// A program is missing, a node ended by itself, or the cluster didn't come together in 30 s.
    pub async fn start(spec: ClusterSpec) -> Result<Self, ClusterError> {
        let kind = kind::resolve(spec.kind).await?;
        let (shape, start_timeout) = (spec.shape, spec.start_timeout);
        let password = spec.password.clone();
        let nodes = Nodes::start(kind, spec).await?;
        let client = NodeClient {
            addresses: nodes.addresses().to_vec(),
            user: None,
            password,
        };
        let mut cluster = Self {
            shape,
            client,
            start_timeout,
            kind,
            partitions: Partitions::new(),
            proxies: Vec::new(),
            nodes,
        };
        create(&cluster, shape).await?;
        cluster.proxies = start_proxies(&cluster.nodes).await?;
        kind::say_once(&cluster.description());
        Ok(cluster)
    }
}

/// One before each node, unimpaired; none where none were asked for.
async fn start_proxies(nodes: &Nodes) -> Result<Vec<Proxy>, ClusterError> {
    let mut proxies = Vec::new();
    let upstreams = nodes.addresses().iter().copied();
    for (address, upstream) in nodes.proxy_addresses().iter().copied().zip(upstreams) {
        let started = in_background(async move {
            let started = Proxy::start(address, upstream).await;
            started.map_err(ClusterError::io(format!(
                "listening on {address} for a proxy"
            )))
        });
        proxies.push(started.await?);
    }
    Ok(proxies)
}

/// Gives the slots to the primaries, introduces everyone, and attaches the replicas.
async fn create(cluster: &ClusterUnderTest, shape: Shape) -> Result<(), ClusterError> {
    let Shape::Cluster {
        primaries,
        replicas,
    } = shape
    else {
        return Ok(());
    };
    for node in 0..primaries {
        let first = (node * SLOT_COUNT / primaries).to_string();
        let last = ((node + 1) * SLOT_COUNT / primaries - 1).to_string();
        let epoch = (node + 1).to_string();
        // Distinct epochs from the start spare the nodes a round of collisions.
        run(cluster, node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await?;
        run(cluster, node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await?;
    }
    for node in 0..shape.node_count() {
        for other in (0..shape.node_count()).filter(|&other| other != node) {
            let address = cluster.address(other)?;
            let (ip, port) = (address.ip().to_string(), address.port().to_string());
            run(cluster, node, &["CLUSTER", "MEET", &ip, &port]).await?;
        }
    }
    wait_acquainted(cluster, shape.node_count()).await?;
    for replica in 0..replicas {
        let id = cluster.run(replica, &["CLUSTER", "MYID"]).await?;
        let id = id.text().unwrap_or_default();
        run(cluster, primaries + replica, &["CLUSTER", "REPLICATE", id]).await?;
    }
    cluster.wait_healthy().await?;
    wait_proxies_announced(cluster).await
}

async fn run(cluster: &ClusterUnderTest, node: usize, args: &[&str]) -> Result<(), ClusterError> {
    cluster.run(node, args).await.map(drop)
}

async fn wait_acquainted(cluster: &ClusterUnderTest, count: usize) -> Result<(), ClusterError> {
    cluster
        .wait_for("all nodes to know each other", || async {
            for node in 0..count {
                let view = cluster.view(node).await?;
                let known = view.nodes.iter().filter(|other| other.node.is_some());
                let known = known.filter(|other| other.linked).count();
                if known < count {
                    return Err(ClusterError::NotYet(format!(
                        "node {node} knows {known} of {count}"
                    )));
                }
            }
            Ok(())
        })
        .await
}

/// With proxies: until each node sends clients to them. Gossip spreads the names after the rest.
async fn wait_proxies_announced(cluster: &ClusterUnderTest) -> Result<(), ClusterError> {
    let proxies = cluster.nodes.proxy_addresses().iter();
    let proxies: Vec<_> = proxies.map(|proxy| proxy.ip().to_string()).collect();
    if proxies.is_empty() {
        return Ok(());
    }
    cluster
        .wait_for("the nodes to name the proxies", || async {
            for node in 0..cluster.node_count() {
                let slots = cluster.run(node, &["CLUSTER", "SLOTS"]).await?;
                // Each entry: first slot, last slot, then the nodes: endpoint, port, name, more.
                let entries = slots.array().unwrap_or_default().iter();
                let nodes = entries
                    .filter_map(Reply::array)
                    .flat_map(|e| e.iter().skip(2));
                let mut endpoints = nodes.filter_map(|node| node.array()?.first());
                let is_proxy = |reply: &Reply| proxies.iter().any(|p| reply.text() == Some(p));
                if let Some(strange) = endpoints.find(|endpoint| !is_proxy(endpoint)) {
                    return Err(ClusterError::NotYet(format!(
                        "node {node} names {strange:?}"
                    )));
                }
            }
            Ok(())
        })
        .await
}
