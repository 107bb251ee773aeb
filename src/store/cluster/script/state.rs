//! A ceiling's state as a script found it, and what the pure algorithms say of it.
//! Never decides whether a request is admitted: the script has.

use super::reply::{Reply, packed};
use crate::algorithm::{FixedWindow, Meter, SlidingCounter, Standing, leaky_bucket};
use crate::model::{Algorithm, Ceiling, Cost, Micros, Retry, Timestamp};
use crate::store::{ChargeRequest, StoreError};

/// A state, settled at the call's instant.
pub(super) enum State {
    Log {
        used: u64,
        newest: Option<Timestamp>,
        wait: Micros,
    },
    Counter(SlidingCounter),
    Window(FixedWindow),
    Meter(Meter),
}

impl State {
    /// A log in which `used` units count, whose newest entry is `newest` and which has room again
    /// after `wait`.
    pub fn log(used: u64, newest: Option<Timestamp>, wait: Micros) -> Self {
        State::Log { used, newest, wait }
    }

    pub fn read(reply: &mut Reply, ceiling: &Ceiling, now: Timestamp) -> Result<Self, StoreError> {
        let quota = ceiling.quota;
        Ok(match ceiling.algorithm {
            Algorithm::SlidingLog => State::Log {
                used: reply.count()?,
                newest: u64::try_from(reply.integer()?)
                    .ok()
                    .map(Timestamp::from_micros),
                wait: Micros::ZERO,
            },
            Algorithm::SlidingCounter => {
                let [index, window, current, previous] = numbers(reply)?;
                let counter = SlidingCounter {
                    index,
                    window: Micros::new(window),
                    previous,
                    current,
                };
                State::Counter(counter.settle(quota, now))
            }
            Algorithm::FixedWindow => {
                let [index, window, used] = numbers(reply)?;
                let counter = FixedWindow {
                    index,
                    window: Micros::new(window),
                    used,
                };
                State::Window(counter.settle(quota, now))
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let [tat, fraction, limit, window] = numbers(reply)?;
                let meter = Meter {
                    tat: Timestamp::from_micros(tat),
                    fraction,
                    limit,
                    window: Micros::new(window),
                };
                State::Meter(meter.settle(quota, now))
            }
        })
    }

    /// What the script found by walking the log.
    pub fn set_wait(&mut self, us: u64) {
        if let State::Log { wait, .. } = self {
            *wait = Micros::new(us);
        }
    }

    /// This ceiling's refusal of a request that was denied.
    pub fn retry(&self, ceiling: &Ceiling, cost: Cost, now: Timestamp) -> Option<Retry> {
        let quota = ceiling.quota;
        match self {
            State::Log { .. } if cost > quota.limit() => Some(Retry::Never),
            State::Log { wait, .. } => (*wait > Micros::ZERO).then_some(Retry::After(*wait)),
            State::Counter(counter) => counter.decide(quota, now, cost).retry(),
            State::Window(counter) => counter.decide(quota, now, cost).retry(),
            State::Meter(meter) => meter.decide(quota, now, cost).retry(),
        }
    }

    /// Charges what the script charged.
    pub fn charge(&mut self, ceiling: &Ceiling, request: &ChargeRequest, now: Timestamp) {
        let cost = request.cost;
        match self {
            _ if cost == 0 => {}
            State::Log { used, newest, .. } => {
                *used = used.saturating_add(cost);
                *newest = (*newest).max(Some(now + request.held_for.unwrap_or_default()));
            }
            State::Counter(counter) => *counter = counter.charge(ceiling.quota, now, cost),
            State::Window(counter) => *counter = counter.charge(ceiling.quota, now, cost),
            State::Meter(meter) => *meter = meter.charge(ceiling.quota, now, cost),
        }
    }

    /// How long what is admitted now waits for its turn.
    pub fn delay(&self, ceiling: &Ceiling, now: Timestamp) -> Option<Micros> {
        match self {
            State::Meter(meter) if delays(ceiling) => Some(leaky_bucket::delay(*meter, now)),
            _ => None,
        }
    }

    /// How long what was admitted before still waits.
    pub fn delay_of_repeat(&self, ceiling: &Ceiling, cost: Cost, now: Timestamp) -> Option<Micros> {
        match self {
            State::Meter(meter) if delays(ceiling) => Some(leaky_bucket::delay_of_repeat(
                *meter,
                ceiling.quota,
                now,
                cost,
            )),
            _ => None,
        }
    }

    pub fn standing(&self, ceiling: &Ceiling, now: Timestamp) -> Standing {
        let quota = ceiling.quota;
        match self {
            State::Log { used, newest, .. } => Standing {
                remaining: quota.limit().saturating_sub(*used),
                reset_after: newest.map_or(Micros::ZERO, |at| (at + quota.window()).since(now)),
            },
            State::Counter(counter) => counter.standing(quota, now),
            State::Window(counter) => counter.standing(quota, now),
            State::Meter(meter) => meter.standing(quota, now),
        }
    }
}

fn delays(ceiling: &Ceiling) -> bool {
    ceiling.algorithm == Algorithm::LeakyBucket && ceiling.delay
}

/// The numbers of a packed state; all 0 when there was none.
fn numbers<const N: usize>(reply: &mut Reply) -> Result<[u64; N], StoreError> {
    let value = reply.next()?;
    if value.is_null() {
        return Ok([0; N]);
    }
    let mut numbers = packed(value.as_bytes().unwrap_or_default());
    let mut state = [0; N];
    for number in &mut state {
        let read = numbers.next().flatten();
        *number = read.ok_or_else(|| reply.error("a state is none"))?;
    }
    Ok(state)
}
