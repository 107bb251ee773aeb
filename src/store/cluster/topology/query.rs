//! Asks nodes what they know of the cluster, all at once, and waits for no straggler.
//! Never judges what they say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::types::Value;
use tokio::task::JoinSet;

use super::view::View;
use crate::store::cluster::node::error::CommandError;
use crate::store::cluster::node::{Node, NodeInfo};

/// How long the first answer may take.
const FIRST_WAIT_MAX: Duration = Duration::from_millis(500);
/// How long the others may take after it: a paused node must not delay what the rest know.
const OTHERS_WAIT_MAX: Duration = Duration::from_millis(100);
/// And how long those that were late the last time already.
const LATE_WAIT_MAX: Duration = Duration::from_millis(10);

/// The views of these nodes, of those that answer in time; of the others why there is none.
pub(super) async fn views_of(nodes: &[Arc<Node>]) -> Vec<Result<View, String>> {
    gather(nodes, |node, deadline| async move {
        let view = view_of(&node, deadline).await;
        Some(view.map_err(|error| error.describe(node.address())))
    })
    .await
}

/// The node that says it is the primary, among single servers; while none does, one that answers.
pub(super) async fn primary_of(nodes: &[Arc<Node>]) -> Option<Arc<Node>> {
    let roles = gather(nodes, |node, deadline| async move {
        let args = vec![Value::from_static_str("replication")];
        let connection = node.connection().ok()?;
        let reply = connection.command("INFO", args, deadline).await;
        // Who may not ask takes it for the primary.
        let is_primary = reply.map_or(Some(true), |text| {
            NodeInfo::parse(text.as_str().unwrap_or_default().as_ref()).primary
        });
        Some((is_primary == Some(true), node))
    });
    let mut roles = roles.await;
    roles.sort_by(|(a, x), (b, y)| b.cmp(a).then(x.address().cmp(y.address())));
    roles.into_iter().next().map(|(_, node)| node)
}

async fn view_of(node: &Node, deadline: Instant) -> Result<View, CommandError> {
    let connection = node.connection()?;
    let (slots, nodes) = tokio::join!(
        connection.command("CLUSTER", vec![Value::from_static_str("SLOTS")], deadline),
        connection.command("CLUSTER", vec![Value::from_static_str("NODES")], deadline),
    );
    let nodes = nodes.ok().and_then(Value::into_string);
    let view = View::parse(slots?, nodes.as_deref(), node.address());
    view.ok_or_else(|| CommandError::Invalid("CLUSTER SLOTS".into()))
}

async fn gather<T, F>(nodes: &[Arc<Node>], ask: impl Fn(Arc<Node>, Instant) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = Option<T>> + Send + 'static,
{
    let begun = Instant::now();
    let mut asked = JoinSet::new();
    let mut awaited = 0_usize;
    for node in nodes {
        // Late until it has answered.
        let is_awaited = !node.replace_late(true);
        awaited += usize::from(is_awaited);
        let answer = ask(Arc::clone(node), begun + FIRST_WAIT_MAX);
        let node = Arc::clone(node);
        asked.spawn(async move {
            let answer = answer.await;
            node.replace_late(false);
            (is_awaited, answer)
        });
    }
    let mut answers = Vec::with_capacity(nodes.len());
    let mut until = begun + FIRST_WAIT_MAX;
    while let Ok(Some(answer)) = tokio::time::timeout_at(until.into(), asked.join_next()).await {
        let Ok((was_awaited, answer)) = answer else {
            continue;
        };
        awaited -= usize::from(was_awaited);
        answers.extend(answer);
        if !answers.is_empty() {
            let wait = match awaited {
                0 => LATE_WAIT_MAX,
                _ => OTHERS_WAIT_MAX,
            };
            until = until.min(Instant::now() + wait);
        }
    }
    answers
}
