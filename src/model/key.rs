//! Keys in a shared store. What goes between the braces is one function, so all ceilings of a
//! subject share a slot. Never lets a name's own braces or colons take part in a key's form.

use std::fmt;

use twox_hash::XxHash3_128;

use super::policy::PolicyName;
use super::subject::{Region, Subject};

/// Names longer than this many bytes become their XXH3-128.
const PLAIN_LEN_MAX: usize = 64;

/// What stands before every key, `tg` by default: 1 to 32 of `[A-Za-z0-9_.-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPrefix(Box<str>);

/// Why a [`KeyPrefix`] can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` can't be a key prefix: 1 to 32 of A-Z a-z 0-9 _ . -")]
pub struct KeyPrefixError(String);

impl KeyPrefix {
    /// A prefix.
    ///
    /// # Errors
    /// When it is empty, longer than 32 bytes, or holds another character than `[A-Za-z0-9_.-]`:
    /// a brace in it would move every key of every subject into one slot.
    pub fn new(text: &str) -> Result<Self, KeyPrefixError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if text.is_empty() || text.len() > 32 || !text.bytes().all(plain) {
            return Err(KeyPrefixError(text.to_owned()));
        }
        Ok(KeyPrefix(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for KeyPrefix {
    fn default() -> Self {
        KeyPrefix("tg".into())
    }
}

/// What goes between a key's braces. By default the subject, encoded: letters, digits and
/// `. _ ~ @ + -` stand for themselves, every other byte is `%` and two hex digits, the empty
/// subject is `%e`, and one of more than 64 bytes is `%x` and its XXH3-128 in hex. The last two
/// are no escapes, so no subject can spell another's tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HashTag(String);

impl HashTag {
    /// The tag of a subject.
    pub fn of(subject: &Subject) -> Self {
        HashTag(encode(subject.as_str()))
    }

    /// The text between the braces; never empty, no brace, colon or control character.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `<prefix>:{<tag>}:<policy>`, the stem of a policy's keys for one subject.
    pub fn stem(&self, prefix: &KeyPrefix, policy: &PolicyName) -> String {
        format!("{}:{{{}}}:{}", prefix.as_str(), self.0, policy.as_str())
    }
}

impl fmt::Display for HashTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Region {
    /// The region's name as part of a key, encoded like a [`HashTag`].
    pub fn key_part(&self) -> String {
        encode(self.as_str())
    }
}

fn encode(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    if text.is_empty() {
        return "%e".to_owned();
    }
    if text.len() > PLAIN_LEN_MAX {
        return format!("%x{:032x}", XxHash3_128::oneshot(text.as_bytes()));
    }
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'@' | b'+' | b'-') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Slot;

    fn tag(text: &str) -> HashTag {
        HashTag::of(&Subject::new(text).unwrap())
    }

    #[test]
    fn the_tag_is_never_empty_and_holds_no_brace_or_colon() {
        for text in ["", "}", "{", "a:b", "}{", "\0", "ü", "a b", &"x".repeat(65)] {
            let tag = tag(text);
            assert!(!tag.as_str().is_empty());
            assert!(
                tag.as_str()
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && !b"{}:".contains(&b)),
                "{tag}"
            );
        }
    }

    #[test]
    fn different_subjects_never_meet() {
        let texts = [
            "",
            "%e",
            "%",
            "%25",
            "a:b",
            "a%3ab",
            "a",
            "A",
            &"x".repeat(64),
            &"x".repeat(65),
            &"x".repeat(66),
        ];
        let tags: std::collections::HashSet<_> = texts.iter().map(|t| tag(t)).collect();
        assert_eq!(tags.len(), texts.len());
    }

    #[test]
    fn all_keys_of_a_subject_share_a_slot() {
        let policy = PolicyName::new("video_top").unwrap();
        for text in ["", "}", "key-1", "a{b}c"] {
            let stem = tag(text).stem(&KeyPrefix::default(), &policy);
            let slot = Slot::of(stem.as_bytes());
            for suffix in [":g", ":r:us", ":r:eu", ":i"] {
                assert_eq!(Slot::of(format!("{stem}{suffix}").as_bytes()), slot);
            }
        }
    }

    #[test]
    fn a_prefix_that_would_break_the_slots_is_refused() {
        for text in ["", "a{", "a:b", "ü", &"p".repeat(33)] {
            assert!(KeyPrefix::new(text).is_err(), "{text}");
        }
    }
}
