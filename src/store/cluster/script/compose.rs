//! One script text out of the fragments in `lua/`, for an operation and an ordered tuple of
//! algorithms. Nothing is dispatched while a script runs: each ceiling's steps stand where they
//! are needed, its variables told apart by the ceiling's number.
//!
//! A fragment is divided by `--@ section NAME` lines. In a text, a line
//! - `--@ each NAME` stands for that section of every ceiling's algorithm, in order;
//! - `--@ logs NAME` for that of the ceilings that are sliding logs;
//! - `--@ own NAME` for that of the ceiling in whose section it stands;
//! - `--@ once NAME` for a section that is there once, however many ceilings there are.
//!
//! A section that an algorithm doesn't have is empty. Within a line, `<<TEXT>>` stands for TEXT
//! once a ceiling, joined by commas or by what follows a bar (`<<n_i_ > 0| and >>`); `<<logs TEXT>>`
//! once a sliding log. In a ceiling's text `_i_` is its number from 1, `_a_` the index of its
//! first argument, `_s_` of its slot in the reply, `_x_` of its companion's key. Everywhere `_n_`
//! is how many ceilings there are, `_first_` the number of the first log, `_r_` the index of the
//! first request's first argument, `_p_` of the record's, `_e_` of the record's first key.
//! Never reads anything but its own fragments: a text is a constant of the build.

use super::Operation;
use super::keys::Keys;
use crate::model::{Algorithm, Ceiling};

const CHARGE: &str = include_str!("../../../../lua/charge.lua");
const PEEK: &str = include_str!("../../../../lua/peek.lua");
const REFUND: &str = include_str!("../../../../lua/refund.lua");
const REPLAY: &str = include_str!("../../../../lua/replay.lua");
const CLOCK: &str = include_str!("../../../../lua/clock.lua");
const EXACT: &str = include_str!("../../../../lua/exact.lua");
const RECORD: &str = include_str!("../../../../lua/record.lua");
const SLIDING_LOG: &str = include_str!("../../../../lua/sliding_log.lua");
const SLIDING_COUNTER: &str = include_str!("../../../../lua/sliding_counter.lua");
const FIXED_WINDOW: &str = include_str!("../../../../lua/fixed_window.lua");
const TOKEN_BUCKET: &str = include_str!("../../../../lua/token_bucket.lua");
const LEAKY_BUCKET: &str = include_str!("../../../../lua/leaky_bucket.lua");

/// Where the parts of a script for certain algorithms find what they are given. All indices are
/// Lua's, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub algorithms: Vec<Algorithm>,
    /// Whether the callers' ids are kept in a record of their own.
    pub recorded: bool,
}

impl Layout {
    /// For these algorithms, with a record of ids when `ids_matter` and no log holds them.
    pub fn new(algorithms: Vec<Algorithm>, ids_matter: bool) -> Self {
        let recorded = ids_matter && !algorithms.contains(&Algorithm::SlidingLog);
        Layout {
            algorithms,
            recorded,
        }
    }

    /// The keys that a script of this layout takes.
    pub fn keys(&self, names: &Keys, ceilings: &[Ceiling]) -> Vec<String> {
        let mut keys: Vec<String> = ceilings.iter().map(|c| names.ceiling(c)).collect();
        let logs = ceilings
            .iter()
            .filter(|c| c.algorithm == Algorithm::SlidingLog);
        keys.extend(logs.map(|c| names.companion(c)));
        if let Some(first) = ceilings.first().filter(|_| self.recorded) {
            keys.extend(names.records(first));
        }
        keys
    }

    /// How many arguments a ceiling takes.
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

    fn is_log(&self, ceiling: usize) -> bool {
        self.algorithms.get(ceiling) == Some(&Algorithm::SlidingLog)
    }

    fn logs(&self) -> impl Iterator<Item = usize> {
        (0..self.algorithms.len()).filter(|&c| self.is_log(c))
    }

    /// Whether a log holds the charges' ids.
    pub fn has_log(&self) -> bool {
        self.logs().next().is_some()
    }

    fn first_arg(&self, ceiling: usize) -> usize {
        2 + sum(&self.algorithms, ceiling, Self::args_of)
    }

    fn first_slot(&self, ceiling: usize) -> usize {
        3 + sum(&self.algorithms, ceiling, Self::slots_of)
    }

    fn record_arg(&self) -> usize {
        self.first_arg(self.algorithms.len())
    }

    fn first_request(&self) -> usize {
        self.record_arg() + if self.recorded { 2 } else { 0 }
    }

    fn companion_key(&self, ceiling: usize) -> usize {
        let before = self.logs().filter(|&c| c < ceiling).count();
        self.algorithms.len() + before + 1
    }
}

fn sum(algorithms: &[Algorithm], upto: usize, size: fn(Algorithm) -> usize) -> usize {
    algorithms.iter().take(upto).map(|&a| size(a)).sum()
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

fn expand(source: &str, ceiling: Option<usize>, layout: &Layout, out: &mut String) {
    for line in source.lines() {
        let line = line.trim_start();
        let Some(directive) = line.strip_prefix("--@ ") else {
            if !line.is_empty() && !line.starts_with("--") {
                out.push_str(&fill_in(line, ceiling, layout));
                out.push('\n');
            }
            continue;
        };
        let (whose, name) = directive.split_once(' ').unwrap_or((directive, ""));
        match whose {
            "once" => expand(&once(name, layout), None, layout, out),
            "each" => (0..layout.algorithms.len()).for_each(|c| of_ceiling(name, c, layout, out)),
            "logs" => layout.logs().for_each(|c| of_ceiling(name, c, layout, out)),
            _ => ceiling
                .into_iter()
                .for_each(|c| of_ceiling(name, c, layout, out)),
        }
    }
}

fn of_ceiling(name: &str, ceiling: usize, layout: &Layout, out: &mut String) {
    let Some(&algorithm) = layout.algorithms.get(ceiling) else {
        return;
    };
    let sources: &[&str] = match algorithm {
        Algorithm::SlidingLog => &[SLIDING_LOG],
        Algorithm::SlidingCounter => &[SLIDING_COUNTER],
        Algorithm::FixedWindow => &[FIXED_WINDOW],
        Algorithm::TokenBucket => &[TOKEN_BUCKET],
        Algorithm::LeakyBucket => &[LEAKY_BUCKET, TOKEN_BUCKET],
    };
    if let Some(source) = sources.iter().find_map(|source| section(source, name)) {
        expand(&source, Some(ceiling), layout, out);
    }
}

fn once(name: &str, layout: &Layout) -> String {
    let ids = if layout.has_log() {
        SLIDING_LOG
    } else if layout.recorded {
        RECORD
    } else {
        ""
    };
    let all_logs = layout.logs().count() == layout.algorithms.len();
    let mut text = match name {
        "sprint" if !all_logs => None,
        "clock" => section(CLOCK, name),
        _ => section(ids, name),
    }
    .unwrap_or_default();
    if name == "clock" && !all_logs {
        text.push_str(&section(EXACT, "exact").unwrap_or_default());
    }
    text
}

fn section(source: &str, name: &str) -> Option<String> {
    let heading = |line: &str| line.strip_prefix("--@ section ").map(str::to_owned);
    let mut lines = source.lines();
    lines.find(|line| heading(line).as_deref() == Some(name))?;
    let body: Vec<&str> = lines.take_while(|line| heading(line).is_none()).collect();
    Some(body.join("\n") + "\n")
}

fn fill_in(line: &str, ceiling: Option<usize>, layout: &Layout) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("<<") {
        let (inner, after) = after.split_once(">>").unwrap_or((after, ""));
        text.push_str(before);
        text.push_str(&repeated(inner, layout));
        rest = after;
    }
    text.push_str(rest);
    let n = layout.algorithms.len();
    let slots = vec!["false"; layout.first_slot(n) - 3].join(", ");
    let text = text
        .replace("_slots_", &slots)
        .replace("_n_", &n.to_string())
        .replace("_r_", &layout.first_request().to_string())
        .replace("_p_", &layout.record_arg().to_string())
        .replace("_e_", &(n + 1).to_string());
    let first = layout.logs().next().map_or(0, |c| c + 1);
    let text = text.replace("_first_", &first.to_string());
    match ceiling {
        Some(c) => of_number(&text, c, layout),
        None => text,
    }
}

fn repeated(inner: &str, layout: &Layout) -> String {
    let (text, between) = inner.rsplit_once('|').unwrap_or((inner, ", "));
    let parts: Vec<String> = match text.strip_prefix("logs ") {
        Some(text) => layout.logs().map(|c| of_number(text, c, layout)).collect(),
        None => (0..layout.algorithms.len())
            .map(|c| of_number(text, c, layout))
            .collect(),
    };
    parts.join(between)
}

fn of_number(text: &str, ceiling: usize, layout: &Layout) -> String {
    text.replace("_i_", &(ceiling + 1).to_string())
        .replace("_a_", &layout.first_arg(ceiling).to_string())
        .replace("_s_", &layout.first_slot(ceiling).to_string())
        .replace("_x_", &layout.companion_key(ceiling).to_string())
}
