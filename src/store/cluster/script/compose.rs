//! One script text out of the files in `lua/`, for an operation and an ordered tuple of algorithms.
//!
//! The files are plain Lua. Read them as they stand: `ceilings`, `counters` (the ceilings that are
//! no logs), `logs` (with the record of ids, where there is one) and `limiting_logs` (without it)
//! are lists of objects, whose class is their algorithm's file. In Redis a table costs as much as
//! a tenth of a check, and a function as it is defined a hundredth, so a text has neither:
//! - `for _, log in ipairs(logs) do`, to the `end` of its indentation, stands there once for each
//!   object of the list;
//! - in it the line `log:read(now)` becomes the body of the method in a block of its own, which
//!   works because a call passes variables that are named as the parameters are;
//! - `log.used` becomes the local variable `used_1`, by the object's number; and what the shape
//!   alone says, `log.key` or `first_request` for two, a constant ([`constant`] and [`word`] have
//!   them all).
//!
//! Never reads anything but its own files: a text is a constant of the build.

use std::collections::BTreeSet;

use super::Operation;
use super::layout::Layout;
use crate::model::Algorithm;

const CHARGE: &str = include_str!("../../../../lua/charge.lua");
const PEEK: &str = include_str!("../../../../lua/peek.lua");
const REFUND: &str = include_str!("../../../../lua/refund.lua");
const REPLAY: &str = include_str!("../../../../lua/replay.lua");
const CLOCK: &str = include_str!("../../../../lua/clock.lua");
const ARITHMETIC: &str = include_str!("../../../../lua/arithmetic.lua");
const FAST_PATH: &str = include_str!("../../../../lua/fast_path.lua");
const SLIDING_LOG: &str = include_str!("../../../../lua/sliding_log.lua");
const SLIDING_COUNTER: &str = include_str!("../../../../lua/sliding_counter.lua");
const FIXED_WINDOW: &str = include_str!("../../../../lua/fixed_window.lua");
const TOKEN_BUCKET: &str = include_str!("../../../../lua/token_bucket.lua");

/// The script's whole text.
pub(super) fn compose(operation: Operation, layout: &Layout) -> String {
    let (main, flags) = match operation {
        Operation::Charge => (CHARGE, ""),
        Operation::Peek => (PEEK, " flags=no-writes"),
        // It frees memory; a full server must not refuse it.
        Operation::Refund => (REFUND, " flags=allow-oom"),
        Operation::Replay => (REPLAY, ""),
    };
    let only_logs = layout.logs().len() == layout.algorithms().len() && !layout.is_recorded();
    let mut text = format!("#!lua{flags}\nlocal call, KEYS, ARGV = redis.call, KEYS, ARGV\n");
    if only_logs && operation == Operation::Charge {
        // A block of its own: what comes after it has variables that this need not clear.
        text += &format!("do\n{}end\n", section(layout, &[FAST_PATH]));
    }
    let arithmetic = if only_logs { "" } else { ARITHMETIC };
    text + &section(layout, &[CLOCK, arithmetic, main])
}

/// Sources that share their variables.
fn section(layout: &Layout, sources: &[&str]) -> String {
    let mut unroller = Unroller {
        layout,
        text: String::new(),
        fields: BTreeSet::new(),
    };
    for source in sources {
        unroller.unroll(source, None);
    }
    let fields: Vec<String> = unroller.fields.into_iter().collect();
    match fields.is_empty() {
        true => unroller.text,
        false => format!("local {}\n{}", fields.join(", "), unroller.text),
    }
}

/// What all of a script may need to know of its shape.
fn word(layout: &Layout, word: &str) -> Option<String> {
    Some(match word {
        "ceiling_count" => layout.algorithms().len().to_string(),
        "first_request" => layout.first_arg(layout.parts().len()).to_string(),
        "first_companion" => layout.companion(0).to_string(),
        "has_logs" => (!layout.logs().is_empty()).to_string(),
        "has_record" => layout.is_recorded().to_string(),
        "note_format" => format!("'<d{}'", "dd".repeat(layout.algorithms().len())),
        _ => return None,
    })
}

/// A field that the shape alone decides.
fn constant(layout: &Layout, part: usize, field: &str) -> Option<String> {
    let logs = layout.logs();
    Some(match field {
        "key" => format!("KEYS[{}]", part + 1),
        "companion" => format!("KEYS[{}]", layout.companion(part)),
        // The first of its arguments, and of its elements in the reply.
        "args" => layout.first_arg(part).to_string(),
        "slot" => layout.first_slot(part).to_string(),
        "number" => (part + 1).to_string(),
        "is_first" => (logs.first() == Some(&part)).to_string(),
        "is_last" => (logs.last() == Some(&part)).to_string(),
        _ => return None,
    })
}

fn class(algorithm: Algorithm) -> (&'static str, &'static str) {
    match algorithm {
        Algorithm::SlidingLog => ("sliding_log", SLIDING_LOG),
        Algorithm::SlidingCounter => ("sliding_counter", SLIDING_COUNTER),
        Algorithm::FixedWindow => ("fixed_window", FIXED_WINDOW),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => ("token_bucket", TOKEN_BUCKET),
    }
}

/// The body of a method, called with variables of its parameters' names.
fn method(algorithm: Algorithm, call: &str) -> Option<String> {
    let (class, source) = class(algorithm);
    let head = format!("function {class}:{call}");
    let mut lines = source.lines();
    lines.find(|line| *line == head)?;
    let body: Vec<&str> = lines.take_while(|line| *line != "end").collect();
    Some(body.join("\n"))
}

/// `for _, NAME in ipairs(LIST) do`
fn loop_over(line: &str) -> Option<(&str, &str)> {
    let (name, list) = line.strip_prefix("for _, ")?.split_once(" in ipairs(")?;
    Some((name, list.strip_suffix(") do")?))
}

struct Unroller<'a> {
    layout: &'a Layout,
    text: String,
    fields: BTreeSet<String>,
}

impl Unroller<'_> {
    /// Adds a source, in which a name is that of an object: the part of this number.
    fn unroll(&mut self, source: &str, object: Option<(&str, usize)>) {
        let mut lines = source.lines();
        while let Some(line) = lines.next() {
            let code = line.trim_start();
            if code.is_empty() || code.starts_with("--") {
                continue;
            }
            if let Some((name, list)) = loop_over(code) {
                let end = line.replace(code, "end");
                let body: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
                for part in self.list(list) {
                    self.block(&body.join("\n"), (name, part));
                }
                continue;
            }
            match object.and_then(|object| self.method(code, object)) {
                Some((body, part)) => self.block(&body, ("self", part)),
                None => self.line(line, object),
            }
        }
    }

    fn block(&mut self, source: &str, object: (&str, usize)) {
        self.text.push_str("do\n");
        self.unroll(source, Some(object));
        self.text.push_str("end\n");
    }

    fn list(&self, name: &str) -> Vec<usize> {
        let ceilings = 0..self.layout.algorithms().len();
        let logs = self.layout.logs();
        match name {
            "logs" => logs,
            "limiting_logs" => ceilings.filter(|part| logs.contains(part)).collect(),
            "counters" => ceilings.filter(|part| !logs.contains(part)).collect(),
            _ => ceilings.collect(),
        }
    }

    fn method(&self, code: &str, (name, part): (&str, usize)) -> Option<(String, usize)> {
        let call = code.strip_prefix(name)?.strip_prefix(':')?;
        let algorithm = self.layout.parts().get(part)?;
        Some((method(*algorithm, call)?, part))
    }

    /// Adds a line, word by word: an object's fields in it as variables or constants.
    fn line(&mut self, line: &str, object: Option<(&str, usize)>) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut rest = line;
        while let Some(at) = rest.find(is_part) {
            let (before, from) = rest.split_at(at);
            let (name, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
            self.text.push_str(before);
            rest = after;
            let field = object.filter(|(object, _)| *object == name);
            if let (Some((_, part)), Some(fields)) = (field, after.strip_prefix('.')) {
                let end = fields.find(|c| !is_part(c)).unwrap_or(fields.len());
                let (field, after) = fields.split_at(end);
                rest = after;
                let variable = constant(self.layout, part, field).unwrap_or_else(|| {
                    let variable = format!("{field}_{}", part + 1);
                    self.fields.insert(variable.clone());
                    variable
                });
                self.text.push_str(&variable);
                continue;
            }
            match word(self.layout, name) {
                Some(constant) => self.text.push_str(&constant),
                None => self.text.push_str(name),
            }
        }
        self.text.push_str(rest);
        self.text.push('\n');
    }
}
