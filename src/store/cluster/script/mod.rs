//! Scripts for Redis and Valkey: their texts, and what goes into one and comes out of it.
//! Never opens a connection, and never sends anything.
//!
//! One script serves one operation on one ordered tuple of algorithms, a ceiling each (global,
//! then region); [`Scripts`] composes it from the files in `lua/` when it is first asked for.
//! [`ChargeScript`], [`RefundScript`] and [`reset_keys`] say what to send; the first two also
//! read the reply.
//!
//! # What goes in
//! `EVALSHA sha keys KEYS.. ARGV..`, as [`ChargeScript::args`] has it.
//! - KEYS: each ceiling's own, in order; then, when no ceiling is a log and callers' ids matter,
//!   the record of ids; then the companion of each sliding log, the record's included.
//! - ARGV: the instant in microseconds, empty for the server's own; then each ceiling's numbers
//!   (named at the top of its algorithm's file), and the record's; then two for each request: its
//!   id, and a letter for where the id comes from (`f` fresh, `r` resent, `c` caller) with the cost
//!   after it and, for a lease, `+` and the microseconds that it is held: `f1`, `f5000+250000`.
//!
//! A refund takes the id and the units to give back (empty for all) instead of requests; a replay
//! three for each charge: id, units, and its instant (with a lease's length after a space).
//!
//! # What comes out
//! A charge or peek: the first request's id, that a reply that isn't this call's is noticed; the
//! instant; each ceiling's state as it was before; then for each request 0 (denied), 1 (admitted)
//! or one more than the units that were charged under its id before, and after a 0 for each
//! sliding log the microseconds until it has room (0: it has).
//!
//! A log's state is two numbers: the units used, and its newest entry's instant, -1 when there is
//! none or none was looked for (then this call's own is the newest). The other states are as
//! stored, doubles packed into a string; they are settled and asked by [`crate::algorithm`], so
//! that both stores answer alike.
//!
//! The common case is answered in short: when one fresh unit was admitted by logs alone, the id,
//! the instant, and each log's units used before; when it was denied and nothing had changed since
//! a log was filled, the id, the instant, and what was noted then.
//!
//! A refund: the id, the instant, the units given back. A replay: the first id, the instant, how
//! many charges were put back.
//!
//! # Keys
//! `<stem>:g` and `<stem>:r:<region>` are sliding logs; `:f`, `:c` and `:b` after them a fixed
//! window, a sliding counter, a bucket: a policy that changes its algorithm starts a key of
//! another name instead of finding one of another type. `<stem>:i` is the record of ids. `:x` is a
//! log's companion, `:n` what the charges that filled a log noted for those who come next. Regions
//! are encoded without colons, so none can spell another's key.
//!
//! # Flags
//! Scripts begin with a shebang, so a server without memory refuses a charge as a whole (OOM)
//! before it runs, instead of letting it grow after its first write. A peek declares that it
//! writes nothing, a refund that it may run without memory: it frees some.

mod charge;
mod compose;
mod keys;
mod layout;
mod operation;
mod refund;
mod replay;
mod reply;
mod short;
mod state;
mod strings;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use fred::types::Value;

pub use charge::ChargeScript;
pub use keys::reset_keys;
pub use operation::Operation;
pub use refund::RefundScript;
pub use replay::{Acknowledged, REPLAYS_MAX, ReplayScript};

use self::layout::Layout;

/// A script's text and its name on a server.
#[derive(Clone, Debug)]
pub struct Script {
    name: String,
    text: Value,
    sha1: Value,
}

impl Script {
    pub(super) fn new(name: String, text: String) -> Self {
        let sha1 = Value::String(sha1_hex(text.as_bytes()).into());
        let text = Value::String(text.into());
        Script { name, text, sha1 }
    }

    /// What it is called in logs: `charge sliding_log sliding_log`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its text, as `SCRIPT LOAD` takes it.
    pub fn text(&self) -> Value {
        self.text.clone()
    }

    /// The SHA-1 of its text in lower-case hex, as `EVALSHA` takes it.
    pub fn sha1(&self) -> Value {
        self.sha1.clone()
    }
}

fn sha1_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    let mut hex = String::with_capacity(40);
    for byte in digest.as_ref() {
        // Writing to a string can't fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Which script: an operation, whether ids are recorded, and the algorithms as the digits of a
/// number, so that to look one up takes no memory.
type Kind = (Operation, bool, u64);

fn kind(operation: Operation, layout: &Layout) -> Kind {
    let digits = layout.algorithms().iter();
    let algorithms = digits.fold(0u64, |number, algorithm| {
        number.wrapping_mul(8).wrapping_add(1 + *algorithm as u64)
    });
    (operation, layout.is_recorded(), algorithms)
}

/// The scripts in use: composed once each, when first needed. Bounded: a policy has two ceilings
/// of five algorithms at most.
#[derive(Debug, Default)]
pub struct Scripts {
    composed: RwLock<BTreeMap<Kind, Arc<Script>>>,
}

impl Scripts {
    /// All that were asked for so far: what a node should have before it is asked to run one.
    pub fn composed(&self) -> Vec<Arc<Script>> {
        let scripts = self.composed.read().unwrap_or_else(PoisonError::into_inner);
        scripts.values().cloned().collect()
    }

    fn get(&self, operation: Operation, layout: &Layout) -> Arc<Script> {
        let kind = kind(operation, layout);
        let scripts = self.composed.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(script) = scripts.get(&kind) {
            return Arc::clone(script);
        }
        drop(scripts);
        let names: Vec<&str> = layout.algorithms().iter().map(|a| a.name()).collect();
        let name = format!("{} {}", operation.name(), names.join(" "));
        let script = Arc::new(Script::new(name, compose::compose(operation, layout)));
        let mut scripts = self
            .composed
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(scripts.entry(kind).or_insert(script))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Algorithm;
    use crate::model::{Ceiling, Scope};

    #[test]
    fn a_script_is_named_by_its_sha1() {
        let script = Script::new("one".into(), "return 1".into());
        let sha1 = script.sha1().into_string();
        assert_eq!(
            sha1.as_deref(),
            Some("e0e1f9fabfc9d4800c877a703b823ac0578ff8db")
        );
    }

    fn ceilings(algorithms: &[Algorithm]) -> Vec<Ceiling> {
        let ceiling = |algorithm: &Algorithm| Ceiling {
            scope: Scope::Global,
            algorithm: *algorithm,
            quota: "5/min".parse().unwrap(),
            delay: true,
        };
        algorithms.iter().map(ceiling).collect()
    }

    #[test]
    fn no_text_keeps_an_object_or_a_list_of_them() {
        for operation in [
            Operation::Charge,
            Operation::Peek,
            Operation::Refund,
            Operation::Replay,
        ] {
            for a in Algorithm::ALL {
                for b in Algorithm::ALL {
                    let layout = Layout::new(&ceilings(&[a, b]), true);
                    let text = compose::compose(operation, &layout);
                    for rest in ["self", "ipairs", "log.", "counter.", "ceiling.", ":read"] {
                        assert!(!text.contains(rest), "{rest} in {operation:?} {a} {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_script_is_composed_once() {
        let scripts = Scripts::default();
        let layout = Layout::new(&ceilings(&[Algorithm::SlidingLog; 2]), false);
        let first = scripts.get(Operation::Charge, &layout);
        let again = scripts.get(Operation::Charge, &layout);
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(scripts.composed().len(), 1);
    }
}
