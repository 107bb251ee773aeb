//! The composition root: the only place that names a store's adapters, and where files, URLs and
//! tokens become what the rest is made of. Never shows a URL's password.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::args::{AdminArgs, DeadlineArgs, LogArgs, PolicyArgs, ServerArgs, StoreArgs};
use super::failure::Failure;
use super::stage_args::StageArgs;
use crate::config::{Config, Secret};
use crate::telemetry::logs::{self, Log, LogError};
use tidegate::config::ConfigError;
use tidegate::limiter::BuildError;
use tidegate::model::Policies;
use tidegate::store::cluster::{
    AddressMap, ClientCertificate, ClusterOptions, ClusterOptionsError, ClusterStore, StoreUrl,
};
use tidegate::store::{AnyStore, Readiness};
use tidegate::{Limiter, MemoryStore};

/// How long a command waits for its store before it gives up.
const READY_WAIT_MAX: Duration = Duration::from_secs(5);

/// How often it looks meanwhile.
const READY_LOOK_PERIOD: Duration = Duration::from_millis(5);

/// The longest token file, in bytes.
const TOKEN_BYTES_MAX: u64 = 4_096;

/// A limiter of this process, on whichever store was chosen.
pub(super) type ProcessLimiter = Limiter<AnyStore>;

/// Where the policies came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Built in.
    Examples,
    /// A file.
    File(PathBuf),
}

/// A flag's text, when it isn't empty: `TIDEGATE_REDIS=` means none.
pub(super) fn given(flag: &Option<String>) -> Option<&str> {
    flag.as_deref().filter(|text| !text.is_empty())
}

/// The configuration that was asked for.
pub(super) fn config(args: &PolicyArgs) -> Result<(Config, Origin), Failure> {
    let named = args.config.as_deref();
    match named.filter(|file| !file.as_os_str().is_empty()) {
        Some(file) => {
            let config = Config::load(file).map_err(|error| unusable(file, error))?;
            Ok((config, Origin::File(file.to_owned())))
        }
        None => match Config::examples() {
            Ok(config) => Ok((config, Origin::Examples)),
            Err(faults) => Err(Failure::new(format!("the built-in examples: {faults}"))),
        },
    }
}

/// Why a file can't be used, as a failure.
pub(super) fn unusable(file: &Path, error: ConfigError) -> Failure {
    match error {
        ConfigError::Read { .. } => {
            let cure = "`tidegate config example > policies.yaml` makes one to start from";
            Failure::with_cure(error.to_string(), cure)
        }
        ConfigError::Invalid { ref faults, .. } => {
            let (count, file) = (faults.len(), file.display());
            let faults = if count == 1 { "fault" } else { "faults" };
            Failure::new(format!("{count} {faults} in {file}\n{error}"))
        }
        other => Failure::new(other.to_string()),
    }
}

/// A limiter on the chosen store; before a shared one stands the local stage. Needs a running
/// tokio runtime.
pub(super) fn limiter(
    policies: Policies,
    store: &StoreArgs,
    deadline: DeadlineArgs,
    stage: StageArgs,
) -> Result<ProcessLimiter, Failure> {
    let mut builder = Limiter::builder()
        .policies(policies)
        .store(open_store(store)?)
        .deadline(deadline.deadline);
    if given(&store.redis).is_some() {
        builder = builder.local_stage(stage.options()).nodes(stage.nodes());
    }
    builder.build().map_err(|error| match error {
        BuildError::Deadline(_) => Failure::with_cure(error.to_string(), "see --deadline"),
        BuildError::LocalStage(_) => {
            let cure = "see the flags of the local stage in --help";
            Failure::with_cure(error.to_string(), cure)
        }
        _ => Failure::new(error.to_string()),
    })
}

fn open_store(args: &StoreArgs) -> Result<AnyStore, Failure> {
    let Some(url) = given(&args.redis) else {
        let size = |max: u64| usize::try_from(max).unwrap_or(usize::MAX);
        return Ok(MemoryStore::builder()
            .keys_max(size(args.memory_keys_max))
            .entries_max(size(args.memory_entries_max))
            .build()
            .into());
    };
    // Neither the error nor the cure may hold the URL: it may hold a password.
    let wrong = |error: ClusterOptionsError| {
        let cure = match &error {
            ClusterOptionsError::Url(_) => {
                "write --redis as redis://user:password@host:port, nodes separated by commas"
            }
            _ => "see the flags that begin with --redis",
        };
        Failure::with_cure(error.to_string(), cure)
    };
    let mut options = ClusterOptions::from_url(url).map_err(wrong)?;
    options.key_prefix = args.key_prefix.clone();
    if args.no_repair {
        options.journal_len_max = 0;
    }
    if let Some(connections) = args.redis_connections_per_node {
        options.connections_per_node = connections;
    }
    if let Some(unanswered) = args.redis_unanswered_max {
        options.unanswered_per_connection_max = unanswered;
    }
    options.tls.ca_file = args.redis_ca_file.clone();
    options.tls.client_certificate = match (&args.redis_cert_file, &args.redis_key_file) {
        (Some(chain), Some(key)) => Some(ClientCertificate {
            chain_file: chain.clone(),
            key_file: key.clone(),
        }),
        _ => None,
    };
    options.address_map = AddressMap::new(
        args.redis_map
            .iter()
            .cloned()
            .map(|at| (at.announced, at.reached)),
    );
    let store = ClusterStore::connect(options).map_err(wrong)?;
    Ok(store.into())
}

/// Which store a limiter is on, for people; without secrets.
pub(super) fn store_name(limiter: &ProcessLimiter, args: &StoreArgs) -> String {
    let url = given(&args.redis).and_then(|url| StoreUrl::parse(url).ok());
    match (limiter.store().as_ref(), url) {
        (AnyStore::Memory(_), _) => "memory".to_owned(),
        (_, None) => "Redis".to_owned(),
        (_, Some(url)) => {
            let nodes: Vec<String> = url.seeds().iter().map(|node| node.to_string()).collect();
            let tls = if url.tls { " by TLS" } else { "" };
            format!("Redis at {}{tls}", nodes.join(", "))
        }
    }
}

/// Waits until the store can decide.
pub(super) async fn wait_ready(limiter: &ProcessLimiter) -> Result<(), Failure> {
    let until = Instant::now() + READY_WAIT_MAX;
    loop {
        match limiter.readiness() {
            Readiness::Ready => return Ok(()),
            Readiness::NotReady(reason) if Instant::now() >= until => {
                let waited = READY_WAIT_MAX.as_secs();
                let cause = format!("the store was not ready within {waited} s: {reason}");
                return Err(Failure::with_cure(
                    cause,
                    "look at --redis and at the server's log",
                ));
            }
            Readiness::NotReady(_) => tokio::time::sleep(READY_LOOK_PERIOD).await,
        }
    }
}

/// Rejects work on this process's own memory, which is empty and ends with it.
pub(super) fn shared_store_needed(
    command: &str,
    server: &ServerArgs,
    store: &StoreArgs,
) -> Result<(), Failure> {
    if given(&server.server).is_some() || given(&store.redis).is_some() {
        return Ok(());
    }
    let cause = format!("`{command}` has nothing to work on: this process's memory is empty");
    Err(Failure::with_cure(cause, "add --server URL or --redis URL"))
}

/// Sends logs to standard error: at the level given, else at RUST_LOG's, else at `default`.
pub(super) fn install_logs(args: &LogArgs, default: &str) -> Result<Log, Failure> {
    let from_system = std::env::var("RUST_LOG").ok();
    let level = given(&args.log_level).or(given(&from_system));
    logs::install(args.log, level.unwrap_or(default)).map_err(|error| match error {
        LogError::Filter { .. } => Failure::with_cure(error.to_string(), "see --log-level"),
        LogError::Twice(_) => Failure::new(error.to_string()),
    })
}

/// A runtime for one question.
pub(super) fn small_runtime() -> Result<Runtime, Failure> {
    runtime(&mut Builder::new_current_thread())
}

/// A runtime on all cores.
pub(super) fn large_runtime() -> Result<Runtime, Failure> {
    runtime(&mut Builder::new_multi_thread())
}

fn runtime(builder: &mut Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::new(format!("can't start the runtime: {error}")))
}

/// The administrators' token, from its file or its variable.
pub(super) fn admin_token(args: &AdminArgs) -> Result<Option<Secret>, Failure> {
    let file = args.admin_token_file.as_deref();
    let text = match file.filter(|file| !file.as_os_str().is_empty()) {
        Some(file) => read_token(file)?,
        None => match given(&args.admin_token) {
            Some(text) => text.to_owned(),
            None => return Ok(None),
        },
    };
    Secret::new(text.trim()).map(Some).map_err(|error| {
        let cure = "`openssl rand -hex 32` makes a good one";
        Failure::with_cure(format!("the administrators' token: {error}"), cure)
    })
}

fn read_token(file: &Path) -> Result<String, Failure> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = std::fs::File::open(file)
        .and_then(|open| open.take(TOKEN_BYTES_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(error) => {
            let file = file.display();
            Err(Failure::new(format!(
                "can't read the token file {file}: {error}"
            )))
        }
    }
}
