//! Slots that are closed until they were repaired, and who waits for them. Never repairs.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Notify;

use crate::model::Slot;
use crate::store::lock::lock;

/// A closed slot.
#[derive(Clone, Copy, Debug)]
struct Closed {
    since: Instant,
    /// A call waits for it: it comes before the others.
    is_wanted: bool,
    /// Its repair runs.
    is_taken: bool,
}

/// Which slots are closed.
#[derive(Debug, Default)]
pub(super) struct SlotGate {
    closed: Mutex<BTreeMap<Slot, Closed>>,
    /// How many there are: a call on the hot path looks at nothing else.
    count: AtomicUsize,
    /// There may be a slot to take.
    pub work: Notify,
    opened: Notify,
}

impl SlotGate {
    /// From now on no call passes that waits for these.
    pub fn close(&self, slots: Vec<Slot>, since: Instant) {
        let mut closed = lock(&self.closed);
        let entry = Closed {
            since,
            is_wanted: false,
            is_taken: false,
        };
        closed.extend(slots.into_iter().map(|slot| (slot, entry)));
        self.count.store(closed.len(), Ordering::Release);
        drop(closed);
        self.work.notify_one();
    }

    /// Waits until a slot is open; false when the deadline came first.
    ///
    /// Cancel safe.
    pub async fn pass(&self, slot: Slot, deadline: Instant) -> bool {
        while self.count.load(Ordering::Acquire) > 0 {
            let mut opened = pin!(self.opened.notified());
            // Before the look, or what is opened in between would be missed.
            opened.as_mut().enable();
            match lock(&self.closed).get_mut(&slot) {
                None => return true,
                Some(closed) => closed.is_wanted = true,
            }
            self.work.notify_one();
            let opened = tokio::time::timeout_at(deadline.into(), opened);
            if opened.await.is_err() {
                return false;
            }
        }
        true
    }

    /// Takes slots to repair, and says since when they are closed: those that calls wait for
    /// first.
    pub fn take(&self, count: usize) -> Vec<(Slot, Instant)> {
        let mut closed = lock(&self.closed);
        let mut idle: Vec<_> = closed.iter_mut().filter(|(_, c)| !c.is_taken).collect();
        idle.sort_by_key(|(_, closed)| !closed.is_wanted);
        let take = idle.into_iter().take(count).map(|(slot, closed)| {
            closed.is_taken = true;
            (*slot, closed.since)
        });
        take.collect()
    }

    /// Takes back all that were taken: who took them failed.
    pub fn untake(&self) {
        let mut closed = lock(&self.closed);
        closed.values_mut().for_each(|c| c.is_taken = false);
    }

    /// A taken slot's repair is over; `again` when it must be repeated. Whether all are open now.
    pub fn finish(&self, slot: Slot, since: Instant, again: bool) -> bool {
        let mut closed = lock(&self.closed);
        if let Some(entry) = closed.get_mut(&slot) {
            // When it was closed meanwhile once more, that repair is still to come.
            if again || entry.since != since {
                entry.is_taken = false;
            } else {
                closed.remove(&slot);
            }
        }
        self.count.store(closed.len(), Ordering::Release);
        let all_open = closed.is_empty();
        drop(closed);
        self.opened.notify_waiters();
        all_open
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_closed_slot_holds_calls_until_its_last_repair_and_those_waited_for_come_first() {
        let gate = SlotGate::default();
        let [a, b, other] = [1, 2, 3].map(|n| Slot::new(n).unwrap());
        let now = Instant::now();
        let soon = || tokio::time::Instant::now().into_std() + Duration::from_millis(1);
        gate.close(vec![a, b], now);
        assert!(gate.pass(other, soon()).await);
        assert!(!gate.pass(b, soon()).await);
        assert_eq!(gate.take(1), [(b, now)]);
        let later = now + Duration::from_secs(1);
        gate.close(vec![b], later);
        assert!(!gate.finish(b, now, false), "it was closed once more");
        assert_eq!(gate.take(2), [(a, now), (b, later)]);
        assert!(!gate.finish(b, later, true), "its repair failed");
        assert!(!gate.pass(b, soon()).await);
        assert!(!gate.finish(a, now, false));
        let (passed, all_open) =
            tokio::join!(gate.pass(b, soon()), async { gate.finish(b, later, false) });
        assert!(passed && all_open);
    }
}
