//! Asks a limiter what a plan says, when it says so, and writes down what was answered. The load
//! is open: a check is sent when it is due, however many are still unanswered, so a stall shows
//! as it would to callers. Never judges an answer.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::plan::{Due, LoadPlan};
use crate::oracle::{AnsweredBy, Record, Status};
use tidegate::limiter::{CheckError, Limiter};
use tidegate::model::{Check, Decision};
use tidegate::store::Store;

/// How long after its deadline a call that didn't come back is given up as stuck.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(5);

/// How many records may wait to be taken.
const RECORDS_WAITING_MAX: usize = 65_536;

/// How far the wall clock may drift from the steady one in a run, before its instants prove
/// nothing: 5 ms, in microseconds.
const CLOCK_DRIFT_MAX: u64 = 5_000;

/// What can end a drive early.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The wall clock was set while the load ran.
    #[error(
        "the machine's clock was set by {0} us while the load ran, so its instants prove nothing: run it again"
    )]
    ClockWasSet(u64),
    /// Nobody takes the records any more.
    #[error("the history could not be kept: its writer has ended")]
    WriterEnded,
    /// A check brought its task down.
    #[error("a check ended its task: {0}")]
    CheckEnded(tokio::task::JoinError),
}

/// Microseconds since the Unix epoch by the machine's wall clock: the clock of the store too.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}

/// Where a drive's records go.
pub type Records = mpsc::Receiver<Record>;

/// A channel for records.
pub fn records() -> (mpsc::Sender<Record>, Records) {
    mpsc::channel(RECORDS_WAITING_MAX)
}

/// Carries out a plan from `begin_at` on (microseconds since the epoch) and returns when its last
/// check was answered or given up.
///
/// # Errors
/// When the wall clock was set meanwhile, or the records' receiver is gone.
pub async fn drive<S: Store>(
    limiter: Arc<Limiter<S>>,
    plan: Arc<LoadPlan>,
    begin_at: u64,
    records: mpsc::Sender<Record>,
) -> Result<(), DriveError> {
    let (steady, wall) = (Instant::now(), wall_us());
    let begin = steady + Duration::from_micros(begin_at.saturating_sub(wall));
    let mut calls = JoinSet::new();
    for due in plan.schedule() {
        let at = begin + Duration::from_micros(due.at);
        if at > Instant::now() {
            tokio::time::sleep_until(at.into()).await;
        }
        let (limiter, plan) = (Arc::clone(&limiter), Arc::clone(&plan));
        let records = records.clone();
        calls.spawn(async move {
            let record = ask(&limiter, &plan, &due).await;
            records
                .send(record)
                .await
                .map_err(|_| DriveError::WriterEnded)
        });
        while let Some(ended) = calls.try_join_next() {
            ended.map_err(DriveError::CheckEnded)??;
        }
    }
    while let Some(ended) = calls.join_next().await {
        ended.map_err(DriveError::CheckEnded)??;
    }
    let elapsed = u64::try_from(steady.elapsed().as_micros()).unwrap_or(u64::MAX);
    let drift = wall_us().abs_diff(wall.saturating_add(elapsed));
    if drift > CLOCK_DRIFT_MAX {
        return Err(DriveError::ClockWasSet(drift));
    }
    Ok(())
}

async fn ask<S: Store>(limiter: &Limiter<S>, plan: &LoadPlan, due: &Due) -> Record {
    let mut record = Record {
        instance: plan.instance,
        policy: String::new(),
        subject: String::new(),
        region: None,
        cost: due.cost,
        id: String::new(),
        sent: 0,
        answered: 0,
        late: 0,
        status: Status::Failed,
        degraded: false,
        by: AnsweredBy::Nothing,
        retry_after: None,
    };
    if let Some(stream) = plan.streams.get(due.stream) {
        record.subject.clone_from(&stream.subject);
        record.region = stream.regions.get(due.region).cloned();
        let policy = plan.policies.get(stream.policy);
        record.policy = policy.map(|p| p.name.clone()).unwrap_or_default();
    }
    let mut check = Check::new(&record.policy, &record.subject).cost(due.cost);
    check.region.clone_from(&record.region);
    // The control is set first: what it is late by, the machine is late by.
    let control = tokio::time::sleep(Duration::from_millis(plan.deadline_ms));
    tokio::pin!(control);
    record.sent = wall_us();
    let asked = limiter.check(&check);
    tokio::pin!(asked);
    let answer = tokio::select! {
        biased;
        answer = &mut asked => Some(answer),
        () = &mut control => {
            let due = Instant::now();
            let answer = tokio::time::timeout(STUCK_AFTER, &mut asked).await.ok();
            record.late = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
            answer
        }
    };
    record.answered = wall_us();
    match answer {
        Some(answer) => write_down(&mut record, answer),
        None => record.status = Status::Stuck,
    }
    record
}

fn write_down(record: &mut Record, answer: Result<Decision, CheckError>) {
    let Ok(decision) = answer else {
        record.status = Status::Failed;
        return;
    };
    let facts = decision.facts();
    record.id = facts.id.as_str().to_owned();
    record.degraded = facts.degraded;
    record.by = AnsweredBy::from(facts.source);
    record.retry_after = decision.retry_after().map(tidegate::model::Micros::get);
    record.status = if decision.is_admitted() {
        Status::Admitted
    } else {
        Status::Denied
    };
}
