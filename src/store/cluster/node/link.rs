//! Keeps one connection to a node: makes it, greets the node, probes it, makes the next one.
//!
//! States: `Down => Greeting => Up => Down`, for ever. Only a connection that was greeted (its
//! scripts loaded) is seen from outside. Never gives up, and never keeps a silent connection.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use fred::types::Value;

use super::connection::NodeConnection;
use super::connector::{ConnectionTask, Connector};
use super::error::{CommandError, ConnectError, NotSent};
use super::info::{NodeInfo, is_cluster_ok};
use super::state::NodeState;
use crate::store::cluster::supervise::{AbortOnDrop, supervise};
use crate::store::error::StoreErrorKind;

/// A connection that lived this long has earned an immediate successor.
const PROVEN: Duration = Duration::from_secs(1);
/// How often a node that says that the cluster is down is asked again.
const CLUSTER_STATE_PERIOD: Duration = Duration::from_millis(20);

/// Where the living connection is found; empty while there is none.
#[derive(Debug, Default)]
pub(super) struct Link {
    current: ArcSwapOption<NodeConnection>,
}

/// The two that a link's task works with.
struct LinkTask<'a> {
    connector: &'a Connector,
    node: &'a NodeState,
}

impl Link {
    /// The living connection.
    pub fn connection(&self) -> Option<Arc<NodeConnection>> {
        self.current.load_full()
    }

    /// Starts to keep it up.
    pub fn start(
        self: &Arc<Self>,
        connector: &Arc<Connector>,
        node: &Arc<NodeState>,
    ) -> AbortOnDrop<()> {
        let (link, connector, node) = (Arc::clone(self), Arc::clone(connector), Arc::clone(node));
        supervise(format!("link to {}", node.address), move || {
            let (link, connector) = (Arc::clone(&link), Arc::clone(&connector));
            let node = Arc::clone(&node);
            async move {
                let task = LinkTask {
                    connector: &connector,
                    node: &node,
                };
                task.run(&link.current).await;
            }
        })
    }
}

impl LinkTask<'_> {
    async fn run(&self, current: &ArcSwapOption<NodeConnection>) {
        let options = &self.connector.options;
        current.store(None);
        let mut wait = options.reconnect_wait_min;
        loop {
            let begun = Instant::now();
            let error = match self.connect().await {
                Ok((connection, task)) => self.serve(current, connection, task).await,
                Err(error) => error,
            };
            self.node.set_disconnected(&error);
            self.connector.signals.refresh.notify_one();
            if begun.elapsed() >= PROVEN {
                wait = options.reconnect_wait_min;
            } else {
                tokio::time::sleep(jittered(wait)).await;
                wait = (wait * 2).min(options.reconnect_wait_max);
            }
        }
    }

    async fn connect(&self) -> Result<(NodeConnection, ConnectionTask), ConnectError> {
        let client = self.connector.client(&self.node.address);
        let mut task = self.connector.connect(&client).await?;
        let unanswered_max = self.connector.options.unanswered_per_connection_max;
        let connection = NodeConnection::new(client, self.node.address.clone(), unanswered_max);
        tokio::select! {
            greeted = self.greet(&connection) => greeted?,
            ended = task.join() => return Err(ConnectError::from_task(ended)),
        }
        Ok((connection, task))
    }

    /// Learns who the node is, and gives it the scripts.
    async fn greet(&self, connection: &NodeConnection) -> Result<(), ConnectError> {
        let deadline = Instant::now() + self.connector.options.connect_wait_max;
        let failed = |step, error| ConnectError::greeting(step, &self.node.address, &error);
        let info = match connection.command("INFO", Vec::new(), deadline).await {
            Ok(text) => NodeInfo::parse(text.as_str().unwrap_or_default().as_ref()),
            // A user that may not ask is still one that may run scripts.
            Err(CommandError::Reply(reply)) if reply.detail.starts_with("NOPERM") => {
                let hello = connection.command("HELLO", Vec::new(), deadline).await;
                hello.map(NodeInfo::from_hello).unwrap_or_default()
            }
            Err(error) => return Err(failed("INFO", error)),
        };
        if info.loading {
            return Err(ConnectError {
                kind: StoreErrorKind::Overloaded,
                detail: "it still loads its data".to_owned(),
            });
        }
        let cluster = info.cluster;
        self.node.set_info(info);
        let loaded = connection.load(&self.connector.scripts, deadline).await;
        loaded.map_err(|error| failed("SCRIPT LOAD", error))?;
        if cluster != Some(false) {
            connection.set_cluster_ok(cluster_state(connection, deadline).await.unwrap_or(true));
        }
        Ok(())
    }

    /// Shows the connection until it ends, and says why it did.
    async fn serve(
        &self,
        current: &ArcSwapOption<NodeConnection>,
        connection: NodeConnection,
        mut task: ConnectionTask,
    ) -> ConnectError {
        let signals = &self.connector.signals;
        let connection = Arc::new(connection);
        current.store(Some(Arc::clone(&connection)));
        self.node.set_connected();
        signals.refresh.notify_one();
        signals.changed.notify_waiters();
        let watched = async {
            // Those that came into use between the greeting and now.
            let deadline = Instant::now() + self.connector.options.connect_wait_max;
            connection.load_new(&self.connector.scripts, deadline).await;
            self.probe(&connection).await
        };
        let error = tokio::select! {
            ended = task.join() => ConnectError::from_task(ended),
            error = watched => error,
        };
        current.store(None);
        connection.close();
        signals.changed.notify_waiters();
        error
    }

    /// Probes a connection until it is silent for too long.
    async fn probe(&self, connection: &NodeConnection) -> ConnectError {
        let (options, signals) = (&self.connector.options, &self.connector.signals);
        loop {
            let period = match connection.is_cluster_ok() {
                true => options.probe_period,
                false => CLUSTER_STATE_PERIOD.min(options.probe_period),
            };
            tokio::time::sleep(period).await;
            let deadline = Instant::now() + options.silence_max;
            if !connection.is_cluster_ok() {
                if cluster_state(connection, deadline).await == Some(true) {
                    connection.set_cluster_ok(true);
                    signals.refresh.notify_one();
                    signals.changed.notify_waiters();
                }
                continue;
            }
            match connection.ping(deadline).await {
                Ok(()) | Err(CommandError::NotSent(NotSent::TooManyUnanswered)) => {}
                Err(CommandError::TimedOut) => {
                    let ms = options.silence_max.as_millis();
                    return ConnectError::unavailable(&format!("it was silent for {ms} ms"));
                }
                // The connection has ended: its task is about to say so, and knows better.
                Err(_) => return std::future::pending().await,
            }
        }
    }
}

async fn cluster_state(connection: &NodeConnection, deadline: Instant) -> Option<bool> {
    let args = vec![Value::from_static_str("INFO")];
    let reply = connection.command("CLUSTER", args, deadline).await.ok()?;
    Some(is_cluster_ok(reply.as_str()?.as_ref()))
}

/// Half to one and a half of it, so that clients don't come in step.
fn jittered(wait: Duration) -> Duration {
    let permille = RandomState::new().hash_one(0u8) % 1_000;
    wait.mul_f64(0.5 + permille as f64 / 1_000.0)
}
