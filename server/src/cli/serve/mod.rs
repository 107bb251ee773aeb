//! `tidegate serve`: puts the server together, runs it, and ends it. Decides nothing itself.

mod greeting;
mod reload;
mod settings;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::greeting::Greeting;
use self::reload::Watch;
use self::settings::{AdminListen, SettingsArgs};
use super::args::{AdminArgs, DeadlineArgs, LogArgs, PolicyArgs, StoreArgs};
use super::compose::{self, Origin, ProcessLimiter};
use super::failure::{Exit, Failure};
use super::output::Outcome;
use super::stage_args::StageArgs;
use crate::edge::web::{App, Server};
use tidegate::limiter::FleetOptions;
use tidegate::store::Store;

/// Where metrics and administrators' calls are answered unless another address is chosen.
const ADMIN_ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8081));

/// How long the last line of the log is waited for when the process ends at once.
const LAST_LINE_WAIT: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  tidegate serve                       in memory, with example policies
  tidegate serve --config policies.yaml --listen :8080
  TIDEGATE_REDIS=redis://:password@10.0.0.1:6379,redis://10.0.0.2:6379 \\
                 tidegate serve --config policies.yaml --log json
  TIDEGATE_ADMIN_TOKEN=$(openssl rand -hex 32) tidegate serve

The policy file is read again when it changes and on SIGHUP; one with faults
changes nothing, and the log names each fault. SIGTERM and SIGINT end the server
when the requests in flight are answered; a second one ends it at once. Behind a
load balancer, --drain 15s or so serves on until it has heard of the end.

Exit codes: 0 ended as told, 2 could not start.";

/// Flags of `serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ServeArgs {
    /// Where to listen: ADDRESS:PORT, or :PORT for all addresses
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_LISTEN", default_value = "127.0.0.1:8080",
          value_parser = settings::listen)]
    listen: SocketAddr,

    /// Where metrics, health and administrators' calls (refund, reset) are answered, away from the
    /// public listener: ADDRESS:PORT, or `same` to answer them there as well
    /// [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_ADMIN_LISTEN",
          value_parser = settings::admin_listen)]
    admin_listen: Option<AdminListen>,

    #[command(flatten)]
    policies: PolicyArgs,

    /// Don't read the policy file again when it changes (SIGHUP still does)
    #[arg(long, env = "TIDEGATE_NO_WATCH")]
    no_watch: bool,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    deadline: DeadlineArgs,

    #[command(flatten)]
    stage: StageArgs,

    #[command(flatten)]
    admin: AdminArgs,

    #[command(flatten)]
    settings: SettingsArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// Serves until it is told to stop.
pub(super) fn run(args: ServeArgs) -> Outcome {
    let _log = compose::install_logs(&args.log, "info")?;
    compose::large_runtime()?.block_on(serve(args))
}

async fn serve(args: ServeArgs) -> Outcome {
    let (config, origin) = compose::config(&args.policies)?;
    let mut settings = config.settings.clone();
    args.settings.apply_to(&mut settings);
    settings.admin_token = compose::admin_token(&args.admin)?;
    let signals = Signals::new()?;
    let limiter = compose::limiter(config.policies, &args.store, args.deadline, args.stage)?;
    let limiter = Arc::new(limiter);
    let admin = settings.admin_token.is_some();
    let app = App::new(Arc::clone(&limiter), settings, Arc::default());
    let mut server = listen(args.listen, app).await?;
    let metrics = listen_for_admin(args.admin_listen, &mut server).await?;
    let policies = limiter.policies();
    let greeting = Greeting {
        address: server.address(),
        policies: &policies,
        origin: &origin,
        store: &compose::store_name(&limiter, &args.store),
        admin,
        metrics,
    };
    greeting.show(args.log.log);
    let watch = match origin {
        Origin::File(file) => Some(Watch::new(file, config.settings)),
        Origin::Examples => None,
    };
    let reloading = tokio::spawn(reload(
        watch,
        !args.no_watch,
        Arc::clone(&limiter),
        signals.hangup,
    ));
    let member = limiter.join_fleet(FleetOptions::default());
    let stop = told_to_stop(signals.terminate, signals.interrupt);
    server.run(stop).await;
    reloading.abort();
    if limiter.end_leases() > 0 {
        // They are handed back beside, each within a check's time.
        tokio::time::sleep(args.deadline.deadline).await;
    }
    drop(member);
    tracing::info!("stopped");
    Ok(Exit::Done)
}

async fn listen<S: Store>(address: SocketAddr, app: App<S>) -> Result<Server<S>, Failure> {
    let server = Server::bind(address, app).await;
    server.map_err(|error| no_listener("--listen", address, &error))
}

/// Where metrics and administrators' calls are answered; `None` when nobody does. That the address
/// of the default is taken stops no server: a second one on this machine has no use for it.
async fn listen_for_admin<S: Store>(
    asked: Option<AdminListen>,
    server: &mut Server<S>,
) -> Result<Option<SocketAddr>, Failure> {
    let address = match asked {
        Some(AdminListen::Same) => return Ok(Some(server.address())),
        Some(AdminListen::At(address)) => address,
        None => ADMIN_ADDRESS,
    };
    match server.bind_admin(address).await {
        Ok(address) => Ok(Some(address)),
        Err(error) if asked.is_none() && error.kind() == ErrorKind::AddrInUse => {
            tracing::warn!(
                %address,
                cure = "choose another --admin-listen, or `same`",
                "metrics and administrators' calls are not answered: another process is there"
            );
            Ok(None)
        }
        Err(error) => Err(no_listener("--admin-listen", address, &error)),
    }
}

fn no_listener(flag: &str, address: SocketAddr, error: &std::io::Error) -> Failure {
    let cause = format!("can't listen on {address}: {error}");
    let cure = match error.kind() {
        ErrorKind::AddrInUse => format!("another process is there: choose another {flag}"),
        ErrorKind::PermissionDenied => format!("choose a port from 1024 on as {flag}"),
        _ => format!("choose an address of this machine as {flag}"),
    };
    Failure::with_cure(cause, cure)
}

/// The signals that a server heeds. Watched before it listens, so that none is lost.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let watch = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("can't watch for signals: {error}")))
        };
        Ok(Signals {
            terminate: watch(SignalKind::terminate())?,
            interrupt: watch(SignalKind::interrupt())?,
            hangup: watch(SignalKind::hangup())?,
        })
    }
}

/// Done when the first SIGTERM or SIGINT comes; a second one ends the process.
async fn told_to_stop(mut terminate: Signal, mut interrupt: Signal) {
    next_of(&mut terminate, &mut interrupt).await;
    tokio::spawn(async move {
        next_of(&mut terminate, &mut interrupt).await;
        tracing::warn!("told twice: stopping at once");
        tokio::time::sleep(LAST_LINE_WAIT).await;
        std::process::exit(Exit::Undecided.code().into());
    });
}

async fn next_of(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Reads the policy file again whenever it should be.
async fn reload(
    mut watch: Option<Watch>,
    looks: bool,
    limiter: Arc<ProcessLimiter>,
    mut hangup: Signal,
) {
    let mut look = tokio::time::interval(reload::LOOK_PERIOD);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let asked = tokio::select! {
            _ = hangup.recv() => true,
            _ = look.tick(), if looks && watch.is_some() => false,
        };
        match &mut watch {
            Some(watch) => {
                if asked || watch.has_changed() {
                    watch.reload(&limiter);
                }
            }
            None => tracing::info!("SIGHUP: there is no policy file to read again"),
        }
    }
}
