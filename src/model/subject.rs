//! Who is limited, and where the request was served. Never empty tags, never unescaped names:
//! see [`super::HashTag`] for how they become part of a key.

use std::fmt;

use smol_str::SmolStr;

/// The longest subject, in bytes. Longer ones are refused, not cut: two of them could meet.
pub const SUBJECT_LEN_MAX: usize = 4_096;

/// The longest region, in bytes.
pub const REGION_LEN_MAX: usize = 64;

/// Who is limited: an API key, a user, an address. Any text up to [`SUBJECT_LEN_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(SmolStr);

/// Why a [`Subject`] can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a subject of {len} bytes is too long: the most is {SUBJECT_LEN_MAX}")]
pub struct SubjectError {
    /// The length found, in bytes.
    pub len: usize,
}

impl Subject {
    /// A subject.
    ///
    /// # Errors
    /// When it is longer than [`SUBJECT_LEN_MAX`] bytes.
    pub fn new(text: impl Into<SmolStr>) -> Result<Self, SubjectError> {
        let text = text.into();
        match text.len() {
            len if len > SUBJECT_LEN_MAX => Err(SubjectError { len }),
            _ => Ok(Subject(text)),
        }
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the request was served: 1 to [`REGION_LEN_MAX`] bytes without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(SmolStr);

/// Why a [`Region`] can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The name is empty.
    #[error("a region's name is empty")]
    Empty,
    /// The name is too long.
    #[error("a region's name of {0} bytes is too long: the most is {REGION_LEN_MAX}")]
    TooLong(usize),
    /// The name holds a control character.
    #[error("a region's name holds a control character")]
    Control,
}

impl Region {
    /// A region.
    ///
    /// # Errors
    /// When it is empty, longer than [`REGION_LEN_MAX`] bytes, or holds a control character.
    pub fn new(text: impl Into<SmolStr>) -> Result<Self, RegionError> {
        let text = text.into();
        match text.len() {
            0 => Err(RegionError::Empty),
            len if len > REGION_LEN_MAX => Err(RegionError::TooLong(len)),
            _ if text.chars().any(char::is_control) => Err(RegionError::Control),
            _ => Ok(Region(text)),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
