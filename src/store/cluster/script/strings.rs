//! Several strings of one call in one piece of memory: each is a view of it.
//!
//! A string of its own costs fred two allocations, and a call has many. Never changes once made.

use bytes::Bytes;
use fred::types::Value;

/// Strings that are made together.
#[derive(Clone, Debug, Default)]
pub(super) struct Strings {
    bytes: Bytes,
    ends: Vec<usize>,
}

/// Strings that are being made.
pub(super) struct StringsMaker {
    text: String,
    ends: Vec<usize>,
}

impl StringsMaker {
    /// Room for `count` strings of together `len` bytes; more will do too.
    pub fn with_capacity(count: usize, len: usize) -> Self {
        StringsMaker {
            text: String::with_capacity(len),
            ends: Vec::with_capacity(count),
        }
    }

    /// Adds a string out of these parts.
    pub fn push(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.text.push_str(part));
        self.ends.push(self.text.len());
    }

    /// Adds a string as it is shown.
    pub fn push_shown(&mut self, shown: std::fmt::Arguments<'_>) {
        use std::fmt::Write as _;
        // Writing to a string can't fail.
        let _ = self.text.write_fmt(shown);
        self.ends.push(self.text.len());
    }

    pub fn finish(self) -> Strings {
        Strings {
            bytes: Bytes::from(self.text),
            ends: self.ends,
        }
    }
}

impl Strings {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Each as an argument of a command.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let from = std::mem::replace(&mut start, end);
            Value::Bytes(self.bytes.slice(from..end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_string_is_what_was_pushed() {
        let mut maker = StringsMaker::with_capacity(1, 1);
        maker.push(&["ab", "", "c"]);
        maker.push(&[]);
        maker.push_shown(format_args!("f{}", 12));
        let strings = maker.finish();
        let texts: Vec<_> = strings.values().filter_map(Value::into_string).collect();
        assert_eq!(texts, ["abc", "", "f12"]);
        assert_eq!(strings.len(), 3);
        assert_eq!(Strings::default().values().count(), 0);
    }
}
