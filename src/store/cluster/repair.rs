//! Puts back, after a promotion, what the old primary had acknowledged and not replicated.
//!
//! Each node replays its own recent charges of the affected slots from its [`Journal`], by id and
//! at their own instants, before it charges anything there anew: a charge that was replicated is
//! found and stays, one that was lost is there again. So what a failover lets through beyond a
//! limit is what other nodes charge before the last one has replayed. Never replays what was not
//! acknowledged, and never holds a call beyond its deadline.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fred::types::Value;
use tokio::sync::Notify;

use super::call::{Call, run};
use super::guard::{Owned, keep_running};
use super::journal::Journal;
use super::router::Router;
use super::script::{Acknowledged, ChargeScript, REPLAYS_MAX, ReplayScript};
use super::shared::Shared;
use crate::model::{Micros, Slot, Target};
use crate::store::{CallKind, ChargeReply, SlotRanges};

/// Slots that are repaired at the same time.
const AT_ONCE_MAX: usize = 16;
/// How long one replay may take.
const REPLAY_WAIT_MAX: Duration = Duration::from_millis(500);
/// How long after a promotion a slot is tried to be repaired; then it serves as it is.
const REPAIR_WAIT_MAX: Duration = Duration::from_secs(3);
/// Between two attempts at a slot.
const RETRY_WAIT: Duration = Duration::from_millis(20);

/// A slot that waits for its repair.
#[derive(Clone, Copy)]
struct Waiting {
    since: Instant,
    /// A call waits for it: it comes before the others.
    wanted: bool,
    running: bool,
}

/// What was charged, and which slots must be repaired before anything is charged there anew.
pub(super) struct Repair {
    pub journal: Journal,
    waiting: Mutex<BTreeMap<Slot, Waiting>>,
    /// How many there are: a call on the hot path looks at nothing else.
    count: AtomicUsize,
    restored: AtomicU64,
    work: Notify,
    done: Notify,
}

impl Repair {
    /// Remembers at most `journal_len_max` charges; with 0 nothing is ever repaired.
    pub fn new(journal_len_max: usize) -> Self {
        Repair {
            journal: Journal::new(journal_len_max),
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            restored: AtomicU64::new(0),
            work: Notify::new(),
            done: Notify::new(),
        }
    }

    /// Charges that were lost and put back so far.
    pub fn restored(&self) -> u64 {
        self.restored.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Slot, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a call charged. `resent` when an earlier attempt of it may have run: then what
    /// it found charged is its own.
    pub fn note(&self, script: &ChargeScript, reply: &ChargeReply, resent: bool) {
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

    /// Another node serves these slots: from now on no call goes there before its slot's repair.
    pub fn promoted(&self, slots: &SlotRanges) {
        let now = Instant::now();
        let affected = self.journal.slots_in(slots, now);
        let mut waiting = self.waiting();
        for slot in affected {
            waiting.insert(
                slot,
                Waiting {
                    since: now,
                    wanted: false,
                    running: false,
                },
            );
        }
        self.count.store(waiting.len(), Ordering::Release);
        drop(waiting);
        self.work.notify_one();
    }

    /// Waits until nothing is to be repaired in a slot; false when the deadline came first.
    ///
    /// Cancel safe.
    pub async fn clear(&self, slot: Slot, deadline: Instant) -> bool {
        while self.count.load(Ordering::Acquire) > 0 {
            let mut done = std::pin::pin!(self.done.notified());
            // Before the look, or what is done in between would be missed.
            done.as_mut().enable();
            match self.waiting().get_mut(&slot) {
                None => return true,
                Some(waiting) => waiting.wanted = true,
            }
            self.work.notify_one();
            if tokio::time::timeout_at(deadline.into(), done)
                .await
                .is_err()
            {
                return false;
            }
        }
        true
    }

    /// The next slots to repair: those that calls wait for first.
    fn take(&self, count: usize) -> Vec<(Slot, Instant)> {
        let mut waiting = self.waiting();
        let mut idle: Vec<_> = waiting.iter_mut().filter(|(_, w)| !w.running).collect();
        idle.sort_by_key(|(_, w)| !w.wanted);
        let take = idle.into_iter().take(count).map(|(slot, waiting)| {
            waiting.running = true;
            (*slot, waiting.since)
        });
        take.collect()
    }

    /// A slot's attempt is over; `again` when it must be repeated.
    fn finish(&self, slot: Slot, since: Instant, again: bool) {
        let mut waiting = self.waiting();
        if let Some(entry) = waiting.get_mut(&slot) {
            // A promotion during the attempt began a new wait.
            if again || entry.since != since {
                entry.running = false;
            } else {
                waiting.remove(&slot);
            }
        }
        self.count.store(waiting.len(), Ordering::Release);
        let all_done = waiting.is_empty();
        drop(waiting);
        self.done.notify_waiters();
        if all_done {
            tracing::info!(restored = self.restored(), "repaired after a failover");
        }
    }
}

/// Repairs what waits, for as long as the store lives.
pub(super) fn keep_repairing(shared: &Arc<Shared>, router: &Arc<Router>) -> Owned<()> {
    let (shared, router) = (Arc::clone(shared), Arc::clone(router));
    keep_running("repair after failover".into(), move || {
        let (shared, router) = (Arc::clone(&shared), Arc::clone(&router));
        async move { work(shared, router).await }
    })
}

async fn work(shared: Arc<Shared>, router: Arc<Router>) {
    let mut running = tokio::task::JoinSet::new();
    // A predecessor that failed may have left slots marked as running.
    shared
        .repair
        .waiting()
        .values_mut()
        .for_each(|waiting| waiting.running = false);
    loop {
        while running.try_join_next().is_some() {}
        let free = AT_ONCE_MAX.saturating_sub(running.len());
        for (slot, since) in shared.repair.take(free) {
            let (shared, router) = (Arc::clone(&shared), Arc::clone(&router));
            running.spawn(async move {
                let again = !slot_repaired(&shared, &router, slot).await
                    && since.elapsed() < REPAIR_WAIT_MAX;
                if again {
                    tokio::time::sleep(RETRY_WAIT).await;
                }
                shared.repair.finish(slot, since, again);
            });
        }
        tokio::select! {
            () = shared.repair.work.notified() => {}
            Some(_) = running.join_next() => {}
        }
    }
}

async fn slot_repaired(shared: &Shared, router: &Router, slot: Slot) -> bool {
    for (target, charges) in shared.repair.journal.of_slot(slot, Instant::now()) {
        for part in charges.chunks(REPLAYS_MAX) {
            match replay(shared, router, &target, part.to_vec()).await {
                Ok(restored) => {
                    shared
                        .repair
                        .restored
                        .fetch_add(restored, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::debug!(slot = slot.get(), %error, "a replay failed");
                    return false;
                }
            }
        }
    }
    true
}

async fn replay(
    shared: &Shared,
    router: &Router,
    target: &Arc<Target>,
    charges: Vec<Acknowledged>,
) -> Result<u64, crate::store::StoreError> {
    let script = ReplayScript::new(
        &shared.scripts.charging,
        &shared.options.key_prefix,
        Arc::clone(target),
        charges,
        Instant::now() + REPLAY_WAIT_MAX,
    );
    let answer = run(router, shared, &script).await?;
    script.decode(answer.value)
}

impl Call for ReplayScript {
    fn operation(&self) -> &'static str {
        "replay"
    }

    fn slot(&self) -> Slot {
        ReplayScript::slot(self)
    }

    fn args(&self, _resent: bool) -> Vec<Value> {
        ReplayScript::args(self)
    }

    fn may_repeat(&self) -> bool {
        true
    }

    fn waits_for_repair(&self) -> bool {
        false
    }

    fn deadline(&self) -> Instant {
        ReplayScript::deadline(self)
    }
}
