//! Readers of single values: each takes a node and gives a value, or notes the fault and gives
//! nothing. Never guesses a value, and never stops the walk.

use std::fmt::Display;
use std::str::FromStr;

use super::fault::{Faults, KeyPath, Mark, shown};
use super::suggest::did_you_mean;
use super::yaml::{Entry, Node, Value};
use crate::model::Micros;

/// A value where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located<T> {
    pub value: T,
    pub at: Mark,
}

/// What a key was given: nothing, something wrong that is already reported, or a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given<T> {
    Absent,
    Wrong,
    Value(Located<T>),
}

impl<T> Given<T> {
    /// What a reader made of a node.
    pub fn of(at: Mark, read: Option<T>) -> Self {
        read.map_or(Given::Wrong, |value| Given::Value(Located { value, at }))
    }

    /// The value, when there is a good one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Given::Value(located) => Some(&located.value),
            Given::Absent | Given::Wrong => None,
        }
    }

    /// Whether the file says nothing of it.
    pub fn is_absent(&self) -> bool {
        matches!(self, Given::Absent)
    }
}

/// What a node holds, for a message.
pub(super) fn kind(value: &Value) -> String {
    match value {
        value if value.is_null() => "nothing".to_owned(),
        Value::Scalar { text, .. } => format!("`{}`", shown(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
        Value::Refused => "something refused".to_owned(),
    }
}

/// Notes that something else is needed here, unless that was noted before.
pub(super) fn expected(node: &Node, path: &KeyPath, what: &str, faults: &mut Faults) {
    if !matches!(node.value, Value::Refused) {
        let problem = format!("{} stands here, but {what} is needed", kind(&node.value));
        faults.add(node.at, path, problem);
    }
}

/// The entries of a map.
pub(super) fn map<'a>(
    node: &'a Node,
    path: &KeyPath,
    what: &str,
    faults: &mut Faults,
) -> Option<&'a [Entry]> {
    match &node.value {
        Value::Map(entries) => Some(entries),
        _ => {
            expected(node, path, what, faults);
            None
        }
    }
}

/// The text of a scalar that isn't empty.
pub(super) fn text<'a>(
    node: &'a Node,
    path: &KeyPath,
    what: &str,
    faults: &mut Faults,
) -> Option<&'a str> {
    match &node.value {
        Value::Scalar { text, .. } if !node.value.is_null() => Some(text),
        _ => {
            expected(node, path, what, faults);
            None
        }
    }
}

/// Notes a key that nothing knows.
pub(super) fn unknown_key(entry: &Entry, path: &KeyPath, known: &[&str], faults: &mut Faults) {
    let problem = format!("`{}` means nothing here", shown(&entry.key));
    let cure = did_you_mean(&entry.key, known);
    faults.add_with(entry.at, &path.key(&entry.key), problem, cure);
}

/// One of a few words.
pub(super) fn word<T: Copy>(
    node: &Node,
    path: &KeyPath,
    choices: &[(&str, T)],
    faults: &mut Faults,
) -> Option<T> {
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    let text = text(node, path, &format!("one of {}", words.join(", ")), faults)?;
    let found = choices.iter().find(|(word, _)| *word == text);
    if found.is_none() {
        let problem = format!("`{}` is not known here", shown(text));
        faults.add_with(node.at, path, problem, did_you_mean(text, &words));
    }
    found.map(|(_, value)| *value)
}

/// A whole number within bounds.
pub(super) fn whole(
    node: &Node,
    path: &KeyPath,
    (least, most): (u64, u64),
    faults: &mut Faults,
) -> Option<u64> {
    let what = format!("a whole number from {least} to {most}");
    let text = text(node, path, &what, faults)?;
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(number) if digits && (least..=most).contains(&number) => Some(number),
        _ => {
            expected(node, path, &what, faults);
            None
        }
    }
}

/// `true` or `false`, unquoted.
pub(super) fn boolean(node: &Node, path: &KeyPath, faults: &mut Faults) -> Option<bool> {
    match &node.value {
        Value::Scalar {
            text,
            quoted: false,
        } if text == "true" => Some(true),
        Value::Scalar {
            text,
            quoted: false,
        } if text == "false" => Some(false),
        _ => {
            expected(node, path, "true or false", faults);
            None
        }
    }
}

/// Whatever reads itself from text and says what is wrong with it.
pub(super) fn parsed<T>(node: &Node, path: &KeyPath, what: &str, faults: &mut Faults) -> Option<T>
where
    T: FromStr,
    T::Err: Display,
{
    let text = text(node, path, what, faults)?;
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            faults.add(node.at, path, error.to_string());
            None
        }
    }
}

/// A duration such as `50ms`, `2s`, `1min`, within bounds.
pub(super) fn duration(
    node: &Node,
    path: &KeyPath,
    (least, most): (Micros, Micros),
    faults: &mut Faults,
) -> Option<Micros> {
    let what = format!("a duration from {least} s to {most} s, such as 500ms or 2s");
    let text = text(node, path, &what, faults)?;
    match parse_duration(text) {
        Some(duration) if (least..=most).contains(&duration) => Some(duration),
        _ => {
            expected(node, path, &what, faults);
            None
        }
    }
}

/// Reads `50ms`, `2s`, `1min`, `1h`: a whole number and its unit.
pub fn parse_duration(text: &str) -> Option<Micros> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(unit_at);
    let count: u64 = count.parse().ok()?;
    let unit_us: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return None,
    };
    count.checked_mul(unit_us).map(Micros::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_carries_its_unit() {
        assert_eq!(parse_duration("50ms"), Some(Micros::from_millis(50)));
        assert_eq!(parse_duration("2s"), Some(Micros::from_secs(2)));
        assert_eq!(parse_duration("1min"), Some(Micros::from_secs(60)));
        for bad in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            "1m",
            "99999999999999999999s",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
