//! `tidegate load`: made-up traffic against a limiter in this process or against a server, and
//! what it measured.

mod numbers;
mod pace;
mod plan;
mod progress;
mod report;
mod run;
mod tally;

use std::time::Duration;

use clap::Args;

use self::plan::{Distribution, Extent, PerSecond, Plan, SUBJECTS_MAX, TASKS_MAX};
use super::args::{DeadlineArgs, LogArgs, PolicyArgs, ServerArgs, StoreArgs, cost};
use super::backend::{Backend, BackendArgs};
use super::compose;
use super::failure::{Exit, Failure};
use super::output::{Outcome, print_line};
use super::stage_args::StageArgs;

const EXAMPLES: &str = "\
Examples:
  tidegate load --policy internal            on this machine's memory, for 10 s
  tidegate load --policy video_top --regions us,eu --subjects 100000 \\
                --distribution zipf:1.0 --redis redis://10.0.0.1:6379 \\
                --tasks 512 --seconds 30
  tidegate load --policy payments --subjects 1 --rate 2000/s \\
                --server http://127.0.0.1:8080
  tidegate load --policy internal --checks 1000000 --json | jq .latency_ms.p99

Without --rate each task sends its next check when it has its answer: the most
that goes. With --rate checks are sent when they are due, and latencies count
from then: what a user would see.

Exit codes: 0 measured, 2 could not or bad usage.";

/// Flags of `load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LoadArgs {
    /// The policy's name
    #[arg(long, value_name = "NAME", env = "TIDEGATE_POLICY")]
    policy: String,

    /// How many subjects ask: key-1 to key-N
    #[arg(long, value_name = "N", env = "TIDEGATE_SUBJECTS", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..=SUBJECTS_MAX))]
    subjects: u64,

    /// Who asks how often: uniform, or zipf:S where the k-th asks in proportion to 1/k^S
    #[arg(
        long,
        value_name = "FORM",
        env = "TIDEGATE_DISTRIBUTION",
        default_value = "uniform"
    )]
    distribution: Distribution,

    /// Regions that checks name, each as often; needed when the policy counts by region
    #[arg(
        long,
        value_name = "NAME,...",
        env = "TIDEGATE_REGIONS",
        value_delimiter = ','
    )]
    regions: Vec<String>,

    /// Units each check asks for
    #[arg(long, value_name = "N", env = "TIDEGATE_COST", default_value_t = 1,
          value_parser = cost, allow_negative_numbers = true)]
    cost: u64,

    /// How many checks are under way at once
    #[arg(long, value_name = "N", env = "TIDEGATE_TASKS", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=TASKS_MAX))]
    tasks: u64,

    /// How long to send [default: 10]
    #[arg(long, value_name = "N", env = "TIDEGATE_SECONDS", value_parser = seconds,
          conflicts_with = "checks")]
    seconds: Option<Duration>,

    /// How many checks to send
    #[arg(long, value_name = "N", env = "TIDEGATE_CHECKS",
          value_parser = clap::value_parser!(u64).range(1..))]
    checks: Option<u64>,

    /// Send at this rate, answers or not, such as 5000/s
    #[arg(long, value_name = "N/s", env = "TIDEGATE_RATE")]
    rate: Option<PerSecond>,

    /// Print the result as JSON, and no progress
    #[arg(long, env = "TIDEGATE_JSON")]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    policies: PolicyArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    deadline: DeadlineArgs,

    #[command(flatten)]
    stage: StageArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// Drives and measures.
pub(super) fn run(args: LoadArgs) -> Outcome {
    let _log = compose::install_logs(&args.log, "off")?;
    compose::large_runtime()?.block_on(async {
        let backend = BackendArgs {
            server: &args.server,
            admin: None,
            policies: &args.policies,
            store: &args.store,
            deadline: args.deadline,
            stage: args.stage,
        };
        let mut backend = Backend::open(backend).await?;
        backend.join_fleet();
        let name = backend.name().to_owned();
        let plan = args.plan();
        let measured = run::run(plan.clone(), backend, args.json).await?;
        print_line(&match args.json {
            true => report::json(&measured)
                .map_err(|error| Failure::new(format!("the result: {error}")))?,
            false => report::table(&plan, &name, &measured),
        })?;
        Ok(Exit::Done)
    })
}

impl LoadArgs {
    fn plan(&self) -> Plan {
        let default = Duration::from_secs(10);
        Plan {
            policy: self.policy.clone(),
            subjects: self.subjects,
            distribution: self.distribution,
            regions: self
                .regions
                .iter()
                .filter(|r| !r.is_empty())
                .cloned()
                .collect(),
            cost: self.cost,
            tasks: self.tasks,
            extent: match (self.checks, self.seconds) {
                (Some(checks), _) => Extent::Checks(checks),
                (None, seconds) => Extent::Time(seconds.unwrap_or(default)),
            },
            rate: self.rate,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    const SECONDS_MAX: f64 = 7.0 * 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("write seconds above 0 and up to a week, such as 30 or 0.5".to_owned()),
    }
}
