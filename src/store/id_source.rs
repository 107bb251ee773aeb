//! Charge ids of this node's own making: unique over nodes and restarts, short, never reused.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::ChargeId;

const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Makes ids: 12 characters that name this start of this node (60 random bits), a dash, and a
/// counter.
#[derive(Debug)]
pub(crate) struct IdSource {
    node: [u8; 12],
    next: AtomicU64,
}

impl IdSource {
    /// A source that no other start of any node shares (but by a chance of one in 2^60).
    pub(crate) fn new() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        // `RandomState` is keyed by the operating system's randomness.
        let mut random = RandomState::new().hash_one((since_epoch.as_nanos(), std::process::id()));
        let node = std::array::from_fn(|_| {
            let digit = DIGITS[(random & 31) as usize];
            random >>= 5;
            digit
        });
        IdSource {
            node,
            next: AtomicU64::new(0),
        }
    }

    /// The next id.
    pub(crate) fn next(&self) -> ChargeId {
        let mut n = self.next.fetch_add(1, Ordering::Relaxed);
        let mut text = [0u8; 26];
        let mut at = text.len();
        loop {
            at -= 1;
            text[at] = DIGITS[(n & 31) as usize];
            n >>= 5;
            if n == 0 {
                break;
            }
        }
        at -= 1;
        text[at] = b'-';
        at -= self.node.len();
        text[at..at + self.node.len()].copy_from_slice(&self.node);
        ChargeId::made_here(&text[at..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_valid_short_and_never_repeat() {
        let (a, b) = (IdSource::new(), IdSource::new());
        let ids: std::collections::HashSet<_> =
            (0..2_000).flat_map(|_| [a.next(), b.next()]).collect();
        assert_eq!(ids.len(), 4_000);
        assert!(
            ids.iter()
                .all(|id| id.as_str().len() <= 16 && ChargeId::new(id.as_str()).is_ok())
        );
    }

    #[test]
    fn the_counter_may_run_out_its_range() {
        let source = IdSource {
            node: *b"000000000000",
            next: AtomicU64::new(u64::MAX),
        };
        assert_eq!(source.next().as_str(), "000000000000-fzzzzzzzzzzzz");
    }
}
