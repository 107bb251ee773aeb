//! Checks a second through the cluster store, against bare fred in cluster mode running the same
//! script with the same arguments: 10,000 subjects, 512 tasks, three primaries on this machine.
//!
//! Both take turns in one run, and only their ratio counts: machines differ, and so do minutes.
//! Run with `cargo bench --bench store_cluster`; the floor of 0.9 is asserted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::Value;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, Server, ServerConfig, TcpConfig,
};
use tidegate::model::{
    Algorithm, Allowance, CeilingRule, ChargeId, KeyPrefix, Policy, PolicyName, Quota, Region,
    Subject, Target,
};
use tidegate::store::cluster::script::{ChargeScript, Scripts};
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate::store::{CallClock, CallKind, ChargeCall, ChargeRequest, IdOrigin, Store};
use tidegate_chaos::cluster::{ClusterKind, ClusterSpec as TestOptions, ClusterUnderTest};

/// The allocator that the binary has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SUBJECTS: usize = 10_000;
const TASKS: usize = 512;
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 15;
/// No deadline may end a round, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(10);
const FLOOR: f64 = 0.9;
const GOAL: f64 = 1.2;

#[tokio::main]
async fn main() {
    let options = TestOptions::shards(3, false).kind(ClusterKind::Processes);
    let cluster = ClusterUnderTest::start(options).await.expect("a cluster");
    let targets = Arc::new(targets());
    let options = ClusterOptions::from_url(&cluster.redis_url()).expect("a URL");
    let store = Arc::new(ClusterStore::connect(options).expect("a store"));
    store
        .wait_ready(Duration::from_secs(10))
        .await
        .expect("a ready store");
    let bare = Arc::new(Bare::connect(&cluster, &targets).await);
    println!(
        "{:>6} {:>12} {:>12} {:>7} {:>14} {:>10}",
        "round", "bare fred/s", "store/s", "ratio", "bare us CPU", "store"
    );
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        // In turn, so that neither has the better half of a changing machine.
        let (a, b) = if round % 2 == 0 {
            let a = bare_rate(&bare, &cluster).await;
            (a, store_rate(&store, &targets, &cluster).await)
        } else {
            let b = store_rate(&store, &targets, &cluster).await;
            (bare_rate(&bare, &cluster).await, b)
        };
        if round == 0 {
            continue; // Both have to warm up.
        }
        let ratio = b.per_second / a.per_second;
        println!(
            "{round:>6} {:>12.0} {:>12.0} {ratio:>7.3} {:>14.2} {:>10.2}",
            a.per_second, b.per_second, a.cpu_us, b.cpu_us
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios[ratios.len() * part / 4];
    let (low, median, high) = (at(1), at(2), at(3));
    println!(
        "median {median:.3} (half of the rounds {low:.3} to {high:.3}) of bare fred in cluster mode"
    );
    println!("floor {FLOOR}, goal {GOAL}");
    assert!(median >= FLOOR, "below the floor");
}

async fn bare_rate(bare: &Arc<Bare>, cluster: &ClusterUnderTest) -> Rate {
    flush(cluster).await;
    let bare = Arc::clone(bare);
    rate(move |n| {
        let bare = Arc::clone(&bare);
        async move { bare.check(n % SUBJECTS).await }
    })
    .await
}

async fn store_rate(
    store: &Arc<ClusterStore>,
    targets: &Arc<Vec<Arc<Target>>>,
    cluster: &ClusterUnderTest,
) -> Rate {
    flush(cluster).await;
    let (store, targets) = (Arc::clone(store), Arc::clone(targets));
    rate(move |n| {
        let (store, targets) = (Arc::clone(&store), Arc::clone(&targets));
        async move {
            let reply = store.charge(call(&targets[n % SUBJECTS])).await;
            reply.is_ok_and(|reply| reply.outcomes[0].is_admitted())
        }
    })
    .await
}

fn targets() -> Vec<Arc<Target>> {
    let quota = Quota::new(1_000_000, Duration::from_secs(60)).expect("a quota");
    let rule = CeilingRule {
        algorithm: Algorithm::SlidingLog,
        allowance: Allowance::Limited(quota),
        delay: false,
    };
    let name = PolicyName::new("bench").expect("a name");
    let policy = Arc::new(Policy::new(name, Some(rule), Some(rule)).expect("a policy"));
    let region = Region::new("us").expect("a region");
    let target = |n| {
        let subject = Subject::new(format!("key-{n}")).expect("a subject");
        Arc::new(Target {
            ceilings: policy.ceilings(&subject, Some(&region)).expect("ceilings"),
            policy: Arc::clone(&policy),
            subject,
            region: Some(region.clone()),
        })
    };
    (0..SUBJECTS).map(target).collect()
}

fn fresh_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("b{:x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn call(target: &Arc<Target>) -> ChargeCall {
    ChargeCall {
        target: Arc::clone(target),
        requests: vec![ChargeRequest {
            id: ChargeId::new(fresh_id()).expect("an id"),
            origin: IdOrigin::Fresh,
            cost: 1,
            held_for: None,
        }],
        clock: CallClock::Store,
        kind: CallKind::Charge,
        deadline: Instant::now() + PATIENCE,
    }
}

/// What a round brought.
struct Rate {
    per_second: f64,
    /// Processor time of this process a check, which other load on the machine hardly changes.
    cpu_us: f64,
}

/// User and system time of this process so far, in seconds; 0 where /proc isn't there.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// How often a second `check` succeeds, asked by all tasks at once.
async fn rate<F>(check: impl Fn(usize) -> F + Send + Sync + 'static) -> Rate
where
    F: Future<Output = bool> + Send,
{
    let (check, stop) = (Arc::new(check), Arc::new(AtomicBool::new(false)));
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (check, stop) = (Arc::clone(&check), Arc::clone(&stop));
            tokio::spawn(async move {
                let (mut n, mut done) = (task * 7_919, 0u64);
                while !stop.load(Ordering::Relaxed) {
                    assert!(check(n).await, "a check failed");
                    n += TASKS;
                    done += 1;
                }
                done
            })
        })
        .collect();
    tokio::time::sleep(ROUND).await;
    stop.store(true, Ordering::Relaxed);
    let mut done = 0;
    for task in tasks {
        done += task.await.expect("a task");
    }
    Rate {
        per_second: done as f64 / begun.elapsed().as_secs_f64(),
        cpu_us: (cpu_seconds() - cpu) * 1e6 / done as f64,
    }
}

async fn flush(cluster: &ClusterUnderTest) {
    for node in 0..cluster.node_count() {
        let empty = cluster.run(node, &["FLUSHALL"]).await;
        empty.expect("an empty node");
    }
}

/// fred as it is: cluster mode, its own routing.
struct Bare {
    client: Client,
    sha: String,
    /// Keys, arguments, and which of these is the id.
    calls: Vec<(Vec<String>, Vec<Value>, usize)>,
}

impl Bare {
    async fn connect(cluster: &ClusterUnderTest, targets: &[Arc<Target>]) -> Self {
        let client = cluster_client(cluster);
        client.init().await.expect("a connected client");
        let (scripts, prefix) = (Scripts::default(), KeyPrefix::default());
        let calls = targets.iter().map(|target| {
            let call = call(target);
            let id = call.requests[0].id.clone();
            let script = ChargeScript::new(&scripts, &prefix, call).expect("a script");
            let mut args = script.args(false);
            let keys_len: usize = text(args.remove(1)).parse().expect("a number");
            let keys = args.drain(1..=keys_len).map(text).collect();
            args.remove(0);
            let is_id = |arg: &Value| arg.as_bytes() == Some(id.as_str().as_bytes());
            let id = args.iter().position(is_id).expect("the id");
            (keys, args, id)
        });
        let calls = calls.collect();
        let script = scripts.composed().remove(0);
        for node in 0..cluster.node_count() {
            let body = text(script.text());
            let loaded = cluster.run(node, &["SCRIPT", "LOAD", &body]).await;
            loaded.expect("a loaded script");
        }
        Bare {
            client,
            sha: text(script.sha1()),
            calls,
        }
    }

    async fn check(&self, subject: usize) -> bool {
        let (keys, args, id) = &self.calls[subject];
        let mut args = args.clone();
        args[*id] = fresh_id().into();
        let sha = self.sha.as_str();
        let reply = self
            .client
            .evalsha::<Value, _, _, _>(sha, keys.clone(), args);
        reply.await.is_ok_and(|reply| reply.is_array())
    }
}

fn text(value: Value) -> String {
    value.into_string().expect("a string")
}

fn cluster_client(cluster: &ClusterUnderTest) -> Client {
    let hosts = (0..cluster.node_count()).map(|node| {
        let address = cluster.address(node).expect("an address");
        Server::new(address.ip().to_string(), address.port())
    });
    let config = Config {
        server: ServerConfig::Clustered {
            hosts: hosts.collect(),
            policy: Default::default(),
        },
        ..Config::default()
    };
    let connection = ConnectionConfig {
        max_command_attempts: 1,
        tcp: TcpConfig {
            nodelay: Some(true),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    };
    let performance = PerformanceConfig {
        default_command_timeout: PATIENCE,
        ..PerformanceConfig::default()
    };
    let policy = ReconnectPolicy::new_constant(0, 50);
    Client::new(config, Some(performance), Some(connection), Some(policy))
}
