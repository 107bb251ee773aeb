//! What is measured: states of the logs, and calls on them.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fred::types::Value;
use tidegate::model::{
    Algorithm, Allowance, Ceiling, CeilingRule, ChargeId, KeyPrefix, Policy, PolicyName, Quota,
    Region, Scope, Subject, Target,
};
use tidegate::store::cluster::script::{ChargeScript, Scripts};
use tidegate::store::{CallClock, CallKind, ChargeCall, ChargeRequest, IdOrigin};

use super::server::{Server, command};

const TEXTBOOK: &str = include_str!("textbook.lua");

/// Calls of a round: few, so that some rounds run undisturbed.
const CALLS: usize = 1_000;
const WINDOW_SECS: u64 = 60;

/// How a check ends.
#[derive(Clone, Copy, PartialEq)]
pub enum Occasion {
    /// Both logs are 40 % full.
    Admitted,
    /// Both logs are full.
    DeniedByBoth,
    /// The region's log is full, the global one half.
    DeniedByRegion,
}

impl Occasion {
    pub const ALL: [Occasion; 3] = [
        Occasion::Admitted,
        Occasion::DeniedByBoth,
        Occasion::DeniedByRegion,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Occasion::Admitted => "admitted",
            Occasion::DeniedByBoth => "denied by both",
            Occasion::DeniedByRegion => "denied by one",
        }
    }

    /// The largest ratio to the textbook that is good enough.
    pub fn floor(self) -> f64 {
        match self {
            Occasion::Admitted => 0.75,
            _ => 0.90,
        }
    }
}

/// Calls on subjects whose logs are in a certain state.
pub struct Calls {
    occasion: Occasion,
    targets: Vec<Arc<Target>>,
    limits: [u64; 2],
    scripts: Scripts,
}

fn ceiling(scope: Scope, algorithm: Algorithm, limit: u64) -> Ceiling {
    let window = std::time::Duration::from_secs(WINDOW_SECS);
    Ceiling {
        scope,
        algorithm,
        quota: Quota::new(limit, window).unwrap(),
        delay: true,
    }
}

fn target(n: usize, ceilings: Vec<Ceiling>) -> Arc<Target> {
    let rule = |scope| {
        let of_scope = ceilings.iter().find(|c| c.scope == scope);
        of_scope.map(|c| CeilingRule {
            algorithm: c.algorithm,
            allowance: Allowance::Limited(c.quota),
            delay: c.delay,
        })
    };
    let name = PolicyName::new("video_top").unwrap();
    let policy = Policy::new(name, rule(Scope::Global), rule(Scope::Region)).unwrap();
    Arc::new(Target {
        policy: Arc::new(policy),
        subject: Subject::new(format!("key-{n}")).unwrap(),
        region: Some(Region::new("us").unwrap()),
        ceilings,
    })
}

fn request(round: usize, n: usize, origin: IdOrigin, cost: u64) -> ChargeRequest {
    ChargeRequest {
        id: ChargeId::new(format!("0k3v9x2m7q4w-{round}{n:05}")).unwrap(),
        origin,
        cost,
        held_for: None,
    }
}

fn evalsha(args: &[Value]) -> Vec<u8> {
    // Some are numbers.
    let args: Vec<_> = args.iter().map(|arg| arg.as_str().unwrap()).collect();
    let mut words: Vec<&[u8]> = vec![b"EVALSHA"];
    words.extend(args.iter().map(|arg| arg.as_bytes()));
    command(&words)
}

fn call(
    server: &mut Server,
    scripts: &Scripts,
    target: &Arc<Target>,
    kind: CallKind,
    requests: Vec<ChargeRequest>,
) -> Vec<u8> {
    let call = ChargeCall {
        target: Arc::clone(target),
        requests,
        clock: CallClock::Store,
        kind,
        deadline: Instant::now(),
    };
    let known = scripts.composed().len();
    let script = ChargeScript::new(scripts, &KeyPrefix::default(), call).unwrap();
    if scripts.composed().len() > known {
        let text = script.script().text();
        server.run(&["SCRIPT", "LOAD", &text.as_str().unwrap()]);
    }
    evalsha(&script.args(false))
}

impl Calls {
    pub fn new(limit: u64, subjects: usize, occasion: Occasion) -> Self {
        let limits = match occasion {
            Occasion::DeniedByRegion => [limit, limit / 2],
            _ => [limit, limit],
        };
        let ceilings = [Scope::Global, Scope::Region]
            .into_iter()
            .zip(limits)
            .map(|(scope, limit)| ceiling(scope, Algorithm::SlidingLog, limit));
        let ceilings: Vec<Ceiling> = ceilings.collect();
        Calls {
            occasion,
            targets: (0..subjects).map(|n| target(n, ceilings.clone())).collect(),
            limits,
            scripts: Scripts::default(),
        }
    }

    fn changes_state(&self) -> bool {
        self.occasion == Occasion::Admitted
    }

    /// The keys of a script, known by its prefix: each has its own, for the textbook's expiry is
    /// too short for ours.
    fn keys(prefix: &str, target: &Target) -> [String; 2] {
        let stem = format!("{prefix}:{{{}}}:video_top", target.subject.as_str());
        [format!("{stem}:g"), format!("{stem}:r:us")]
    }

    /// Brings the logs into their state, the last entry by a check.
    pub fn prepare(&self, server: &mut Server) {
        server.run(&["FLUSHALL"]);
        let full = self.limits[1] - 1;
        let entries = if self.changes_state() {
            self.limits[0] * 2 / 5
        } else {
            full
        };
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_micros() as u64
            - 20_000_000;
        for (n, target) in self.targets.iter().enumerate() {
            let mut commands = Vec::new();
            let keys = ["tg", "textbook"].map(|prefix| Self::keys(prefix, target));
            for key in keys.into_iter().flatten() {
                for from in (0..entries).step_by(2_000) {
                    let mut words = vec!["ZADD".to_owned(), key.clone()];
                    for entry in from..entries.min(from + 2_000) {
                        words.push((since + entry).to_string());
                        words.push(format!("0k3v9x2m7q4w-p{entry:07}"));
                    }
                    commands.push(command(&words));
                }
                commands.push(command(&["PEXPIRE", &key, "600000"]));
            }
            server.run_all(&commands);
            if !self.changes_state() {
                let requests = vec![request(99, n, IdOrigin::Fresh, 1)];
                let kind = CallKind::Charge;
                let mut filling = vec![call(server, &self.scripts, target, kind, requests)];
                for key in Self::keys("textbook", target) {
                    filling.push(command(&["ZADD", &key, &since.to_string(), "last"]));
                }
                server.run_all(&filling);
            }
        }
    }

    /// A round of the textbook's.
    pub fn textbook(&self, server: &mut Server, round: usize) -> Vec<Vec<u8>> {
        let sha = server.run(&["SCRIPT", "LOAD", TEXTBOOK]);
        let [global, region] = self.limits.map(|limit| limit.to_string());
        let window = (WINDOW_SECS * 1_000_000).to_string();
        let targets = self.targets.iter().cycle().take(CALLS).enumerate();
        targets
            .map(|(n, target)| {
                let keys = Self::keys("textbook", target);
                let id = request(1_000 + round, n, IdOrigin::Fresh, 1).id;
                let words = [
                    "EVALSHA",
                    &sha,
                    "2",
                    &keys[0],
                    &keys[1],
                    &global,
                    &region,
                    &window,
                    id.as_str(),
                ];
                command(&words)
            })
            .collect()
    }

    /// A round of ours.
    pub fn ours(&self, server: &mut Server, round: usize) -> Vec<Vec<u8>> {
        let targets = self.targets.iter().cycle().take(CALLS).enumerate();
        targets
            .map(|(n, target)| {
                let requests = vec![request(round, n, IdOrigin::Fresh, 1)];
                call(server, &self.scripts, target, CallKind::Charge, requests)
            })
            .collect()
    }
}

/// Commands of a round.
type Round = Box<dyn Fn(&mut Server, usize) -> Vec<Vec<u8>>>;

/// Other checks: what they are, a round of them, and how many checks a command carries.
pub fn others() -> Vec<(String, Round, f64)> {
    let mut all = Vec::new();
    let mut add = |name: &str, algorithms: &[Algorithm], kind, origin, cost, batch: usize| {
        let scopes = [Scope::Global, Scope::Region];
        let ceilings: Vec<Ceiling> = scopes
            .into_iter()
            .zip(algorithms)
            .map(|(scope, algorithm)| ceiling(scope, *algorithm, 10_000))
            .collect();
        let targets: Vec<_> = (0..40).map(|n| target(n, ceilings.clone())).collect();
        let scripts = Scripts::default();
        let round: Round = Box::new(move |server, round| {
            let of = |n: usize| {
                let ids = n * batch..(n + 1) * batch;
                ids.map(|id| request(round, id, origin, cost)).collect()
            };
            let calls = targets.iter().cycle().take(CALLS / batch).enumerate();
            let mut commands = Vec::new();
            for (n, target) in calls {
                commands.push(call(server, &scripts, target, kind, of(n)));
            }
            commands
        });
        all.push((name.to_owned(), round, batch as f64));
    };
    let (log, charge) = (Algorithm::SlidingLog, CallKind::Charge);
    for algorithm in Algorithm::ALL {
        let name = format!("one {algorithm}");
        add(&name, &[algorithm], charge, IdOrigin::Fresh, 1, 1);
        let name = format!("two of {algorithm}");
        add(
            &name,
            &[algorithm, algorithm],
            charge,
            IdOrigin::Fresh,
            1,
            1,
        );
    }
    let mixed = [Algorithm::SlidingCounter, log];
    add(
        "sliding_counter and sliding_log",
        &mixed,
        charge,
        IdOrigin::Fresh,
        1,
        1,
    );
    add(
        "two logs, a peek",
        &[log, log],
        CallKind::Peek,
        IdOrigin::Fresh,
        1,
        1,
    );
    add(
        "two logs, a caller's id",
        &[log, log],
        charge,
        IdOrigin::Caller,
        1,
        1,
    );
    add(
        "two logs, cost 3",
        &[log, log],
        charge,
        IdOrigin::Fresh,
        3,
        1,
    );
    add(
        "two logs, 64 checks a call",
        &[log, log],
        charge,
        IdOrigin::Fresh,
        1,
        64,
    );
    let buckets = [Algorithm::TokenBucket; 2];
    add(
        "two buckets, a caller's id",
        &buckets,
        charge,
        IdOrigin::Caller,
        1,
        1,
    );
    add(
        "two buckets, 64 checks a call",
        &buckets,
        charge,
        IdOrigin::Fresh,
        1,
        64,
    );
    all
}
