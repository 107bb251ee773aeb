//! The brute-force model: every answer from the definition, none from a formula. A wait is found
//! by asking "and then?" of every instant (by halving, for what is admitted stays admitted when
//! nothing comes), what is left by asking every cost.

mod track;

use std::collections::{BTreeMap, BTreeSet};

use tidegate::model::{Algorithm, Ceiling, ChargeId, Cost, Micros, Retry, Scope, Timestamp};
use tidegate::store::{CeilingOutcome, ChargeRequest, IdOrigin, Outcome, Refunded};

use track::Track;

/// What one subject has used under one policy.
#[derive(Clone, Debug, Default)]
pub struct Model {
    tracks: BTreeMap<(Scope, String), Track>,
    ids: Vec<Record>,
    /// Ids that were recorded once and not given back.
    recorded: BTreeSet<ChargeId>,
}

/// An id that a caller gave, where no log has it.
#[derive(Clone, Debug)]
struct Record {
    id: ChargeId,
    at: Timestamp,
    cost: Cost,
    /// The clock has stepped back since, or been beyond its end: nobody says whether it is known.
    uncertain: bool,
}

/// The target of a call: ceilings, and a region's name.
pub type Asked<'a> = (&'a [Ceiling], &'a str);

fn has_log(ceilings: &[Ceiling]) -> bool {
    let log = |c: &Ceiling| c.algorithm == Algorithm::SlidingLog;
    ceilings.iter().any(log)
}

/// How long ids are remembered at the least.
fn kept(ceilings: &[Ceiling]) -> Micros {
    let windows = ceilings.iter().map(|c| c.quota.window());
    windows.min().unwrap_or_default()
}

/// The smallest number in 0..=`most` of which `holds`, which then holds of all above.
fn first(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(most) {
        return None;
    }
    let (mut below, mut above) = (0, most);
    while below < above {
        let middle = below + (above - below) / 2;
        if holds(middle) {
            above = middle;
        } else {
            below = middle + 1;
        }
    }
    Some(above)
}

/// Longer than anything counts, however far a clock has stepped back.
const EVER: u64 = 1 << 60;

impl Model {
    fn key(ceiling: &Ceiling, region: &str) -> (Scope, String) {
        match ceiling.scope {
            Scope::Global => (Scope::Global, String::new()),
            Scope::Region => (Scope::Region, region.to_owned()),
        }
    }

    fn track(&self, ceiling: &Ceiling, region: &str) -> Track {
        let known = self.tracks.get(&Self::key(ceiling, region)).cloned();
        known.unwrap_or_else(|| Track::new(ceiling.algorithm))
    }

    /// What time and changed limits do to the ceilings of a call.
    fn settle(&mut self, (ceilings, region): Asked<'_>, now: Timestamp) {
        for ceiling in ceilings {
            let mut track = self.track(ceiling, region);
            track.settle(ceiling, now);
            self.tracks.insert(Self::key(ceiling, region), track);
        }
        let kept = kept(ceilings);
        for record in &mut self.ids {
            record.uncertain |= record.at > now || record.at + kept <= now;
        }
    }

    /// Charges requests in order.
    pub fn charge(
        &mut self,
        asked: Asked<'_>,
        now: Timestamp,
        requests: &[ChargeRequest],
    ) -> Vec<Outcome> {
        self.settle(asked, now);
        requests.iter().map(|r| self.one(asked, now, r)).collect()
    }

    /// Decides requests, each as if it came alone.
    pub fn peek(
        &self,
        asked: Asked<'_>,
        now: Timestamp,
        requests: &[ChargeRequest],
    ) -> Vec<Outcome> {
        let alone = |r: &ChargeRequest| {
            let mut copy = self.clone();
            copy.settle(asked, now);
            copy.decide(asked, now, r)
        };
        requests.iter().map(alone).collect()
    }

    fn known(&self, (ceilings, region): Asked<'_>, id: &ChargeId) -> Option<(Timestamp, Cost)> {
        if has_log(ceilings) {
            let logs = ceilings.iter().map(|c| self.track(c, region));
            return logs.filter_map(|track| track.entry(id)).next();
        }
        let record = self.ids.iter().find(|r| r.id == *id);
        record.map(|r| (r.at, r.cost))
    }

    fn decide(&self, asked: Asked<'_>, now: Timestamp, request: &ChargeRequest) -> Outcome {
        let known = match request.origin {
            IdOrigin::Fresh => None,
            _ => self.known(asked, &request.id),
        };
        let (ceilings, region) = asked;
        let of = |ceiling: &Ceiling| {
            let track = self.track(ceiling, region);
            let ask = Ask {
                track,
                ceiling,
                now,
            };
            match known {
                Some((_, cost)) => ask.outcome(None, ask.drained(cost)),
                None => ask.outcome(ask.retry(request.cost), ask.drained(0)),
            }
        };
        let mut outcome = Outcome {
            ceilings: ceilings.iter().map(of).collect(),
            repeated: known.is_some(),
        };
        if !outcome.is_admitted() {
            outcome.ceilings.iter_mut().for_each(|c| c.delay = None);
        }
        outcome
    }

    fn one(&mut self, asked: Asked<'_>, now: Timestamp, request: &ChargeRequest) -> Outcome {
        let mut outcome = self.decide(asked, now, request);
        if !outcome.is_admitted() || outcome.repeated || request.cost == 0 {
            return outcome;
        }
        let (ceilings, region) = asked;
        for (ceiling, after) in ceilings.iter().zip(&mut outcome.ceilings) {
            let mut track = self.track(ceiling, region);
            track.charge(ceiling, now, request);
            let ask = Ask {
                track,
                ceiling,
                now,
            };
            *after = ask.outcome(None, after.delay);
            self.tracks.insert(Self::key(ceiling, region), ask.track);
        }
        if !has_log(ceilings) && request.origin == IdOrigin::Caller {
            self.recorded.insert(request.id.clone());
            self.ids.retain(|r| r.id != request.id);
            self.ids.push(Record {
                id: request.id.clone(),
                at: now,
                cost: request.cost,
                uncertain: false,
            });
        }
        outcome
    }

    /// Gives back.
    pub fn refund(
        &mut self,
        asked: Asked<'_>,
        now: Timestamp,
        id: &ChargeId,
        cost: Option<Cost>,
    ) -> Refunded {
        self.settle(asked, now);
        let (ceilings, region) = asked;
        let Some((at, held)) = self.known(asked, id) else {
            return Refunded::NotFound;
        };
        let units = cost.unwrap_or(held).min(held);
        let mut given = 0;
        for ceiling in ceilings {
            let mut track = self.track(ceiling, region);
            given = given.max(track.refund(ceiling, now, id, (at.min(now), held), units));
            self.tracks.insert(Self::key(ceiling, region), track);
        }
        for record in self.ids.iter_mut().filter(|r| r.id == *id) {
            record.cost -= given;
            if record.cost == 0 {
                self.recorded.remove(id);
            }
        }
        self.ids.retain(|r| r.cost > 0);
        match given {
            0 => Refunded::NotFound,
            units => Refunded::Units(units),
        }
    }

    /// Forgets a region and what is global.
    pub fn reset(&mut self, region: &str) {
        self.tracks.remove(&(Scope::Global, String::new()));
        self.tracks.remove(&(Scope::Region, region.to_owned()));
        self.ids.clear();
        self.recorded.clear();
    }

    /// Whether the contract says what becomes of this id if it comes again at `now`. Where no log
    /// has it, it is remembered for at least the longest window, and a clock's step back may make
    /// that longer.
    pub fn is_certain(&self, (ceilings, _): Asked<'_>, now: Timestamp, id: &ChargeId) -> bool {
        if has_log(ceilings) {
            return true;
        }
        let Some(record) = self.ids.iter().find(|r| r.id == *id) else {
            return !self.recorded.contains(id);
        };
        !record.uncertain && record.at <= now && now < record.at + kept(ceilings)
    }
}

/// A question to one ceiling.
struct Ask<'a> {
    track: Track,
    ceiling: &'a Ceiling,
    now: Timestamp,
}

impl Ask<'_> {
    fn admits(&self, after: u64, cost: Cost) -> bool {
        let then = self.now + Micros::new(after);
        cost == 0
            || cost <= self.ceiling.cost_max() && self.track.has_room(self.ceiling, then, cost)
    }

    fn retry(&self, cost: Cost) -> Option<Retry> {
        if self.admits(0, cost) {
            return None;
        }
        let wait = first(EVER, |r| self.admits(r, cost));
        Some(wait.map_or(Retry::Never, |r| Retry::After(Micros::new(r))))
    }

    /// When no more than `cost` is in a bucket, where the ceiling has its checks wait.
    fn drained(&self, cost: Cost) -> Option<Micros> {
        // Under a limit of 0 nothing is known of a charge's own part.
        let cost = cost * u64::from(self.ceiling.quota.limit() > 0);
        let waits = self.ceiling.algorithm == Algorithm::LeakyBucket && self.ceiling.delay;
        let drained = |r| {
            let then = self.now + Micros::new(r);
            self.track.holds_at_most(self.ceiling, then, cost)
        };
        waits.then(|| Micros::new(first(EVER, drained).unwrap()))
    }

    fn outcome(&self, retry: Option<Retry>, delay: Option<Micros>) -> CeilingOutcome {
        let most = self.ceiling.cost_max();
        let refused = first(most + 1, |n| n > most || !self.admits(0, n)).unwrap();
        let whole = |r| {
            let then = self.now + Micros::new(r);
            self.track.holds_at_most(self.ceiling, then, 0)
        };
        CeilingOutcome {
            remaining: refused.max(1) - 1,
            reset_after: Micros::new(first(EVER, whole).unwrap()),
            retry,
            delay,
        }
    }
}
