//! What is wrong with a file: where, what, and what would be right. Never stops at the first.

use std::fmt;

/// How many faults are kept of one file; more are only counted.
pub const FAULTS_MAX: usize = 1_000;

/// A place in a file; both count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Mark {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Mark {
    /// Where a file begins.
    pub(super) const START: Mark = Mark { line: 1, column: 1 };
}

/// The way from a file's top to a value: `policies.video_top.regions.us`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(String);

impl KeyPath {
    /// The value below `key`; a key that isn't a plain word stands in quotes.
    #[must_use]
    pub(super) fn key(&self, key: &str) -> KeyPath {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        let word = match key.len() {
            1..=64 if key.bytes().all(plain) => key.to_owned(),
            _ => format!("{:?}", shown(key)),
        };
        match self.0.is_empty() {
            true => KeyPath(word),
            false => KeyPath(format!("{}.{word}", self.0)),
        }
    }

    /// The value at `index` of a list.
    #[must_use]
    pub(super) fn index(&self, index: usize) -> KeyPath {
        KeyPath(format!("{}[{index}]", self.0))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(file)" } else { &self.0 })
    }
}

/// At most 64 characters of a file's text, for a message.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 64;
    let mut cut: String = text.chars().take(SHOWN_MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Where.
    pub at: Mark,
    /// The way to it.
    pub path: KeyPath,
    /// What is wrong.
    pub problem: String,
    /// What would be right, when that can be said.
    pub cure: Option<String>,
}

impl fmt::Display for Fault {
    /// `7:13: policies.video_top.algorithm: ...`, and the cure on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mark { line, column } = self.at;
        write!(f, "{line}:{column}: {}: {}", self.path, self.problem)?;
        match &self.cure {
            Some(cure) => write!(f, "\n    {cure}"),
            None => Ok(()),
        }
    }
}

/// All that is wrong with a file, in its order; at least one when it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    list: Vec<Fault>,
    more: usize,
}

impl Faults {
    /// The faults, in the order of the file: the first [`FAULTS_MAX`] that were found.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.list.iter()
    }

    /// How many there are, with those that are only counted.
    pub fn len(&self) -> usize {
        self.list.len() + self.more
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes a fault.
    pub(super) fn add(&mut self, at: Mark, path: &KeyPath, problem: impl Into<String>) {
        self.push(at, path, problem.into(), None);
    }

    /// Notes a fault and its cure.
    pub(super) fn add_with(
        &mut self,
        at: Mark,
        path: &KeyPath,
        problem: impl Into<String>,
        cure: impl Into<String>,
    ) {
        self.push(at, path, problem.into(), Some(cure.into()));
    }

    fn push(&mut self, at: Mark, path: &KeyPath, problem: String, cure: Option<String>) {
        if self.list.len() >= FAULTS_MAX {
            self.more += 1;
            return;
        }
        self.list.push(Fault {
            at,
            path: path.clone(),
            problem,
            cure,
        });
    }

    /// `value` when nothing is wrong, else the faults in the order of the file.
    pub(super) fn or<T>(mut self, value: Option<T>) -> Result<T, Faults> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => {
                debug_assert!(!self.is_empty(), "a missing value has a fault");
                self.list.sort_by_key(|fault| fault.at);
                Err(self)
            }
        }
    }
}

impl fmt::Display for Faults {
    /// A fault a line (and its cure), without the file's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.list.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            write!(f, "{separator}{fault}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Faults {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_quotes_what_is_no_plain_word() {
        let path = KeyPath::default().key("overrides").key("key 42").index(3);
        assert_eq!(path.to_string(), r#"overrides."key 42"[3]"#);
        assert_eq!(KeyPath::default().key("").to_string(), r#""""#);
        assert_eq!(KeyPath::default().to_string(), "(file)");
    }

    #[test]
    fn faults_come_in_the_order_of_the_file_and_are_bounded() {
        let mut faults = Faults::default();
        for line in (1..=FAULTS_MAX + 5).rev() {
            faults.add(Mark { line, column: 1 }, &KeyPath::default(), "x");
        }
        let faults = faults.or(Some(())).unwrap_err();
        assert_eq!(faults.len(), FAULTS_MAX + 5);
        let lines: Vec<_> = faults.iter().map(|f| f.at.line).collect();
        assert!(lines.is_sorted() && lines.len() == FAULTS_MAX);
        assert!(faults.to_string().ends_with("and 5 more"));
    }
}
