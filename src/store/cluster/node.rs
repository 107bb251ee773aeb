//! One node of the store: its connections, what it says of itself, and its scripts.
//!
//! Never knows which slots it serves.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::address::NodeAddress;
use super::connection::Connection;
use super::fault::{Fault, NotSent};
use super::guard::Owned;
use super::info::NodeInfo;
use super::link::{Link, LinkFailure};
use super::shared::Shared;
use crate::store::StoreErrorKind;

/// What a node's links know of it.
pub(super) struct NodeState {
    pub address: NodeAddress,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    info: NodeInfo,
    failure: Option<LinkFailure>,
    warned: Option<NodeInfo>,
}

impl NodeState {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what the node says of itself; warns once of what is wrong with it.
    pub fn introduce(&self, info: NodeInfo) {
        let mut seen = self.seen();
        if seen.warned.as_ref() != Some(&info) {
            info.warn(&self.address);
            seen.warned = Some(info.clone());
        }
        seen.info = info;
    }

    /// Keeps why there is no connection; the log has it once a change.
    pub fn fail(&self, failure: &LinkFailure) {
        let mut seen = self.seen();
        if seen.failure.as_ref() != Some(failure) {
            tracing::warn!(node = %self.address, why = %failure.why, "no connection");
            seen.failure = Some(failure.clone());
        }
    }

    /// There is a connection again.
    pub fn recover(&self) {
        self.seen().failure = None;
        tracing::info!(node = %self.address, "connected");
    }
}

/// One node, with its connections kept up until this is dropped.
pub(super) struct Node {
    state: Arc<NodeState>,
    links: Vec<Arc<Link>>,
    turn: AtomicUsize,
    /// Counts how often the scripts were loaded after they had been lost.
    scripts_loaded: AtomicU64,
    scripts_loading: tokio::sync::Mutex<()>,
    /// It didn't answer the last reading of the slot table in time.
    late: AtomicBool,
    _keepers: Vec<Owned<()>>,
}

impl Node {
    /// Begins to connect to it.
    pub fn start(shared: &Arc<Shared>, address: NodeAddress) -> Arc<Self> {
        let state = Arc::new(NodeState {
            address,
            seen: Mutex::default(),
        });
        let count = shared.options.connections_per_node;
        let links: Vec<Arc<Link>> = (0..count).map(|_| Arc::default()).collect();
        let keepers = links.iter().map(|link| link.keep(shared, &state)).collect();
        Arc::new(Node {
            state,
            links,
            turn: AtomicUsize::new(0),
            scripts_loaded: AtomicU64::new(0),
            scripts_loading: tokio::sync::Mutex::new(()),
            late: AtomicBool::new(false),
            _keepers: keepers,
        })
    }

    pub fn address(&self) -> &NodeAddress {
        &self.state.address
    }

    pub fn info(&self) -> NodeInfo {
        self.state.seen().info.clone()
    }

    /// Whether it was late with its last answer about the slot table; from now on it is, or isn't.
    pub fn was_late(&self, is_late: bool) -> bool {
        self.late.swap(is_late, Ordering::Relaxed)
    }

    /// Whether it was late with its last answer about the slot table.
    pub fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Why it can't be reached; nothing while it can.
    pub fn failure(&self) -> Option<LinkFailure> {
        if self.is_up() {
            return None;
        }
        let failure = self.state.seen().failure.clone();
        Some(failure.unwrap_or_else(|| LinkFailure {
            kind: StoreErrorKind::Unavailable,
            why: "not connected yet".into(),
        }))
    }

    pub fn is_up(&self) -> bool {
        self.links.iter().any(|link| link.connection().is_some())
    }

    /// A living connection; in turn, when there are several.
    pub fn connection(&self) -> Result<Arc<Connection>, Fault> {
        let count = self.links.len();
        let first = match count {
            1 => 0,
            _ => self.turn.fetch_add(1, Ordering::Relaxed) % count,
        };
        let (before, from) = self.links.split_at(first.min(count));
        let mut living = from.iter().chain(before).filter_map(|l| l.connection());
        living.next().ok_or_else(|| {
            let failure = self.failure().unwrap_or(LinkFailure {
                kind: StoreErrorKind::Unavailable,
                why: "it just went".into(),
            });
            Fault::NotSent(NotSent::NoLink(failure.kind, failure.why))
        })
    }

    /// How often the scripts were loaded anew; see [`Node::reload_scripts`].
    pub fn scripts_version(&self) -> u64 {
        self.scripts_loaded.load(Ordering::Acquire)
    }

    /// Loads the scripts again, for a call that saw `version` before it learned that they are
    /// gone. However many calls learn it at once, one loads them.
    pub async fn reload_scripts(
        &self,
        shared: &Shared,
        version: u64,
        deadline: Instant,
    ) -> Result<(), Fault> {
        let loading = tokio::time::timeout_at(deadline.into(), self.scripts_loading.lock());
        let _alone = loading.await.map_err(|_| Fault::Silent)?;
        if self.scripts_version() != version {
            return Ok(());
        }
        tracing::info!(node = %self.address(), "the scripts are gone; loading them again");
        self.connection()?.load(&shared.scripts, deadline).await?;
        self.scripts_loaded.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}
