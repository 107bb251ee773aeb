//! What a cluster under test should be like. Never reads the environment but for its defaults.

use std::path::PathBuf;
use std::time::Duration;

use super::ClusterKind;

/// How many nodes there are, and what they are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One node without cluster mode.
    Single,
    /// Nodes `0..primaries` are primaries, node `primaries + i` is the replica of node `i`.
    Cluster {
        /// Shards; each has one replica or none.
        primaries: usize,
        /// How many of them have a replica.
        replicas: usize,
    },
}

impl Shape {
    pub(crate) fn node_count(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Cluster {
                primaries,
                replicas,
            } => primaries + replicas,
        }
    }
}

/// What to start. The default: three primaries, three replicas, node timeout 1 s, no persistence.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    pub(crate) shape: Shape,
    pub(crate) program: PathBuf,
    pub(crate) node_timeout: Duration,
    pub(crate) persistent: bool,
    pub(crate) proxied: bool,
    pub(crate) kind: Option<ClusterKind>,
    pub(crate) password: Option<String>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) start_timeout: Duration,
}

impl Default for ClusterSpec {
    fn default() -> Self {
        Self {
            shape: Shape::Cluster {
                primaries: 3,
                replicas: 3,
            },
            program: std::env::var_os("TIDEGATE_REDIS_SERVER")
                .filter(|path| !path.is_empty())
                .map_or_else(|| PathBuf::from("redis-server"), PathBuf::from),
            node_timeout: Duration::from_millis(1000),
            persistent: false,
            proxied: false,
            kind: None,
            password: None,
            settings: Vec::new(),
            start_timeout: Duration::from_secs(30),
        }
    }
}

impl ClusterSpec {
    /// One node without cluster mode.
    #[must_use]
    pub fn single() -> Self {
        Self {
            shape: Shape::Single,
            ..Self::default()
        }
    }

    /// A cluster of `primaries` shards (at least 3, so that a majority can elect), each with a
    /// replica or none.
    #[must_use]
    pub fn shards(primaries: usize, with_replicas: bool) -> Self {
        let primaries = primaries.clamp(3, 20);
        Self {
            shape: Shape::Cluster {
                primaries,
                replicas: if with_replicas { primaries } else { 0 },
            },
            ..Self::default()
        }
    }

    /// The server's program, for clusters of processes; by default `TIDEGATE_REDIS_SERVER`, else
    /// `redis-server` from the path.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// How long a node may be silent before its replica takes over, in whole milliseconds.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Whether the data survive a restart of a node (append-only file, synced each second).
    #[must_use]
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Whether a proxy stands before each node: clients are told its address instead of the
    /// node's, while the nodes speak to each other directly. On Linux only.
    #[must_use]
    pub fn proxied(mut self, proxied: bool) -> Self {
        self.proxied = proxied;
        self
    }

    /// What the nodes are, instead of what `TIDEGATE_CLUSTER` says.
    #[must_use]
    pub fn kind(mut self, kind: ClusterKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The password of the default user, on every node.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// One more line of every node's configuration file: a directive, and its values as they
    /// would stand there. Later ones win.
    #[must_use]
    pub fn setting(mut self, directive: impl Into<String>, values: impl Into<String>) -> Self {
        self.settings.push((directive.into(), values.into()));
        self
    }
}

/// What is done to one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeAction {
    Kill,
    Stop,
    Start,
    Pause,
    Resume,
}
