//! Nodes that are processes on this machine, on loopback addresses of their own.
//!
//! On Linux each node has an address (127.x.y.1, .2, ...), also as the source of what it sends,
//! so that a partition can be drawn between nodes; elsewhere all share 127.0.0.1. Never outlives
//! its owner: see [`Watchdog`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::loopback::{ATTEMPTS_MAX, free_addresses, proxy_of};
use super::node_conf::{NodeConfig, node_conf};
use super::owner::{SweepLock, are_gone, owners};
use super::spec::NodeAction;
use super::wait::{last_lines, wait_listening};
use super::watchdog::Watchdog;
use super::{ClusterError, ClusterSpec};

const LOG_FILE: &str = "node.log";
const OWNER_FILE: &str = "owners";
const DIR_PREFIX: &str = "tidegate-cluster-";

/// The nodes' processes, and the folder that holds their files.
#[derive(Debug)]
pub(crate) struct Processes {
    spec: ClusterSpec,
    dir: PathBuf,
    addresses: Vec<SocketAddr>,
    proxy_addresses: Vec<SocketAddr>,
    children: Mutex<Vec<Option<Child>>>,
    watchdog: Watchdog,
}

impl Processes {
    /// Starts all nodes; they answer, but know nothing of each other yet.
    pub(crate) async fn start(spec: ClusterSpec) -> Result<Self, ClusterError> {
        sweep(&std::env::temp_dir()).await;
        let dir = make_dir()?;
        let watchdog = Watchdog::start(Some(&dir))?;
        std::fs::write(dir.join(OWNER_FILE), owners(watchdog.pid()))
            .map_err(ClusterError::io("writing who owns the cluster"))?;
        let mut nodes = Self {
            watchdog,
            children: Mutex::new((0..spec.shape.node_count()).map(|_| None).collect()),
            addresses: Vec::new(),
            proxy_addresses: Vec::new(),
            dir,
            spec,
        };
        for attempt in 1.. {
            nodes.addresses = free_addresses(nodes.spec.shape.node_count())?;
            if nodes.spec.proxied {
                nodes.proxy_addresses = nodes.addresses.iter().copied().map(proxy_of).collect();
            }
            match nodes.start_all().await {
                // Someone was quicker.
                Err(ClusterError::NodeEnded { log, .. })
                    if log.contains("Address already in use") && attempt < ATTEMPTS_MAX =>
                {
                    nodes.end_all();
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        Ok(nodes)
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What runs in the processes.
    pub(crate) fn program(&self) -> &Path {
        &self.spec.program
    }

    pub(crate) fn proxy_addresses(&self) -> &[SocketAddr] {
        &self.proxy_addresses
    }

    /// The folder of a node: configuration, log, and what it persists.
    pub(crate) fn node_dir(&self, node: usize) -> PathBuf {
        self.dir.join(node.to_string())
    }

    async fn start_all(&self) -> Result<(), ClusterError> {
        for node in 0..self.addresses.len() {
            self.spawn(node)?;
        }
        for node in 0..self.addresses.len() {
            self.wait_listening(node).await?;
        }
        Ok(())
    }

    pub(super) async fn apply(&self, node: usize, action: NodeAction) -> Result<(), ClusterError> {
        match action {
            NodeAction::Kill => self.kill(node),
            NodeAction::Stop => self.stop(node).await,
            NodeAction::Start => {
                self.spawn(node)?;
                self.wait_listening(node).await
            }
            NodeAction::Pause => self.signal(node, Signal::STOP).map(drop),
            NodeAction::Resume => self.signal(node, Signal::CONT).map(drop),
        }
    }

    fn kill(&self, node: usize) -> Result<(), ClusterError> {
        let mut children = self.children();
        let Some(slot) = children.get_mut(node) else {
            return Ok(());
        };
        let Some(child) = slot else { return Ok(()) };
        let pid = child.id();
        let killed = child.kill().and_then(|()| child.wait());
        killed.map_err(ClusterError::io(format!("killing node {node}")))?;
        *slot = None;
        self.watchdog.forget(pid)
    }

    async fn stop(&self, node: usize) -> Result<(), ClusterError> {
        let Some(pid) = self.signal(node, Signal::TERM)? else {
            return Ok(());
        };
        let begun = Instant::now();
        while self.ended(node)?.is_none() {
            if begun.elapsed() > self.spec.start_timeout {
                return Err(ClusterError::TimedOut {
                    what: format!("node {node} to end after SIGTERM"),
                    seen: last_lines(&self.log(node)),
                    waited: begun.elapsed(),
                });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if let Some(slot) = self.children().get_mut(node) {
            *slot = None;
        }
        self.watchdog.forget(pid)
    }

    /// The process number of a node that was started and not ended by us.
    pub(crate) fn pid(&self, node: usize) -> Option<u32> {
        let children = self.children();
        children
            .get(node)
            .and_then(Option::as_ref)
            .map(std::process::Child::id)
    }

    /// Has a shell command run when the cluster ends, however that comes.
    pub(crate) fn undo(&self, command: &str) -> Result<(), ClusterError> {
        self.watchdog.undo(command)
    }

    fn children(&self) -> std::sync::MutexGuard<'_, Vec<Option<Child>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, node: usize, signal: Signal) -> Result<Option<u32>, ClusterError> {
        let Some(id) = self.pid(node) else {
            return Ok(None);
        };
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(None) };
        kill_process(pid, signal)
            .map_err(|errno| ClusterError::io(format!("signalling node {node}"))(errno.into()))?;
        Ok(Some(id))
    }

    fn ended(&self, node: usize) -> Result<Option<ExitStatus>, ClusterError> {
        let mut children = self.children();
        match children.get_mut(node).and_then(Option::as_mut) {
            None => Ok(None),
            Some(child) => child
                .try_wait()
                .map_err(ClusterError::io(format!("looking at node {node}"))),
        }
    }

    fn spawn(&self, node: usize) -> Result<(), ClusterError> {
        let dir = self.node_dir(node);
        let conf = dir.join("node.conf");
        let text = self.configuration(node)?;
        std::fs::create_dir_all(&dir)
            .and_then(|()| std::fs::write(&conf, text))
            .map_err(ClusterError::io(format!("writing {}", conf.display())))?;
        let mut command = Command::new(&self.spec.program);
        command.arg(&conf).current_dir(&dir).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|source| ClusterError::Program {
            program: self.spec.program.display().to_string(),
            cure: "Install it (Debian: `apt-get install redis-server`), or set \
                   TIDEGATE_REDIS_SERVER to the path of a Redis 7 or Valkey server; tests/run \
                   does so by itself"
                .into(),
            source,
        })?;
        let pid = child.id();
        let mut children = self.children();
        if let Some(place) = children.get_mut(node) {
            *place = Some(child);
        }
        self.watchdog.watch(pid)
    }

    fn address(&self, node: usize) -> Result<SocketAddr, ClusterError> {
        let address = self.addresses.get(node).copied();
        ClusterError::no_such_node(address, node, self.addresses.len())
    }

    fn configuration(&self, node: usize) -> Result<String, ClusterError> {
        let address = self.address(node)?;
        let config = NodeConfig {
            bind: address.ip(),
            announce: address.ip(),
            port: address.port(),
            endpoint: self.proxy_addresses.get(node).map(SocketAddr::ip),
            log_file: Some(LOG_FILE),
        };
        Ok(node_conf(&self.spec, &config))
    }

    async fn wait_listening(&self, node: usize) -> Result<(), ClusterError> {
        let address = self.address(node)?;
        let ended = || async { Ok(self.ended(node)?.map(|status| status.to_string())) };
        wait_listening(node, address, ended, || async { self.log(node) }).await
    }

    /// All that the node has logged.
    pub(crate) fn log(&self, node: usize) -> String {
        let log = std::fs::read(self.node_dir(node).join(LOG_FILE)).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn end_all(&self) {
        for node in 0..self.addresses.len() {
            // What can't be killed here is the watchdog's.
            let _ = self.kill(node);
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end_all();
    }
}

fn make_dir() -> Result<PathBuf, ClusterError> {
    let dir = std::env::temp_dir().join(format!("{DIR_PREFIX}{:016x}", rand::random::<u64>()));
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.create(&dir);
    made.map_err(ClusterError::io(format!("creating {}", dir.display())))?;
    Ok(dir)
}

/// Ends what owners that are no more left behind: where even their watchdog was killed. Only
/// processes that work in such an owner's folder are ended.
async fn sweep(parent: &Path) {
    let Some(_lock) = SweepLock::take().await else {
        return;
    };
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(DIR_PREFIX);
        let owner = std::fs::read_to_string(entry.path().join(OWNER_FILE));
        if !ours || !owner.is_ok_and(|owners| are_gone(&owners)) {
            continue;
        }
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = process.file_name().to_string_lossy().parse();
            let works_in = std::fs::read_link(process.path().join("cwd"));
            if let (Ok(pid), Ok(true)) = (pid, works_in.map(|dir| dir.starts_with(entry.path())))
                && let Some(pid) = Pid::from_raw(pid)
            {
                // It may have ended by itself just now.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        // Whoever starts next tries again.
        let _ = std::fs::remove_dir_all(entry.path());
    }
}
