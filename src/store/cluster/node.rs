//! One node of the store: its connections, what it says of itself, and its scripts.
//!
//! Never knows which slots it serves.

pub(super) mod connection;
pub(super) mod connector;
pub(super) mod error;
pub(super) mod error_reply;
mod info;
mod link;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use self::connection::NodeConnection;
use self::connector::Connector;
use self::error::{CommandError, ConnectError, NotSent};
use self::link::Link;
use self::state::NodeState;
use super::address::NodeAddress;
use super::supervise::AbortOnDrop;

pub(super) use self::info::NodeInfo;

/// One node, with its connections kept up until this is dropped.
#[derive(Debug)]
pub(super) struct Node {
    connector: Arc<Connector>,
    state: Arc<NodeState>,
    links: Vec<Arc<Link>>,
    /// The link whose turn it is.
    turn: AtomicUsize,
    /// How often the scripts were loaded after they had been lost.
    scripts_version: AtomicU64,
    scripts_loading: tokio::sync::Mutex<()>,
    /// It didn't answer the last refresh in time.
    late: AtomicBool,
    _tasks: Vec<AbortOnDrop<()>>,
}

impl Node {
    /// Begins to connect to it.
    pub fn start(connector: &Arc<Connector>, address: NodeAddress) -> Arc<Self> {
        let state = Arc::new(NodeState::new(address));
        let count = connector.options.connections_per_node;
        let links: Vec<Arc<Link>> = (0..count).map(|_| Arc::default()).collect();
        let tasks = links.iter().map(|link| link.start(connector, &state));
        Arc::new(Node {
            connector: Arc::clone(connector),
            _tasks: tasks.collect(),
            state,
            links,
            turn: AtomicUsize::new(0),
            scripts_version: AtomicU64::new(0),
            scripts_loading: tokio::sync::Mutex::new(()),
            late: AtomicBool::new(false),
        })
    }

    pub fn address(&self) -> &NodeAddress {
        &self.state.address
    }

    pub fn info(&self) -> NodeInfo {
        self.state.info()
    }

    /// Whether it was late with its last answer to a refresh; from now on it is, or isn't.
    pub fn replace_late(&self, is_late: bool) -> bool {
        self.late.swap(is_late, Ordering::Relaxed)
    }

    /// Whether it was late with its last answer to a refresh.
    pub fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Why it can't be reached; nothing while it can.
    pub fn error(&self) -> Option<ConnectError> {
        if self.is_up() {
            return None;
        }
        let error = self.state.error();
        Some(error.unwrap_or_else(|| ConnectError::unavailable("not connected yet")))
    }

    pub fn is_up(&self) -> bool {
        self.links.iter().any(|link| link.connection().is_some())
    }

    /// A living connection; in turn, when there are several.
    pub fn connection(&self) -> Result<Arc<NodeConnection>, CommandError> {
        let count = self.links.len();
        let first = match count {
            1 => 0,
            _ => self.turn.fetch_add(1, Ordering::Relaxed) % count,
        };
        let (before, from) = self.links.split_at(first.min(count));
        let mut living = from.iter().chain(before).filter_map(|l| l.connection());
        living.next().ok_or_else(|| {
            let error = self.error();
            let error = error.unwrap_or_else(|| ConnectError::unavailable("it just went"));
            CommandError::NotSent(NotSent::NotConnected(error))
        })
    }

    /// Loads the scripts that came into use; a node that can't be reached gets them when it can.
    pub async fn load_new_scripts(&self, deadline: Instant) {
        if let Ok(connection) = self.connection() {
            connection.load_new(&self.connector.scripts, deadline).await;
        }
    }

    /// How often the scripts were loaded anew; see [`Node::reload_scripts`].
    pub fn scripts_version(&self) -> u64 {
        self.scripts_version.load(Ordering::Acquire)
    }

    /// Loads the scripts again, for a call that saw `version` before it learned that they are
    /// gone. However many calls learn it at once, one loads them.
    pub async fn reload_scripts(
        &self,
        version: u64,
        deadline: Instant,
    ) -> Result<(), CommandError> {
        let loading = tokio::time::timeout_at(deadline.into(), self.scripts_loading.lock());
        let _alone = loading.await.map_err(|_| CommandError::TimedOut)?;
        if self.scripts_version() != version {
            return Ok(());
        }
        tracing::info!(node = %self.address(), "the scripts are gone; loading them again");
        let connection = self.connection()?;
        connection.load(&self.connector.scripts, deadline).await?;
        self.scripts_version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}
