//! The port's operations as calls to a node. Never decides: the scripts do.

use std::sync::atomic::Ordering;
use std::time::Instant;

use fred::types::Value;

use super::ClusterStore;
use super::call::{Call, run};
use super::script::{ChargeScript, RefundScript, reset_keys};
use crate::model::{HashTag, Policies, Slot, Target};
use crate::store::{
    CallKind, ChargeCall, ChargeReply, Readiness, RefundCall, Refunded, ResetCall, ShardId, Store,
    StoreError, StoreErrorKind,
};

impl Store for ClusterStore {
    async fn charge(&self, call: ChargeCall) -> Result<ChargeReply, StoreError> {
        let script = ChargeScript::new(&self.shared.scripts.charging, self.key_prefix(), call)?;
        let answer = run(&self.router, &self.shared, &script).await?;
        let reply = script.decode(answer.value)?;
        self.shared.repair.note(&script, &reply, answer.resent);
        Ok(reply)
    }

    async fn refund(&self, call: RefundCall) -> Result<Refunded, StoreError> {
        let script = RefundScript::new(&self.shared.scripts.charging, self.key_prefix(), call);
        let reply = run(&self.router, &self.shared, &script).await?;
        match script.decode(reply.value)? {
            // An earlier attempt may have found it, and its answer was lost.
            Refunded::NotFound if reply.resent => Err(StoreError::unknown(
                "refund",
                StoreErrorKind::Unavailable,
                "a connection was lost, and now there is nothing to give back",
            )),
            refunded => {
                let RefundCall { id, cost, .. } = script.call();
                self.shared
                    .repair
                    .journal
                    .give_back(script.slot(), id, *cost);
                Ok(refunded)
            }
        }
    }

    async fn reset(&self, call: ResetCall) -> Result<(), StoreError> {
        let keys = reset_keys(self.key_prefix(), &call.target);
        let reset = Reset {
            slot: self.slot_of(&call.target),
            keys,
            deadline: call.deadline,
        };
        run(&self.router, &self.shared, &reset).await?;
        self.shared.repair.journal.forget(reset.slot, &call.target);
        Ok(())
    }

    fn readiness(&self) -> Readiness {
        self.router.readiness()
    }

    fn calls_sent(&self) -> u64 {
        self.shared.calls_sent.load(Ordering::Relaxed)
    }

    fn recoveries(&self) -> u64 {
        self.shared.recoveries.load(Ordering::Relaxed)
    }

    fn prepare(&self, policies: &Policies) {
        self.load_scripts_of(policies);
    }

    fn shard_of(&self, target: &Target) -> ShardId {
        self.router.shard_of(self.slot_of(target))
    }
}

impl ClusterStore {
    /// The slot of all keys of a target.
    pub fn slot_of(&self, target: &Target) -> Slot {
        let tag = HashTag::of(&target.subject);
        Slot::of(tag.stem(self.key_prefix(), &target.policy.name).as_bytes())
    }
}

impl Call for ChargeScript {
    fn operation(&self) -> &'static str {
        match self.call().kind {
            CallKind::Charge => "charge",
            CallKind::Peek => "peek",
        }
    }

    fn slot(&self) -> Slot {
        ChargeScript::slot(self)
    }

    fn args(&self, resent: bool) -> Vec<Value> {
        ChargeScript::args(self, resent)
    }

    fn may_repeat(&self) -> bool {
        ChargeScript::may_repeat(self)
    }

    fn deadline(&self) -> Instant {
        self.call().deadline
    }
}

impl Call for RefundScript {
    fn operation(&self) -> &'static str {
        "refund"
    }

    fn slot(&self) -> Slot {
        RefundScript::slot(self)
    }

    fn args(&self, _resent: bool) -> Vec<Value> {
        RefundScript::args(self)
    }

    fn may_repeat(&self) -> bool {
        RefundScript::may_repeat(self)
    }

    fn deadline(&self) -> Instant {
        self.call().deadline
    }
}

struct Reset {
    slot: Slot,
    keys: Vec<String>,
    deadline: Instant,
}

impl Call for Reset {
    fn command(&self) -> &'static str {
        "UNLINK"
    }

    fn operation(&self) -> &'static str {
        "reset"
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    fn args(&self, _resent: bool) -> Vec<Value> {
        self.keys
            .iter()
            .map(|key| Value::from(key.as_str()))
            .collect()
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }
}
