//! What logs may say of a subject. Never gives it away: the key lives and dies with the process.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use tidegate::model::Subject;

/// Stands for a subject in the logs of one process: equal for equal subjects, so that lines can
/// be joined, and nothing to anyone who only has the logs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SubjectTag(u64);

impl fmt::Display for SubjectTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SubjectTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Makes tags by SipHash under a key of the operating system's randomness. An address is easily
/// guessed, so a hash without a key would give it away.
#[derive(Clone, Debug, Default)]
pub struct SubjectTagger(RandomState);

impl SubjectTagger {
    /// The subject's tag.
    pub fn tag(&self, subject: &Subject) -> SubjectTag {
        SubjectTag(self.0.hash_one(subject.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_joins_lines_of_one_process_and_no_others() {
        let (here, there) = (SubjectTagger::default(), SubjectTagger::default());
        let (a, b) = (
            Subject::new("key-1").unwrap(),
            Subject::new("key-2").unwrap(),
        );
        assert_eq!(here.tag(&a), here.tag(&a));
        assert_ne!(here.tag(&a), here.tag(&b));
        assert_ne!(here.tag(&a), there.tag(&a));
        assert_eq!(here.tag(&a).to_string().len(), 16);
    }
}
