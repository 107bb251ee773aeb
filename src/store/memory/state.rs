//! A key's state, whichever algorithm's it is. Never decides itself: it asks the algorithm.

use crate::algorithm::{
    Charged, FixedWindow, Meter, SlidingCounter, SlidingLog, Standing, Verdict, leaky_bucket,
};
use crate::model::{Algorithm, Ceiling, ChargeId, Cost, Micros, Timestamp};

/// What a key holds.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Nothing: never charged, forgotten, or taken out for the length of a call.
    Vacant,
    Log(Box<SlidingLog>),
    Counter(SlidingCounter),
    Fixed(FixedWindow),
    Meter(Meter),
}

/// A request as a ceiling's state takes it.
pub(super) struct Taking<'a> {
    pub id: &'a ChargeId,
    pub cost: Cost,
    pub held: Micros,
    pub now: Timestamp,
}

impl State {
    pub(super) fn empty(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::SlidingLog => State::Log(Box::default()),
            Algorithm::SlidingCounter => State::Counter(SlidingCounter::default()),
            Algorithm::FixedWindow => State::Fixed(FixedWindow::default()),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => State::Meter(Meter::default()),
        }
    }

    /// This state, or an empty one when it is another algorithm's: what was counted one way can't
    /// be read another.
    pub(super) fn or_empty(self, algorithm: Algorithm) -> Self {
        match (&self, algorithm) {
            (State::Log(_), Algorithm::SlidingLog)
            | (State::Counter(_), Algorithm::SlidingCounter)
            | (State::Fixed(_), Algorithm::FixedWindow)
            | (State::Meter(_), Algorithm::TokenBucket | Algorithm::LeakyBucket) => self,
            _ => State::empty(algorithm),
        }
    }

    pub(super) fn settle(&mut self, ceiling: &Ceiling, now: Timestamp) {
        let quota = ceiling.quota;
        match self {
            State::Vacant => {}
            State::Log(log) => log.settle(quota.window(), now),
            State::Counter(counter) => *counter = counter.settle(quota, now),
            State::Fixed(fixed) => *fixed = fixed.settle(quota, now),
            State::Meter(meter) => *meter = meter.settle(quota, now),
        }
    }

    pub(super) fn decide(&self, ceiling: &Ceiling, now: Timestamp, cost: Cost) -> Verdict {
        let quota = ceiling.quota;
        match self {
            State::Vacant => Verdict::Room,
            State::Log(log) => log.decide(quota, now, cost),
            State::Counter(counter) => counter.decide(quota, now, cost),
            State::Fixed(fixed) => fixed.decide(quota, now, cost),
            State::Meter(meter) => meter.decide(quota, now, cost),
        }
    }

    pub(super) fn charge(&mut self, ceiling: &Ceiling, taking: &Taking<'_>) {
        match self {
            State::Vacant => {}
            State::Log(log) => {
                log.charge(taking.now, taking.id.clone(), taking.cost, taking.held);
            }
            State::Counter(counter) => {
                *counter = counter.charge(ceiling.quota, taking.now, taking.cost)
            }
            State::Fixed(fixed) => *fixed = fixed.charge(ceiling.quota, taking.now, taking.cost),
            State::Meter(meter) => {
                *meter = meter.charge(ceiling.quota, taking.now, taking.cost);
            }
        }
    }

    pub(super) fn standing(&self, ceiling: &Ceiling, now: Timestamp) -> Standing {
        let quota = ceiling.quota;
        match self {
            State::Vacant => Standing {
                remaining: ceiling.cost_max(),
                reset_after: Micros::ZERO,
            },
            State::Log(log) => log.standing(quota, now),
            State::Counter(counter) => counter.standing(quota, now),
            State::Fixed(fixed) => fixed.standing(quota, now),
            State::Meter(meter) => meter.standing(quota, now),
        }
    }

    /// How long an admitted check waits, where the ceiling has it wait. The state is as it was
    /// before, or, when the check is a repeat of one of `repeated` units, as it is.
    pub(super) fn delay(
        &self,
        ceiling: &Ceiling,
        now: Timestamp,
        repeated: Option<Cost>,
    ) -> Option<Micros> {
        match self {
            State::Meter(queue) if ceiling.delay && ceiling.algorithm == Algorithm::LeakyBucket => {
                Some(match repeated {
                    None => leaky_bucket::delay(*queue, now),
                    Some(cost) => leaky_bucket::delay_of_repeat(*queue, ceiling.quota, now, cost),
                })
            }
            _ => None,
        }
    }

    /// Gets ready to look for ids.
    pub(super) fn index_ids(&mut self) {
        if let State::Log(log) = self {
            log.index_ids();
        }
    }

    pub(super) fn find(&self, id: &ChargeId, window: Micros, now: Timestamp) -> Option<Charged> {
        match self {
            State::Log(log) => log.find(id, window, now),
            _ => None,
        }
    }

    /// Gives back `units` of a charge; how many it could.
    pub(super) fn refund(
        &mut self,
        ceiling: &Ceiling,
        now: Timestamp,
        id: &ChargeId,
        charged: Charged,
        units: Cost,
    ) -> Cost {
        match self {
            State::Vacant => 0,
            State::Log(log) => log.refund(id, ceiling.quota.window(), now, units),
            State::Counter(counter) => counter.refund(now, charged, units),
            State::Fixed(fixed) => fixed.refund(now, charged, units),
            State::Meter(meter) => meter.refund(ceiling.quota, now, charged, units),
        }
    }

    /// Entries that it holds.
    pub(super) fn entries(&self) -> usize {
        match self {
            State::Log(log) => log.len(),
            _ => 0,
        }
    }
}
