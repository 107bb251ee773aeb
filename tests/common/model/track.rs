//! What one ceiling remembers, in the plainest form that the definition allows.

use tidegate::model::{Algorithm, Ceiling, ChargeId, Cost, Micros, Timestamp};
use tidegate::store::ChargeRequest;

/// One charge in a log.
#[derive(Clone, Debug)]
pub struct Entry {
    id: ChargeId,
    at: Timestamp,
    held: Micros,
    cost: Cost,
}

/// What one ceiling remembers.
#[derive(Clone, Debug)]
pub enum Track {
    /// Every charge.
    Log(Vec<Entry>),
    /// Two windows' charges.
    Counters {
        index: u64,
        window: u64,
        previous: u64,
        current: u64,
    },
    /// A level at an instant, in 1/limit of a microsecond's worth: a unit is `window` of them.
    Bucket {
        level: u128,
        at: Timestamp,
        limit: u64,
        window: u64,
    },
}

impl Track {
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::SlidingLog => Track::Log(Vec::new()),
            Algorithm::SlidingCounter | Algorithm::FixedWindow => Track::Counters {
                index: 0,
                window: 0,
                previous: 0,
                current: 0,
            },
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Track::Bucket {
                level: 0,
                at: Timestamp::default(),
                limit: 1,
                window: 1,
            },
            unknown => panic!("the model doesn't know {unknown}"),
        }
    }

    pub fn settle(&mut self, ceiling: &Ceiling, now: Timestamp) {
        let (l, w) = (ceiling.quota.limit(), ceiling.quota.window().get());
        match self {
            Track::Log(entries) => {
                let skew_max = Micros::new((w / 10).min(100_000));
                let stepped_back = |e: &&mut Entry| e.at > now + skew_max;
                for entry in entries.iter_mut().filter(stepped_back) {
                    entry.at = now;
                }
                entries.retain(|e| e.at + e.held + ceiling.quota.window() > now);
            }
            Track::Counters {
                index,
                window,
                previous,
                current,
            } => {
                let now = now.as_micros();
                let Some(present) = now.checked_div(*window) else {
                    return;
                };
                let fixed = ceiling.algorithm == Algorithm::FixedWindow;
                if *window == w {
                    *index = (*index).min(present);
                } else if !fixed || present <= *index {
                    let (p, c) = rolled(*index, *previous, *current, present);
                    let overlap = u128::from(*window - now % *window);
                    let carried = (u128::from(p) * overlap).div_ceil(u128::from(*window));
                    *current = c + if fixed { 0 } else { carried as u64 };
                    (*index, *window, *previous) = (now / w, w, 0);
                }
            }
            Track::Bucket {
                level,
                at,
                limit,
                window,
            } => {
                let owed = drained(*level, *at, *limit, now);
                if l == 0 || owed == 0 {
                    return;
                }
                let units = owed.div_ceil(u128::from(*window));
                let changed = (*limit, *window) != (l, w);
                let owed = if changed { units * u128::from(w) } else { owed };
                let full = u128::from(ceiling.quota.burst()) * u128::from(w);
                if changed || owed > full {
                    (*level, *at, *limit, *window) = (owed.min(full), now, l, w);
                }
            }
        }
    }

    /// Whether `cost` fits in at `then`, if nothing comes before.
    pub fn has_room(&self, ceiling: &Ceiling, then: Timestamp, cost: Cost) -> bool {
        let (l, w) = (ceiling.quota.limit(), ceiling.quota.window().get());
        let wide = u128::from(w);
        match self {
            Track::Bucket { .. } => {
                self.level(then) + u128::from(cost) * wide
                    <= u128::from(ceiling.quota.burst()) * wide
            }
            _ => {
                self.units_times(ceiling, then, wide) + u128::from(cost) * wide
                    <= u128::from(l) * wide
            }
        }
    }

    /// Whether no more than `units` count at `then`, if nothing comes before.
    pub fn holds_at_most(&self, ceiling: &Ceiling, then: Timestamp, units: Cost) -> bool {
        let wide = u128::from(ceiling.quota.window().get());
        let held = match self {
            Track::Bucket { window, .. } => {
                return self.level(then) <= u128::from(units) * u128::from(*window);
            }
            _ => self.units_times(ceiling, then, wide),
        };
        held <= u128::from(units) * wide
    }

    fn level(&self, then: Timestamp) -> u128 {
        match self {
            Track::Bucket {
                level, at, limit, ..
            } => drained(*level, *at, *limit, then),
            _ => 0,
        }
    }

    /// Units that count at `then`, times the window: the share of a window needs no rounding.
    fn units_times(&self, ceiling: &Ceiling, then: Timestamp, window: u128) -> u128 {
        match self {
            Track::Log(entries) => {
                let counted = entries
                    .iter()
                    .filter(|e| e.at + e.held + ceiling.quota.window() > then);
                counted.map(|e| u128::from(e.cost)).sum::<u128>() * window
            }
            Track::Counters {
                index,
                window: w,
                previous,
                current,
            } if *w > 0 => {
                let then = then.as_micros();
                let (p, c) = rolled(*index, *previous, *current, then / w);
                let overlap = match ceiling.algorithm {
                    Algorithm::FixedWindow => 0,
                    _ => u128::from(w - then % w),
                };
                u128::from(p) * overlap + u128::from(c) * window
            }
            _ => 0,
        }
    }

    pub fn charge(&mut self, ceiling: &Ceiling, now: Timestamp, request: &ChargeRequest) {
        match self {
            Track::Log(entries) => entries.push(Entry {
                id: request.id.clone(),
                at: now,
                held: request.held_for.unwrap_or_default(),
                cost: request.cost,
            }),
            Track::Counters {
                index,
                window,
                previous,
                current,
            } => {
                let w = ceiling.quota.window().get();
                let present = now.as_micros() / w;
                if let Some(then) = now.as_micros().checked_div(*window) {
                    (*previous, *current) = rolled(*index, *previous, *current, then);
                }
                (*index, *window) = (present, w);
                *current += request.cost;
            }
            Track::Bucket {
                level,
                at,
                limit,
                window,
            } => {
                let w = ceiling.quota.window().get();
                let owed = drained(*level, *at, *limit, now);
                *level = owed + u128::from(request.cost) * u128::from(w);
                (*at, *limit, *window) = (now, ceiling.quota.limit(), w);
            }
        }
    }

    /// The entry of an id, in a settled log: when it was charged, and what it holds.
    pub fn entry(&self, id: &ChargeId) -> Option<(Timestamp, Cost)> {
        match self {
            Track::Log(entries) => {
                let entry = entries.iter().find(|e| e.id == *id)?;
                Some((entry.at, entry.cost))
            }
            _ => None,
        }
    }

    /// Gives back up to `units` of what was charged; how many.
    pub fn refund(
        &mut self,
        ceiling: &Ceiling,
        now: Timestamp,
        id: &ChargeId,
        (charged_at, cost): (Timestamp, Cost),
        units: Cost,
    ) -> Cost {
        match self {
            Track::Log(entries) => {
                let mut given = 0;
                for entry in entries.iter_mut().filter(|e| e.id == *id) {
                    given = units.min(entry.cost);
                    entry.cost -= given;
                }
                entries.retain(|e| e.cost > 0);
                given
            }
            Track::Counters {
                index,
                window,
                previous,
                current,
            } => {
                if *window == 0 {
                    return 0;
                }
                let behind = (now.as_micros() / *window).saturating_sub(*index);
                let age = index.checked_sub(charged_at.as_micros() / *window);
                let sliding = ceiling.algorithm == Algorithm::SlidingCounter;
                let counter = match (age, behind) {
                    (Some(0), 0) => current,
                    (Some(0), 1) if sliding => current,
                    (Some(1), 0) if sliding => previous,
                    _ => return 0,
                };
                let given = units.min(*counter);
                *counter -= given;
                given
            }
            Track::Bucket {
                level,
                at,
                limit,
                window,
            } => {
                let quota = ceiling.quota;
                if quota.limit() == 0 {
                    return 0;
                }
                let w = u128::from(quota.window().get());
                let owed = drained(*level, *at, *limit, now);
                // Its own units drain first: so much of it is certainly still there.
                let gone = u128::from(now.since(charged_at).get()) * u128::from(quota.limit());
                let there = (u128::from(cost) * w).saturating_sub(gone).min(owed);
                let given = (u128::from(units) * w).min(there);
                if given > 0 {
                    *level = owed - given;
                    (*at, *limit, *window) = (now, quota.limit(), quota.window().get());
                }
                given.div_ceil(w) as u64
            }
        }
    }
}

/// Both counters as they stand in window `present`. A window behind is a clock that stepped back:
/// what was counted stays.
fn rolled(index: u64, previous: u64, current: u64, present: u64) -> (u64, u64) {
    match present.saturating_sub(index) {
        0 => (previous, current),
        1 => (current, 0),
        _ => (0, 0),
    }
}

/// What is left of a level that was at `at`. Before that it was higher: what drains at a steady
/// rate is empty at a fixed instant, whichever way the clock goes.
fn drained(level: u128, at: Timestamp, limit: u64, now: Timestamp) -> u128 {
    let limit = u128::from(limit);
    let later = u128::from(now.since(at).get()) * limit;
    let earlier = u128::from(at.since(now).get()) * limit;
    (level + earlier).saturating_sub(later)
}
