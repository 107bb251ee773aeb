//! The `server` section of a file, which someone else than this library reads: key by key, with
//! its faults among the file's. Never stops at the first fault, and never guesses a value.

use std::fmt::Display;
use std::str::FromStr;

use super::fault::{Faults, KeyPath};
use super::read;
use super::yaml::{Entry, Node, Value};
use crate::model::Micros;

/// The `server` section while it is read; empty when the file has none.
///
/// Each reader takes the value of one key: absent when the file doesn't say, or when what it says
/// is wrong, which is then noted. A key that nobody asked for is a fault, too.
#[derive(Debug)]
pub struct Section<'a> {
    unread: Vec<&'a Entry>,
    known: Vec<&'static str>,
    path: KeyPath,
    faults: &'a mut Faults,
}

impl<'a> Section<'a> {
    pub(super) fn new(entry: Option<&'a Entry>, path: KeyPath, faults: &'a mut Faults) -> Self {
        let what = "a map of server settings";
        let entries = entry.and_then(|entry| read::map(&entry.value, &path, what, faults));
        Section {
            unread: entries.unwrap_or_default().iter().collect(),
            known: Vec::new(),
            path,
            faults,
        }
    }

    /// Leaves the section to others, whatever it holds.
    pub(super) fn ignore(&mut self) {
        self.unread.clear();
    }

    /// Notes the keys that nobody asked for.
    pub(super) fn finish(self) {
        for entry in self.unread {
            read::unknown_key(entry, &self.path, &self.known, self.faults);
        }
    }

    fn take(&mut self, key: &str) -> Option<&'a Entry> {
        let at = self.unread.iter().position(|entry| entry.key == key)?;
        Some(self.unread.remove(at))
    }

    fn value(&mut self, key: &'static str) -> Option<(&'a Node, KeyPath)> {
        self.known.push(key);
        let entry = self.take(key)?;
        Some((&entry.value, self.path.key(key)))
    }

    /// A whole number from `least` to `most`.
    pub fn whole(&mut self, key: &'static str, (least, most): (u64, u64)) -> Option<u64> {
        let (node, path) = self.value(key)?;
        read::whole(node, &path, (least, most), self.faults)
    }

    /// A duration from `least` to `most`, such as `500ms` or `2s`.
    pub fn duration(
        &mut self,
        key: &'static str,
        (least, most): (Micros, Micros),
    ) -> Option<Micros> {
        let (node, path) = self.value(key)?;
        read::duration(node, &path, (least, most), self.faults)
    }

    /// One of a few words.
    pub fn word<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let (node, path) = self.value(key)?;
        read::word(node, &path, choices, self.faults)
    }

    /// What reads itself from text and says what is wrong with it; `what` names it for messages.
    pub fn parsed<T>(&mut self, key: &'static str, what: &str) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let (node, path) = self.value(key)?;
        read::parsed(node, &path, what, self.faults)
    }

    /// A list of at most `len_max` such values, without those that are wrong. For messages: `what`
    /// names the list, `one` and `many` what is in it.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        what: &str,
        (one, many): (&str, &str),
        len_max: usize,
    ) -> Option<Vec<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let (node, path) = self.value(key)?;
        let Value::List(items) = &node.value else {
            read::expected(node, &path, what, self.faults);
            return None;
        };
        if items.len() > len_max {
            let problem = format!("{} {many} are too many", items.len());
            let cure = format!("the most is {len_max}");
            self.faults.add_with(node.at, &path, problem, cure);
            return None;
        }
        let values = items.iter().enumerate();
        let values = values
            .filter_map(|(n, item)| read::parsed(item, &path.index(n), one, self.faults))
            .collect();
        Some(values)
    }

    /// Notes a key that must not be here, and what to do instead.
    pub fn forbid(&mut self, key: &str, problem: &str, cure: &str) {
        if let Some(entry) = self.take(key) {
            let path = self.path.key(key);
            self.faults.add_with(entry.at, &path, problem, cure);
        }
    }
}
