//! What was found, run by run: the data that figures, page and table are made of.

use serde::Serialize;

use super::timeline::{Latency, Timeline};
use crate::oracle::Judgement;

/// A moment of a run that a reader must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When, in microseconds since the epoch.
    pub at: u64,
    /// What happened, in a few words.
    pub label: String,
}

/// One repetition of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// Which repetition, from 1.
    pub repetition: u32,
    /// How long checks were asked, in seconds.
    pub seconds: f64,
    /// What the oracle found.
    pub judgement: Judgement,
    /// The most units that the fault itself may have let through.
    pub wrongly_admitted_bound: u64,
    /// Latencies over the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// The fault's events.
    pub events: Vec<Event>,
    /// The promises that were broken, in words.
    pub broken: Vec<String>,
    /// The goals that were missed, in words; a busy machine can miss them.
    pub missed: Vec<String>,
    /// From the fault until a replica said that it had taken over, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<u64>,
    /// From then until the last instance had its first answer of that shard, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_takeover: Option<u64>,
    /// Charges that a failover had lost and that instances put back.
    pub restored: u64,
    /// When the machine did not let an instance run for 20 ms or more, from and to in
    /// microseconds since the epoch; at most a thousand.
    pub stalls: Vec<(u64, u64)>,
    /// Step by step.
    pub timeline: Timeline,
}

impl RunReport {
    /// From the fault to full service on all shards, in microseconds; `None` when one never came
    /// back.
    pub fn recovery(&self) -> Option<u64> {
        let shards = self.judgement.shards.iter();
        let all: Option<Vec<u64>> = shards.map(|shard| shard.recovery).collect();
        all?.into_iter().max()
    }
}

/// All repetitions of one scenario, with or without repair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioReport {
    /// Its name on the command line.
    pub name: String,
    /// What is done to the cluster.
    pub fault: String,
    /// What must hold.
    pub promise: String,
    /// What ran under it: `containers`, `processes`, or an address.
    pub cluster: String,
    /// The server under test, as it names itself.
    pub server: String,
    /// How the load was made, in words.
    pub load: String,
    /// Whether instances repaired what a failover had lost.
    pub repair: bool,
    /// Its repetitions.
    pub runs: Vec<RunReport>,
    /// Repetitions that could not be carried out, and why.
    pub not_run: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Tidegate's version.
    pub version: String,
    /// When the first scenario began, in microseconds since the epoch.
    pub began_at: u64,
    /// How long a check might take, in microseconds.
    pub deadline: u64,
    /// Scenario by scenario.
    pub scenarios: Vec<ScenarioReport>,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_sound(&self) -> bool {
        let mut runs = self.scenarios.iter().flat_map(|scenario| &scenario.runs);
        runs.all(|run| run.broken.is_empty())
    }

    /// A scenario's name; with or without repair where it was run both ways.
    pub(super) fn scenario_name(&self, name: &str, repair: bool) -> String {
        let same = self.scenarios.iter().filter(|other| other.name == name);
        match (same.count() > 1, repair) {
            (false, _) => name.to_owned(),
            (true, true) => format!("{name}, repaired"),
            (true, false) => format!("{name}, unrepaired"),
        }
    }
}
