//! Why a cluster under test could not be started, observed or hurt: the cause, and the cure.

use std::io;
use std::time::Duration;

/// What went wrong with a cluster under test.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A program that the cluster needs can't be run.
    #[error("can't run {program:?}: {source}. {cure}")]
    Program {
        /// Its name or path.
        program: String,
        /// What to install or set.
        cure: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A node ended by itself.
    #[error("node {node} ended by itself ({status}); the end of its log:\n{log}")]
    NodeEnded {
        /// The node's index.
        node: usize,
        /// How it ended.
        status: String,
        /// The last lines that it wrote.
        log: String,
    },
    /// A state that was waited for didn't come.
    #[error("gave up waiting for {what} after {:.1} s; last seen: {seen}", waited.as_secs_f64())]
    TimedOut {
        /// What was waited for.
        what: String,
        /// What was there instead.
        seen: String,
        /// For how long.
        waited: Duration,
    },
    /// A state that is waited for isn't there yet.
    #[error("not yet: {0}")]
    NotYet(String),
    /// A node didn't answer.
    #[error("node {node} didn't answer {command:?}: {source}")]
    NoAnswer {
        /// The node's index.
        node: usize,
        /// The command's words.
        command: String,
        /// What the connection said.
        source: io::Error,
    },
    /// A node answered with an error.
    #[error("node {node} refused {command:?}: {message}")]
    Refused {
        /// The node's index.
        node: usize,
        /// The command's words.
        command: String,
        /// The node's error, its code word first.
        message: String,
    },
    /// A node's answer isn't what the command is documented to answer.
    #[error("node {node} answered {command:?} with {reply}")]
    Unexpected {
        /// The node's index.
        node: usize,
        /// The command's words.
        command: String,
        /// What it answered.
        reply: String,
    },
    /// What was asked can't be done on this machine, or by this kind of cluster.
    #[error("{what} can't be done here: {why}. {cure}")]
    Unsupported {
        /// What was asked.
        what: String,
        /// What stands against it.
        why: String,
        /// What to do instead.
        cure: String,
    },
    /// There is no such node.
    #[error("there is no node {node}: this cluster has {count}, counted from 0")]
    NoSuchNode {
        /// The index asked for.
        node: usize,
        /// How many there are.
        count: usize,
    },
    /// The Docker engine refused or failed.
    #[error("Docker: {operation} failed: {message}")]
    Docker {
        /// What was tried.
        operation: String,
        /// The engine's words.
        message: String,
    },
    /// An operation on this machine failed.
    #[error("{operation} failed: {source}")]
    Io {
        /// What was tried.
        operation: String,
        /// The operating system's answer.
        source: io::Error,
    },
}

impl ClusterError {
    /// A node's own, or that there is no such node.
    pub(crate) fn no_such_node<T>(own: Option<T>, node: usize, count: usize) -> Result<T, Self> {
        own.ok_or(Self::NoSuchNode { node, count })
    }

    /// An [`ClusterError::Io`] for `map_err`.
    pub(crate) fn io(operation: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let operation = operation.into();
        move |source| Self::Io { operation, source }
    }
}
