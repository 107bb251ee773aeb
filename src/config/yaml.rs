//! A YAML document as a tree in which every key and value knows its place.
//!
//! Takes the plain part of YAML only: no anchors, aliases, tags or second documents, since a
//! limit that is written elsewhere is a limit nobody finds. Never resolves a scalar's type: that
//! is for whoever knows what should be there. Never recurses, and never keeps more than
//! [`FILE_BYTES_MAX`] bytes to [`DEPTH_MAX`] levels.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::fault::{Faults, KeyPath, Mark};

/// The longest file, in bytes: 16 MiB.
pub const FILE_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// How deep maps and lists may lie in each other.
pub const DEPTH_MAX: usize = 16;

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub at: Mark,
    pub value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
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
pub(super) struct Entry {
    pub key: String,
    pub at: Mark,
    pub value: Node,
}

/// Reads the one document of `text`; absent when the faults say why.
pub(super) fn read(text: &str, faults: &mut Faults) -> Option<Node> {
    let top = KeyPath::default();
    if text.len() > FILE_BYTES_MAX {
        let problem = format!("a file of {} bytes is too long", text.len());
        let cure = format!("the most is {FILE_BYTES_MAX} bytes");
        faults.add_with(Mark::START, &top, problem, cure);
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    match builder.run(&mut parser, faults) {
        Ok(()) => {}
        Err(Stop::Syntax(error)) => {
            faults.add_with(mark_of(*error.marker()), &top, error.info(), SYNTAX_CURE);
            return None;
        }
        Err(Stop::Reported) => return None,
    }
    if builder.root.is_none() {
        let cure = "it begins with `version: 1`, then `policies:`";
        faults.add_with(Mark::START, &top, "the file is empty", cure);
    }
    builder.root
}

const SYNTAX_CURE: &str = "this is not YAML: look at this line and the one before for \
    indentation (spaces only), a space after each colon, and missing quotes or brackets";

/// Why reading ended early.
enum Stop {
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
        seen: HashMap<String, Mark>,
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
struct Builder {
    open: Vec<Frame>,
    root: Option<Node>,
    documents: usize,
}

fn mark_of(marker: saphyr_parser::Marker) -> Mark {
    Mark {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

impl Builder {
    fn run<'i>(
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
                    seen: HashMap::new(),
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
                entries, seen, key, ..
            }) => match std::mem::replace(key, Key::Awaited) {
                Key::Awaited => {
                    let (next, refused) = key_of(node, seen);
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

/// Why a key is refused.
enum KeyFault {
    Twice { key: String, first: Mark },
    NotText,
}

fn key_of(node: Node, seen: &mut HashMap<String, Mark>) -> (Key, Option<KeyFault>) {
    let at = node.at;
    match node.value {
        Value::Scalar { text, .. } => match seen.get(&text) {
            Some(&first) => {
                let key = text;
                (Key::Refused, Some(KeyFault::Twice { key, first }))
            }
            None => {
                seen.insert(text.clone(), at);
                (Key::Given { text, at }, None)
            }
        },
        Value::Refused => (Key::Refused, None),
        Value::List(_) | Value::Map(_) => (Key::Refused, Some(KeyFault::NotText)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(text: &str) -> Vec<String> {
        let mut faults = Faults::default();
        read(text, &mut faults);
        faults.iter().map(|fault| fault.to_string()).collect()
    }

    fn only_fault_of(text: &str) -> String {
        let faults = faults_of(text);
        assert_eq!(faults.len(), 1, "{faults:#?}");
        faults.into_iter().next().unwrap()
    }

    #[test]
    fn every_key_and_value_knows_its_place() {
        let mut faults = Faults::default();
        let root = read("\u{feff}a:\n  b: [x, 'y']\n", &mut faults).unwrap();
        assert!(faults.is_empty());
        let Value::Map(top) = &root.value else {
            panic!()
        };
        let Value::Map(inner) = &top[0].value.value else {
            panic!()
        };
        assert_eq!(inner[0].at, Mark { line: 2, column: 3 });
        let Value::List(items) = &inner[0].value.value else {
            panic!()
        };
        assert_eq!(
            items[1].at,
            Mark {
                line: 2,
                column: 10
            }
        );
        assert!(matches!(&items[1].value, Value::Scalar { text, quoted: true } if text == "y"));
    }

    #[test]
    fn a_key_that_stands_twice_is_a_fault_and_the_first_is_kept() {
        let fault = only_fault_of("a:\n  b: 1\n  c: 2\n  b: 3\n");
        assert!(fault.starts_with("4:3: a.b: this key stands twice: first in line 2"));
    }

    #[test]
    fn anchors_aliases_and_tags_are_each_named() {
        let faults = faults_of("a: &x 1\nb: *x\nc: !z 1\nd: &y {e: 1}\n");
        let lines: Vec<_> = faults.iter().map(|f| &f[..5]).collect();
        assert_eq!(lines.len(), 4, "{faults:#?}");
        assert!(faults[1].starts_with("2:4: b: YAML anchors and aliases"));
    }

    #[test]
    fn what_grows_without_bound_is_refused_early() {
        let nested = format!("{}{}", "[".repeat(20), "]".repeat(20));
        assert!(only_fault_of(&nested).contains("16 maps and lists"));
        assert!(only_fault_of(&"[".repeat(100_000)).contains("this is not YAML"));
        assert!(only_fault_of(&"- ".repeat(100_000)).contains("16 maps and lists"));
        assert!(only_fault_of(&" ".repeat(FILE_BYTES_MAX + 1)).contains("too long"));
        let laughs = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n";
        assert!(faults_of(laughs).len() >= 3);
    }

    #[test]
    fn what_is_not_one_yaml_document_is_said() {
        assert!(only_fault_of("a: b: c\n").contains("this is not YAML"));
        assert!(only_fault_of("a: [1\n").contains("this is not YAML"));
        assert!(only_fault_of("").contains("the file is empty"));
        assert!(only_fault_of("# nothing\n").contains("the file is empty"));
        assert!(only_fault_of("a: 1\n---\nb: 1\n").contains("a second document"));
        assert!(only_fault_of("? [a]\n: 1\n").contains("can't be a key"));
    }
}
