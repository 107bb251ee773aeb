//! The port's operations as commands to a node. Never decides: the scripts do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fred::types::Value;
use tokio::sync::broadcast;

use super::dispatch::{Command, Dispatcher, EVALSHA};
use super::node::connector::Connector;
use super::options::{ClusterOptions, ClusterOptionsError};
use super::repair::Repair;
use super::script::{ChargeScript, RefundScript, reset_keys};
use super::script_set::ScriptSet;
use super::slot_check::misplaced_key;
use super::slot_gate::SlotGate;
use super::supervise::AbortOnDrop;
use super::topology::Topology;
use crate::model::{HashTag, KeyPrefix, Policies, Slot, Target};
use crate::store::error::{StoreError, StoreErrorKind};
use crate::store::port::{
    CallKind, ChargeCall, ChargeReply, Readiness, RefundCall, Refunded, ResetCall, Store,
};
use crate::store::shard::{ShardEvent, ShardId};

/// How long a node may take to load scripts.
const LOAD_WAIT_MAX: Duration = Duration::from_secs(1);

/// The store on Redis or Valkey. Connects in the background and for ever: it can be built before
/// any server is there, and says by [`Store::readiness`] what it still waits for. Dropped, it ends
/// its connections.
pub struct ClusterStore {
    dispatcher: Arc<Dispatcher>,
    repair: Arc<Repair>,
    runtime: tokio::runtime::Handle,
    _topology_task: AbortOnDrop<()>,
    _repair_task: AbortOnDrop<()>,
}

impl ClusterStore {
    /// A store that begins to connect at once.
    ///
    /// # Errors
    /// When the options contradict themselves, a TLS file can't be read, or no tokio runtime
    /// runs here. Never because a server can't be reached.
    pub fn connect(options: ClusterOptions) -> Result<Self, ClusterOptionsError> {
        let runtime =
            tokio::runtime::Handle::try_current().map_err(|_| ClusterOptionsError::NoRuntime)?;
        if let Some(key) = misplaced_key(&options.key_prefix) {
            return Err(ClusterOptionsError::MisplacedKey(key));
        }
        let connector = Arc::new(Connector::new(options)?);
        let gate = Arc::new(SlotGate::default());
        let journal_len_max = connector.options.journal_len_max;
        let repair = Arc::new(Repair::new(journal_len_max, Arc::clone(&gate)));
        let listener = Arc::clone(&repair);
        let on_takeover = Box::new(move |slots: &_| listener.on_takeover(slots));
        let (topology, topology_task) = Topology::start(&connector, on_takeover);
        let dispatcher = Arc::new(Dispatcher::new(connector, topology, gate));
        let repair_task = Arc::clone(&repair).start(Arc::clone(&dispatcher));
        Ok(ClusterStore {
            dispatcher,
            repair,
            runtime,
            _topology_task: topology_task,
            _repair_task: repair_task,
        })
    }

    /// What happens to the shards from now on: promotions (a journal of charges is replayed
    /// then), slots that moved, shards that are lost and found. A listener that falls behind by
    /// more than `events_len_max` loses the oldest.
    pub fn shard_events(&self) -> broadcast::Receiver<ShardEvent> {
        self.dispatcher.topology.events()
    }

    /// Charges that a failover had lost and that this store put back so far.
    pub fn restored(&self) -> u64 {
        self.repair.restored()
    }

    /// Waits until it is ready, at most so long.
    ///
    /// # Errors
    /// What it still waits for then.
    pub async fn wait_ready(&self, wait_max: Duration) -> Result<(), String> {
        let until = Instant::now() + wait_max;
        loop {
            let changed = self.dispatcher.connector.signals.changed.notified();
            let why = match self.readiness() {
                Readiness::Ready => return Ok(()),
                Readiness::NotReady(why) => why,
            };
            if Instant::now() >= until {
                return Err(why);
            }
            let step = (Instant::now() + Duration::from_millis(20)).min(until);
            let _ = tokio::time::timeout_at(step.into(), changed).await;
        }
    }

    pub(super) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    pub(super) fn key_prefix(&self) -> &KeyPrefix {
        &self.dispatcher.connector.options.key_prefix
    }

    pub(super) fn scripts(&self) -> &ScriptSet {
        &self.dispatcher.connector.scripts
    }

    /// The slot of all keys of a target.
    fn slot_of(&self, target: &Target) -> Slot {
        let tag = HashTag::of(&target.subject);
        Slot::of(tag.stem(self.key_prefix(), &target.policy.name).as_bytes())
    }
}

impl Store for ClusterStore {
    async fn charge(&self, call: ChargeCall) -> Result<ChargeReply, StoreError> {
        let script = ChargeScript::new(&self.scripts().charging, self.key_prefix(), call)?;
        let command = Command {
            name: EVALSHA,
            operation: match script.call().kind {
                CallKind::Charge => "charge",
                CallKind::Peek => "peek",
            },
            slot: script.slot(),
            args: &|resent| script.args(resent),
            is_idempotent: script.may_repeat(),
            is_repair: false,
            deadline: script.call().deadline,
        };
        let reply = self.dispatcher.run(&command).await?;
        let charged = script.decode(reply.value)?;
        self.repair.note_charge(&script, &charged, reply.resent);
        Ok(charged)
    }

    async fn refund(&self, call: RefundCall) -> Result<Refunded, StoreError> {
        let script = RefundScript::new(&self.scripts().charging, self.key_prefix(), call);
        let command = Command {
            name: EVALSHA,
            operation: "refund",
            slot: script.slot(),
            args: &|_| script.args(),
            is_idempotent: script.may_repeat(),
            is_repair: false,
            deadline: script.call().deadline,
        };
        let reply = self.dispatcher.run(&command).await?;
        let refunded = script.decode(reply.value)?;
        if refunded == Refunded::NotFound && reply.resent {
            // An earlier attempt may have found it, and its answer was lost.
            let why = "a connection was lost, and now there is nothing to give back";
            let kind = StoreErrorKind::Unavailable;
            return Err(StoreError::unknown("refund", kind, why));
        }
        self.repair.note_refund(&script);
        Ok(refunded)
    }

    async fn reset(&self, call: ResetCall) -> Result<(), StoreError> {
        let keys = reset_keys(self.key_prefix(), &call.target);
        let slot = self.slot_of(&call.target);
        let command = Command {
            name: "UNLINK",
            operation: "reset",
            slot,
            args: &|_| keys.iter().map(|key| Value::from(key.as_str())).collect(),
            is_idempotent: true,
            is_repair: false,
            deadline: call.deadline,
        };
        self.dispatcher.run(&command).await?;
        self.repair.note_reset(slot, &call.target);
        Ok(())
    }

    fn readiness(&self) -> Readiness {
        self.dispatcher.topology.readiness()
    }

    fn calls_sent(&self) -> u64 {
        self.dispatcher.scripts_sent()
    }

    fn recoveries(&self) -> u64 {
        self.dispatcher.topology.recoveries()
    }

    /// Composes the scripts of these policies and loads them on every node, so that no call has
    /// to. Without it the first call of each kind on each node takes two round trips more.
    fn prepare(&self, policies: &Policies) {
        if !self.scripts().compose(self.key_prefix(), policies) {
            return;
        }
        for node in self.dispatcher.topology.nodes() {
            self.runtime.spawn(async move {
                let deadline = Instant::now() + LOAD_WAIT_MAX;
                node.load_new_scripts(deadline).await;
            });
        }
    }

    fn shard_of(&self, target: &Target) -> ShardId {
        self.dispatcher.topology.shard_of(self.slot_of(target))
    }
}

impl std::fmt::Debug for ClusterStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterStore")
            .field("options", &self.dispatcher.connector.options)
            .finish_non_exhaustive()
    }
}
