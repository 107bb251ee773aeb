//! What a cluster under test says of itself, node by node. Never changes anything, but for the
//! commands that it is told to run.

use std::time::Duration;

use tokio::task::JoinSet;

use super::spec::Shape;
use super::{ClusterError, ClusterUnderTest, ClusterView};
use crate::resp::{NodeConnection, Reply};

/// Where all nodes are asked, of which some may be dead: to connect, and again to answer.
const ALL_TIMEOUT: Duration = Duration::from_millis(500);

impl ClusterUnderTest {
    /// Runs one command on one node, over a connection of its own, without following redirects.
    ///
    /// # Errors
    /// [`ClusterError::NoAnswer`] (within 1 s to connect, 5 s to answer), or
    /// [`ClusterError::Refused`] with the node's error reply.
    pub async fn run(&self, node: usize, args: &[&str]) -> Result<Reply, ClusterError> {
        self.client.run(node, args).await
    }

    /// Opens a connection to a node, authenticated where the cluster has a password.
    ///
    /// # Errors
    /// [`ClusterError::NoAnswer`] or [`ClusterError::Refused`].
    pub async fn connect(&self, node: usize) -> Result<NodeConnection, ClusterError> {
        self.client.connect(node).await
    }

    /// The cluster as that node sees it.
    ///
    /// # Errors
    /// As [`ClusterUnderTest::run`].
    pub async fn view(&self, node: usize) -> Result<ClusterView, ClusterError> {
        self.client.view(node).await
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
    /// [`ClusterError::TimedOut`] when no node answers within a second.
    pub async fn slot_of(&self, key: &str) -> Result<u16, ClusterError> {
        let replies = self.ask_all(&["CLUSTER", "KEYSLOT", key]).await;
        let slot = replies
            .iter()
            .find_map(|reply| reply.int()?.try_into().ok());
        slot.ok_or_else(|| nobody_knows(format!("the slot of {key:?}")))
    }

    /// The index of the primary that serves a key: of all claims that the answering nodes know,
    /// the one with the highest epoch, as the nodes themselves settle it. Dead and silent nodes
    /// take a second at most.
    ///
    /// # Errors
    /// [`ClusterError::TimedOut`] when no node answers, or nobody claims the slot.
    pub async fn primary_of(&self, key: &str) -> Result<usize, ClusterError> {
        if self.shape == Shape::Single {
            return Ok(0);
        }
        let slot = self.slot_of(key).await?;
        let mut best: Option<(u64, usize)> = None;
        for reply in self.ask_all(&["CLUSTER", "NODES"]).await {
            let text = reply.text().unwrap_or_default();
            let view = ClusterView::parse(text, &self.client.addresses);
            let nodes = view.into_iter().flat_map(|view| view.nodes);
            let claims = nodes.filter(|claim| claim.owns(slot));
            best = best.max(claims.filter_map(|c| Some((c.config_epoch, c.node?))).max());
        }
        best.map(|(_, node)| node)
            .ok_or_else(|| nobody_knows(format!("the owner of slot {slot}")))
    }

    /// Asks all nodes at once and gives what came within a second, errors left out.
    async fn ask_all(&self, args: &[&str]) -> Vec<Reply> {
        let mut asking = JoinSet::new();
        for node in 0..self.node_count() {
            let args: Vec<String> = args.iter().copied().map(str::to_owned).collect();
            let client = self.client.clone();
            asking.spawn(async move {
                let opened = client.connect_within(node, ALL_TIMEOUT, ALL_TIMEOUT).await;
                opened.ok()?.command(&args).await.ok()
            });
        }
        let replies = asking.join_all().await.into_iter().flatten();
        replies
            .filter(|reply| !matches!(reply, Reply::Error(_)))
            .collect()
    }

    /// Waits (30 s at most) until the cluster is healthy: every node answers, says
    /// `cluster_state:ok`, links and trusts all others; all slots are owned, and all nodes agree
    /// by whom; every replica's link to its primary is up.
    ///
    /// # Errors
    /// [`ClusterError::TimedOut`] with what is missing.
    pub async fn wait_healthy(&self) -> Result<(), ClusterError> {
        if self.shape == Shape::Single {
            return self.run(0, &["PING"]).await.map(drop);
        }
        self.wait_for("a healthy cluster", || self.health()).await
    }

    async fn health(&self) -> Result<(), ClusterError> {
        let mut owners: Option<Vec<(String, usize)>> = None;
        for node in 0..self.node_count() {
            let state = self
                .info(node, &["CLUSTER", "INFO"], "cluster_state")
                .await?;
            if state != "ok" {
                return Err(ClusterError::NotYet(format!(
                    "node {node} says cluster_state:{state}"
                )));
            }
            let view = self.view(node).await?;
            if let Err(missing) = check_view(&view, self.node_count()) {
                return Err(ClusterError::NotYet(format!("node {node} {missing}")));
            }
            let primaries = view.nodes.iter().filter(|other| other.primary);
            let mut seen: Vec<_> = primaries
                .map(|primary| (primary.id.clone(), primary.slot_count()))
                .collect();
            seen.sort();
            if owners.get_or_insert_with(|| seen.clone()) != &seen {
                return Err(ClusterError::NotYet(format!(
                    "node {node} sees other primaries than node 0"
                )));
            }
            if view.myself().is_some_and(|myself| !myself.primary) {
                let args = ["INFO", "replication"];
                let link = self.info(node, &args, "master_link_status").await?;
                if link != "up" {
                    return Err(ClusterError::NotYet(format!(
                        "node {node} says master_link_status:{link}"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn check_view(view: &ClusterView, count: usize) -> Result<(), String> {
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

fn nobody_knows(what: String) -> ClusterError {
    ClusterError::TimedOut {
        what,
        seen: "no node that answers knows it".into(),
        waited: ALL_TIMEOUT * 2,
    }
}
