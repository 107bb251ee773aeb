//! Plays a history against a store and the model, and judges both.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate::algorithm::sliding_log::skew_max;
use tidegate::model::{Algorithm, Ceiling, ChargeId, Cost, Micros, Quota, Retry, Scope, Timestamp};
use tidegate::store::{CallClock, CallKind, ChargeRequest, IdOrigin, Outcome, Store};

use crate::case::{Act, Case, Deed, Name, Request, Rule, Step, Weight};
use crate::common::model::Model;
use crate::common::probe::{Probe, T0, fresh_id};
use ledger::Ledger;

#[path = "ledger.rs"]
mod ledger;

const REGIONS: [&str; 3] = ["us", "eu", "ap"];

/// One history under way.
struct Play<S> {
    probe: Probe<S>,
    model: Model,
    ledger: Ledger,
    ceilings: Vec<Ceiling>,
    now: Timestamp,
    region: &'static str,
    sent: Vec<ChargeId>,
    callers: BTreeMap<u8, ChargeId>,
}

/// Whether every answer is the model's, and every promise holds.
pub async fn judge<S: Store>(store: &Arc<S>, case: &Case) -> Result<(), String> {
    let scoped = |rule: &Rule, scope| Ceiling {
        scope,
        algorithm: rule.algorithm,
        quota: rule.quota,
        delay: rule.delay,
    };
    let global = case.global.iter().map(|r| scoped(r, Scope::Global));
    let region = case.region.iter().map(|r| scoped(r, Scope::Region));
    let ceilings: Vec<Ceiling> = global.chain(region).collect();
    let mut play = Play {
        probe: Probe::new(store, "case", ceilings.clone()),
        model: Model::default(),
        ledger: Ledger::default(),
        ceilings,
        now: T0,
        region: REGIONS[0],
        sent: Vec::new(),
        callers: BTreeMap::new(),
    };
    for (n, act) in case.acts.iter().enumerate() {
        play.act(act)
            .await
            .map_err(|why| format!("act {n}, {act:?}, at T0 {:+} us: {why}", play.offset()))?;
    }
    play.ledger.judge()
}

impl<S: Store> Play<S> {
    fn offset(&self) -> i128 {
        i128::from(self.now.as_micros()) - i128::from(T0.as_micros())
    }

    fn window(&self) -> u64 {
        let windows = self.ceilings.iter().map(|c| c.quota.window().get());
        windows.min().unwrap_or(1)
    }

    fn step(&mut self, step: Step) {
        let window = i128::from(self.window());
        let now = i128::from(self.now.as_micros());
        let by = match step {
            Step::Micros(us) => i128::from(us),
            Step::Part(permille) => window * i128::from(permille) / 1_000,
            Step::Edge(us) => window - now % window + i128::from(us),
            Step::Windows(n, us) => window * i128::from(n) + i128::from(us),
        };
        let then = u64::try_from((now + by).max(0)).unwrap_or(u64::MAX);
        self.now = Timestamp::from_micros(then);
    }

    async fn act(&mut self, act: &Act) -> Result<(), String> {
        self.step(act.step);
        self.region = REGIONS[usize::from(act.region) % REGIONS.len()];
        self.probe = self.probe.region(self.region);
        match &act.deed {
            Deed::Charge(requests) => {
                let requests = self.requests(requests);
                self.charge(requests).await
            }
            Deed::Peek(requests) => {
                let requests = self.requests(requests);
                self.peek(requests).await
            }
            Deed::Refund(name, cost) => self.refund(*name, *cost).await,
            Deed::Reset => {
                self.probe.reset().await;
                self.model.reset(self.region);
                self.ledger.end();
                Ok(())
            }
            Deed::Limits(global, region) => {
                self.limits(*global, *region);
                Ok(())
            }
        }
    }

    fn limits(&mut self, global: Quota, region: Quota) {
        for ceiling in &mut self.ceilings {
            ceiling.quota = match ceiling.scope {
                Scope::Global => global,
                Scope::Region => region,
            };
        }
        self.probe = self.probe.ceilings(self.ceilings.clone());
        self.ledger.end();
    }

    fn has_log(&self) -> bool {
        let log = |c: &Ceiling| c.algorithm == Algorithm::SlidingLog;
        self.ceilings.iter().any(log)
    }

    fn id(&mut self, name: Name) -> (ChargeId, IdOrigin) {
        let named = match name {
            Name::Caller(n) => {
                let id = self.callers.entry(n).or_insert_with(fresh_id);
                Some((id.clone(), IdOrigin::Caller))
            }
            // Without a log the limiter never sends an id of its own again.
            Name::Again(n) if self.has_log() && !self.sent.is_empty() => {
                let id = self.sent[usize::from(n) % self.sent.len()].clone();
                Some((id, IdOrigin::Resent))
            }
            _ => None,
        };
        named
            .filter(|(id, _)| {
                let asked = (&self.ceilings[..], self.region);
                self.model.is_certain(asked, self.now, id)
            })
            .unwrap_or_else(|| {
                let id = fresh_id();
                self.sent.push(id.clone());
                (id, IdOrigin::Fresh)
            })
    }

    fn requests(&mut self, requests: &[Request]) -> Vec<ChargeRequest> {
        requests.iter().map(|r| self.request(r)).collect()
    }

    fn request(&mut self, request: &Request) -> ChargeRequest {
        let (id, origin) = self.id(request.name);
        let most = self.ceilings.iter().map(Ceiling::cost_max).min();
        let most = most.unwrap_or(0);
        let cost = match request.cost {
            Weight::Units(units) => units,
            Weight::Part(permille, more) => {
                let part = u128::from(most) * u128::from(permille) / 1_000;
                (part as u64).saturating_add_signed(i64::from(more))
            }
        };
        let held = |permille: u16| {
            let part = u128::from(self.window()) * u128::from(permille) / 1_000;
            Micros::new(part as u64)
        };
        ChargeRequest {
            id,
            origin,
            cost,
            held_for: request.held.filter(|_| self.has_log()).map(held),
        }
    }

    async fn charge(&mut self, requests: Vec<ChargeRequest>) -> Result<(), String> {
        let asked = (&self.ceilings[..], self.region);
        let expected = self.model.charge(asked, self.now, &requests);
        let clock = CallClock::At(self.now);
        let call = self.probe.call(clock, CallKind::Charge, requests.clone());
        let outcomes = call.await.outcomes;
        self.ledger
            .saw(self.now, skew_max(Micros::new(self.window())));
        for ((request, outcome), expected) in requests.iter().zip(&outcomes).zip(&expected) {
            same(request, outcome, expected)?;
            if outcome.is_admitted() && !outcome.repeated {
                self.ledger
                    .charged(&self.ceilings, self.region, self.now, request);
            }
        }
        // Only what came last was answered by the state as it is now.
        if let (Some(request), Some(outcome)) = (requests.last(), outcomes.last()) {
            self.exact(request.cost, outcome).await?;
        }
        Ok(())
    }

    async fn peek(&mut self, requests: Vec<ChargeRequest>) -> Result<(), String> {
        let asked = (&self.ceilings[..], self.region);
        let expected = self.model.peek(asked, self.now, &requests);
        let clock = CallClock::At(self.now);
        let call = self.probe.call(clock, CallKind::Peek, requests.clone());
        let outcomes = call.await.outcomes;
        for ((request, outcome), expected) in requests.iter().zip(&outcomes).zip(&expected) {
            same(request, outcome, expected)?;
        }
        Ok(())
    }

    /// Promise 3, asked of the store itself.
    async fn exact(&self, cost: Cost, outcome: &Outcome) -> Result<(), String> {
        let retry = outcome.ceilings.iter().filter_map(|c| c.retry).max();
        let Some(Retry::After(wait)) = retry else {
            return Ok(());
        };
        let early = self.now + wait.saturating_sub(Micros::new(1));
        if self.probe.peek(early, cost).await.is_admitted() {
            return Err(format!(
                "cost {cost} is admitted before its wait of {wait} s"
            ));
        }
        if !self.probe.peek(self.now + wait, cost).await.is_admitted() {
            return Err(format!("cost {cost} is denied after its wait of {wait} s"));
        }
        Ok(())
    }

    async fn refund(&mut self, name: Name, cost: Option<Cost>) -> Result<(), String> {
        let (id, _) = self.id(name);
        let asked = (&self.ceilings[..], self.region);
        let expected = self.model.refund(asked, self.now, &id, cost);
        let given = self.probe.refund(self.now, id.as_str(), cost).await;
        self.ledger.end();
        if given == expected {
            Ok(())
        } else {
            Err(format!("refund of {id}: {given:?}, expected {expected:?}"))
        }
    }
}

fn same(request: &ChargeRequest, outcome: &Outcome, expected: &Outcome) -> Result<(), String> {
    if outcome == expected {
        return Ok(());
    }
    Err(format!(
        "{request:?}\n     got {outcome:?}\nexpected {expected:?}"
    ))
}
