//! Limiters that are broken on purpose, on a real server: the oracle must find them out. A sound
//! one under the same traffic must not be accused.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::Limiter;
use tidegate::model::{Micros, Scope, Timestamp};
use tidegate::store::{
    CeilingOutcome, ChargeCall, ChargeReply, ChargeRequest, Outcome, Readiness, RefundCall,
    Refunded, ResetCall, Store, StoreError, StoreErrorKind,
};
use tidegate_chaos::cluster::{ClusterSpec, ClusterUnderTest};
use tidegate_chaos::load::{LoadPlan, PolicyPlan, Stream, drive, policies, records, wall_us};
use tidegate_chaos::oracle::{Expectations, Judgement, Record, ShardMap, Stalls, judge};
use tidegate_chaos::resp::{NodeConnection, Reply};
use tokio::sync::Mutex;

const LENGTH_MS: u64 = 2_500;
const WINDOW_MS: u64 = 1_000;

/// How a limiter decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// One script: reads, decides and writes at once.
    Sound,
    /// Reads, decides here, then writes: two that read at once both find room.
    Racing,
    /// One script, but every fifth answer is taken for lost, and the charge is sent again under
    /// another name.
    RetriesWithoutId,
}

/// The textbook's sliding log over every ceiling of a call.
const SCRIPT: &str = r#"
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local window, cost, id = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now - window))
  if redis.call('ZCARD', key) + cost > tonumber(ARGV[3 + i]) then return 0 end
end
for i, key in ipairs(KEYS) do
  for n = 1, cost do redis.call('ZADD', key, string.format('%d', now), id .. '.' .. n) end
end
return 1
"#;

/// A limiter's store that keeps its log on one server, in one of the ways.
struct Planted {
    way: Way,
    connections: Vec<Mutex<NodeConnection>>,
    calls: AtomicU64,
}

impl Planted {
    async fn connect(server: &ClusterUnderTest, way: Way) -> Self {
        let mut connections = Vec::new();
        for _ in 0..4 {
            connections.push(Mutex::new(server.connect(0).await.unwrap()));
        }
        let calls = AtomicU64::new(0);
        Planted {
            way,
            connections,
            calls,
        }
    }

    async fn command(&self, args: &[String]) -> Result<Reply, StoreError> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        let turn = usize::try_from(n).unwrap() % self.connections.len();
        let reply = self.connections[turn].lock().await.command(args).await;
        let failed = |why: String| StoreError::unknown("charge", StoreErrorKind::Unavailable, why);
        match reply.map_err(|error| failed(error.to_string()))? {
            Reply::Error(message) => Err(failed(message)),
            reply => Ok(reply),
        }
    }

    async fn decide(&self, call: &ChargeCall, request: &ChargeRequest) -> Result<bool, StoreError> {
        let target = &call.target;
        let key = |scope| match scope {
            Scope::Global => format!("{}:g", target.subject),
            Scope::Region => format!("{}:{}", target.subject, target.region.as_ref().unwrap()),
        };
        let keys: Vec<_> = target
            .ceilings
            .iter()
            .map(|c| (key(c.scope), c.quota))
            .collect();
        if self.way == Way::Racing {
            return self.read_then_write(&keys, request).await;
        }
        let admitted = self.run_script(&keys, request, request.id.as_str()).await?;
        let n = self.calls.load(Ordering::Relaxed);
        if self.way == Way::RetriesWithoutId && n.is_multiple_of(5) {
            let again = format!("{}-again", request.id);
            return self.run_script(&keys, request, &again).await;
        }
        Ok(admitted)
    }

    async fn run_script(
        &self,
        keys: &[(String, tidegate::model::Quota)],
        request: &ChargeRequest,
        id: &str,
    ) -> Result<bool, StoreError> {
        let window = keys[0].1.window().get();
        let mut args: Vec<String> = vec!["EVAL".into(), SCRIPT.into(), keys.len().to_string()];
        args.extend(keys.iter().map(|(key, _)| key.clone()));
        args.extend([window.to_string(), request.cost.to_string(), id.to_owned()]);
        args.extend(keys.iter().map(|(_, quota)| quota.limit().to_string()));
        Ok(self.command(&args).await?.int() == Some(1))
    }

    async fn read_then_write(
        &self,
        keys: &[(String, tidegate::model::Quota)],
        request: &ChargeRequest,
    ) -> Result<bool, StoreError> {
        let now = wall_us();
        for (key, quota) in keys {
            let since = format!("({}", now - quota.window().get());
            let args = ["ZCOUNT", key, &since, "+inf"].map(str::to_owned);
            let used = self.command(&args).await?.int().unwrap_or(0);
            if u64::try_from(used).unwrap_or(0) + request.cost > quota.limit() {
                return Ok(false);
            }
        }
        for (key, _) in keys {
            for n in 0..request.cost {
                let member = format!("{}.{n}", request.id);
                let args = ["ZADD", key, &now.to_string(), &member].map(str::to_owned);
                self.command(&args).await?;
            }
        }
        Ok(true)
    }
}

impl Store for Planted {
    async fn charge(&self, call: ChargeCall) -> Result<ChargeReply, StoreError> {
        let mut outcomes = Vec::new();
        for request in &call.requests {
            let admitted = self.decide(&call, request).await?;
            let wait = tidegate::model::Retry::After(Micros::from_millis(WINDOW_MS));
            let ceiling = CeilingOutcome {
                remaining: 0,
                reset_after: Micros::ZERO,
                retry: (!admitted).then_some(wait),
                delay: None,
            };
            let ceilings = vec![ceiling; call.target.ceilings.len()];
            outcomes.push(Outcome {
                ceilings,
                repeated: false,
            });
        }
        let at = Timestamp::from_micros(wall_us());
        Ok(ChargeReply { at, outcomes })
    }

    fn refund(&self, _: RefundCall) -> impl Future<Output = Result<Refunded, StoreError>> + Send {
        std::future::ready(Ok(Refunded::NotFound))
    }

    fn reset(&self, _: ResetCall) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn calls_sent(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Bursts in which all tasks ask at once, and a subject that stays well below its limit.
fn plan(instance: u16) -> LoadPlan {
    let stream = |policy, subject: &str, rate| Stream {
        policy,
        subject: subject.into(),
        regions: vec!["us".into(), "eu".into()],
        rate,
        from_ms: 0,
        heavy_every: 7,
    };
    let policy = |name: &str, global, region| PolicyPlan {
        name: name.into(),
        global,
        region,
        window_ms: WINDOW_MS,
        callers_clock: false,
    };
    LoadPlan {
        instance,
        redis: String::new(),
        key_prefix: "tg".into(),
        deadline_ms: 2_000,
        length_ms: LENGTH_MS,
        history: "unused".into(),
        repair: false,
        local_stage: false,
        policies: vec![policy("hot", 60, 40), policy("cool", 130, 80)],
        streams: vec![stream(0, "hot", 150), stream(1, "cool", 30)],
        clock_step: None,
    }
}

async fn judged(way: Way) -> Judgement {
    let server = ClusterUnderTest::start(ClusterSpec::single())
        .await
        .unwrap();
    let (sender, mut receiver) = records();
    let begin_at = wall_us() + 100_000;
    let mut instances = Vec::new();
    for instance in 0..3 {
        let plan = plan(instance);
        let limiter = Limiter::builder()
            .policies(policies(&plan.policies).unwrap())
            .store(Planted::connect(&server, way).await)
            .deadline(Duration::from_millis(plan.deadline_ms))
            .build()
            .unwrap();
        let drive = drive(Arc::new(limiter), Arc::new(plan), begin_at, sender.clone());
        instances.push(tokio::spawn(drive));
    }
    drop(sender);
    let mut history: Vec<Record> = Vec::new();
    while let Some(record) = receiver.recv().await {
        history.push(record);
    }
    for instance in instances {
        instance.await.unwrap().unwrap();
    }
    let expectations = Expectations {
        policies: policies(&plan(0).policies).unwrap(),
        lateness_max: 1_000_000,
        shards: ShardMap::equal(1),
        denials_excused_until: 0,
        recovery_from: begin_at,
        ended_at: begin_at + LENGTH_MS * 1_000,
        stalls: Stalls::default(),
    };
    let judgement = judge(&history, &expectations);
    println!("{way:?}: {judgement:?}");
    // 3 instances, 2.5 s, 150 and 30 checks a second each.
    assert_eq!(judgement.checks, 3 * (375 + 75));
    assert_eq!(
        (judgement.errors, judgement.stuck, judgement.degraded),
        (0, 0, 0)
    );
    judgement
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sound_limiter_is_not_accused() {
    let found = judged(Way::Sound).await;
    assert_eq!((found.wrongly_admitted, found.wrongly_denied), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_that_reads_and_then_writes_is_found_to_admit_too_much() {
    let found = judged(Way::Racing).await;
    assert!(found.wrongly_admitted > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_that_retries_without_an_id_is_found_to_deny_below_the_limit() {
    let found = judged(Way::RetriesWithoutId).await;
    assert!(found.wrongly_denied > 0);
    assert_eq!(found.wrongly_admitted, 0);
}
