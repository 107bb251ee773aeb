//! A target's keys and how long they live. Never shorter than what they hold still counts.

use super::strings::StringsMaker;
use crate::model::{Algorithm, Ceiling, HashTag, KeyPrefix, Micros, Quota, Scope, Slot, Target};
use crate::store::CallClock;

/// What keys live beyond their use, at the least.
const SLACK_MIN: Micros = Micros::from_millis(2);
/// What keys of counters live beyond their window: it costs nothing, they are refreshed by window.
const COUNTER_SLACK: Micros = Micros::from_secs(1);
/// A caller's clock and the server's, which expires keys, may run apart: by as much in a window.
const CLOCK_SLACK: Micros = Micros::from_secs(60);

/// Suffixes of the record of ids and its companion.
const RECORD: [&str; 2] = [":i", ":i:x"];

/// The keys of one target.
pub(super) struct Keys {
    stem: String,
    region: Option<String>,
}

impl Keys {
    pub fn of(prefix: &KeyPrefix, target: &Target) -> Self {
        Keys {
            stem: HashTag::of(&target.subject).stem(prefix, &target.policy.name),
            region: target.region.as_ref().map(|region| region.key_part()),
        }
    }

    pub fn slot(&self) -> Slot {
        Slot::of(self.stem.as_bytes())
    }

    fn base(&self, scope: Scope) -> [&str; 3] {
        match (scope, &self.region) {
            (Scope::Region, Some(region)) => [&self.stem, ":r:", region],
            _ => [&self.stem, ":g", ""],
        }
    }

    /// Bytes that a key takes at most.
    pub fn len_max(&self) -> usize {
        self.stem.len() + self.region.as_ref().map_or(0, String::len) + 8
    }

    /// A ceiling's own key.
    pub fn push_ceiling(&self, ceiling: &Ceiling, keys: &mut StringsMaker) {
        let [a, b, c] = self.base(ceiling.scope);
        keys.push(&[a, b, c, suffix(ceiling.algorithm)]);
    }

    /// The companion of a ceiling that is a sliding log.
    pub fn push_companion(&self, ceiling: &Ceiling, keys: &mut StringsMaker) {
        let [a, b, c] = self.base(ceiling.scope);
        keys.push(&[a, b, c, ":x"]);
    }

    /// The record of ids, and its companion.
    pub fn push_record(&self, keys: &mut StringsMaker) {
        for suffix in RECORD {
            keys.push(&[&self.stem, suffix]);
        }
    }
}

const fn suffix(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingLog => "",
        Algorithm::SlidingCounter => ":c",
        Algorithm::FixedWindow => ":f",
        Algorithm::TokenBucket | Algorithm::LeakyBucket => ":b",
    }
}

/// Every key that a target may have, whichever algorithms its policy had or has: what `UNLINK`
/// takes to forget it. All share `Slot::of` the first.
pub fn reset_keys(prefix: &KeyPrefix, target: &Target) -> Vec<String> {
    let names = Keys::of(prefix, target);
    let mut bases = vec![names.base(Scope::Global).concat()];
    if names.region.is_some() {
        bases.push(names.base(Scope::Region).concat());
    }
    let of_base = |base: &String| ["", ":x", ":n", ":c", ":f", ":b"].map(|s| format!("{base}{s}"));
    let mut keys: Vec<String> = bases.iter().flat_map(of_base).collect();
    keys.extend(RECORD.map(|suffix| names.stem.clone() + suffix));
    keys
}

/// What a key lives beyond its use when its entries come by this clock.
pub(super) fn slack(window: Micros, clock: CallClock) -> Micros {
    let part = Micros::new(window.get() / 32).max(SLACK_MIN);
    match clock {
        CallClock::Store => part,
        CallClock::At(_) => part.saturating_add(window).saturating_add(CLOCK_SLACK),
    }
}

/// Expiry of a counter that is needed for `windows` windows, in milliseconds.
pub(super) fn counter_expiry(window: Micros, windows: u64, clock: CallClock) -> u64 {
    let use_us = Micros::new(window.get().saturating_mul(windows));
    let slack = slack(window, clock).saturating_add(COUNTER_SLACK);
    use_us.saturating_add(slack).ceil_millis()
}

/// What a bucket's key lives beyond its drain, in milliseconds.
pub(super) fn bucket_slack(window: Micros, clock: CallClock) -> u64 {
    slack(window, clock)
        .saturating_add(COUNTER_SLACK)
        .ceil_millis()
}

/// How long a charge can matter to a ceiling: its id is kept as long.
pub(super) fn memory_of(ceiling: &Ceiling) -> Micros {
    let quota: Quota = ceiling.quota;
    if !ceiling.algorithm.has_burst() || quota.limit() == 0 {
        return quota.window();
    }
    let drain = u128::from(quota.burst()) * u128::from(quota.window().get());
    let drain = drain.div_ceil(u128::from(quota.limit()));
    quota
        .window()
        .max(Micros::new(u64::try_from(drain).unwrap_or(u64::MAX)))
}
