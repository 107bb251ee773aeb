//! A thread's own view of the states that it asks for again and again: found without a lock or a
//! write to memory that another thread reads. Never the only place of a state: a miss asks moka,
//! and a state that was retired there is not used here.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use twox_hash::XxHash3_64;

use super::target_state::TargetState;
use crate::model::{Check, Micros, PolicyName, Region, Subject, Timestamp};

/// Rows of a thread's entries: a power of two. Made when first needed; with all of them full a thread
/// holds about a megabyte.
const ROWS: usize = 1_024;

/// Entries of a row: states that meet in one don't drive each other out.
const ROW_LEN: usize = 4;

/// An entry is renewed after so long, so that moka learns which states are in use.
const RENEWED_AFTER: Micros = Micros::from_secs(10);

/// How a caller names a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    pub policy: &'a str,
    pub subject: &'a str,
    pub region: Option<&'a str>,
}

impl<'a> Names<'a> {
    /// As a check gives them.
    pub(super) fn of(check: &'a Check) -> Self {
        Names {
            policy: &check.policy,
            subject: &check.subject,
            region: check.region.as_deref(),
        }
    }

    /// The hash of policy and subject.
    pub(super) fn subject_hash(&self, seed: u64) -> u64 {
        let subject = XxHash3_64::oneshot_with_seed(seed, self.subject.as_bytes());
        XxHash3_64::oneshot_with_seed(subject, self.policy.as_bytes())
    }

    /// Where a thread keeps the state. Names that meet there are told apart by comparing them, so
    /// of policy and region, which are few, their ends are enough.
    fn entry_hash(&self, seed: u64) -> u64 {
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
pub(super) struct Entry {
    stage: u64,
    kept_since: Timestamp,
    /// All names in one place, so that comparing them touches no other.
    spelled: Box<str>,
    subject_len: usize,
    policy_len: usize,
    pub policy: PolicyName,
    pub subject: Subject,
    pub region: Option<Region>,
    pub state: Arc<TargetState>,
}

impl Entry {
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
            && now.since(self.kept_since) < RENEWED_AFTER
    }
}

/// Entries whose names' hashes begin alike. A hash of 0 is an empty one's.
#[derive(Default)]
struct Row {
    hashes: [u64; ROW_LEN],
    entries: [Option<Box<Entry>>; ROW_LEN],
    /// Which makes room next.
    next: usize,
}

thread_local! {
    static KNOWN: RefCell<Vec<Row>> = const { RefCell::new(Vec::new()) };
}

/// One stage's part of what the threads keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadCache {
    /// Tells stages apart: a process may have several.
    stage: u64,
    seed: u64,
}

impl ThreadCache {
    pub(super) fn new(stage: u64, seed: u64) -> Self {
        ThreadCache { stage, seed }
    }

    /// Looks at the state of `names`, if this thread has it and it is current. `look` must not
    /// come back here.
    pub(super) fn look<T>(
        &self,
        names: &Names<'_>,
        revision: u64,
        now: Timestamp,
        look: impl FnOnce(&Entry) -> T,
    ) -> Option<T> {
        let hash = names.entry_hash(self.seed);
        let seen = KNOWN.try_with(|known| {
            let known = known.try_borrow().ok()?;
            let row = known.get(row_of(hash))?;
            let place = row.hashes.iter().position(|h| *h == hash)?;
            let entry = row.entries.get(place)?.as_ref()?;
            if entry.stage != self.stage || !entry.is_of(names) {
                return None;
            }
            entry.is_current(revision, now).then(|| look(entry))
        });
        seen.ok().flatten()
    }

    /// Keeps `state` for this thread, in the place of whatever has it.
    pub(super) fn keep(&self, names: &Names<'_>, now: Timestamp, state: &Arc<TargetState>) {
        let Some((policy, subject, region)) = own_copies(names) else {
            return;
        };
        let hash = names.entry_hash(self.seed);
        let entry = Box::new(Entry {
            stage: self.stage,
            kept_since: now,
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
        let before = KNOWN.try_with(|known| {
            let mut known = known.try_borrow_mut().ok()?;
            if known.is_empty() {
                known.resize_with(ROWS, Row::default);
            }
            known.get_mut(row_of(hash))?.put(hash, entry)
        });
        drop(before);
    }
}

impl Row {
    /// Puts it where the same hash is, else where none is, else by turns. Returns whatever was there.
    fn put(&mut self, hash: u64, entry: Box<Entry>) -> Option<Box<Entry>> {
        let same = self.hashes.iter().position(|h| *h == hash);
        let place = same
            .or_else(|| self.hashes.iter().position(|h| *h == 0))
            .unwrap_or_else(|| {
                self.next = (self.next + 1) % ROW_LEN;
                self.next
            });
        *self.hashes.get_mut(place)? = hash;
        self.entries.get_mut(place)?.replace(entry)
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
