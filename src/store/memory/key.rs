//! What a key is in memory: policy, subject and part. Never compared by its hash alone.

use twox_hash::XxHash3_64;

use crate::model::{PolicyName, Region, Scope, Subject, Target};

/// What of a subject's state under a policy a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The global ceiling.
    Global,
    /// A region's ceiling.
    Region(Option<&'a Region>),
    /// Ids that callers gave, where no log has them.
    Ids,
}

/// A key as it is kept.
#[derive(Debug)]
pub(super) struct Key {
    policy: PolicyName,
    subject: Subject,
    part: OwnedPart,
}

#[derive(Debug)]
enum OwnedPart {
    Global,
    Region(Option<Region>),
    Ids,
}

/// The keys of one target, looked up without being built.
pub(super) struct Keys<'a> {
    target: &'a Target,
    hash: u64,
}

impl<'a> Keys<'a> {
    pub(super) fn new(seed: u64, target: &'a Target) -> Self {
        // One hash is the other's seed, so no text can run over from one name into the next.
        let policy = XxHash3_64::oneshot_with_seed(seed, target.policy.name.as_str().as_bytes());
        let hash = XxHash3_64::oneshot_with_seed(policy, target.subject.as_str().as_bytes());
        Keys { target, hash }
    }

    /// The shard that has all of them, of `shards`.
    pub(super) fn shard_of(&self, shards: usize) -> usize {
        // Not the bits by which the map within a shard places its keys.
        usize::try_from(self.hash >> 32).unwrap_or(0) % shards.max(1)
    }

    /// The part that a scope's ceiling is.
    pub(super) fn part(&self, scope: Scope) -> Part<'a> {
        match scope {
            Scope::Global => Part::Global,
            Scope::Region => Part::Region(self.target.region.as_ref()),
        }
    }

    pub(super) fn hash(&self, part: Part<'_>) -> u64 {
        match part {
            Part::Global => self.hash,
            Part::Region(region) => {
                let name = region.map_or("", Region::as_str);
                XxHash3_64::oneshot_with_seed(self.hash, name.as_bytes())
            }
            Part::Ids => self.hash.rotate_left(17) ^ 0x9E37_79B9_7F4A_7C15,
        }
    }

    pub(super) fn is(&self, part: Part<'_>, key: &Key) -> bool {
        let same_part = match (&key.part, part) {
            (OwnedPart::Global, Part::Global) | (OwnedPart::Ids, Part::Ids) => true,
            (OwnedPart::Region(a), Part::Region(b)) => a.as_ref() == b,
            _ => false,
        };
        same_part && key.subject == self.target.subject && key.policy == self.target.policy.name
    }

    pub(super) fn key(&self, part: Part<'_>) -> Key {
        Key {
            policy: self.target.policy.name.clone(),
            subject: self.target.subject.clone(),
            part: match part {
                Part::Global => OwnedPart::Global,
                Part::Region(region) => OwnedPart::Region(region.cloned()),
                Part::Ids => OwnedPart::Ids,
            },
        }
    }
}
