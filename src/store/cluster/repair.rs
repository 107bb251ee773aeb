//! Puts back, after a promotion, what the old primary had acknowledged and not replicated.
//!
//! Each node replays its own recent charges of the affected slots from its [`Journal`], by id and
//! at their own instants, before it charges anything there anew: a charge that was replicated is
//! found and stays, one that was lost is there again. So what a failover lets through beyond a
//! limit is what other nodes charge before the last one has replayed. Never replays what was not
//! acknowledged, and never holds a call beyond its deadline.

mod journal;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::journal::Journal;
use super::dispatch::{Command, Dispatcher, EVALSHA};
use super::script::{Acknowledged, ChargeScript, REPLAYS_MAX, RefundScript, ReplayScript};
use super::slot_gate::SlotGate;
use super::supervise::{AbortOnDrop, supervise};
use crate::model::{Micros, Slot, Target};
use crate::store::error::StoreError;
use crate::store::port::{CallKind, ChargeReply};
use crate::store::shard::SlotRanges;

/// Slots that are repaired at the same time.
const AT_ONCE_MAX: usize = 16;
/// How long one replay may take.
const REPLAY_WAIT_MAX: Duration = Duration::from_millis(500);
/// How long after a promotion a slot is tried to be repaired; then it serves as it is.
const REPAIR_WAIT_MAX: Duration = Duration::from_secs(3);
/// Between two attempts at a slot.
const RETRY_WAIT: Duration = Duration::from_millis(20);

/// What was charged lately, and the gate before the slots where some of it may be lost.
#[derive(Debug)]
pub(super) struct Repair {
    journal: Journal,
    gate: Arc<SlotGate>,
    restored: AtomicU64,
}

impl Repair {
    /// Remembers at most `journal_len_max` charges; with 0 nothing is ever repaired.
    pub fn new(journal_len_max: usize, gate: Arc<SlotGate>) -> Self {
        Repair {
            journal: Journal::new(journal_len_max),
            gate,
            restored: AtomicU64::new(0),
        }
    }

    /// Charges that were lost and put back so far.
    pub fn restored(&self) -> u64 {
        self.restored.load(Ordering::Relaxed)
    }

    /// Notes what a call charged. `resent` when an earlier attempt of it may have run: then what
    /// it found charged is its own.
    pub fn note_charge(&self, script: &ChargeScript, reply: &ChargeReply, resent: bool) {
        let call = script.call();
        if call.kind != CallKind::Charge {
            return;
        }
        let now = Instant::now();
        for (request, outcome) in call.requests.iter().zip(&reply.outcomes) {
            let charged = outcome.is_admitted() && (resent || !outcome.repeated);
            if charged && request.cost > 0 {
                let held = request.held_for.unwrap_or(Micros::ZERO);
                let charge = Acknowledged {
                    id: request.id.clone(),
                    cost: request.cost,
                    at: reply.at + held,
                    held,
                };
                self.journal.note(script.slot(), &call.target, charge, now);
            }
        }
    }

    /// Notes what was given back.
    pub fn note_refund(&self, script: &RefundScript) {
        let call = script.call();
        self.journal.give_back(script.slot(), &call.id, call.cost);
    }

    /// Notes that all of a target's charges were forgotten.
    pub fn note_reset(&self, slot: Slot, target: &Target) {
        self.journal.forget(slot, target);
    }

    /// Another node serves these slots: those with charges in the journal are closed until they
    /// were repaired.
    pub fn on_takeover(&self, slots: &SlotRanges) {
        let now = Instant::now();
        self.gate.close(self.journal.slots_in(slots, now), now);
    }

    /// Repairs what is closed, for as long as the task is kept.
    pub fn start(self: Arc<Self>, dispatcher: Arc<Dispatcher>) -> AbortOnDrop<()> {
        supervise("repair after failover".into(), move || {
            Arc::clone(&self).run(Arc::clone(&dispatcher))
        })
    }

    async fn run(self: Arc<Self>, dispatcher: Arc<Dispatcher>) {
        let mut running = tokio::task::JoinSet::new();
        // A predecessor that failed may have left some.
        self.gate.untake();
        loop {
            while running.try_join_next().is_some() {}
            let free = AT_ONCE_MAX.saturating_sub(running.len());
            for (slot, since) in self.gate.take(free) {
                let (repair, dispatcher) = (Arc::clone(&self), Arc::clone(&dispatcher));
                running.spawn(async move { repair.repair_slot(&dispatcher, slot, since).await });
            }
            tokio::select! {
                () = self.gate.work.notified() => {}
                Some(_) = running.join_next() => {}
            }
        }
    }

    async fn repair_slot(&self, dispatcher: &Dispatcher, slot: Slot, since: Instant) {
        let replayed = self.replay_slot(dispatcher, slot).await;
        if let Err(error) = &replayed {
            tracing::debug!(slot = slot.get(), %error, "a replay failed");
        }
        let again = replayed.is_err() && since.elapsed() < REPAIR_WAIT_MAX;
        if again {
            tokio::time::sleep(RETRY_WAIT).await;
        }
        if self.gate.finish(slot, since, again) {
            tracing::info!(restored = self.restored(), "repaired after a failover");
        }
    }

    async fn replay_slot(&self, dispatcher: &Dispatcher, slot: Slot) -> Result<(), StoreError> {
        for (target, charges) in self.journal.of_slot(slot, Instant::now()) {
            for part in charges.chunks(REPLAYS_MAX) {
                let restored = replay(dispatcher, &target, part.to_vec()).await?;
                self.restored.fetch_add(restored, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

async fn replay(
    dispatcher: &Dispatcher,
    target: &Arc<Target>,
    charges: Vec<Acknowledged>,
) -> Result<u64, StoreError> {
    let script = ReplayScript::new(
        &dispatcher.connector.scripts.charging,
        &dispatcher.connector.options.key_prefix,
        Arc::clone(target),
        charges,
        Instant::now() + REPLAY_WAIT_MAX,
    );
    let command = Command {
        name: EVALSHA,
        operation: "replay",
        slot: script.slot(),
        args: &|_| script.args(),
        is_idempotent: true,
        is_repair: true,
        deadline: script.deadline(),
    };
    let reply = dispatcher.run(&command).await?;
    script.decode(reply.value)
}
