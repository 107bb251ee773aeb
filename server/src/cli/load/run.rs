//! Runs a plan: its tasks ask, and their tallies are summed. Never waits for an answer longer
//! than whoever answers takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use super::pace::Pace;
use super::plan::{Plan, Traffic};
use super::progress::Progress;
use super::tally::{Tallies, Tally};
use crate::cli::backend::{Backend, BackendError};
use crate::cli::failure::Failure;

/// How often progress is shown.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// What a run came to.
pub(super) struct Measured {
    pub tally: Tally,
    pub took: Duration,
    /// Absent when a server doesn't tell.
    pub store_calls: Option<u64>,
    /// Checks that a rate called for and that were not sent in time.
    pub unsent: u64,
}

/// Runs a plan to its end, or until the process is interrupted.
pub(super) async fn run(plan: Plan, backend: Backend, quiet: bool) -> Result<Measured, Failure> {
    let (plan, backend) = (Arc::new(plan), Arc::new(backend));
    try_once(&plan, &backend).await?;
    let no_tallies = |error| Failure::new(format!("can't keep latencies: {error}"));
    let tallies = Arc::new(Tallies::new(plan.tasks).map_err(no_tallies)?);
    let calls_before = backend.calls_sent().await;
    let progress = Progress::new(&plan, quiet);
    let pace = Arc::new(Pace::new(&plan));
    let metronome = pace
        .start()
        .map_err(|error| Failure::new(format!("can't start a thread: {error}")))?;
    let mut tasks = JoinSet::new();
    for task in 0..plan.tasks {
        let traffic = Traffic::new(&plan, rand::make_rng())?;
        let (plan, pace) = (Arc::clone(&plan), Arc::clone(&pace));
        let (backend, tallies) = (Arc::clone(&backend), Arc::clone(&tallies));
        tasks.spawn(drive(task, traffic, plan, pace, backend, tallies));
    }
    let watched = watch(&mut tasks, &pace, &tallies, &progress).await;
    let ended = Instant::now();
    let unsent = pace.unsent(ended);
    pace.stop();
    progress.finish();
    if let Some(metronome) = metronome {
        let _ = metronome.join();
    }
    watched?;
    let calls_after = backend.calls_sent().await;
    Ok(Measured {
        tally: tallies.sum().map_err(no_tallies)?,
        took: ended - pace.began(),
        store_calls: calls_after
            .zip(calls_before)
            .map(|(a, b)| a.saturating_sub(b)),
        unsent,
    })
}

/// Asks once without charging: a question that is wrong is wrong a million times.
async fn try_once(plan: &Plan, backend: &Backend) -> Result<(), Failure> {
    let check = Traffic::new(plan, rand::make_rng())?.next(plan);
    match backend.peek(&check).await {
        Err(error @ BackendError::BadRequest(_)) => Err(error.into()),
        // Trouble may pass, and measuring it is what load is for.
        Ok(_) | Err(BackendError::Unavailable(_)) => Ok(()),
    }
}

async fn drive(
    task: u64,
    mut traffic: Traffic,
    plan: Arc<Plan>,
    pace: Arc<Pace>,
    backend: Arc<Backend>,
    tallies: Arc<Tallies>,
) {
    while let Some(from) = pace.turn().await {
        let check = traffic.next(&plan);
        let answer = backend.check(&check).await;
        tallies.of(task).note(answer, from.elapsed());
        // A store in memory answers without ever waiting; others want their turn too.
        tokio::task::coop::consume_budget().await;
    }
}

/// Shows progress until all tasks have ended. The first interrupt ends the sending, a second one
/// the waiting for answers.
async fn watch(
    tasks: &mut JoinSet<()>,
    pace: &Pace,
    tallies: &Tallies,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut look = tokio::time::interval(LOOK_PERIOD);
    let mut interrupts = signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(format!("can't watch for interrupts: {error}")))?;
    let mut interrupted = false;
    loop {
        tokio::select! {
            done = tasks.join_next() => match done {
                None => return Ok(()),
                Some(Err(error)) if error.is_panic() => {
                    tasks.abort_all();
                    return Err(Failure::new(format!("a task broke: {error}")));
                }
                Some(_) => {}
            },
            _ = look.tick() => progress.show(tallies.counts()),
            _ = interrupts.recv() => {
                if interrupted {
                    tasks.abort_all();
                }
                interrupted = true;
                pace.stop();
            }
        }
    }
}
