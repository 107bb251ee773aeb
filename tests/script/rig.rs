//! Calls of one subject on a real server, by the scripts alone: what an adapter would send.

use std::sync::Arc;
use std::time::Instant;

use tidegate::model::{
    Algorithm, Allowance, Ceiling, CeilingRule, ChargeId, KeyPrefix, Micros, Policy, PolicyName,
    Quota, Region, Retry, Scope, Subject, Target, Timestamp,
};
use tidegate::store::cluster::script::{
    Acknowledged, ChargeScript, RefundScript, ReplayScript, Script, Scripts,
};
use tidegate::store::{
    CallClock, CallKind, CeilingOutcome, ChargeCall, ChargeReply, ChargeRequest, IdOrigin, Outcome,
    RefundCall, Refunded,
};

use super::server::Server;

pub const T: u64 = 1_000_000;

/// The instant at which the rigs' stories begin; a multiple of every window they use.
pub const START: u64 = 1_760_000_400 * T;

/// A subject under a policy of one or two ceilings.
pub struct Rig {
    pub server: Server,
    pub scripts: Scripts,
    pub target: Arc<Target>,
    pub clock: CallClock,
    made: u64,
}

/// `sliding_log 5/min`, with a burst `token_bucket 5/s burst 2`, with a region's before a comma.
pub fn ceiling(scope: Scope, text: &str) -> Ceiling {
    let mut words = text.split(' ');
    let algorithm: Algorithm = words.next().unwrap().parse().unwrap();
    let mut quota: Quota = words.next().unwrap().parse().unwrap();
    if words.next() == Some("burst") {
        quota = quota
            .with_burst(words.next().unwrap().parse().unwrap())
            .unwrap();
    }
    Ceiling {
        scope,
        algorithm,
        quota,
        delay: true,
    }
}

/// A target of `g` and, when it isn't empty, `r` in region us.
pub fn target(subject: &str, g: &str, r: &str) -> Arc<Target> {
    let mut ceilings = Vec::new();
    if !g.is_empty() {
        ceilings.push(ceiling(Scope::Global, g));
    }
    if !r.is_empty() {
        ceilings.push(ceiling(Scope::Region, r));
    }
    let rule = |c: &Ceiling| CeilingRule {
        algorithm: c.algorithm,
        allowance: Allowance::Limited(c.quota),
        delay: true,
    };
    let of = |scope| ceilings.iter().find(|c| c.scope == scope).map(rule);
    let name = PolicyName::new("p").unwrap();
    let policy = Policy::new(name, of(Scope::Global), of(Scope::Region)).unwrap();
    Arc::new(Target {
        policy: Arc::new(policy),
        subject: Subject::new(subject).unwrap(),
        region: (!r.is_empty()).then(|| Region::new("us").unwrap()),
        ceilings,
    })
}

impl Rig {
    pub async fn new(g: &str, r: &str) -> Self {
        Rig::on(Server::start().await, g, r)
    }

    pub fn on(server: Server, g: &str, r: &str) -> Self {
        Rig {
            server,
            scripts: Scripts::default(),
            target: target("s", g, r),
            clock: CallClock::At(Timestamp::from_micros(START)),
            made: 0,
        }
    }

    /// The instant at which stories begin.
    pub fn story() -> CallClock {
        CallClock::At(Timestamp::from_micros(START))
    }

    /// The server's own time, from a peek.
    pub async fn peek_at(&mut self) -> u64 {
        let request = self.fresh(1);
        let script = self.script(CallKind::Peek, vec![request]);
        self.run(&script, false).await.unwrap().at.as_micros()
    }

    /// Another quota or algorithm for the same subject.
    pub fn change(&mut self, g: &str, r: &str) {
        self.target = target("s", g, r);
    }

    /// The next calls come so many microseconds after the story's beginning.
    pub fn at(&mut self, us: i64) -> &mut Self {
        let instant = START.checked_add_signed(us).unwrap();
        self.clock = CallClock::At(Timestamp::from_micros(instant));
        self
    }

    pub fn fresh(&mut self, cost: u64) -> ChargeRequest {
        self.made += 1;
        request(&format!("n0-{}", self.made), IdOrigin::Fresh, cost)
    }

    pub fn call(&self, kind: CallKind, requests: Vec<ChargeRequest>) -> ChargeCall {
        ChargeCall {
            target: Arc::clone(&self.target),
            requests,
            clock: self.clock,
            kind,
            deadline: Instant::now(),
        }
    }

    pub fn script(&self, kind: CallKind, requests: Vec<ChargeRequest>) -> ChargeScript {
        let call = self.call(kind, requests);
        ChargeScript::new(&self.scripts, &KeyPrefix::default(), call).unwrap()
    }

    /// Runs a script; its error's text when the server refuses it.
    pub async fn run(&self, script: &ChargeScript, resent: bool) -> Result<ChargeReply, String> {
        self.load(script.script()).await;
        let reply = self.server.send("EVALSHA", script.args(resent)).await?;
        Ok(script.decode(reply).unwrap())
    }

    pub async fn charge_all(&self, requests: Vec<ChargeRequest>) -> Vec<Outcome> {
        let script = self.script(CallKind::Charge, requests);
        self.run(&script, false).await.unwrap().outcomes
    }

    pub async fn charge(&mut self, cost: u64) -> Outcome {
        let request = self.fresh(cost);
        self.charge_all(vec![request]).await.remove(0)
    }

    pub async fn charge_named(&self, id: &str, cost: u64) -> Outcome {
        self.charge_all(vec![request(id, IdOrigin::Caller, cost)])
            .await
            .remove(0)
    }

    pub async fn peek(&mut self, cost: u64) -> Outcome {
        let request = self.fresh(cost);
        let script = self.script(CallKind::Peek, vec![request]);
        self.run(&script, false).await.unwrap().outcomes.remove(0)
    }

    fn refund_script(&self, id: &str, cost: Option<u64>) -> RefundScript {
        let call = RefundCall {
            target: Arc::clone(&self.target),
            id: ChargeId::new(id).unwrap(),
            cost,
            clock: self.clock,
            deadline: Instant::now(),
        };
        RefundScript::new(&self.scripts, &KeyPrefix::default(), call)
    }

    pub async fn refund(&self, id: &str, cost: Option<u64>) -> Refunded {
        let script = self.refund_script(id, cost);
        self.load(script.script()).await;
        self.refund_loaded(id, cost).await
    }

    /// Without loading the script, which a full server would refuse.
    pub async fn refund_loaded(&self, id: &str, cost: Option<u64>) -> Refunded {
        let script = self.refund_script(id, cost);
        let reply = self.server.send("EVALSHA", script.args()).await.unwrap();
        script.decode(reply).unwrap()
    }

    /// Puts charges back, as after a failover.
    pub async fn replay(&self, charges: Vec<Acknowledged>) -> u64 {
        let target = Arc::clone(&self.target);
        let prefix = KeyPrefix::default();
        let script = ReplayScript::new(&self.scripts, &prefix, target, charges, Instant::now());
        for script in self.scripts.composed() {
            self.load(&script).await;
        }
        let reply = self.server.send("EVALSHA", script.args()).await.unwrap();
        script.decode(reply).unwrap()
    }

    async fn load(&self, script: &Script) {
        let load = vec!["LOAD".into(), script.text()];
        self.server.send("SCRIPT", load).await.unwrap();
    }
}

pub fn request(id: &str, origin: IdOrigin, cost: u64) -> ChargeRequest {
    ChargeRequest {
        id: ChargeId::new(id).unwrap(),
        origin,
        cost,
        held_for: None,
    }
}

/// Each ceiling's units left and seconds until it is whole.
pub fn left(outcome: &Outcome) -> Vec<(u64, u64)> {
    let left = |c: &CeilingOutcome| (c.remaining, c.reset_after.get());
    outcome.ceilings.iter().map(left).collect()
}

/// The wait of the longest refusal, in microseconds; 0 when it was admitted.
pub fn wait(outcome: &Outcome) -> u64 {
    match outcome.ceilings.iter().filter_map(|c| c.retry).max() {
        None => 0,
        Some(Retry::After(wait)) => wait.get(),
        Some(Retry::Never) => u64::MAX,
    }
}

pub fn held(mut request: ChargeRequest, us: u64) -> ChargeRequest {
    request.held_for = Some(Micros::new(us));
    request
}
