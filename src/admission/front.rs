//! A thread's own view of the states that it asks for again and again: found without a lock or a
//! write to memory that another thread reads. Never the only place of a state: a miss asks moka,
//! and a state that was retired there is not used here.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use twox_hash::XxHash3_64;

use super::target_state::TargetState;
use crate::model::{Micros, PolicyName, Region, Subject, Timestamp};

/// Seats of a thread: a power of two. At about 80 bytes each they are made when first needed.
const SEATS: usize = 4_096;

/// A seat is renewed after so long, so that moka learns which states are in use.
const RENEWED_AFTER: Micros = Micros::from_secs(10);

/// How a caller names a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub policy: &'a str,
    pub subject: &'a str,
    pub region: Option<&'a str>,
}

impl Names<'_> {
    /// The hash of policy and subject.
    pub(super) fn subject_hash(&self, seed: u64) -> u64 {
        let subject = XxHash3_64::oneshot_with_seed(seed, self.subject.as_bytes());
        XxHash3_64::oneshot_with_seed(subject, self.policy.as_bytes())
    }

    fn hash(&self, seed: u64) -> u64 {
        let subject = self.subject_hash(seed);
        match self.region {
            Some(region) => XxHash3_64::oneshot_with_seed(subject, region.as_bytes()),
            None => subject,
        }
    }
}

/// A state, and the names under which it was asked for. The names are this thread's own copies:
/// answers that hold them then share no counter with other threads.
pub(crate) struct Seat {
    stage: u64,
    hash: u64,
    seated_at: Timestamp,
    pub policy: PolicyName,
    pub subject: Subject,
    pub region: Option<Region>,
    pub state: Arc<TargetState>,
}

impl Seat {
    fn is_of(&self, names: &Names<'_>) -> bool {
        self.subject.as_str() == names.subject
            && self.policy.as_str() == names.policy
            && self.region.as_ref().map(Region::as_str) == names.region
    }

    fn is_current(&self, revision: u64, now: Timestamp) -> bool {
        self.state.revision.load(Ordering::Acquire) == revision
            && !self.state.core.retired.load(Ordering::Acquire)
            && now.since(self.seated_at) < RENEWED_AFTER
    }
}

thread_local! {
    static FRONT: RefCell<Vec<Option<Seat>>> = const { RefCell::new(Vec::new()) };
}

/// One stage's part of the threads' fronts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// Tells stages apart: a process may have several.
    stage: u64,
    seed: u64,
}

impl Front {
    pub(super) fn new(stage: u64, seed: u64) -> Self {
        Front { stage, seed }
    }

    /// Looks at the state of `names`, if this thread has it and it is current. `look` must not
    /// come back here.
    pub(super) fn look<T>(
        &self,
        names: &Names<'_>,
        revision: u64,
        now: Timestamp,
        look: impl FnOnce(&Seat) -> T,
    ) -> Option<T> {
        let hash = names.hash(self.seed);
        let seen = FRONT.try_with(|front| {
            let front = front.try_borrow().ok()?;
            let seat = front.get(place(hash))?.as_ref()?;
            let found = seat.hash == hash
                && seat.stage == self.stage
                && seat.is_of(names)
                && seat.is_current(revision, now);
            found.then(|| look(seat))
        });
        seen.ok().flatten()
    }

    /// Keeps `state` for this thread, in the place of whatever has it.
    pub(super) fn seat(&self, names: &Names<'_>, now: Timestamp, state: &Arc<TargetState>) {
        let Some((policy, subject, region)) = own_copies(names) else {
            return;
        };
        let hash = names.hash(self.seed);
        let seat = Seat {
            stage: self.stage,
            hash,
            seated_at: now,
            policy,
            subject,
            region,
            state: Arc::clone(state),
        };
        // Dropped after the borrow: a state's end may run anything.
        let before = FRONT.try_with(|front| {
            let mut front = front.try_borrow_mut().ok()?;
            if front.is_empty() {
                front.resize_with(SEATS, || None);
            }
            front.get_mut(place(hash))?.replace(seat)
        });
        drop(before);
    }
}

fn place(hash: u64) -> usize {
    // The high bits: moka spreads its own by the low ones.
    (hash >> 40) as usize & (SEATS - 1)
}

fn own_copies(names: &Names<'_>) -> Option<(PolicyName, Subject, Option<Region>)> {
    Some((
        PolicyName::new(names.policy).ok()?,
        Subject::new(names.subject).ok()?,
        names.region.map(Region::new).transpose().ok()?,
    ))
}
