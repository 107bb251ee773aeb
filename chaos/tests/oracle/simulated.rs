//! Expectations, and a limiter in a few lines whose every instant is known.

use std::collections::HashMap;

use tidegate::model::{
    Algorithm, Allowance, CeilingRule, ClockSource, Micros, Policies, Policy, PolicyName, Quota,
};
use tidegate_chaos::oracle::{AnsweredBy, Expectations, Record, ShardMap, Stalls, Status};

pub const WINDOW: u64 = 1_000_000;
pub const START: u64 = 1_760_000_000_000_000;
pub const GLOBAL: u64 = 12;
pub const REGION: u64 = 8;

fn rule(limit: u64) -> Option<CeilingRule> {
    Some(CeilingRule {
        algorithm: Algorithm::SlidingLog,
        allowance: Allowance::Limited(Quota::new(limit, Micros::new(WINDOW)).unwrap()),
        delay: false,
    })
}

/// 12 units a second over all regions, 8 in each, by the store's clock.
pub fn expectations() -> Expectations {
    expectations_by(ClockSource::Store)
}

/// The same by either clock.
pub fn expectations_by(clock: ClockSource) -> Expectations {
    let name = PolicyName::new("chaos").unwrap();
    let policy = Policy::new(name, rule(GLOBAL), rule(REGION)).unwrap();
    let policy = policy.with_clock(clock);
    Expectations {
        policies: Policies::new([policy]).unwrap(),
        lateness_max: 10_000,
        shards: ShardMap::equal(3),
        denials_excused_until: 0,
        recovery_from: START,
        ended_at: START + 10 * WINDOW,
        stalls: Stalls::default(),
    }
}

/// One check that is to be made: when it is sent, how long until the store decides, how long
/// until the answer is there.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub sent: u64,
    pub decided_after: u64,
    pub answered_after: u64,
    pub cost: u64,
    pub region: &'static str,
}

impl Ask {
    pub fn at(us: u64) -> Self {
        Ask {
            sent: START + us,
            decided_after: 200,
            answered_after: 300,
            cost: 1,
            region: "us",
        }
    }

    pub fn record(&self, status: Status) -> Record {
        Record {
            instance: 0,
            policy: "chaos".into(),
            subject: "key-1".into(),
            region: Some(self.region.into()),
            cost: self.cost,
            id: String::new(),
            sent: self.sent,
            answered: self.sent + self.decided_after + self.answered_after,
            late: 0,
            status,
            degraded: false,
            by: AnsweredBy::Store,
            retry_after: None,
        }
    }
}

/// Both ceilings of one subject, kept as every charge's instant.
#[derive(Default)]
pub struct Logs {
    charged: Vec<(u64, u64, &'static str)>,
}

impl Logs {
    fn used(&self, now: u64) -> (u64, HashMap<&'static str, u64>) {
        let mut by_region = HashMap::new();
        let mut all = 0;
        for (at, cost, region) in &self.charged {
            if at + WINDOW > now {
                all += cost;
                *by_region.entry(*region).or_default() += cost;
            }
        }
        (all, by_region)
    }

    pub fn has_room(&self, ask: &Ask, now: u64, slack: u64) -> bool {
        let (all, by_region) = self.used(now);
        let here = by_region.get(ask.region).copied().unwrap_or(0);
        all + ask.cost <= GLOBAL + slack && here + ask.cost <= REGION + slack
    }

    pub fn charge(&mut self, ask: &Ask, now: u64) {
        self.charged.push((now, ask.cost, ask.region));
    }

    pub fn forget(&mut self, from: u64, to: u64) {
        self.charged.retain(|(at, ..)| *at < from || *at > to);
    }
}

/// Decides in the order in which the store would; `slack` units too much at every ceiling.
pub fn decide(mut asks: Vec<Ask>, slack: u64) -> Vec<Record> {
    asks.sort_by_key(|ask| ask.sent + ask.decided_after);
    let mut logs = Logs::default();
    let decide = |ask: &Ask| {
        let now = ask.sent + ask.decided_after;
        if logs.has_room(ask, now, slack) {
            logs.charge(ask, now);
            return ask.record(Status::Admitted);
        }
        ask.record(Status::Denied)
    };
    asks.iter().map(decide).collect()
}
