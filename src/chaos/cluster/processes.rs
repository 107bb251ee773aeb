//! Nodes that are processes on this machine, on loopback addresses of their own.
//!
//! On Linux each node has an address (127.x.y.1, .2, ...), also as the source of what it sends,
//! so that a partition can be drawn between nodes; elsewhere all share 127.0.0.1. Never outlives
//! its owner: see [`Watchdog`].

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::watchdog::Watchdog;
use super::{ClusterError, ClusterOptions, options::Shape};

const NODE_CONF: &str = include_str!("../../../cluster/node.conf");
/// The bus port is the data port and this.
const BUS_OFFSET: u16 = 10_000;
/// Addresses are drawn again when someone was quicker, or a port is taken.
const DRAWS_MAX: usize = 50;
/// Lines of a node's log that an error shows.
const LOG_LINES_MAX: usize = 12;

/// The nodes' processes, and the folder that holds their files.
#[derive(Debug)]
pub(crate) struct Processes {
    options: ClusterOptions,
    dir: PathBuf,
    addresses: Vec<SocketAddr>,
    children: Mutex<Vec<Option<Child>>>,
    watchdog: Watchdog,
}

impl Processes {
    /// Starts all nodes; they answer, but know nothing of each other yet.
    pub(crate) async fn start(options: ClusterOptions) -> Result<Self, ClusterError> {
        let dir = make_dir()?;
        let mut nodes = Self {
            watchdog: Watchdog::start(&dir)?,
            children: Mutex::new((0..options.shape.node_count()).map(|_| None).collect()),
            addresses: Vec::new(),
            dir,
            options,
        };
        for draw in 1.. {
            nodes.addresses = free_addresses(nodes.options.shape.node_count())?;
            match nodes.start_all().await {
                Err(ClusterError::NodeEnded { log, .. })
                    if log.contains("Could not create server TCP") && draw < DRAWS_MAX =>
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

    /// Starts a node that has ended; it listens when this returns.
    pub(crate) async fn start_node(&self, node: usize) -> Result<(), ClusterError> {
        self.spawn(node)?;
        self.wait_listening(node).await
    }

    /// Ends a node at once, and what it hadn't sent or written is lost.
    pub(crate) fn kill_node(&self, node: usize) -> Result<(), ClusterError> {
        let mut children = self.children();
        let Some(child) = children.get_mut(node).and_then(Option::as_mut) else {
            return Ok(());
        };
        let pid = child.id();
        child
            .kill()
            .and_then(|()| child.wait())
            .map_err(ClusterError::io(format!("killing node {node}")))?;
        self.forget(&mut children, node);
        self.watchdog.forget(pid)
    }

    /// Asks a node to end, as a service manager does, and waits for it.
    pub(crate) async fn stop_node(&self, node: usize) -> Result<(), ClusterError> {
        let Some(pid) = self.signal(node, Signal::TERM)? else {
            return Ok(());
        };
        let begun = Instant::now();
        while self.ended(node)?.is_none() {
            if begun.elapsed() > self.options.start_timeout {
                return Err(ClusterError::TimedOut {
                    what: format!("node {node} to end after SIGTERM"),
                    seen: self.log_end(node),
                    waited: begun.elapsed(),
                });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.forget(&mut self.children(), node);
        self.watchdog.forget(pid)
    }

    /// Freezes a node: the kernel goes on accepting connections for it.
    pub(crate) fn pause_node(&self, node: usize) -> Result<(), ClusterError> {
        self.signal(node, Signal::STOP).map(drop)
    }

    /// Ends [`Processes::pause_node`].
    pub(crate) fn resume_node(&self, node: usize) -> Result<(), ClusterError> {
        self.signal(node, Signal::CONT).map(drop)
    }

    /// The process number of a node that was started and not ended by us.
    pub(crate) fn pid(&self, node: usize) -> Option<u32> {
        let children = self.children();
        children
            .get(node)
            .and_then(Option::as_ref)
            .map(std::process::Child::id)
    }

    fn children(&self) -> std::sync::MutexGuard<'_, Vec<Option<Child>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, children: &mut [Option<Child>], node: usize) {
        if let Some(place) = children.get_mut(node) {
            *place = None;
        }
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
        std::fs::create_dir_all(&dir)
            .and_then(|()| std::fs::write(&conf, self.configuration(node)))
            .map_err(ClusterError::io(format!("writing {}", conf.display())))?;
        let mut command = Command::new(&self.options.program);
        command.arg(&conf).current_dir(&dir).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|source| ClusterError::Program {
            program: self.options.program.display().to_string(),
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

    fn configuration(&self, node: usize) -> String {
        let options = &self.options;
        let clustered = options.shape != Shape::Single;
        let mut conf: String = NODE_CONF
            .lines()
            .filter(|line| clustered || !line.starts_with("cluster-"))
            .flat_map(|line| [line, "\n"])
            .collect();
        let Some(address) = self.addresses.get(node) else {
            return conf;
        };
        let (ip, port) = (address.ip(), address.port());
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to a string can't fail.
            let _ = conf.write_fmt(text).and_then(|()| conf.write_char('\n'));
        };
        line(format_args!("bind {ip}\nport {port}\nprotected-mode no"));
        line(format_args!("logfile node.log\nsave \"\""));
        let aof = if options.persistent { "yes" } else { "no" };
        line(format_args!("appendonly {aof}"));
        if clustered {
            let timeout_ms = options.node_timeout.as_millis();
            line(format_args!("cluster-node-timeout {timeout_ms}"));
            line(format_args!("bind-source-addr {ip}"));
        }
        if let Some(password) = &options.password {
            line(format_args!(
                "requirepass {password}\nmasterauth {password}"
            ));
        }
        for (directive, values) in &options.settings {
            line(format_args!("{directive} {values}"));
        }
        conf
    }

    /// Waits until the node's port accepts, or the node has ended.
    async fn wait_listening(&self, node: usize) -> Result<(), ClusterError> {
        let Some(&address) = self.addresses.get(node) else {
            return Ok(());
        };
        let begun = Instant::now();
        loop {
            if let Some(status) = self.ended(node)? {
                return Err(ClusterError::NodeEnded {
                    node,
                    status: status.to_string(),
                    log: self.log_end(node),
                });
            }
            if tokio::net::TcpStream::connect(address).await.is_ok() {
                return Ok(());
            }
            if begun.elapsed() > self.options.start_timeout {
                return Err(ClusterError::TimedOut {
                    what: format!("node {node} to listen on {address}"),
                    seen: self.log_end(node),
                    waited: begun.elapsed(),
                });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The last lines of a node's log.
    pub(crate) fn log_end(&self, node: usize) -> String {
        let log = std::fs::read(self.node_dir(node).join("node.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let first = lines.len().saturating_sub(LOG_LINES_MAX);
        lines.get(first..).unwrap_or_default().join("\n")
    }

    fn end_all(&self) {
        for node in 0..self.addresses.len() {
            // What can't be killed here is the watchdog's.
            let _ = self.kill_node(node);
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end_all();
    }
}

fn make_dir() -> Result<PathBuf, ClusterError> {
    let parent = std::env::temp_dir();
    for _ in 0..DRAWS_MAX {
        let dir = parent.join(format!("tidegate-cluster-{:016x}", random()));
        match create_private(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(ClusterError::io(format!("creating {}", dir.display()))(
                    error,
                ));
            }
            Ok(()) => return Ok(dir),
        }
    }
    Err(ClusterError::io("drawing a new folder's name")(
        std::io::ErrorKind::AlreadyExists.into(),
    ))
}

fn create_private(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Addresses whose data and bus port are free now. Someone may still be quicker.
fn free_addresses(count: usize) -> Result<Vec<SocketAddr>, ClusterError> {
    let own_addresses = cfg!(target_os = "linux");
    for _ in 0..DRAWS_MAX {
        let draw = random();
        let [x, y, ..] = draw.to_le_bytes();
        // Below the ports that the system gives to outgoing connections, the bus port too.
        let base = 10_000 + u16::try_from((draw >> 32) % 12_000).unwrap_or(0);
        let addresses: Vec<SocketAddr> = (1..=count)
            .map(|n| {
                let n = u8::try_from(n).unwrap_or(u8::MAX);
                if own_addresses {
                    (Ipv4Addr::new(127, x.clamp(1, 254), y, n), base).into()
                } else {
                    (Ipv4Addr::LOCALHOST, base + u16::from(n)).into()
                }
            })
            .collect();
        let free = |address: &SocketAddr| {
            let bus = (address.ip(), address.port() + BUS_OFFSET);
            TcpListener::bind(address).is_ok() && TcpListener::bind(bus).is_ok()
        };
        if addresses.iter().all(free) {
            return Ok(addresses);
        }
    }
    Err(ClusterError::Unsupported {
        what: "finding free ports for the nodes".into(),
        why: format!("of {DRAWS_MAX} draws each met a port that is taken"),
        cure: "End what listens on the ports 10000 to 32000".into(),
    })
}

/// 64 bits that differ between calls and between processes; no secret.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
