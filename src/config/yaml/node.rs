//! A value of a file and its place. Never says what type a scalar has.

use crate::config::fault::Mark;

/// How deep maps and lists may lie in each other.
pub(super) const DEPTH_MAX: usize = 16;

/// A value and its place.
#[derive(Debug)]
pub(in crate::config) struct Node {
    pub at: Mark,
    pub value: Value,
}

#[derive(Debug)]
pub(in crate::config) enum Value {
    /// Text as written, quotes and escapes resolved.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Already reported: nothing more is to be said about it.
    Refused,
}

impl Value {
    /// Whether nothing is written there: `~`, `null` or no text at all.
    pub fn is_null(&self) -> bool {
        match self {
            Value::Scalar { text, quoted } => {
                !quoted && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }
}

/// A key, its place, and its value. No key stands twice in a map.
#[derive(Debug)]
pub(in crate::config) struct Entry {
    pub key: String,
    pub at: Mark,
    pub value: Node,
}
