//! The child's side: takes a plan, says when it is ready, begins when it is told, writes its
//! history and says how it went. Ends when its parent does.
//!
//! Its standard input holds two lines: the plan, and the instant to begin. Its standard output
//! holds two: `ready`, and the [`InstanceReport`].

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::clock::SteppingClock;
use super::drive::{DriveError, Records, drive, records};
use super::plan::LoadPlan;
use super::stall::{Stall, StallWatch};
use crate::oracle::HistoryWriter;
use tidegate::limiter::Limiter;
use tidegate::store::{Readiness, Store};

/// How long a store may take to be ready before the load.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// What an instance says of itself at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceReport {
    /// Which instance.
    pub instance: u16,
    /// Calls that it sent to the store.
    pub store_calls: u64,
    /// Charges that were lost by a failover and put back by this instance.
    pub restored: u64,
    /// When the machine did not let it run.
    #[serde(default)]
    pub stalls: Vec<Stall>,
}

/// What can end an instance early.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The plan can't be read.
    #[error("the plan on the standard input is none: {0}")]
    Plan(String),
    /// The store didn't become ready.
    #[error("the store was not ready within {READY_WITHIN:?}: {0}")]
    NotReady(String),
    /// The parent ended.
    #[error("whoever started this instance has ended")]
    ParentEnded,
    /// The history could not be written.
    #[error("the history could not be written: {0}")]
    History(#[from] io::Error),
    /// The load could not be carried out.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

/// What the parent says, line by line.
#[derive(Debug)]
pub struct ParentSignals {
    begin_at: oneshot::Receiver<u64>,
    ended: oneshot::Receiver<()>,
}

/// Reads the plan and goes on listening to the parent.
///
/// # Errors
/// When the first line is no plan.
pub fn read_plan() -> Result<(LoadPlan, ParentSignals), InstanceError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let plan = serde_json::from_str(&line).map_err(|e| InstanceError::Plan(e.to_string()))?;
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

/// Carries out a plan with a limiter. The limiter's `clock` is told when the load begins;
/// `restored` is asked at the end how many lost charges its store put back.
///
/// # Errors
/// When the store doesn't become ready, the parent ends, or the load can't be carried out.
pub async fn serve<S: Store>(
    limiter: Limiter<S>,
    clock: &SteppingClock,
    plan: LoadPlan,
    orders: ParentSignals,
    restored: impl Fn(&S) -> u64,
) -> Result<(), InstanceError> {
    let (limiter, plan) = (Arc::new(limiter), Arc::new(plan));
    let history = HistoryWriter::create(&plan.history)?;
    wait_ready(&limiter).await?;
    say("ready")?;
    let ParentSignals { begin_at, ended } = orders;
    let begin_at = begin_at.await.map_err(|_| InstanceError::ParentEnded)?;
    clock.begin(begin_at);
    let (sender, receiver) = records();
    let watch = StallWatch::start();
    let writer = tokio::task::spawn_blocking(move || write_all(history, receiver));
    tokio::select! {
        driven = drive(Arc::clone(&limiter), Arc::clone(&plan), begin_at, sender) => driven?,
        _ = ended => return Err(InstanceError::ParentEnded),
    }
    writer.await.map_err(io::Error::other)??;
    let report = InstanceReport {
        instance: plan.instance,
        store_calls: limiter.store().calls_sent(),
        restored: restored(limiter.store()),
        stalls: watch.end(),
    };
    say(&serde_json::to_string(&report).map_err(io::Error::from)?)?;
    Ok(())
}

async fn wait_ready<S: Store>(limiter: &Limiter<S>) -> Result<(), InstanceError> {
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
