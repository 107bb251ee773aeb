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
#[error("instance {instance} failed while {doing}: {message}")]
pub struct InstancesError {
    instance: u16,
    doing: &'static str,
    message: String,
}

impl InstancesError {
    fn new<E: ToString>(instance: u16, doing: &'static str) -> impl Fn(E) -> Self {
        move |error| Self {
            instance,
            doing,
            message: error.to_string(),
        }
    }
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
            instance.expect_line("getting ready", READY_WITHIN).await?;
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
            written.map_err(InstancesError::new(instance.plan.instance, "being started"))?;
        }
        Ok(begin_at)
    }

    /// Waits for the load's end and reads the histories.
    pub(crate) async fn finish(mut self) -> Result<Collected, InstancesError> {
        let mut collected = Collected::default();
        for instance in &mut self.0 {
            let length = Duration::from_millis(instance.plan.length_ms);
            let within = length + STUCK_AFTER + END_WITHIN;
            let line = instance.expect_line("asking", within).await?;
            let number = instance.plan.instance;
            let report = serde_json::from_str(&line);
            let report = report.map_err(InstancesError::new(number, "reporting"))?;
            collected.reports.push(report);
            let path = instance.plan.history.clone();
            let history = tokio::task::spawn_blocking(move || read_history(&path)).await;
            let history = history.map_err(io::Error::other).flatten();
            let history = history.map_err(InstancesError::new(number, "writing its history"));
            collected.records.append(&mut history?);
        }
        Ok(collected)
    }
}

impl Instance {
    async fn start(program: &InstanceProgram, plan: LoadPlan) -> Result<Self, InstancesError> {
        let failed = InstancesError::new(plan.instance, "being started");
        let mut child = Command::new(&program.path)
            .args(&program.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(&failed)?;
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

    async fn expect_line(
        &mut self,
        doing: &'static str,
        within: Duration,
    ) -> Result<String, InstancesError> {
        let failed = InstancesError::new(self.plan.instance, doing);
        match tokio::time::timeout(within, self.stdout.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => Err(failed(self.complaint().await)),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer within {} s", within.as_secs()))),
        }
    }

    /// What an instance that has ended complained of.
    async fn complaint(&mut self) -> String {
        let mut complaint = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let mut stderr = stderr.take(COMPLAINT_LEN_MAX);
            let read = stderr.read_to_end(&mut complaint);
            // Whatever was read by then is shown; the child has closed its other end.
            let _ = tokio::time::timeout(Duration::from_secs(2), read).await;
        }
        String::from_utf8_lossy(&complaint).trim().to_owned()
    }
}
