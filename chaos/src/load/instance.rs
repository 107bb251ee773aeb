//! The child's side: takes a plan, says when it is ready, begins when it is told, writes its
//! history and says how it went. Ends when its parent does.
//!
//! Its standard input holds two lines: the plan, and the instant to begin. Its standard output
//! holds two: `ready`, and the [`InstanceReport`].

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::clock::SteppingClock;
use super::drive::{DriveError, Records, drive, records};
use super::plan::{LoadPlan, policies};
use super::stall::{Stall, StallWatch};
use crate::oracle::HistoryWriter;
use tidegate::admission::LocalStage;
use tidegate::limiter::Limiter;
use tidegate::model::KeyPrefix;
use tidegate::store::Readiness;
use tidegate::store::cluster::{ClusterOptions, ClusterStore};

/// How long a store may take to be ready before the load.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// What an instance says of itself at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstanceReport {
    pub(crate) instance: u16,
    /// Charges that were lost by a failover and put back by this instance.
    pub(crate) restored: u64,
    /// When the machine did not let it run.
    #[serde(default)]
    pub(crate) stalls: Vec<Stall>,
}

/// What can end an instance early.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The plan can't be read.
    #[error("the line on the standard input is not a plan: {0}")]
    Plan(serde_json::Error),
    /// The plan's limiter can't be built.
    #[error(transparent)]
    Limiter(Box<dyn Error + Send + Sync>),
    /// The store didn't become ready.
    #[error("the store was not ready within {READY_WITHIN:?}: {0}")]
    NotReady(String),
    /// The parent ended.
    #[error("the parent process has ended")]
    ParentEnded,
    /// The history could not be written.
    #[error("the history could not be written: {0}")]
    History(#[from] io::Error),
    /// The load could not be carried out.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

/// One limiter of a chaos run, as a process of its own: takes a plan from the standard input and
/// carries it out.
///
/// # Errors
/// When there is no plan, the store doesn't become ready, the parent ends, or the load can't be
/// carried out.
pub async fn run_instance() -> Result<(), InstanceError> {
    let (plan, parent) = read_plan()?;
    let clock = SteppingClock::new(plan.clock_step);
    let limiter = limiter(&plan, clock.clone()).map_err(InstanceError::Limiter)?;
    let (limiter, plan) = (Arc::new(limiter), Arc::new(plan));
    let history = HistoryWriter::create(&plan.history)?;
    wait_ready(&limiter).await?;
    say("ready")?;
    let begin_at = parent.begin_at.await;
    let begin_at = begin_at.map_err(|_| InstanceError::ParentEnded)?;
    clock.begin(begin_at);
    let (sender, receiver) = records();
    let watch = StallWatch::start();
    let writer = tokio::task::spawn_blocking(move || write_all(history, receiver));
    tokio::select! {
        driven = drive(Arc::clone(&limiter), Arc::clone(&plan), begin_at, sender) => driven?,
        _ = parent.ended => return Err(InstanceError::ParentEnded),
    }
    writer.await.map_err(io::Error::other)??;
    let report = InstanceReport {
        instance: plan.instance,
        restored: limiter.store().restored(),
        stalls: watch.end(),
    };
    say(&serde_json::to_string(&report).map_err(io::Error::from)?)?;
    Ok(())
}

fn limiter(
    plan: &LoadPlan,
    clock: SteppingClock,
) -> Result<Limiter<ClusterStore>, Box<dyn Error + Send + Sync>> {
    let mut options = ClusterOptions::from_url(&plan.redis)?;
    options.key_prefix = KeyPrefix::new(&plan.key_prefix)?;
    if !plan.repair {
        options.journal_len_max = 0;
    }
    let mut builder = Limiter::builder()
        .policies(policies(&plan.policies)?)
        .store(ClusterStore::connect(options)?)
        .clock(clock)
        .deadline(Duration::from_millis(plan.deadline_ms));
    if plan.local_stage {
        builder = builder.local_stage(LocalStage::default()).nodes(1);
    }
    Ok(builder.build()?)
}

/// What the parent says after the plan.
struct ParentSignals {
    begin_at: oneshot::Receiver<u64>,
    ended: oneshot::Receiver<()>,
}

/// Reads the plan and goes on listening to the parent.
fn read_plan() -> Result<(LoadPlan, ParentSignals), InstanceError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let plan = serde_json::from_str(&line).map_err(InstanceError::Plan)?;
    let (begin, begin_at) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    // A thread of its own: a blocked read of the standard input can't be cancelled.
    std::thread::spawn(move || {
        let mut lines = io::stdin().lock().lines();
        if let Some(Ok(line)) = lines.next()
            && let Ok(at) = line.trim().parse()
        {
            let _ = begin.send(at);
            while let Some(Ok(_)) = lines.next() {}
        }
        let _ = end.send(());
    });
    Ok((plan, ParentSignals { begin_at, ended }))
}

async fn wait_ready(limiter: &Limiter<ClusterStore>) -> Result<(), InstanceError> {
    let begun = Instant::now();
    loop {
        match limiter.readiness() {
            Readiness::Ready => return Ok(()),
            Readiness::NotReady(why) if begun.elapsed() > READY_WITHIN => {
                return Err(InstanceError::NotReady(why));
            }
            Readiness::NotReady(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn write_all(mut history: HistoryWriter, mut records: Records) -> io::Result<()> {
    while let Some(record) = records.blocking_recv() {
        history.write(&record)?;
    }
    history.finish()
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
