//! Who may send when. Without a rate, whenever a task is free; with one, at instants that are
//! fixed beforehand, whether or not the answers keep up (an open loop). A check's latency counts
//! from its instant, so that a slow answer can't hide the checks it held up ("coordinated
//! omission": G. Tene, "How NOT to Measure Latency", 2013).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::plan::{Extent, PerSecond, Plan};

/// The longest sleep of the metronome, so that a stop is seen soon.
const NAP_MAX: Duration = Duration::from_millis(5);

/// How long after the end of a paced plan its last checks may still be sent.
const LATE_MAX: Duration = Duration::from_millis(100);

/// The shortest: below it the system's timer is no finer.
const NAP_MIN: Duration = Duration::from_micros(50);

/// Hands out turns to all tasks.
pub(super) struct Pace {
    began: Instant,
    until: Option<Instant>,
    checks_max: u64,
    rate: Option<PerSecond>,
    next: AtomicU64,
    due: Semaphore,
    stopped: AtomicBool,
}

impl Pace {
    /// A pace that begins now.
    pub fn new(plan: &Plan) -> Self {
        let began = Instant::now();
        let (until, checks_max) = match (plan.extent, plan.rate) {
            (Extent::Time(time), None) => (Some(began + time), u64::MAX),
            // What is due just before the end is still sent.
            (Extent::Time(time), Some(rate)) => {
                (Some(began + time + LATE_MAX), due_before(time, rate))
            }
            (Extent::Checks(checks), _) => (None, checks),
        };
        Pace {
            began,
            until,
            checks_max,
            rate: plan.rate,
            next: AtomicU64::new(0),
            due: Semaphore::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// When it began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Waits for the next turn; gives the instant from which its latency counts, or nothing when
    /// all is sent or the time is up.
    pub async fn turn(&self) -> Option<Instant> {
        if self.rate.is_some() {
            self.due.acquire().await.ok()?.forget();
        }
        if self.is_over() {
            self.due.close();
            return None;
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        if turn + 1 >= self.checks_max {
            // The last one tells all that wait for a turn that there is none.
            self.due.close();
        }
        if turn >= self.checks_max {
            return None;
        }
        Some(match self.rate {
            Some(rate) => self.began + offset(turn, rate),
            None => Instant::now(),
        })
    }

    /// No more turns.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.due.close();
    }

    fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.until.is_some_and(|t| Instant::now() >= t)
    }

    /// Checks that were due by the rate and not sent, because answers came too slowly.
    pub fn unsent(&self, ended: Instant) -> u64 {
        let Some(rate) = self.rate else { return 0 };
        let due = due_before(ended.duration_since(self.began), rate).min(self.checks_max);
        due.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Starts the metronome of a paced plan: a thread of its own, as the runtime's timers are no
    /// finer than a millisecond.
    pub fn start(self: &Arc<Self>) -> std::io::Result<Option<JoinHandle<()>>> {
        let Some(rate) = self.rate else {
            return Ok(None);
        };
        let pace = Arc::clone(self);
        std::thread::Builder::new()
            .name("metronome".to_owned())
            .spawn(move || pace.beat(rate))
            .map(Some)
    }

    fn beat(&self, rate: PerSecond) {
        let mut released = 0;
        while !self.is_over() && released < self.checks_max {
            let due = due_before(self.began.elapsed(), rate).min(self.checks_max);
            let new = usize::try_from(due - released).unwrap_or(usize::MAX);
            // What waits to be claimed is bounded too: a task claims it, or the end cancels it.
            let room = Semaphore::MAX_PERMITS - self.due.available_permits();
            let new = new.min(room);
            self.due.add_permits(new);
            released += new as u64;
            let next = self.began + offset(released, rate);
            let wait = next.saturating_duration_since(Instant::now());
            std::thread::sleep(wait.clamp(NAP_MIN, NAP_MAX));
        }
        if self.is_over() {
            self.due.close();
        }
    }
}

/// How long after the beginning the n-th check (from 0) is due.
fn offset(n: u64, rate: PerSecond) -> Duration {
    let ns = u128::from(n) * 1_000_000_000 / u128::from(rate.0);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// How many checks are due before this long after the beginning.
fn due_before(elapsed: Duration, rate: PerSecond) -> u64 {
    let due = (elapsed.as_nanos() * u128::from(rate.0)).div_ceil(1_000_000_000);
    u64::try_from(due).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_due_at_fixed_instants() {
        let rate = PerSecond(1_000);
        assert_eq!(offset(0, rate), Duration::ZERO);
        assert_eq!(offset(2_500, rate), Duration::from_millis(2_500));
        assert_eq!(due_before(Duration::ZERO, rate), 0);
        assert_eq!(due_before(Duration::from_nanos(1), rate), 1);
        assert_eq!(due_before(Duration::from_millis(1), rate), 1);
        assert_eq!(due_before(Duration::from_secs(2), rate), 2_000);
    }
}
