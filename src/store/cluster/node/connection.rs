//! One living connection to a node, and how many calls wait on it.
//!
//! Never sends a call twice, and never outlives its socket: once closed it stays so.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::Options;
use fred::types::{CustomCommand, Value};
use tokio::sync::Notify;

use super::error::{CommandError, NotSent};
use crate::store::cluster::address::NodeAddress;
use crate::store::cluster::script::Script;
use crate::store::cluster::script_set::ScriptSet;

/// How long after its end a connection may still deliver replies.
const SETTLE: Duration = Duration::from_millis(1);

/// A connection that was made and greeted.
#[derive(Debug)]
pub(crate) struct NodeConnection {
    client: Client,
    node: NodeAddress,
    /// Replies come in the order of the calls. So the highest call that was answered tells how
    /// many wait, abandoned ones included, without a word from those who abandoned them.
    sent: AtomicU64,
    answered: AtomicU64,
    unanswered_max: u64,
    /// Whether the node says `cluster_state:ok`; true for a single server.
    cluster_ok: AtomicBool,
    /// How many scripts it was given.
    scripts: AtomicUsize,
    closed: AtomicBool,
    closing: Notify,
}

impl NodeConnection {
    /// Over a client that is connected.
    pub fn new(client: Client, node: NodeAddress, unanswered_max: usize) -> Self {
        NodeConnection {
            client,
            node,
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            unanswered_max: u64::try_from(unanswered_max).unwrap_or(u64::MAX),
            cluster_ok: AtomicBool::new(true),
            scripts: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        }
    }

    /// Whether it can't be used any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends it for all who wait on it.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
    }

    pub fn is_cluster_ok(&self) -> bool {
        self.cluster_ok.load(Ordering::Relaxed)
    }

    pub fn set_cluster_ok(&self, ok: bool) {
        self.cluster_ok.store(ok, Ordering::Relaxed);
    }

    fn reserve(&self) -> Result<u64, CommandError> {
        if self.is_closed() {
            return Err(CommandError::not_connected());
        }
        let answered = self.answered.load(Ordering::Relaxed);
        let sent = self.sent.load(Ordering::Relaxed);
        if sent.saturating_sub(answered) >= self.unanswered_max {
            return Err(CommandError::NotSent(NotSent::TooManyUnanswered));
        }
        Ok(self.sent.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn settle(&self, call: u64, result: &Result<Value, CommandError>) {
        if matches!(result, Ok(_) | Err(CommandError::Reply(_))) {
            self.answered.fetch_max(call, Ordering::Relaxed);
        }
    }

    /// Sends one command and waits for its reply until `deadline`.
    ///
    /// Cancel safe in this sense: a dropped call may still run.
    pub async fn command(
        &self,
        name: &'static str,
        args: Vec<Value>,
        deadline: Instant,
    ) -> Result<Value, CommandError> {
        let call = self.reserve()?;
        let result = self.reply(name, args, deadline).await;
        self.settle(call, &result);
        result
    }

    /// As [`NodeConnection::command`], without its bound: a probe has to get through to learn that
    /// what is waited for was answered.
    async fn reply(
        &self,
        name: &'static str,
        args: Vec<Value>,
        deadline: Instant,
    ) -> Result<Value, CommandError> {
        let options = Options {
            // fred takes zero for "for ever". With its own timer it also doesn't write a command
            // whose caller has given up.
            timeout: Some(left(deadline).max(Duration::from_micros(1))),
            fail_fast: true,
            ..Options::default()
        };
        let command = CustomCommand::new_static(name, ANY_SLOT, false);
        let client = self.client.with_options(&options);
        let reply = pin!(client.custom::<Value, Value>(command, args));
        self.or_closed(reply).await
    }

    /// Waits for a reply, or for the connection's end: a command that is queued in the instant
    /// in which the client's task ends would wait for nothing.
    async fn or_closed(
        &self,
        mut reply: std::pin::Pin<
            &mut (impl Future<Output = Result<Value, fred::error::Error>> + Send),
        >,
    ) -> Result<Value, CommandError> {
        let mut closing = pin!(self.closing.notified());
        closing.as_mut().enable();
        if self.is_closed() {
            return Err(CommandError::not_connected());
        }
        let read =
            |reply: Result<Value, _>| reply.map_err(|e| CommandError::from_fred(&e, &self.node));
        tokio::select! {
            biased;
            result = &mut reply => return read(result),
            () = &mut closing => {}
        }
        // What was written got the connection's error before the task ended.
        match tokio::time::timeout(SETTLE, reply).await {
            Ok(result) => read(result),
            Err(_) => Err(CommandError::Disconnected("it ended".into())),
        }
    }

    /// Sends commands in one write, with nobody else's between them.
    async fn together(
        &self,
        commands: Vec<(&'static str, Vec<Value>)>,
        deadline: Instant,
    ) -> Result<Vec<Result<Value, CommandError>>, CommandError> {
        let error = |e: &fred::error::Error| CommandError::from_fred(e, &self.node);
        let pipeline = self.client.pipeline();
        for (name, args) in commands {
            let command = CustomCommand::new_static(name, ANY_SLOT, false);
            let queued = pipeline.custom::<Value, Value>(command, args).await;
            queued.map_err(|e| error(&e))?;
        }
        let replies = tokio::time::timeout(left(deadline), pipeline.try_all::<Value>());
        let replies = replies.await.map_err(|_| CommandError::TimedOut)?;
        let read = |reply: Result<_, _>| reply.map_err(|e| error(&e));
        Ok(replies.into_iter().map(read).collect())
    }

    /// Sends a command that has a key, unless the node says that the cluster is down: its error
    /// would cost the connection, and all that waits on it. `asking` when the slot's owner passed
    /// it on to this node, to which the slot is moving.
    pub async fn call(
        &self,
        name: &'static str,
        args: Vec<Value>,
        asking: bool,
        deadline: Instant,
    ) -> Result<Value, CommandError> {
        if !self.is_cluster_ok() {
            return Err(CommandError::NotSent(NotSent::ClusterDown));
        }
        if !asking {
            return self.command(name, args, deadline).await;
        }
        let call = self.reserve()?;
        let commands = vec![("ASKING", Vec::new()), (name, args)];
        let replies = self.together(commands, deadline).await;
        let no_reply = || Err(CommandError::Invalid("no reply".into()));
        let result = replies.and_then(|mut all| all.pop().unwrap_or_else(no_reply));
        self.settle(call, &result);
        result
    }

    /// Loads every script in one round trip, and checks that the server knows each by our hash.
    pub async fn load(&self, scripts: &ScriptSet, deadline: Instant) -> Result<(), CommandError> {
        let scripts = scripts.in_use();
        let load = |script: &Arc<Script>| ("SCRIPT", vec!["LOAD".into(), script.text()]);
        let call = self.reserve()?;
        let commands = scripts.iter().map(load).collect();
        let replies = self.together(commands, deadline).await?;
        self.answered.fetch_max(call, Ordering::Relaxed);
        for (script, loaded) in scripts.iter().zip(replies) {
            if loaded? != script.sha1() {
                let name = script.name();
                return Err(CommandError::Invalid(format!(
                    "script {name} has another hash"
                )));
            }
        }
        self.scripts.fetch_max(scripts.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Loads the scripts that came into use since it was given them; warns when it can't.
    pub async fn load_new(&self, scripts: &ScriptSet, deadline: Instant) {
        if scripts.in_use().len() <= self.scripts.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.load(scripts, deadline).await {
            let why = error.describe(&self.node);
            tracing::warn!(why, "the newest scripts aren't loaded yet");
        }
    }

    /// A probe that the bound doesn't stop.
    pub async fn ping(&self, deadline: Instant) -> Result<(), CommandError> {
        let call = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let result = self.reply("PING", Vec::new(), deadline).await;
        self.settle(call, &result);
        match result {
            // A node that answers a PING with an error (LOADING, MASTERDOWN, NOPERM) is alive.
            Ok(_) | Err(CommandError::Reply(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// In centralized mode fred doesn't look at a command's slot.
const ANY_SLOT: fred::types::ClusterHash = fred::types::ClusterHash::Custom(0);

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
