//! Runs scenarios: cluster, instances, fault, judgement, again and again. Never decides what was
//! right: it hands the history to the oracle and the judgement to the promise.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::catalog::{Act, Scenario};
use super::environment::{Against, Environment, EnvironmentError};
use super::promise::Lost;
use super::script::{FaultTimes, Script};
use super::traffic::Traffic;
use crate::cluster::{ClusterError, ClusterSpec};
use crate::load::{ClockStep, InstanceProgram, Instances, InstancesError, PlanError, policies};
use crate::oracle::{AnsweredBy, Expectations, Loss, Record, Stalls, judge, stated_bound};
use crate::report::{Latency, RunReport, ScenarioReport, Timeline};

/// How much later than the timer that was set with it a call may come: one wake-up of a busy
/// machine.
pub const LATENESS_MAX: Duration = Duration::from_millis(20);
/// The time before a fault in which acknowledged writes may be unreplicated or unsynced, in
/// microseconds.
const UNREPLICATED_MAX: u64 = 1_000_000;
/// Stalls of the machine that are worth a reader's eye, in microseconds.
const STALL_SHOWN_MIN: u64 = 20_000;
/// And how many of them.
const STALLS_SHOWN_MAX: usize = 1_000;
/// How much of the load must come after the moment from which recovery is counted, in
/// microseconds.
const AFTERMATH_MIN: u64 = 500_000;

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The cluster can't be started, seen or hurt.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// An instance went wrong.
    #[error(transparent)]
    Instances(#[from] InstancesError),
    /// The traffic can't be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Histories can't be written or kept.
    #[error("histories can't be kept: {0}")]
    Histories(#[source] io::Error),
    /// The fault lasted longer than the load.
    #[error("the load was over {0} ms too early to see the recovery: give it more --seconds")]
    TooShort(u64),
}

impl ScenarioError {
    /// Whether this machine or server can't do it at all.
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self,
            ScenarioError::Environment(EnvironmentError::Cluster(ClusterError::Unsupported { .. }))
        )
    }
}

/// How scenarios are run.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Against what.
    pub against: Against,
    /// What an instance is.
    pub program: InstanceProgram,
    /// How long checks are asked, in seconds; a scenario that needs more gets more.
    pub seconds: u64,
    /// How often each is run.
    pub repetitions: u32,
    /// How long a check may take.
    pub deadline: Duration,
    /// How much later than its deadline a call may come before it counts as late; usually
    /// [`LATENESS_MAX`].
    pub lateness_max: Duration,
    /// The node timeout of the clusters it starts.
    pub node_timeout: Duration,
    /// Whether instances have their local stage.
    pub local_stage: bool,
    /// The prefix of all keys.
    pub key_prefix: String,
    /// Where the histories of runs that broke a promise are kept; they are thrown away without.
    pub keep_histories: Option<PathBuf>,
}

/// What a run is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The cluster and the instances start.
    Starting,
    /// Checks are asked, so many milliseconds long.
    Asking(u64),
    /// The history is judged.
    Judging,
}

/// Which run of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct RunId {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// With or without repair.
    pub repair: bool,
    /// Which repetition, from 1.
    pub repetition: u32,
}

impl Runner {
    /// Runs all repetitions of a scenario; `on_phase` is told what a run is at, `on_end` how it ended.
    /// A run that can't be carried out is noted, and the next one tried.
    ///
    /// # Errors
    /// When none can be carried out, or the machine or server can't do it at all.
    pub async fn scenario(
        &self,
        scenario: &'static Scenario,
        repair: bool,
        on_phase: impl Fn(RunId, Phase),
        mut on_end: impl FnMut(RunId, Result<&RunReport, &ScenarioError>),
    ) -> Result<ScenarioReport, ScenarioError> {
        let mut report = ScenarioReport {
            name: scenario.name.to_owned(),
            fault: scenario.what.to_owned(),
            promise: scenario.promised.to_owned(),
            cluster: self.against.to_string(),
            server: String::new(),
            load: String::new(),
            repair,
            runs: Vec::new(),
            not_run: Vec::new(),
        };
        for repetition in 1..=self.repetitions {
            let id = RunId {
                scenario,
                repair,
                repetition,
            };
            let ran = self.once(id, &on_phase, &mut report).await;
            on_end(id, ran.as_ref());
            match ran {
                Ok(run) => report.runs.push(run),
                Err(error) => {
                    let last = repetition == self.repetitions;
                    if error.is_unsupported() || (last && report.runs.is_empty()) {
                        return Err(error);
                    }
                    report.not_run.push(format!("run {repetition}: {error}"));
                }
            }
        }
        Ok(report)
    }

    async fn once(
        &self,
        id: RunId,
        on_phase: &impl Fn(RunId, Phase),
        about: &mut ScenarioReport,
    ) -> Result<RunReport, ScenarioError> {
        on_phase(id, Phase::Starting);
        let act = id.scenario.act;
        let environment = Environment::prepare(&self.against, self.options(act)).await?;
        let traffic = self.traffic(id, &environment);
        about.cluster = environment.name.clone();
        about.server = environment.server().await.map_err(EnvironmentError::from)?;
        about.load = traffic.description();
        let histories = tempfile::Builder::new().prefix("tidegate-chaos-").tempdir();
        let histories = histories.map_err(ScenarioError::Histories)?;
        let plans = traffic.plans(&environment.redis_url, &self.key_prefix, histories.path());
        let mut instances = Instances::start(&self.program, plans).await?;
        let began_at = instances.begin().await?;
        on_phase(id, Phase::Asking(traffic.length_ms));
        let victim = usize::from(environment.shards.count() > 1);
        let subjects = traffic.subjects_on(u16::try_from(victim).unwrap_or(0));
        let mut script = Script {
            act,
            environment: &environment,
            began_at,
            length_ms: traffic.length_ms,
            fault_ms: traffic.fault_ms,
            victim,
            subjects,
            events: Vec::new(),
        };
        let times = script.play().await?;
        let collected = instances.finish().await?;
        let mut restored = 0;
        on_phase(id, Phase::Judging);
        let mut expected = self.expectations(id, &traffic, began_at, times)?;
        for report in collected.reports {
            expected.stalls.add(report.instance, report.stalls);
            restored += report.restored;
        }
        let mut report = self.judged(id, &collected.records, &expected, times, script);
        report.restored = restored;
        if let (Some(dir), false) = (&self.keep_histories, report.broken.is_empty()) {
            let repair = if id.repair { "-repair" } else { "" };
            let name = format!("{}{repair}-{}", id.scenario.name, id.repetition);
            keep(histories.path(), &dir.join(name)).map_err(ScenarioError::Histories)?;
        }
        Ok(report)
    }

    fn options(&self, act: Act) -> ClusterSpec {
        let persistent = matches!(
            act,
            Act::Kill | Act::Stop | Act::RollingRestart | Act::TwoPrimariesDown | Act::AllDown
        );
        ClusterSpec::default()
            .node_timeout(self.node_timeout)
            .persistent(persistent)
            .proxied(matches!(act, Act::Resets | Act::Latency | Act::Loss))
    }

    fn traffic(&self, id: RunId, environment: &Environment) -> Traffic {
        let length_ms = self.seconds.max(id.scenario.seconds_min) * 1_000;
        let fault_ms = (length_ms * 3 / 10).min(3_000);
        let mut traffic = Traffic {
            length_ms,
            fault_ms,
            deadline_ms: u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX),
            shards: environment.shards.clone(),
            repetition: id.repetition,
            repair: id.repair,
            local_stage: self.local_stage,
            clock_step: None,
        };
        if id.scenario.act == Act::ClockStep {
            traffic.clock_step = Some(ClockStep {
                at_ms: fault_ms,
                back_ms: traffic.window_ms() / 4,
            });
        }
        traffic
    }

    fn expectations(
        &self,
        id: RunId,
        traffic: &Traffic,
        began_at: u64,
        times: FaultTimes,
    ) -> Result<Expectations, ScenarioError> {
        let ended_at = began_at + traffic.length_ms * 1_000;
        let needed = times.recovery_from + AFTERMATH_MIN;
        if needed > ended_at {
            return Err(ScenarioError::TooShort((needed - ended_at) / 1_000));
        }
        let back_ms = traffic.clock_step.map_or(0, |step| step.back_ms);
        let lockout = (traffic.window_ms() + back_ms + traffic.deadline_ms) * 1_000;
        let excused = id.scenario.promise.excuses_a_window;
        Ok(Expectations {
            policies: policies(&traffic.policies())?,
            lateness_max: u64::try_from(self.lateness_max.as_micros()).unwrap_or(u64::MAX),
            shards: traffic.shards.clone(),
            denials_excused_until: if excused { times.fault_at + lockout } else { 0 },
            recovery_from: times.recovery_from,
            ended_at,
            stalls: Stalls::default(),
        })
    }

    fn judged(
        &self,
        id: RunId,
        records: &[Record],
        expected: &Expectations,
        times: FaultTimes,
        script: Script<'_>,
    ) -> RunReport {
        let judgement = judge(records, expected);
        let promise = id.scenario.promise;
        let victim = u16::try_from(script.victim).unwrap_or(0);
        let losses = losses(promise.lost, times, victim);
        let bound = stated_bound(records, expected, &losses);
        let node_timeout = u64::try_from(self.node_timeout.as_micros()).unwrap_or(u64::MAX);
        let kept = promise.check(&judgement, bound, node_timeout);
        let latencies = records.iter().map(|r| r.answered.saturating_sub(r.sent));
        RunReport {
            repetition: id.repetition,
            seconds: (expected.ended_at - script.began_at) as f64 / 1e6,
            judgement,
            wrongly_admitted_bound: bound,
            latency: Latency::of(latencies.collect()),
            events: script.events,
            broken: kept.broken,
            missed: kept.missed,
            takeover: times.taken_at.map(|at| at.saturating_sub(times.fault_at)),
            after_takeover: times
                .taken_at
                .and_then(|at| first_served(records, expected, victim, at)),
            restored: 0,
            stalls: expected
                .stalls
                .of_at_least(STALL_SHOWN_MIN, STALLS_SHOWN_MAX),
            timeline: Timeline::of(records, expected, script.began_at, expected.ended_at),
        }
    }
}

/// How long after `at` the last instance got its first answer of a shard from the store; `None`
/// when one never did.
fn first_served(records: &[Record], expected: &Expectations, shard: u16, at: u64) -> Option<u64> {
    let mut first: BTreeMap<u16, Option<u64>> = BTreeMap::new();
    for record in records
        .iter()
        .filter(|r| expected.shard_of(&r.subject) == shard)
    {
        let seen = first.entry(record.instance).or_default();
        let served = record.by == AnsweredBy::Store && !record.degraded && record.answered >= at;
        if served && seen.is_none_or(|earlier| record.answered < earlier) {
            *seen = Some(record.answered);
        }
    }
    let all: Option<Vec<u64>> = first.into_values().collect();
    all?.into_iter().max().map(|answered| answered - at)
}

/// When which shards may lose what they had acknowledged.
fn losses(lost: Lost, times: FaultTimes, victim: u16) -> Vec<Loss> {
    let last_second = Loss {
        from: times.fault_at.saturating_sub(UNREPLICATED_MAX),
        to: times.lost_until,
        shard: Some(victim),
    };
    match lost {
        Lost::Nothing => Vec::new(),
        Lost::LastSecond | Lost::UntilCutIsNoticed => vec![last_second],
        Lost::LastSecondEverywhere => vec![Loss {
            shard: None,
            ..last_second
        }],
        Lost::Everything => vec![Loss {
            from: 0,
            ..last_second
        }],
    }
}

/// Copies a run's histories to where they are kept.
fn keep(histories: &Path, at: &Path) -> io::Result<()> {
    std::fs::create_dir_all(at)?;
    for entry in std::fs::read_dir(histories)? {
        let entry = entry?;
        std::fs::copy(entry.path(), at.join(entry.file_name()))?;
    }
    Ok(())
}
