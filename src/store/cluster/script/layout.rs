//! What a script is made for: an ordered tuple of algorithms, and where each finds its keys and
//! arguments. Never reads a text.

use super::keys::Keys;
use super::strings::{Strings, StringsMaker};
use crate::model::{Algorithm, Ceiling};

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

    /// A script's parts: the ceilings' algorithms, and a sliding log for the record.
    pub fn parts(&self) -> &[Algorithm] {
        &self.parts
    }

    /// Which parts are sliding logs, the record included.
    pub fn logs(&self) -> Vec<usize> {
        let is_log = |part: &usize| self.parts.get(*part) == Some(&Algorithm::SlidingLog);
        (0..self.parts.len()).filter(is_log).collect()
    }

    /// The number of a part's first argument, or of the first request's for the part after the
    /// last.
    pub fn first_arg(&self, part: usize) -> usize {
        let args = |algorithm: &Algorithm| match algorithm {
            Algorithm::SlidingLog => 2,
            Algorithm::SlidingCounter | Algorithm::FixedWindow => 3,
            Algorithm::TokenBucket | Algorithm::LeakyBucket => 4,
        };
        2 + self.parts.iter().take(part).map(args).sum::<usize>()
    }

    /// The number of the reply's first element that is about a ceiling's state.
    pub fn first_slot(&self, part: usize) -> usize {
        let slots = |algorithm: &Algorithm| match algorithm {
            Algorithm::SlidingLog => 2,
            _ => 1,
        };
        3 + self.parts.iter().take(part).map(slots).sum::<usize>()
    }

    /// The number of a log's companion among the keys, or of the first companion for part 0.
    pub fn companion(&self, part: usize) -> usize {
        let before = self.logs().into_iter().filter(|&log| log < part).count();
        self.parts.len() + before + 1
    }
}
