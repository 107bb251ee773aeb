//! One call, carried through whatever befalls it until its deadline.
//!
//! An attempt ends in an answer, in proof that nothing ran, or in doubt. After proof it is sent
//! again as it was. After doubt it is sent again only when the call says that this is harmless,
//! and then it says of itself that it was sent before. Never waits beyond the deadline, and never
//! sends anything after it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fred::types::Value;

use super::fault::{Code, Fault, NotSent};
use super::node::Node;
use super::router::Router;
use super::shared::Shared;
use crate::model::Slot;
use crate::store::{StoreError, StoreErrorKind};

/// The first pause before a call is tried again where it was refused; each next is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// What is to be run.
pub(super) trait Call: Sync {
    /// The command: a script's, unless said otherwise.
    fn command(&self) -> &'static str {
        "EVALSHA"
    }
    /// `charge`, `refund`, `reset`: the operation in errors.
    fn operation(&self) -> &'static str;
    /// The slot of its keys.
    fn slot(&self) -> Slot;
    /// The command's arguments; `resent` when an earlier attempt may have run.
    fn args(&self, resent: bool) -> Vec<Value>;
    /// Whether running it twice does the same as running it once.
    fn may_repeat(&self) -> bool;
    /// Whether it waits until what a failover lost in its slot was put back.
    fn waits_for_repair(&self) -> bool {
        true
    }
    /// When its answer must be there.
    fn deadline(&self) -> Instant;
}

/// Where the next attempt goes.
enum Next {
    /// To the slot's owner.
    Owner,
    /// Where a node pointed.
    Moved(Arc<Node>),
    /// There too, for once.
    Asking(Arc<Node>),
}

/// What an attempt's fault leads to.
enum Step {
    /// Again, after a pause or at the next change of the cluster.
    Again(Next, Duration),
    /// No attempt can help.
    GiveUp,
}

struct Trial<'a, C> {
    router: &'a Router,
    shared: &'a Shared,
    call: &'a C,
    deadline: Instant,
    /// An attempt may have run.
    doubt: bool,
    pause: Duration,
}

/// A call's answer.
pub(super) struct Answer {
    pub value: Value,
    /// An earlier attempt may have run.
    pub resent: bool,
}

/// Carries a call to its end.
pub(super) async fn run<C: Call>(
    router: &Router,
    shared: &Shared,
    call: &C,
) -> Result<Answer, StoreError> {
    let mut trial = Trial {
        router,
        shared,
        call,
        deadline: call.deadline(),
        doubt: false,
        pause: PAUSE_MIN,
    };
    let value = trial.run().await?;
    Ok(Answer {
        value,
        resent: trial.doubt,
    })
}

impl<C: Call> Trial<'_, C> {
    async fn run(&mut self) -> Result<Value, StoreError> {
        let mut next = Next::Owner;
        let mut last: Option<(StoreErrorKind, String)> = None;
        loop {
            if Instant::now() >= self.deadline {
                let (kind, why) = last.unwrap_or((
                    StoreErrorKind::Deadline,
                    "the deadline had passed before it was sent".into(),
                ));
                return Err(self.error(kind, why));
            }
            if self.call.waits_for_repair()
                && !self
                    .shared
                    .repair
                    .clear(self.call.slot(), self.deadline)
                    .await
            {
                let why = "its slot was still being repaired after a failover";
                return Err(self.error(StoreErrorKind::Unavailable, why.into()));
            }
            let (node, asking) = match next {
                Next::Moved(node) => (Some(node), false),
                Next::Asking(node) => (Some(node), true),
                Next::Owner => {
                    let table = self.router.table();
                    (table.owner(self.call.slot()).cloned(), false)
                }
            };
            let Some(node) = node else {
                let (kind, why) = self.nobody();
                if kind == StoreErrorKind::Refused {
                    return Err(self.error(kind, why));
                }
                last = Some((kind, why));
                self.wait(PAUSE_MAX).await;
                next = Next::Owner;
                continue;
            };
            let scripts = node.scripts_version();
            let fault = match self.attempt(&node, asking).await {
                Ok(value) => return Ok(value),
                Err(fault) => fault,
            };
            self.doubt |= !fault.proves_not_run();
            if fault == Fault::Silent {
                self.shared.doubt();
            }
            last = Some((fault.kind(), fault.describe(node.address())));
            if self.doubt && !self.call.may_repeat() {
                return Err(self.error(fault.kind(), fault.describe(node.address())));
            }
            match self.judge(&fault, &node, scripts).await {
                Step::GiveUp => {
                    return Err(self.error(fault.kind(), fault.describe(node.address())));
                }
                Step::Again(then, pause) => {
                    self.wait(pause).await;
                    next = then;
                }
            }
        }
    }

    async fn attempt(&self, node: &Node, asking: bool) -> Result<Value, Fault> {
        let connection = node.connection()?;
        let (command, args) = (self.call.command(), self.call.args(self.doubt));
        let result = connection.call(command, args, asking, self.deadline).await;
        if command == "EVALSHA" && !matches!(result, Err(Fault::NotSent(_))) {
            self.shared.calls_sent.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// What a fault leads to, when the call may be sent again.
    async fn judge(&mut self, fault: &Fault, node: &Arc<Node>, scripts: u64) -> Step {
        let refusal = match fault {
            Fault::NotSent(NotSent::NoLink(StoreErrorKind::Refused, _)) => return Step::GiveUp,
            Fault::NotSent(NotSent::TooManyUnanswered) => return Step::GiveUp,
            // Cut off from its peers, it is reached and serves nobody: another may have taken over.
            Fault::NotSent(NotSent::ClusterDown) => {
                self.shared.refresh.notify_one();
                return Step::Again(Next::Owner, PAUSE_MAX);
            }
            // It ends when the connection comes, or another node takes over.
            Fault::NotSent(_) => return Step::Again(Next::Owner, PAUSE_MAX),
            Fault::Silent => return Step::GiveUp,
            Fault::Lost(_) => {
                self.shared.refresh.notify_one();
                return Step::Again(Next::Owner, self.longer_pause());
            }
            Fault::Refused(refusal) => refusal,
        };
        match &refusal.code {
            Code::Moved(redirect) => {
                let to = self.router.moved(redirect);
                // Two nodes that point at each other are in the middle of something.
                let pause = self.longer_pause() - PAUSE_MIN;
                Step::Again(to.map_or(Next::Owner, Next::Moved), pause)
            }
            Code::Ask(redirect) => {
                let to = self.router.asked(redirect);
                Step::Again(to.map_or(Next::Owner, Next::Asking), Duration::ZERO)
            }
            Code::NoScript => {
                let loaded = node
                    .reload_scripts(self.shared, scripts, self.deadline)
                    .await;
                let pause = match loaded {
                    Ok(()) => Duration::ZERO,
                    Err(_) => self.longer_pause(),
                };
                Step::Again(Next::Owner, pause)
            }
            Code::ReadOnly | Code::ClusterDown | Code::MasterDown => {
                self.shared.refresh.notify_one();
                Step::Again(Next::Owner, self.longer_pause())
            }
            Code::TryAgain | Code::Loading | Code::Busy => {
                Step::Again(Next::Owner, self.longer_pause())
            }
            Code::OutOfMemory | Code::NoReplicas | Code::Misconfigured => Step::GiveUp,
            Code::Denied | Code::WrongType | Code::Other => Step::GiveUp,
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
        let until = (Instant::now() + pause).min(self.deadline);
        let changed = self.shared.changed.notified();
        let _ = tokio::time::timeout_at(until.into(), changed).await;
    }

    /// Why no node serves the slot.
    fn nobody(&self) -> (StoreErrorKind, String) {
        let slot = self.call.slot().get();
        match self.router.failure() {
            Some(failure) if self.router.table().shards.is_empty() => (failure.kind, failure.why),
            _ => {
                let why = format!("slot {slot} is served by no node");
                (StoreErrorKind::Unavailable, why)
            }
        }
    }

    fn error(&self, kind: StoreErrorKind, detail: String) -> StoreError {
        StoreError {
            operation: self.call.operation(),
            kind,
            detail,
            may_have_run: self.doubt,
        }
    }
}
