//! A YAML document as a tree in which every key and value knows its place.
//!
//! Takes the plain part of YAML only: no anchors, aliases, tags or second documents, since a
//! limit that is written elsewhere is a limit nobody finds. Never resolves a scalar's type: that
//! is for whoever knows what should be there. Never recurses, and never keeps more than
//! [`FILE_BYTES_MAX`] bytes to [`node::DEPTH_MAX`] levels.

mod build;
mod node;

use saphyr_parser::Parser;

use self::build::{Builder, Stop, mark_of};
pub(super) use self::node::{Entry, Node, Value};
use super::fault::{Faults, KeyPath, Mark};

/// The longest file, in bytes: 16 MiB.
pub const FILE_BYTES_MAX: usize = 16 * 1_024 * 1_024;

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
        let mut many: String = (1..=100).map(|n| format!("k{n}: 1\n")).collect();
        many.push_str("k3: 2\nk99: 2\nk101: 1\nk101: 2\n");
        let faults = faults_of(&many);
        assert_eq!(faults.len(), 3, "{faults:#?}");
        assert!(faults[0].starts_with("101:1: k3: this key stands twice: first in line 3"));
        assert!(faults[2].starts_with("104:1: k101: this key stands twice: first in line 103"));
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
