//! Keeps one connection to a node: makes it, greets the node, watches it, makes the next one.
//!
//! States: `Down => Greeting => Up => Down`, for ever. Only a connection that was greeted (its
//! scripts loaded) is seen from outside. Never gives up, and never keeps a silent connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::Value;

use super::connection::Connection;
use super::fault::{Fault, NotSent, in_words};
use super::guard::{Owned, keep_running};
use super::info::{NodeInfo, is_cluster_ok};
use super::node::NodeState;
use super::shared::Shared;
use crate::store::StoreErrorKind;

/// A connection that lived this long has earned an immediate successor.
const PROVEN: Duration = Duration::from_secs(1);
/// How often a node that holds the cluster for broken is asked again.
const CLUSTER_STATE_PERIOD: Duration = Duration::from_millis(20);

/// Where a link's living connection is found; empty while there is none.
#[derive(Default)]
pub(super) struct Link {
    current: ArcSwapOption<Connection>,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkFailure {
    pub kind: StoreErrorKind,
    pub why: String,
}

/// The task behind a connection.
pub(super) type FredTask = Owned<Result<(), Error>>;

impl Link {
    /// The living connection.
    pub fn connection(&self) -> Option<Arc<Connection>> {
        self.current.load_full()
    }

    /// Starts to keep it up.
    pub fn keep(self: &Arc<Self>, shared: &Arc<Shared>, node: &Arc<NodeState>) -> Owned<()> {
        let (link, shared, node) = (Arc::clone(self), Arc::clone(shared), Arc::clone(node));
        keep_running(format!("link to {}", node.address), move || {
            let (link, shared, node) = (Arc::clone(&link), Arc::clone(&shared), Arc::clone(&node));
            async move { link.run(&shared, &node).await }
        })
    }

    async fn run(&self, shared: &Shared, node: &NodeState) {
        self.current.store(None);
        let mut wait = shared.options.reconnect_wait_min;
        loop {
            let begun = Instant::now();
            let failure = match connect(shared, node).await {
                Ok((connection, task)) => self.serve(shared, node, connection, task).await,
                Err(failure) => failure,
            };
            node.fail(&failure);
            shared.refresh.notify_one();
            if begun.elapsed() >= PROVEN {
                wait = shared.options.reconnect_wait_min;
            } else {
                tokio::time::sleep(jittered(wait)).await;
                wait = (wait * 2).min(shared.options.reconnect_wait_max);
            }
        }
    }

    /// Shows the connection until it ends, and says why it did.
    async fn serve(
        &self,
        shared: &Shared,
        node: &NodeState,
        connection: Connection,
        mut task: FredTask,
    ) -> LinkFailure {
        let connection = Arc::new(connection);
        self.current.store(Some(Arc::clone(&connection)));
        node.recover();
        shared.refresh.notify_one();
        shared.changed.notify_waiters();
        let watched = async {
            // Those that came into use between the greeting and now.
            let deadline = Instant::now() + shared.options.connect_wait_max;
            if let Err(fault) = connection.load_new(&shared.scripts, deadline).await {
                let why = fault.describe(&node.address);
                tracing::warn!(why, "the newest scripts aren't loaded yet");
            }
            watch(shared, &connection).await
        };
        let failure = tokio::select! {
            ended = task.join() => ended_because(ended),
            failure = watched => failure,
        };
        self.current.store(None);
        connection.close();
        shared.changed.notify_waiters();
        failure
    }
}

/// Half to one and a half of it, so that clients don't come in step.
fn jittered(wait: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let permille = RandomState::new().hash_one(0u8) % 1_000;
    wait.mul_f64(0.5 + permille as f64 / 1_000.0)
}

/// Connects a client; its task runs until the connection ends, or is dropped.
pub(super) async fn open(shared: &Shared, client: &Client) -> Result<FredTask, LinkFailure> {
    let mut connected = pin!(client.wait_for_connect());
    // Polled once before the connection begins, or its news could come before we listen.
    let early =
        std::future::poll_fn(|cx| std::task::Poll::Ready(connected.as_mut().poll(cx).is_ready()));
    if early.await {
        return Err(unavailable("the client was in use"));
    }
    let mut task = Owned::new(client.connect());
    // Twice: fred bounds the connection, then the greeting.
    let limit = shared.options.connect_wait_max * 2 + Duration::from_millis(100);
    let made = async {
        tokio::select! {
            biased;
            connected = &mut connected => connected.map_err(|e| failure_of(&e)),
            ended = task.join() => Err(ended_because(ended)),
        }
    };
    match tokio::time::timeout(limit, made).await {
        Ok(made) => made.map(|()| task),
        Err(_) => Err(unavailable("it didn't accept in time")),
    }
}

async fn connect(shared: &Shared, node: &NodeState) -> Result<(Connection, FredTask), LinkFailure> {
    let client = shared.carrier.client(&shared.options, &node.address);
    let mut task = open(shared, &client).await?;
    let bound = shared.options.unanswered_per_connection_max;
    let connection = Connection::new(client, node.address.clone(), bound);
    tokio::select! {
        greeted = greet(shared, node, &connection) => greeted?,
        ended = task.join() => return Err(ended_because(ended)),
    }
    Ok((connection, task))
}

/// Learns who the node is, and gives it the scripts.
async fn greet(
    shared: &Shared,
    node: &NodeState,
    connection: &Connection,
) -> Result<(), LinkFailure> {
    let deadline = Instant::now() + shared.options.connect_wait_max;
    let info = match connection.command("INFO", Vec::new(), deadline).await {
        Ok(text) => NodeInfo::parse(text.as_str().unwrap_or_default().as_ref()),
        // A user that may not ask is still one that may run scripts.
        Err(Fault::Refused(refusal)) if refusal.detail.starts_with("NOPERM") => {
            let hello = connection.command("HELLO", Vec::new(), deadline).await;
            hello.map(NodeInfo::from_hello).unwrap_or_default()
        }
        Err(fault) => return Err(failed("INFO", node, &fault)),
    };
    if info.loading {
        let why = "it still loads its data".to_owned();
        return Err(LinkFailure {
            kind: StoreErrorKind::Overloaded,
            why,
        });
    }
    let cluster = info.cluster;
    node.introduce(info);
    let loaded = connection.load(&shared.scripts, deadline).await;
    loaded.map_err(|fault| failed("SCRIPT LOAD", node, &fault))?;
    if cluster != Some(false) {
        connection.set_cluster_ok(cluster_state(connection, deadline).await.unwrap_or(true));
    }
    Ok(())
}

async fn cluster_state(connection: &Connection, deadline: Instant) -> Option<bool> {
    let args = vec![Value::from_static_str("INFO")];
    let reply = connection.command("CLUSTER", args, deadline).await.ok()?;
    Some(is_cluster_ok(reply.as_str()?.as_ref()))
}

/// Probes a connection until it is silent for too long.
async fn watch(shared: &Shared, connection: &Connection) -> LinkFailure {
    let options = &shared.options;
    loop {
        let period = match connection.is_cluster_ok() {
            true => options.probe_period,
            false => CLUSTER_STATE_PERIOD.min(options.probe_period),
        };
        tokio::time::sleep(period).await;
        let deadline = Instant::now() + options.silence_max;
        if !connection.is_cluster_ok() {
            if cluster_state(connection, deadline).await == Some(true) {
                connection.set_cluster_ok(true);
                shared.refresh.notify_one();
                shared.changed.notify_waiters();
            }
            continue;
        }
        match connection.ping(deadline).await {
            Ok(()) | Err(Fault::NotSent(NotSent::TooManyUnanswered)) => {}
            Err(Fault::Silent) => {
                let ms = options.silence_max.as_millis();
                return unavailable(&format!("it was silent for {ms} ms"));
            }
            // The connection has ended: its task is about to say so, and knows better.
            Err(_) => return std::future::pending().await,
        }
    }
}

fn unavailable(why: &str) -> LinkFailure {
    LinkFailure {
        kind: StoreErrorKind::Unavailable,
        why: why.to_owned(),
    }
}

fn failed(what: &str, node: &NodeState, fault: &Fault) -> LinkFailure {
    LinkFailure {
        kind: fault.kind(),
        why: format!("{what}: {}", fault.describe(&node.address)),
    }
}

fn failure_of(error: &Error) -> LinkFailure {
    let details = error.details();
    // What rustls says reaches us as the socket's word: `error: InvalidCertificate(...)`.
    let tls = ["Certificate", "AlertReceived"]
        .iter()
        .any(|word| details.contains(word));
    let kind = match error.kind() {
        ErrorKind::Auth | ErrorKind::Tls | ErrorKind::Config => StoreErrorKind::Refused,
        _ if tls => StoreErrorKind::Refused,
        _ if details.starts_with("LOADING") => StoreErrorKind::Overloaded,
        _ => StoreErrorKind::Unavailable,
    };
    let why = match tls {
        true => format!("the certificates are not accepted: {details}"),
        false => in_words(details).to_owned(),
    };
    LinkFailure { kind, why }
}

fn ended_because(ended: Result<Result<(), Error>, tokio::task::JoinError>) -> LinkFailure {
    match ended {
        Ok(Ok(())) => unavailable("the connection was closed"),
        Ok(Err(error)) => failure_of(&error),
        Err(error) => {
            tracing::error!(%error, "the task behind a connection failed");
            unavailable("the task behind the connection failed")
        }
    }
}
