//! One script text out of the fragments in `lua/`, for an operation and an ordered tuple of
//! algorithms. Nothing is dispatched while a script runs: each ceiling's steps stand where they
//! are needed, its variables told apart by the ceiling's number.
//!
//! A script's parts are its ceilings, and after them, where callers' ids matter and no ceiling's
//! log holds them, a record of ids: a sliding log that limits nothing.
//!
//! A fragment is divided by `--@ section NAME` lines. In a text, a line
//! - `--@ each NAME` stands for that section of every part's algorithm, in order;
//! - `--@ logs NAME` for that of the parts that are sliding logs;
//! - `--@ own NAME` for that of the part in whose section it stands;
//! - `--@ once NAME` for a section that is there once, however many parts there are.
//!
//! A section that an algorithm doesn't have is empty. Within a line, `<<TEXT>>` stands for TEXT
//! once a ceiling, joined by commas or by what follows a bar (`<<n_i_ > 0| and >>`), and
//! `<<logs TEXT>>` once a log. In a part's text `_i_` is its number from 1, `_a_` the index of its
//! first argument, `_s_` of its slot in the reply, `_x_` of its companion's key. Everywhere `_n_`
//! is how many ceilings there are, `_first_` the number of the first log, `_r_` the index of the
//! first request's first argument, `_kept_` whether a request's id is kept, `_counted_` whether
//! what a log gives back counts.
//! Never reads anything but its own fragments: a text is a constant of the build.

use super::Operation;
use super::keys::Keys;
use super::strings::{Strings, StringsMaker};
use crate::model::{Algorithm, Ceiling};

const CHARGE: &str = include_str!("../../../../lua/charge.lua");
const PEEK: &str = include_str!("../../../../lua/peek.lua");
const REFUND: &str = include_str!("../../../../lua/refund.lua");
const REPLAY: &str = include_str!("../../../../lua/replay.lua");
const CLOCK: &str = include_str!("../../../../lua/clock.lua");
const EXACT: &str = include_str!("../../../../lua/exact.lua");
const SPRINT: &str = include_str!("../../../../lua/sprint.lua");
const SLIDING_LOG: &str = include_str!("../../../../lua/sliding_log.lua");
const SLIDING_COUNTER: &str = include_str!("../../../../lua/sliding_counter.lua");
const FIXED_WINDOW: &str = include_str!("../../../../lua/fixed_window.lua");
const TOKEN_BUCKET: &str = include_str!("../../../../lua/token_bucket.lua");
const LEAKY_BUCKET: &str = include_str!("../../../../lua/leaky_bucket.lua");

/// What a record of ids, a log that limits nothing, has no part in.
const OF_CEILINGS_ONLY: [&str; 5] = ["state", "try", "take", "refuse", "report"];

/// Where the parts of a script for certain algorithms find what they are given. All indices are
/// Lua's, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The ceilings', then a sliding log's for the record.
    parts: Vec<Algorithm>,
    recorded: bool,
}

impl Layout {
    /// For ceilings of these algorithms, with a record of ids when `ids_matter` and no ceiling's
    /// own log holds them.
    pub fn new(ceilings: &[Ceiling], ids_matter: bool) -> Self {
        let mut parts: Vec<Algorithm> = ceilings.iter().map(|c| c.algorithm).collect();
        let recorded = ids_matter && !parts.contains(&Algorithm::SlidingLog);
        if recorded {
            parts.push(Algorithm::SlidingLog);
        }
        Layout { parts, recorded }
    }

    /// The ceilings' algorithms.
    pub fn algorithms(&self) -> &[Algorithm] {
        match self.parts.split_last() {
            Some((_, ceilings)) if self.recorded => ceilings,
            _ => &self.parts,
        }
    }

    /// Whether callers' ids are kept in a record of their own.
    pub const fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// Whether a ceiling's log holds the charges' ids.
    pub fn has_log(&self) -> bool {
        self.algorithms().contains(&Algorithm::SlidingLog)
    }

    /// The keys that a script of this layout takes.
    pub fn keys(&self, names: &Keys, ceilings: &[Ceiling]) -> Strings {
        let count = 2 * self.parts.len();
        let mut keys = StringsMaker::with_capacity(count, count * names.len_max());
        for ceiling in ceilings {
            names.push_ceiling(ceiling, &mut keys);
        }
        if self.recorded {
            names.push_record(&mut keys);
        }
        for ceiling in ceilings {
            if ceiling.algorithm == Algorithm::SlidingLog {
                names.push_companion(ceiling, &mut keys);
            }
        }
        keys.finish()
    }

    /// How many arguments a part takes.
    fn args_of(algorithm: Algorithm) -> usize {
        match algorithm {
            Algorithm::SlidingLog => 2,
            Algorithm::SlidingCounter | Algorithm::FixedWindow => 3,
            Algorithm::TokenBucket | Algorithm::LeakyBucket => 4,
        }
    }

    /// How many slots of the reply a ceiling's state takes.
    fn slots_of(algorithm: Algorithm) -> usize {
        match algorithm {
            Algorithm::SlidingLog => 2,
            _ => 1,
        }
    }

    fn logs(&self) -> impl Iterator<Item = usize> {
        let logs = self.parts.iter().enumerate();
        logs.filter(|(_, a)| **a == Algorithm::SlidingLog)
            .map(|(part, _)| part)
    }

    fn all_logs(&self) -> bool {
        self.algorithms()
            .iter()
            .all(|a| *a == Algorithm::SlidingLog)
    }

    fn first_arg(&self, part: usize) -> usize {
        2 + sum(&self.parts, part, Self::args_of)
    }

    fn first_slot(&self, part: usize) -> usize {
        3 + sum(&self.parts, part, Self::slots_of)
    }

    fn companion_key(&self, part: usize) -> usize {
        let before = self.logs().filter(|&p| p < part).count();
        self.parts.len() + before + 1
    }
}

fn sum(parts: &[Algorithm], upto: usize, size: fn(Algorithm) -> usize) -> usize {
    parts.iter().take(upto).map(|&a| size(a)).sum()
}

/// The script's whole text.
pub(super) fn compose(operation: Operation, layout: &Layout) -> String {
    let (frame, flags) = match operation {
        Operation::Charge => (CHARGE, ""),
        Operation::Peek => (PEEK, " flags=no-writes"),
        // It frees memory; a full server must not refuse it.
        Operation::Refund => (REFUND, " flags=allow-oom"),
        Operation::Replay => (REPLAY, ""),
    };
    let mut text = format!("#!lua{flags}\n");
    expand(frame, None, layout, &mut text);
    text
}

fn expand(source: &str, part: Option<usize>, layout: &Layout, out: &mut String) {
    for line in source.lines() {
        let line = line.trim_start();
        let Some(directive) = line.strip_prefix("--@ ") else {
            if !line.is_empty() && !line.starts_with("--") {
                out.push_str(&fill_in(line, part, layout));
                out.push('\n');
            }
            continue;
        };
        let (whose, name) = directive.split_once(' ').unwrap_or((directive, ""));
        match whose {
            "once" => expand(&once(name, layout), None, layout, out),
            "each" => (0..layout.parts.len()).for_each(|p| of_part(name, p, layout, out)),
            "logs" => layout.logs().for_each(|p| of_part(name, p, layout, out)),
            _ => part.into_iter().for_each(|p| of_part(name, p, layout, out)),
        }
    }
}

fn of_part(name: &str, part: usize, layout: &Layout, out: &mut String) {
    let Some(&algorithm) = layout.parts.get(part) else {
        return;
    };
    let is_record = part >= layout.algorithms().len();
    if is_record && OF_CEILINGS_ONLY.contains(&name) {
        return;
    }
    let sources: &[&str] = match algorithm {
        Algorithm::SlidingLog => &[SLIDING_LOG, SPRINT],
        Algorithm::SlidingCounter => &[SLIDING_COUNTER],
        Algorithm::FixedWindow => &[FIXED_WINDOW],
        Algorithm::TokenBucket => &[TOKEN_BUCKET],
        Algorithm::LeakyBucket => &[LEAKY_BUCKET, TOKEN_BUCKET],
    };
    if let Some(source) = sources.iter().find_map(|source| section(source, name)) {
        expand(&source, Some(part), layout, out);
    }
}

fn once(name: &str, layout: &Layout) -> String {
    let text = |source| section(source, name).unwrap_or_default();
    match name {
        "clock" if layout.all_logs() => text(CLOCK),
        "clock" => text(CLOCK) + &section(EXACT, "exact").unwrap_or_default(),
        "sprint" | "recall" | "note" if layout.all_logs() => text(SPRINT),
        _ if layout.logs().next().is_some() => text(SLIDING_LOG),
        _ => String::new(),
    }
}

fn section(source: &str, name: &str) -> Option<String> {
    let heading = |line: &str| line.strip_prefix("--@ section ").map(str::to_owned);
    let mut lines = source.lines();
    lines.find(|line| heading(line).as_deref() == Some(name))?;
    let body: Vec<&str> = lines.take_while(|line| heading(line).is_none()).collect();
    Some(body.join("\n") + "\n")
}

fn fill_in(line: &str, part: Option<usize>, layout: &Layout) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("<<") {
        let (inner, after) = after.split_once(">>").unwrap_or((after, ""));
        text.push_str(before);
        text.push_str(&repeated(inner, layout));
        rest = after;
    }
    text.push_str(rest);
    let n = layout.algorithms().len();
    let slots = vec!["false"; layout.first_slot(n) - 3].join(", ");
    let first_log = layout.logs().next().map_or(0, |p| p + 1);
    let (kept, counted) = match layout.recorded {
        true => ("how == 'c'", "false"),
        false => ("true", "true"),
    };
    let text = text
        .replace("_slots_", &slots)
        .replace("_kept_", kept)
        .replace("_counted_", counted)
        .replace("_first_", &first_log.to_string())
        .replace("_n_", &n.to_string())
        .replace("_r_", &layout.first_arg(layout.parts.len()).to_string());
    match part {
        Some(p) => of_number(&text, p, layout),
        None => text,
    }
}

fn repeated(inner: &str, layout: &Layout) -> String {
    let (text, between) = inner.rsplit_once('|').unwrap_or((inner, ", "));
    let parts: Vec<String> = match text.strip_prefix("logs ") {
        Some(text) => layout.logs().map(|p| of_number(text, p, layout)).collect(),
        None => (0..layout.algorithms().len())
            .map(|p| of_number(text, p, layout))
            .collect(),
    };
    parts.join(between)
}

fn of_number(text: &str, part: usize, layout: &Layout) -> String {
    text.replace("_i_", &(part + 1).to_string())
        .replace("_a_", &layout.first_arg(part).to_string())
        .replace("_s_", &layout.first_slot(part).to_string())
        .replace("_x_", &layout.companion_key(part).to_string())
}
