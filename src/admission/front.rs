//! A thread's own view of the states that it asks for again and again: found without a lock or a
//! write to memory that another thread reads. Never the only place of a state: a miss asks moka,
//! and a state that was retired there is not used here.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use twox_hash::XxHash3_64;

use super::target_state::TargetState;
use crate::model::{Micros, PolicyName, Region, Subject, Timestamp};

/// Rows of a thread's seats: a power of two. Made when first needed; with all seats taken a thread
/// holds about a megabyte.
const ROWS: usize = 1_024;

/// Seats of a row: states that meet in one don't drive each other out.
const ROW_SEATS: usize = 4;

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

    /// Where a thread keeps the state. Names that meet there are told apart by comparing them, so
    /// of policy and region, which are few, their ends are enough.
    fn place_hash(&self, seed: u64) -> u64 {
        let subject = XxHash3_64::oneshot_with_seed(seed, self.subject.as_bytes());
        let few = end(self.policy) ^ self.region.map_or(1, end).rotate_left(32);
        (subject ^ few).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }
}

/// The last bytes of a name, as far as a word holds them, and its length.
fn end(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let last = match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None => bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    last.wrapping_add(bytes.len() as u64)
}

/// A state, and the names under which it was asked for. The names are this thread's own copies:
/// answers that hold them then share no counter with other threads.
pub(crate) struct Seat {
    stage: u64,
    seated_at: Timestamp,
    /// All names in one place, so that comparing them touches no other.
    spelled: Box<str>,
    subject_len: usize,
    policy_len: usize,
    pub policy: PolicyName,
    pub subject: Subject,
    pub region: Option<Region>,
    pub state: Arc<TargetState>,
}

impl Seat {
    fn is_of(&self, names: &Names<'_>) -> bool {
        let (subject, rest) = self.spelled.split_at(self.subject_len);
        let (policy, region) = rest.split_at(self.policy_len);
        subject == names.subject
            && policy == names.policy
            // No region has an empty name.
            && region == names.region.unwrap_or_default()
    }

    fn is_current(&self, revision: u64, now: Timestamp) -> bool {
        // A state that was retired has a number that no configuration has.
        self.state.revision.load(Ordering::Acquire) == revision
            && now.since(self.seated_at) < RENEWED_AFTER
    }
}

/// Seats whose names' hashes begin alike. A hash of 0 is an empty seat's.
#[derive(Default)]
struct Row {
    hashes: [u64; ROW_SEATS],
    seats: [Option<Box<Seat>>; ROW_SEATS],
    /// Who makes room next.
    next: usize,
}

thread_local! {
    static FRONT: RefCell<Vec<Row>> = const { RefCell::new(Vec::new()) };
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
        let hash = names.place_hash(self.seed);
        let seen = FRONT.try_with(|front| {
            let front = front.try_borrow().ok()?;
            let row = front.get(row_of(hash))?;
            let place = row.hashes.iter().position(|h| *h == hash)?;
            let seat = row.seats.get(place)?.as_ref()?;
            if seat.stage != self.stage || !seat.is_of(names) {
                return None;
            }
            seat.is_current(revision, now).then(|| look(seat))
        });
        seen.ok().flatten()
    }

    /// Keeps `state` for this thread, in the place of whatever has it.
    pub(super) fn seat(&self, names: &Names<'_>, now: Timestamp, state: &Arc<TargetState>) {
        let Some((policy, subject, region)) = own_copies(names) else {
            return;
        };
        let hash = names.place_hash(self.seed);
        let seat = Box::new(Seat {
            stage: self.stage,
            seated_at: now,
            spelled: [
                names.subject,
                names.policy,
                names.region.unwrap_or_default(),
            ]
            .concat()
            .into(),
            subject_len: names.subject.len(),
            policy_len: names.policy.len(),
            policy,
            subject,
            region,
            state: Arc::clone(state),
        });
        // Dropped after the borrow: a state's end may run anything.
        let before = FRONT.try_with(|front| {
            let mut front = front.try_borrow_mut().ok()?;
            if front.is_empty() {
                front.resize_with(ROWS, Row::default);
            }
            front.get_mut(row_of(hash))?.take(hash, seat)
        });
        drop(before);
    }
}

impl Row {
    /// Seats it: where the same hash sits, else where nobody does, else by turns. Returns whoever
    /// had to go.
    fn take(&mut self, hash: u64, seat: Box<Seat>) -> Option<Box<Seat>> {
        let same = self.hashes.iter().position(|h| *h == hash);
        let place = same
            .or_else(|| self.hashes.iter().position(|h| *h == 0))
            .unwrap_or_else(|| {
                self.next = (self.next + 1) % ROW_SEATS;
                self.next
            });
        *self.hashes.get_mut(place)? = hash;
        self.seats.get_mut(place)?.replace(seat)
    }
}

fn row_of(hash: u64) -> usize {
    (hash >> 32) as usize & (ROWS - 1)
}

fn own_copies(names: &Names<'_>) -> Option<(PolicyName, Subject, Option<Region>)> {
    Some((
        PolicyName::new(names.policy).ok()?,
        Subject::new(names.subject).ok()?,
        names.region.map(Region::new).transpose().ok()?,
    ))
}
