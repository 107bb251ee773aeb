//! The parent's side: starts instances as processes, lets them begin at one instant, collects
//! what they wrote. Dropped, it ends them; they also end by themselves when it is gone.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::drive::{STUCK_AFTER, wall_us};
use super::instance::InstanceReport;
use super::plan::LoadPlan;
use crate::oracle::{Record, read_history};

/// How long an instance may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long after the load's end, and after stuck calls were given up, an instance may take.
const END_WITHIN: Duration = Duration::from_secs(30);
/// How long before its first check an instance is told to begin: the plan's expansion takes time.
const BEGIN_AHEAD_US: u64 = 250_000;
/// How much of an instance's complaints is shown, in bytes.
const COMPLAINT_LEN_MAX: u64 = 2_000;

/// How instances are started: a program and the arguments that make it one.
#[derive(Clone, Debug)]
pub struct InstanceProgram {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// An instance went wrong.
#[derive(Debug, thiserror::Error)]
pub enum InstancesError {
    /// It could not be started or spoken to.
    #[error("instance {instance} can't be run: {source}")]
    Run {
        /// Which.
        instance: u16,
        /// The operating system's answer.
        source: io::Error,
    },
    /// It ended, or said something else than it should.
    #[error("instance {instance} failed while {awaiting}: {complaint}")]
    Failed {
        /// Which.
        instance: u16,
        /// What it should have said.
        awaiting: &'static str,
        /// What it said on its standard error.
        complaint: String,
    },
    /// Its history can't be read.
    #[error("the history of instance {instance} can't be read: {source}")]
    History {
        /// Which.
        instance: u16,
        /// What is wrong with it.
        source: io::Error,
    },
}

#[derive(Debug)]
struct Instance {
    plan: LoadPlan,
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

/// Running instances.
#[derive(Debug)]
pub(crate) struct Instances(Vec<Instance>);

/// What instances wrote.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Every check of every instance.
    pub(crate) records: Vec<Record>,
    /// What each instance said of itself.
    pub(crate) reports: Vec<InstanceReport>,
}

impl Instances {
    /// Starts an instance a plan and waits until all are ready.
    pub(crate) async fn start(
        program: &InstanceProgram,
        plans: Vec<LoadPlan>,
    ) -> Result<Self, InstancesError> {
        let mut instances = Instances(Vec::with_capacity(plans.len()));
        for plan in plans {
            instances.0.push(Instance::start(program, plan).await?);
        }
        for instance in &mut instances.0 {
            instance.expect_line("it got ready", READY_WITHIN).await?;
        }
        Ok(instances)
    }

    /// Lets all begin at one instant, which is returned: microseconds since the epoch, a little
    /// ahead of now.
    pub(crate) async fn begin(&mut self) -> Result<u64, InstancesError> {
        let begin_at = wall_us() + BEGIN_AHEAD_US;
        for instance in &mut self.0 {
            let line = format!("{begin_at}\n");
            let written = instance.stdin.write_all(line.as_bytes()).await;
            written.map_err(instance.cannot_run())?;
        }
        Ok(begin_at)
    }

    /// Waits for the load's end and reads the histories.
    pub(crate) async fn finish(mut self) -> Result<Collected, InstancesError> {
        let mut collected = Collected::default();
        for instance in &mut self.0 {
            let length = Duration::from_millis(instance.plan.length_ms);
            let within = length + STUCK_AFTER + END_WITHIN;
            let line = instance
                .expect_line("it carried out its plan", within)
                .await?;
            let number = instance.plan.instance;
            let report = serde_json::from_str(&line).map_err(|error| InstancesError::Failed {
                instance: number,
                awaiting: "it reported",
                complaint: error.to_string(),
            })?;
            collected.reports.push(report);
            let path = instance.plan.history.clone();
            let history = tokio::task::spawn_blocking(move || read_history(&path)).await;
            let history = history.map_err(io::Error::other).and_then(|read| read);
            let unreadable = |source| InstancesError::History {
                instance: number,
                source,
            };
            collected.records.append(&mut history.map_err(unreadable)?);
        }
        Ok(collected)
    }
}

impl Instance {
    async fn start(program: &InstanceProgram, plan: LoadPlan) -> Result<Self, InstancesError> {
        let number = plan.instance;
        let failed = |source| InstancesError::Run {
            instance: number,
            source,
        };
        let mut child = Command::new(&program.path)
            .args(&program.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let Some((mut stdin, stdout)) = pipes else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let mut line = serde_json::to_vec(&plan).map_err(|e| failed(e.into()))?;
        line.push(b'\n');
        stdin.write_all(&line).await.map_err(failed)?;
        Ok(Instance {
            plan,
            child,
            stdin,
            stdout: BufReader::new(stdout).lines(),
        })
    }

    fn cannot_run(&self) -> impl FnOnce(io::Error) -> InstancesError + use<> {
        let instance = self.plan.instance;
        move |source| InstancesError::Run { instance, source }
    }

    async fn expect_line(
        &mut self,
        awaiting: &'static str,
        within: Duration,
    ) -> Result<String, InstancesError> {
        match tokio::time::timeout(within, self.stdout.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Err(source)) => Err(self.cannot_run()(source)),
            Ok(Ok(None)) => Err(self.failed(awaiting).await),
            Err(_) => Err(InstancesError::Failed {
                instance: self.plan.instance,
                awaiting,
                complaint: format!("no answer within {} s", within.as_secs()),
            }),
        }
    }

    /// What an instance that has ended complained of.
    async fn failed(&mut self, awaiting: &'static str) -> InstancesError {
        let mut complaint = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut stderr = stderr.take(COMPLAINT_LEN_MAX);
            let read = stderr.read_to_end(&mut complaint);
            // Whatever was read by then is shown; the child has closed its other end.
            let _ = tokio::time::timeout(Duration::from_secs(2), read).await;
        }
        InstancesError::Failed {
            instance: self.plan.instance,
            awaiting,
            complaint: String::from_utf8_lossy(&complaint).trim().to_owned(),
        }
    }
}
