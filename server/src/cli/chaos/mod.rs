//! `tidegate chaos`: faults against a limiter's store, and what they did to its answers.

mod progress;
mod table;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use self::progress::Progress;
use super::args::DeadlineArgs;
use super::compose;
use super::failure::{Exit, Failure};
use super::output::{Outcome, print_line};
use tidegate_chaos::cluster::ClusterKind;
use tidegate_chaos::load::{InstanceProgram, wall_us};
use tidegate_chaos::report::{Report, Summary};
use tidegate_chaos::scenario::{
    Against, LATENESS_MAX, Runner, SCENARIOS, Scenario, ScenarioError, scenario,
};

/// The hidden subcommand that an instance is started by.
const INSTANCE: &str = "chaos-instance";

/// The node timeout of the clusters that chaos starts.
const NODE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  tidegate chaos                         everything, on containers where Docker
                                         is there, else on local processes
  tidegate chaos kill split-brain --repetitions 10 --report chaos-report
  tidegate chaos failover --against redis://10.0.0.1:6379
  tidegate chaos all --repetitions 100 --seconds 30 --report soak
                                         a soak of a night

Scenarios:
  steady kill stop pause cut-off split-brain resets latency loss failover
  migrate-slot migrate-atomic script-flush flush-all max-memory clock-step
  rolling-restart two-primaries-down all-down

Against an address only those run that a client could cause by accident:
steady, failover, script-flush and clock-step. Their keys begin with tgchaos:
and expire by themselves.

Exit codes: 0 every promise was kept, 1 one was broken, 2 could not run or bad
usage.";

/// Flags of `chaos`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ChaosArgs {
    /// What is done: names from the list below, or all
    #[arg(value_name = "SCENARIO", default_value = "all", value_parser = names())]
    scenarios: Vec<String>,

    /// What it is done to: auto, containers, processes (both started and ended by chaos), or the
    /// URL of a cluster or server, as --redis takes it
    #[arg(
        long,
        value_name = "WHAT",
        env = "TIDEGATE_AGAINST",
        default_value = "auto",
        hide_env_values = true
    )]
    against: String,

    /// How long checks are asked under each fault; a scenario that needs more gets more
    #[arg(long, value_name = "N", env = "TIDEGATE_SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,

    /// How often each scenario is run
    #[arg(long, value_name = "N", env = "TIDEGATE_REPETITIONS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,

    /// Whether instances restore what a failover lost: on, off, or both in turn where it matters
    #[arg(
        long,
        value_name = "WHICH",
        env = "TIDEGATE_REPAIR",
        default_value = "both"
    )]
    repair: RepairChoice,

    /// Run instances without denial cache, node ceiling, lanes and leases
    #[arg(long, env = "TIDEGATE_NO_LOCAL_STAGE")]
    no_local_stage: bool,

    /// Directory for chaos.html, chaos.md, chaos.json, and the histories of runs that broke a promise
    #[arg(long, value_name = "DIR", env = "TIDEGATE_REPORT")]
    report: Option<PathBuf>,

    /// Print the result as JSON, and no progress
    #[arg(long, env = "TIDEGATE_JSON")]
    json: bool,

    #[command(flatten)]
    deadline: DeadlineArgs,
}

/// With or without repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RepairChoice {
    /// With.
    On,
    /// Without.
    Off,
    /// Both, where a failover may lose anything; else with.
    Both,
}

/// The result's JSON members.
#[derive(Debug, Serialize)]
struct ResultBody {
    scenarios: Vec<Summary>,
}

fn names() -> clap::builder::PossibleValuesParser {
    let names = SCENARIOS.iter().map(|scenario| scenario.name);
    names.chain(["all"]).collect::<Vec<_>>().into()
}

/// Runs scenarios, and says what came of them.
pub(super) fn run(args: ChaosArgs) -> Outcome {
    compose::large_runtime()?.block_on(async {
        let interrupted = tokio::select! {
            outcome = run_all(&args) => return outcome,
            interrupted = interruption() => interrupted,
        };
        // By now everything that was started has been dropped, and ended with it.
        interrupted?;
        Err(Failure::new(
            "interrupted: nothing was left behind, and nothing was proven",
        ))
    })
}

/// `tidegate chaos-instance`: one limiter of a chaos run, started by `tidegate chaos`, which hands
/// it a plan; nothing for people to type.
pub(super) fn run_instance() -> Outcome {
    let ran = compose::large_runtime()?.block_on(tidegate_chaos::load::run_instance());
    ran.map_err(|error| Failure::new(error.to_string()))?;
    Ok(Exit::Done)
}

async fn run_all(args: &ChaosArgs) -> Outcome {
    let runner = args.runner()?;
    let named = !args.is_all();
    let chosen = args.chosen(&runner.against)?;
    let began_at = wall_us();
    let progress = Progress::new(args.json, chosen.len() * args.repetitions as usize);
    let (mut scenarios, mut failed) = (Vec::new(), None);
    for (scenario, repair) in chosen {
        let ran = runner.scenario(
            scenario,
            repair,
            |id, phase| progress.phase(id, phase),
            |id, run| progress.finished(id, run),
        );
        match ran.await {
            Ok(report) => scenarios.push(report),
            // Of `all`, what this server can't do is named and left out.
            Err(error) if error.is_unsupported() && !named => {
                progress.left_out(scenario.name, &error.to_string(), args.repetitions);
            }
            Err(error) => failed = Some(failure(scenario, &error)),
        }
    }
    progress.end();
    if let (true, Some(failure)) = (scenarios.is_empty(), &failed) {
        return Err(failure.clone());
    }
    let report = Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        began_at,
        deadline: u64::try_from(args.deadline.deadline.as_micros()).unwrap_or(u64::MAX),
        scenarios,
    };
    args.print(&report)?;
    let partly = report.scenarios.iter().any(|s| !s.not_run.is_empty());
    match (report.is_sound(), failed) {
        (false, _) => Ok(Exit::Broken),
        (true, Some(failure)) => Err(failure),
        (true, None) if partly => Err(Failure::new("some runs could not be carried out")),
        (true, None) => Ok(Exit::Done),
    }
}

fn failure(scenario: &Scenario, error: &ScenarioError) -> Failure {
    Failure::new(format!("{} could not be run: {error}", scenario.name))
}

impl ChaosArgs {
    fn runner(&self) -> Result<Runner, Failure> {
        let path = std::env::current_exe()
            .map_err(|error| Failure::new(format!("can't find this program's file: {error}")))?;
        let histories = self.report.as_ref().map(|dir| dir.join("histories"));
        Ok(Runner {
            against: against(&self.against),
            program: InstanceProgram {
                path,
                args: vec![INSTANCE.to_owned()],
            },
            seconds: self.seconds,
            repetitions: self.repetitions,
            deadline: self.deadline.deadline,
            lateness_max: LATENESS_MAX,
            node_timeout: NODE_TIMEOUT,
            local_stage: !self.no_local_stage,
            key_prefix: "tgchaos".to_owned(),
            keep_histories: histories,
        })
    }

    fn is_all(&self) -> bool {
        self.scenarios.iter().any(|name| name == "all")
    }

    /// Each scenario, and whether with repair.
    fn chosen(&self, against: &Against) -> Result<Vec<(&'static Scenario, bool)>, Failure> {
        let external = matches!(against, Against::Url(_));
        let scenarios: Vec<_> = match self.is_all() {
            true => SCENARIOS
                .iter()
                .filter(|s| !(external && s.hurts()))
                .collect(),
            false => self
                .scenarios
                .iter()
                .filter_map(|name| scenario(name))
                .collect(),
        };
        if let Some(hurting) = scenarios.iter().find(|s| external && s.hurts()) {
            let cause = format!(
                "{} would hurt a cluster that chaos did not start",
                hurting.name
            );
            let cure = "use --against containers or --against processes";
            return Err(Failure::with_cure(cause, cure));
        }
        let choices = |scenario: &Scenario| match self.repair {
            RepairChoice::On => vec![true],
            RepairChoice::Off => vec![false],
            RepairChoice::Both if scenario.is_repairable() => vec![false, true],
            RepairChoice::Both => vec![true],
        };
        let each = |s: &'static Scenario| choices(s).into_iter().map(move |repair| (s, repair));
        Ok(scenarios.into_iter().flat_map(each).collect())
    }

    fn print(&self, report: &Report) -> Result<(), Failure> {
        let unwritten = |error: std::io::Error| Failure::new(format!("the report: {error}"));
        let page = self
            .report
            .as_ref()
            .map(|dir| report.write_to(dir))
            .transpose();
        let page = page.map_err(unwritten)?;
        let scenarios = report.summaries();
        if self.json {
            let body = serde_json::to_string(&ResultBody { scenarios });
            return print_line(&body.map_err(|error| unwritten(error.into()))?);
        }
        print_line(&table::table(&scenarios))?;
        match page {
            Some(page) => print_line(&format!("report: {}", page.display())),
            None => Ok(()),
        }
    }
}

fn against(text: &str) -> Against {
    match text {
        "" | "auto" => Against::Own(None),
        "containers" => Against::Own(Some(ClusterKind::Containers)),
        "processes" => Against::Own(Some(ClusterKind::Processes)),
        url => Against::Url(url.to_owned()),
    }
}

/// Ends when the user asks for the end.
async fn interruption() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("can't listen to signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(failed),
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(repair: RepairChoice, scenarios: &[&str]) -> ChaosArgs {
        ChaosArgs {
            scenarios: scenarios.iter().map(|name| (*name).to_owned()).collect(),
            against: "auto".into(),
            seconds: 10,
            repetitions: 1,
            repair,
            no_local_stage: false,
            report: None,
            json: false,
            deadline: DeadlineArgs::default(),
        }
    }

    #[test]
    fn what_may_lose_charges_is_shown_with_and_without_repair() {
        let both = args(RepairChoice::Both, &["kill", "steady"]);
        let chosen = both.chosen(&Against::Own(None)).unwrap();
        let names: Vec<_> = chosen.iter().map(|(s, repair)| (s.name, *repair)).collect();
        assert_eq!(names, [("kill", false), ("kill", true), ("steady", true)]);
        let off = args(RepairChoice::Off, &["all"])
            .chosen(&Against::Own(None))
            .unwrap();
        assert_eq!(off.len(), SCENARIOS.len());
    }

    #[test]
    fn somebody_elses_cluster_is_not_hurt() {
        let url = against("redis://127.0.0.1:6379");
        let all = args(RepairChoice::Both, &["all"]).chosen(&url).unwrap();
        assert!(!all.is_empty() && all.iter().all(|(scenario, _)| !scenario.hurts()));
        let refused = args(RepairChoice::Both, &["kill"])
            .chosen(&url)
            .unwrap_err();
        assert!(refused.to_string().contains("kill would hurt"), "{refused}");
    }

    #[test]
    fn the_help_names_every_scenario() {
        for scenario in SCENARIOS {
            assert!(EXAMPLES.contains(scenario.name), "{}", scenario.name);
        }
    }
}
