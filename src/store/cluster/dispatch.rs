//! Carries a command to the node that owns its slot, through redirects and broken connections,
//! until its deadline.
//!
//! An attempt ends in a reply, in proof that nothing ran, or in neither. After proof it is sent
//! again as it was. After neither it is sent again only when the command says that this is
//! harmless, and then it says of itself that it was sent before. Never waits beyond the deadline,
//! and never sends anything after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fred::types::Value;

use super::node::Node;
use super::node::connector::Connector;
use super::node::error::{CommandError, NotSent};
use super::node::error_reply::{ErrorCode, ErrorReply};
use super::slot_gate::SlotGate;
use super::topology::Topology;
use crate::model::Slot;
use crate::store::error::{StoreError, StoreErrorKind};

/// The first pause before another attempt after an error; each next is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A script's command; others are few.
pub(super) const EVALSHA: &str = "EVALSHA";

/// A command whose keys are all in one slot.
pub(super) struct Command<'a> {
    /// [`EVALSHA`], or another.
    pub name: &'static str,
    /// `charge`, `refund`, `reset`: the operation in errors.
    pub operation: &'static str,
    pub slot: Slot,
    /// Its arguments; given whether an earlier attempt may have run.
    pub args: &'a (dyn Fn(bool) -> Vec<Value> + Sync),
    /// Whether running it twice does the same as running it once.
    pub is_idempotent: bool,
    /// Whether it runs also while its slot is closed for repair.
    pub is_repair: bool,
    /// When its reply must be there.
    pub deadline: Instant,
}

/// A command's reply.
pub(super) struct Reply {
    pub value: Value,
    /// An earlier attempt may have run.
    pub resent: bool,
}

/// Finds the way of each command.
pub(super) struct Dispatcher {
    pub connector: Arc<Connector>,
    pub topology: Arc<Topology>,
    pub gate: Arc<SlotGate>,
    /// Script calls sent so far.
    scripts_sent: AtomicU64,
}

/// Where the next attempt goes.
enum Next {
    /// To the slot's owner.
    Owner,
    /// Where MOVED pointed.
    Moved(Arc<Node>),
    /// Where ASK pointed, for once.
    Asking(Arc<Node>),
}

/// What an attempt's error leads to: where the next attempt goes, after a pause or at the next
/// change of the cluster. Nothing when no attempt can help.
type Retry = Option<(Next, Duration)>;

/// One command's attempts.
struct Attempts<'a> {
    dispatcher: &'a Dispatcher,
    command: &'a Command<'a>,
    /// One of them may have run.
    may_have_run: bool,
    pause: Duration,
}

impl Dispatcher {
    pub fn new(connector: Arc<Connector>, topology: Arc<Topology>, gate: Arc<SlotGate>) -> Self {
        Dispatcher {
            connector,
            topology,
            gate,
            scripts_sent: AtomicU64::new(0),
        }
    }

    /// Script calls sent so far.
    pub fn scripts_sent(&self) -> u64 {
        self.scripts_sent.load(Ordering::Relaxed)
    }

    /// Carries a command to its end.
    pub async fn run(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        let mut attempts = Attempts {
            dispatcher: self,
            command,
            may_have_run: false,
            pause: PAUSE_MIN,
        };
        // On the heap, so that programs which wrap a check in futures of their own stay within the
        // compiler's depth limit.
        let value = Box::pin(attempts.run()).await?;
        Ok(Reply {
            value,
            resent: attempts.may_have_run,
        })
    }
}

impl Attempts<'_> {
    async fn run(&mut self) -> Result<Value, StoreError> {
        let Dispatcher { topology, gate, .. } = self.dispatcher;
        let (slot, deadline) = (self.command.slot, self.command.deadline);
        let mut next = Next::Owner;
        let mut last: Option<(StoreErrorKind, String)> = None;
        loop {
            if Instant::now() >= deadline {
                let (kind, why) = last.unwrap_or((
                    StoreErrorKind::Deadline,
                    "the deadline had passed before it was sent".into(),
                ));
                return Err(self.error(kind, why));
            }
            if !self.command.is_repair && !gate.pass(slot, deadline).await {
                let why = "its slot was still being repaired after a failover";
                return Err(self.error(StoreErrorKind::Unavailable, why.into()));
            }
            let (node, asking) = match next {
                Next::Moved(node) => (Some(node), false),
                Next::Asking(node) => (Some(node), true),
                Next::Owner => (topology.slot_map().owner(slot).cloned(), false),
            };
            let Some(node) = node else {
                let (kind, why) = self.no_owner();
                if kind == StoreErrorKind::Refused {
                    return Err(self.error(kind, why));
                }
                last = Some((kind, why));
                self.wait(PAUSE_MAX).await;
                next = Next::Owner;
                continue;
            };
            let scripts_version = node.scripts_version();
            let error = match self.send(&node, asking).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            self.may_have_run |= !error.proves_not_run();
            if error == CommandError::TimedOut {
                topology.suspect();
            }
            let (kind, why) = (error.kind(), error.describe(node.address()));
            if self.may_have_run && !self.command.is_idempotent {
                return Err(self.error(kind, why));
            }
            match self.retry_after(&error, &node, scripts_version).await {
                None => return Err(self.error(kind, why)),
                Some((then, pause)) => {
                    self.wait(pause).await;
                    next = then;
                }
            }
            last = Some((kind, why));
        }
    }

    async fn send(&self, node: &Node, asking: bool) -> Result<Value, CommandError> {
        let Command { name, deadline, .. } = *self.command;
        let connection = node.connection()?;
        let args = (self.command.args)(self.may_have_run);
        let result = connection.call(name, args, asking, deadline).await;
        if name == EVALSHA && !matches!(result, Err(CommandError::NotSent(_))) {
            let sent = &self.dispatcher.scripts_sent;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// What an error leads to, when the command may be sent again.
    async fn retry_after(
        &mut self,
        error: &CommandError,
        node: &Arc<Node>,
        scripts_version: u64,
    ) -> Retry {
        let refresh = &self.dispatcher.connector.signals.refresh;
        match error {
            CommandError::Reply(reply) => {
                self.retry_after_reply(reply, node, scripts_version).await
            }
            CommandError::NotSent(NotSent::NotConnected(error))
                if error.kind == StoreErrorKind::Refused =>
            {
                None
            }
            CommandError::NotSent(NotSent::TooManyUnanswered) | CommandError::TimedOut => None,
            // Cut off from its peers, it is reached and serves nobody: another may have taken over.
            CommandError::NotSent(NotSent::ClusterDown) => {
                refresh.notify_one();
                Some((Next::Owner, PAUSE_MAX))
            }
            // It ends when the connection comes, or another node takes over.
            CommandError::NotSent(NotSent::NotConnected(_)) => Some((Next::Owner, PAUSE_MAX)),
            CommandError::Disconnected(_) | CommandError::Invalid(_) => {
                refresh.notify_one();
                Some((Next::Owner, self.longer_pause()))
            }
        }
    }

    async fn retry_after_reply(
        &mut self,
        reply: &ErrorReply,
        node: &Arc<Node>,
        scripts_version: u64,
    ) -> Retry {
        let topology = &self.dispatcher.topology;
        match &reply.code {
            ErrorCode::Moved(redirect) => {
                let to = topology.follow_moved(redirect);
                // Two nodes that point at each other are in the middle of something.
                let pause = self.longer_pause() - PAUSE_MIN;
                Some((to.map_or(Next::Owner, Next::Moved), pause))
            }
            ErrorCode::Ask(redirect) => {
                let to = topology.follow_ask(redirect);
                Some((to.map_or(Next::Owner, Next::Asking), Duration::ZERO))
            }
            ErrorCode::NoScript => {
                let loaded = node.reload_scripts(scripts_version, self.command.deadline);
                let pause = match loaded.await {
                    Ok(()) => Duration::ZERO,
                    Err(_) => self.longer_pause(),
                };
                Some((Next::Owner, pause))
            }
            ErrorCode::ReadOnly | ErrorCode::ClusterDown | ErrorCode::MasterDown => {
                self.dispatcher.connector.signals.refresh.notify_one();
                Some((Next::Owner, self.longer_pause()))
            }
            ErrorCode::TryAgain | ErrorCode::Loading | ErrorCode::Busy => {
                Some((Next::Owner, self.longer_pause()))
            }
            ErrorCode::OutOfMemory | ErrorCode::NoReplicas | ErrorCode::Misconfigured => None,
            ErrorCode::NotAllowed | ErrorCode::WrongType | ErrorCode::Other => None,
        }
    }

    fn longer_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        pause
    }

    /// Waits for a change of the cluster, at most so long, and not beyond the deadline.
    async fn wait(&self, pause: Duration) {
        if pause.is_zero() {
            return;
        }
        let until = (Instant::now() + pause).min(self.command.deadline);
        let changed = self.dispatcher.connector.signals.changed.notified();
        let _ = tokio::time::timeout_at(until.into(), changed).await;
    }

    /// Why no node serves the slot.
    fn no_owner(&self) -> (StoreErrorKind, String) {
        let (topology, slot) = (&self.dispatcher.topology, self.command.slot.get());
        match topology.connect_error() {
            Some(error) if topology.slot_map().shards.is_empty() => (error.kind, error.detail),
            _ => {
                let why = format!("slot {slot} is served by no node");
                (StoreErrorKind::Unavailable, why)
            }
        }
    }

    fn error(&self, kind: StoreErrorKind, detail: String) -> StoreError {
        StoreError {
            operation: self.command.operation,
            kind,
            detail,
            may_have_run: self.may_have_run,
        }
    }
}
