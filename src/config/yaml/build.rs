//! Builds the tree from the parser's events, and refuses what isn't plain. Never deeper than
//! [`DEPTH_MAX`].

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::node::{DEPTH_MAX, Entry, Node, Value};
use crate::config::fault::{Faults, KeyPath, Mark};

/// Maps of at most so many keys have no index.
const SCANNED_MAX: usize = 16;

/// Why reading ended early.
pub(super) enum Stop {
    Syntax(ScanError),
    Reported,
}

/// What is open: a list or a map that hasn't ended.
enum Frame {
    List {
        at: Mark,
        items: Vec<Node>,
    },
    Map {
        at: Mark,
        entries: Vec<Entry>,
        /// Keys by their text, once there are more than [`SCANNED_MAX`].
        index: HashMap<Box<str>, Mark>,
        key: Key,
    },
}

/// Whose value comes next in a map.
enum Key {
    /// None's: a key comes next.
    Awaited,
    /// This key's.
    Given { text: String, at: Mark },
    /// One that was refused: its value is dropped.
    Refused,
}

#[derive(Default)]
pub(super) struct Builder {
    open: Vec<Frame>,
    pub root: Option<Node>,
    documents: usize,
}

pub(super) fn mark_of(marker: saphyr_parser::Marker) -> Mark {
    Mark {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

impl Builder {
    pub fn run<'i>(
        &mut self,
        parser: &mut Parser<'i, StrInput<'i>>,
        faults: &mut Faults,
    ) -> Result<(), Stop> {
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(Stop::Syntax)?;
            self.take(event, span, faults)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: Span, faults: &mut Faults) -> Result<(), Stop> {
        let at = mark_of(span.start);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let problem = "a second document begins here";
                    let cure = "put everything into one: take the `---` out";
                    faults.add_with(at, &KeyPath::default(), problem, cure);
                    return Err(Stop::Reported);
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = style != ScalarStyle::Plain;
                let text = text.into_owned();
                let plain = self.plain(at, anchor, tag.is_some(), faults);
                let value = match plain {
                    true => Value::Scalar { text, quoted },
                    false => Value::Refused,
                };
                self.complete(Node { at, value }, faults);
            }
            Event::Alias(_) => {
                self.refuse_reference(at, faults);
                let value = Value::Refused;
                self.complete(Node { at, value }, faults);
            }
            Event::SequenceStart(anchor, tag) => {
                self.plain(at, anchor, tag.is_some(), faults);
                let items = Vec::new();
                self.push(Frame::List { at, items }, at, faults)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.plain(at, anchor, tag.is_some(), faults);
                let frame = Frame::Map {
                    at,
                    entries: Vec::new(),
                    index: HashMap::new(),
                    key: Key::Awaited,
                };
                self.push(frame, at, faults)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(frame) = self.open.pop() {
                    let node = match frame {
                        Frame::List { at, items } => Node {
                            at,
                            value: Value::List(items),
                        },
                        Frame::Map { at, entries, .. } => Node {
                            at,
                            value: Value::Map(entries),
                        },
                    };
                    self.complete(node, faults);
                }
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn push(&mut self, frame: Frame, at: Mark, faults: &mut Faults) -> Result<(), Stop> {
        if self.open.len() >= DEPTH_MAX {
            let problem = format!("more than {DEPTH_MAX} maps and lists lie in each other");
            faults.add(at, &self.path(), problem);
            return Err(Stop::Reported);
        }
        self.open.push(frame);
        Ok(())
    }

    /// Whether a value has neither anchor nor tag; says so otherwise.
    fn plain(&self, at: Mark, anchor: usize, tagged: bool, faults: &mut Faults) -> bool {
        if anchor > 0 {
            self.refuse_reference(at, faults);
        }
        if tagged {
            let problem = "YAML tags (`!…`) mean nothing here";
            faults.add_with(at, &self.path(), problem, "take the tag out");
        }
        anchor == 0 && !tagged
    }

    fn refuse_reference(&self, at: Mark, faults: &mut Faults) {
        let problem = "YAML anchors and aliases (`&…`, `*…`) are not taken";
        faults.add_with(at, &self.path(), problem, "write the value out");
    }

    /// Puts a finished value where it belongs: into the list, under its key, or as the key.
    fn complete(&mut self, node: Node, faults: &mut Faults) {
        let at = node.at;
        let refused = match self.open.last_mut() {
            None => {
                self.root = Some(node);
                None
            }
            Some(Frame::List { items, .. }) => {
                items.push(node);
                None
            }
            Some(Frame::Map {
                entries,
                index,
                key,
                ..
            }) => match std::mem::replace(key, Key::Awaited) {
                Key::Awaited => {
                    let (next, refused) = key_of(node, entries, index);
                    *key = next;
                    refused
                }
                Key::Given { text, at } => {
                    let (key, value) = (text, node);
                    entries.push(Entry { key, at, value });
                    None
                }
                Key::Refused => None,
            },
        };
        match refused {
            Some(KeyFault::Twice { key, first }) => {
                let path = self.path().key(&key);
                let problem = format!("this key stands twice: first in line {}", first.line);
                faults.add_with(at, &path, problem, "keep one of them");
            }
            Some(KeyFault::NotText) => {
                faults.add(at, &self.path(), "a list or a map can't be a key");
            }
            None => {}
        }
    }

    /// The way to what is being read.
    fn path(&self) -> KeyPath {
        self.open
            .iter()
            .fold(KeyPath::default(), |path, frame| match frame {
                Frame::List { items, .. } => path.index(items.len()),
                Frame::Map {
                    key: Key::Given { text, .. },
                    ..
                } => path.key(text),
                Frame::Map { .. } => path,
            })
    }
}

/// Where this key stands already. Keys of a small map are looked at one by one: most maps are
/// small, and an index of each would take more room than the file.
fn first_place(key: &str, entries: &[Entry], index: &mut HashMap<Box<str>, Mark>) -> Option<Mark> {
    if entries.len() <= SCANNED_MAX {
        let first = entries.iter().find(|entry| entry.key == key);
        return first.map(|entry| entry.at);
    }
    let missing = entries.iter().skip(index.len());
    index.extend(missing.map(|entry| (entry.key.as_str().into(), entry.at)));
    index.get(key).copied()
}

/// Why a key is refused.
enum KeyFault {
    Twice { key: String, first: Mark },
    NotText,
}

fn key_of(
    node: Node,
    entries: &[Entry],
    index: &mut HashMap<Box<str>, Mark>,
) -> (Key, Option<KeyFault>) {
    let at = node.at;
    match node.value {
        Value::Scalar { text, .. } => match first_place(&text, entries, index) {
            Some(first) => {
                let key = text;
                (Key::Refused, Some(KeyFault::Twice { key, first }))
            }
            None => (Key::Given { text, at }, None),
        },
        Value::Refused => (Key::Refused, None),
        Value::List(_) | Value::Map(_) => (Key::Refused, Some(KeyFault::NotText)),
    }
}
