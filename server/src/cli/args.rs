//! Flags that several commands share. Never reads what they point at.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::telemetry::logs::LogFormat;
use tidegate::config::parse_duration;
use tidegate::limiter::DEADLINE_DEFAULT;
use tidegate::model::{Check, Cost, KeyPrefix, Micros, UNITS_MAX};
use tidegate::store::cluster::NodeAddress;
use tidegate::store::memory::{ENTRIES_MAX_DEFAULT, KEYS_MAX_DEFAULT};

/// The most keys, or charges, that memory may be told to hold.
const MEMORY_MAX: u64 = 4_000_000_000;

/// Where policies come from.
#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    /// Policy file; example policies are built in without one
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Which store counts.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// Redis or Valkey that counts for all nodes; this process's memory without it
    ///
    /// redis:// or rediss://, with user:password@ when needed; several nodes of a cluster are
    /// separated by commas. Whether it is a cluster or a single server is found out. Prefer the
    /// variable for a URL with a password: flags are seen by everyone on the machine.
    #[arg(
        long,
        value_name = "URL[,URL...]",
        env = "TIDEGATE_REDIS",
        hide_env_values = true
    )]
    pub redis: Option<String>,

    /// What stands before every key in Redis
    #[arg(long, value_name = "TEXT", env = "TIDEGATE_KEY_PREFIX", default_value = "tg",
          value_parser = key_prefix)]
    pub key_prefix: KeyPrefix,

    /// Authorities that vouch for a rediss:// server; the system's without it
    #[arg(long, value_name = "FILE", env = "TIDEGATE_REDIS_CA_FILE")]
    pub redis_ca_file: Option<PathBuf>,

    /// This client's certificate for a rediss:// server
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_REDIS_CERT_FILE",
        requires = "redis_key_file"
    )]
    pub redis_cert_file: Option<PathBuf>,

    /// The key of --redis-cert-file
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_REDIS_KEY_FILE",
        requires = "redis_cert_file"
    )]
    pub redis_key_file: Option<PathBuf>,

    /// Nodes that are reached elsewhere than they announce, behind a NAT say
    #[arg(
        long,
        value_name = "ANNOUNCED=REACHED,...",
        env = "TIDEGATE_REDIS_MAP",
        value_delimiter = ','
    )]
    pub redis_map: Vec<MappedNode>,

    /// Don't put back after a failover what the old primary had acknowledged and lost
    #[arg(long, env = "TIDEGATE_NO_REPAIR")]
    pub no_repair: bool,

    /// Connections to each node, 1 to 16: more make batches smaller [default: 1]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_REDIS_CONNECTIONS_PER_NODE",
        hide_short_help = true
    )]
    pub redis_connections_per_node: Option<usize>,

    /// Calls on one connection that may wait for their replies [default: 16384]
    #[arg(
        long,
        value_name = "N",
        env = "TIDEGATE_REDIS_UNANSWERED_MAX",
        hide_short_help = true
    )]
    pub redis_unanswered_max: Option<usize>,

    /// Keys that memory holds at most, about 200 bytes each: one a subject, policy and ceiling
    #[arg(long, value_name = "N", env = "TIDEGATE_MEMORY_KEYS_MAX",
          default_value_t = KEYS_MAX_DEFAULT as u64, value_parser = clap::value_parser!(u64).range(1..=MEMORY_MAX))]
    pub memory_keys_max: u64,

    /// Charges that the sliding logs in memory hold at most, about 150 bytes each
    #[arg(long, value_name = "N", env = "TIDEGATE_MEMORY_ENTRIES_MAX",
          default_value_t = ENTRIES_MAX_DEFAULT as u64, value_parser = clap::value_parser!(u64).range(1..=MEMORY_MAX))]
    pub memory_entries_max: u64,
}

/// A node that is reached elsewhere than it announces.
#[derive(Clone, Debug)]
pub(super) struct MappedNode {
    /// What the node says of itself.
    pub announced: NodeAddress,
    /// Where it is reached.
    pub reached: NodeAddress,
}

impl FromStr for MappedNode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write ANNOUNCED=REACHED, each as host:port".to_owned();
        let (announced, reached) = text.split_once('=').ok_or_else(wrong)?;
        let node = |text: &str| text.parse().map_err(|_| wrong());
        Ok(MappedNode {
            announced: node(announced)?,
            reached: node(reached)?,
        })
    }
}

/// How long a check may take.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct DeadlineArgs {
    /// How long a check may take, store included: 1ms to 60s
    #[arg(long, value_name = "TIME", env = "TIDEGATE_DEADLINE", default_value = "50ms",
          value_parser = duration)]
    pub deadline: Duration,
}

impl Default for DeadlineArgs {
    fn default() -> Self {
        DeadlineArgs {
            deadline: DEADLINE_DEFAULT,
        }
    }
}

/// How the process logs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logs")]
pub(super) struct LogArgs {
    /// Form of the log lines on standard error: text or json
    #[arg(
        long,
        value_name = "FORM",
        env = "TIDEGATE_LOG",
        default_value = "text"
    )]
    pub log: LogFormat,

    /// What is logged: error, warn, info, debug, trace, or target=level,... (RUST_LOG works too)
    #[arg(long, value_name = "LEVELS", env = "TIDEGATE_LOG_LEVEL")]
    pub log_level: Option<String>,
}

/// Who asks, of whom.
#[derive(Clone, Debug, Args)]
pub(super) struct SubjectArgs {
    /// The policy's name
    #[arg(long, value_name = "NAME", env = "TIDEGATE_POLICY")]
    pub policy: String,

    /// Who is limited: an API key, a user, an address
    #[arg(long, value_name = "TEXT", env = "TIDEGATE_SUBJECT")]
    pub subject: String,

    /// Where the request is served; needed when the policy counts by region
    #[arg(long, value_name = "NAME", env = "TIDEGATE_REGION")]
    pub region: Option<String>,
}

impl SubjectArgs {
    /// The question about this subject.
    pub fn check(&self) -> Check {
        let mut check = Check::new(self.policy.as_str(), self.subject.as_str());
        check.region = self.region.clone();
        check
    }
}

/// A server to ask instead of deciding in this process.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// Ask this Tidegate server, such as http://127.0.0.1:8080, by its policies and its store;
    /// --config and --redis mean nothing then
    #[arg(long, value_name = "URL", env = "TIDEGATE_SERVER")]
    pub server: Option<String>,
}

/// The administrator's token.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// File that holds the administrators' bearer token
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_ADMIN_TOKEN_FILE",
        hide_env_values = true
    )]
    pub admin_token_file: Option<PathBuf>,

    /// The administrators' bearer token; prefer the file or the variable, flags are seen by all
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TIDEGATE_ADMIN_TOKEN",
        hide_env_values = true,
        conflicts_with = "admin_token_file"
    )]
    pub admin_token: Option<String>,
}

/// Reads a cost: whole units, 0 to ask without charging.
pub(super) fn cost(text: &str) -> Result<Cost, String> {
    match text.parse() {
        Ok(cost) if cost <= UNITS_MAX => Ok(cost),
        _ => Err(format!("write a whole number from 0 to {UNITS_MAX}")),
    }
}

/// Reads a part of a cost that is given back: at least 1.
pub(super) fn part(text: &str) -> Result<Cost, String> {
    match cost(text) {
        Ok(0) | Err(_) => Err(format!("write a whole number from 1 to {UNITS_MAX}")),
        part => part,
    }
}

/// Reads `50ms`, `2s`, `1min`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|time| *time > Micros::ZERO)
        .map(Duration::from)
        .ok_or_else(|| "write a whole number above 0 and its unit: 50ms, 2s, 1min".to_owned())
}

fn key_prefix(text: &str) -> Result<KeyPrefix, String> {
    KeyPrefix::new(text).map_err(|error| error.to_string())
}
