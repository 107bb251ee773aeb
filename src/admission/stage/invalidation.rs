//! The other nodes, as far as this one needs them: how many live, and invalidations of what must not
//! be believed any more. Never waits for them: what a check needs is a number that is there, and a
//! queue that it puts into.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam::queue::ArrayQueue;
use tokio::sync::Notify;

use crate::model::{Cost, PolicyName, Subject};

/// What nodes remember of `subject` under `policy` is no more to be believed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Invalidation {
    /// Under which policy.
    pub policy: PolicyName,
    /// Whose.
    pub subject: Subject,
    /// Why.
    pub cause: Cause,
}

/// Why something is no more to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// So many units of a charge were given back: what was denied may be admitted now.
    Refunded(Cost),
    /// All was forgotten: leases too, for what had been charged for them is gone.
    Reset,
}

/// Invalidations that wait to be sent, at most: beyond it they are dropped, and what the others remember
/// ends by itself within `denial_trust_max`.
const OUTBOX_LEN_MAX: usize = 4_096;

/// What is known of the fleet, and what is to be sent to it.
#[derive(Debug)]
pub(crate) struct FleetView {
    live: AtomicU32,
    joined: AtomicBool,
    outbox: ArrayQueue<Invalidation>,
    pub filled: Notify,
    dropped: AtomicU64,
}

impl Default for FleetView {
    fn default() -> Self {
        FleetView {
            live: AtomicU32::new(0),
            joined: AtomicBool::new(false),
            outbox: ArrayQueue::new(OUTBOX_LEN_MAX),
            filled: Notify::new(),
            dropped: AtomicU64::new(0),
        }
    }
}

impl FleetView {
    /// How many nodes lived when that was last known; 0 before.
    pub(super) fn live(&self) -> u32 {
        self.live.load(Ordering::Relaxed)
    }

    /// So many live.
    pub(crate) fn set_live(&self, live: u32) {
        self.live.store(live, Ordering::Relaxed);
    }

    /// Somebody sends the invalidations from now on, or no more.
    pub(crate) fn set_joined(&self, joined: bool) {
        self.joined.store(joined, Ordering::Relaxed);
    }

    /// Has it sent to the others, soon and without waiting.
    pub(super) fn announce(&self, invalidation: Invalidation) {
        if !self.joined.load(Ordering::Relaxed) {
            return;
        }
        if self.outbox.push(invalidation).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.filled.notify_one();
    }

    /// The next to send.
    pub(crate) fn next(&self) -> Option<Invalidation> {
        self.outbox.pop()
    }

    /// Those that were never sent.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A message holds several invalidations; none is longer than this, but for one with a long subject.
const MESSAGE_LEN_MAX: usize = 8_192;

/// Encodes invalidations as one message: the sender's number, then for each a letter for the cause, the
/// units given back in eight bytes, the policy with its length in one, the subject with its length
/// in two. Numbers are little-endian.
/// Takes from `next` until the message is long enough; `None` when there is nothing to send.
pub(crate) fn encode(
    sender: u64,
    mut next: impl FnMut() -> Option<Invalidation>,
) -> Option<Vec<u8>> {
    let mut message = sender.to_le_bytes().to_vec();
    while message.len() < MESSAGE_LEN_MAX {
        let Some(each) = next() else {
            break;
        };
        let (policy, subject) = (each.policy.as_str(), each.subject.as_str());
        let lengths = (u8::try_from(policy.len()), u16::try_from(subject.len()));
        let (Ok(policy_len), Ok(subject_len)) = lengths else {
            continue;
        };
        let (letter, units) = match each.cause {
            Cause::Refunded(units) => (b'f', units),
            Cause::Reset => (b'r', 0),
        };
        message.push(letter);
        message.extend_from_slice(&units.to_le_bytes());
        message.push(policy_len);
        message.extend_from_slice(policy.as_bytes());
        message.extend_from_slice(&subject_len.to_le_bytes());
        message.extend_from_slice(subject.as_bytes());
    }
    (message.len() > 8).then_some(message)
}

/// Reads a message: who sent it, and what it holds. What makes no sense ends it: a later version's
/// invalidations are for later versions.
pub(crate) fn decode(message: &[u8]) -> Option<(u64, Vec<Invalidation>)> {
    let (sender, mut rest) = message.split_first_chunk::<8>()?;
    let mut all = Vec::new();
    while let Some((each, after)) = decode_one(rest) {
        all.push(each);
        rest = after;
    }
    Some((u64::from_le_bytes(*sender), all))
}

fn decode_one(rest: &[u8]) -> Option<(Invalidation, &[u8])> {
    let (letter, rest) = rest.split_first()?;
    let (units, rest) = rest.split_first_chunk::<8>()?;
    let cause = match letter {
        b'f' => Cause::Refunded(u64::from_le_bytes(*units)),
        b'r' => Cause::Reset,
        _ => return None,
    };
    let (len, rest) = rest.split_first()?;
    let (policy, rest) = rest.split_at_checked(usize::from(*len))?;
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let (subject, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
    let invalidation = Invalidation {
        policy: PolicyName::new(std::str::from_utf8(policy).ok()?).ok()?,
        subject: Subject::new(std::str::from_utf8(subject).ok()?).ok()?,
        cause,
    };
    Some((invalidation, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invalidation(subject: &str, cause: Cause) -> Invalidation {
        Invalidation {
            policy: PolicyName::new("video_top").unwrap(),
            subject: Subject::new(subject).unwrap(),
            cause,
        }
    }

    #[test]
    fn what_is_read_is_what_was_sent() {
        let sent = [
            invalidation("key-1", Cause::Reset),
            invalidation("", Cause::Refunded(1)),
            invalidation(&"ü".repeat(2_048), Cause::Refunded(1 << 40)),
        ];
        let mut queue = sent.clone().into_iter();
        let message = encode(7, || queue.next()).unwrap();
        assert_eq!(decode(&message), Some((7, sent.to_vec())));
        assert_eq!(encode(7, || None), None);
    }

    #[test]
    fn a_message_that_makes_no_sense_is_read_as_far_as_it_does() {
        let mut queue = [invalidation("key-1", Cause::Reset)].into_iter();
        let mut message = encode(7, || queue.next()).unwrap();
        message.extend_from_slice(b"f\xff short");
        assert_eq!(decode(&message).unwrap().1.len(), 1);
        assert_eq!(decode(b"short"), None);
        for cut in 8..message.len() {
            assert!(decode(&message[..cut]).is_some());
        }
    }

    #[test]
    fn what_is_beyond_the_bound_is_dropped_and_counted() {
        let view = FleetView::default();
        view.announce(invalidation("unsent", Cause::Reset));
        assert_eq!(view.next(), None, "nobody sends them yet");
        view.set_joined(true);
        for _ in 0..OUTBOX_LEN_MAX + 3 {
            view.announce(invalidation("key-1", Cause::Reset));
        }
        assert_eq!(view.dropped(), 3);
    }
}
