//! Connects to a node, over fred: each of its defaults that doesn't fit is changed here.
//!
//! Never reconnects: a client lives as long as its connection, so nothing that waits in it can
//! be sent later, when its caller has long gone. [`super::link`] makes the next one.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::RespVersion;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, TcpConfig, TlsConfig,
    UnresponsiveConfig,
};

use super::error::ConnectError;
use crate::store::cluster::address::NodeAddress;
use crate::store::cluster::options::{ClusterOptions, ClusterOptionsError, Resp};
use crate::store::cluster::script_set::ScriptSet;
use crate::store::cluster::signals::Signals;
use crate::store::cluster::supervise::AbortOnDrop;

/// Commands that a client takes while its writer is busy; the in-flight bound is stricter.
const QUEUE_SLACK_MAX: usize = 1_024;

/// The task behind a connection.
pub(crate) type ConnectionTask = AbortOnDrop<Result<(), Error>>;

/// What every connection of a store is made of, and whom it wakes.
#[derive(Debug)]
pub(crate) struct Connector {
    pub options: ClusterOptions,
    pub scripts: ScriptSet,
    pub signals: Arc<Signals>,
    tls: Option<TlsConfig>,
}

impl Connector {
    pub fn new(options: ClusterOptions) -> Result<Self, ClusterOptionsError> {
        options.validate()?;
        let tls = match options.url.tls {
            true => Some(options.tls.connector()?),
            false => None,
        };
        Ok(Connector {
            options,
            scripts: ScriptSet::new(),
            signals: Arc::default(),
            tls,
        })
    }

    /// A client for `node`, not connected yet.
    pub fn client(&self, node: &NodeAddress) -> Client {
        let version = match self.options.resp {
            Resp::V2 => RespVersion::RESP2,
            Resp::V3 => RespVersion::RESP3,
        };
        self.new_client(node, version, performance(&self.options))
    }

    /// A client that subscribes. In RESP3, where messages and replies can't be confused; servers
    /// with sharded pub/sub all speak it.
    pub fn subscriber(&self, node: &NodeAddress) -> Client {
        let performance = PerformanceConfig {
            broadcast_channel_capacity: self.options.events_len_max,
            ..performance(&self.options)
        };
        self.new_client(node, RespVersion::RESP3, performance)
    }

    /// Connects a client; its task runs until the connection ends, or is dropped.
    pub async fn connect(&self, client: &Client) -> Result<ConnectionTask, ConnectError> {
        let mut connected = pin!(client.wait_for_connect());
        // Polled once before the connection begins, or it could be made before we wait for it.
        let early = std::future::poll_fn(|cx| Poll::Ready(connected.as_mut().poll(cx).is_ready()));
        if early.await {
            return Err(ConnectError::unavailable("the client was in use"));
        }
        let mut task = AbortOnDrop::new(client.connect());
        // Twice: fred bounds the connection, then the greeting.
        let limit = self.options.connect_wait_max * 2 + Duration::from_millis(100);
        let made = async {
            tokio::select! {
                biased;
                connected = &mut connected => connected.map_err(|e| ConnectError::from_fred(&e)),
                ended = task.join() => Err(ConnectError::from_task(ended)),
            }
        };
        match tokio::time::timeout(limit, made).await {
            Ok(made) => made.map(|()| task),
            Err(_) => Err(ConnectError::unavailable("it didn't accept in time")),
        }
    }

    fn new_client(
        &self,
        node: &NodeAddress,
        version: RespVersion,
        performance: PerformanceConfig,
    ) -> Client {
        let options = &self.options;
        let mut server = Server::new(node.host(), node.port());
        server.tls_server_name = options.tls.server_name.clone().map(Into::into);
        let config = Config {
            // A connection that can't be made is reported at once; the link tries again.
            fail_fast: true,
            username: options.url.credentials.user.clone(),
            password: options.url.credentials.password.clone(),
            server: ServerConfig::Centralized { server },
            version,
            database: options.url.database.filter(|db| *db != 0),
            tls: self.tls.clone(),
            ..Config::default()
        };
        Client::new(config, Some(performance), Some(connection(options)), None)
    }
}

fn performance(options: &ClusterOptions) -> PerformanceConfig {
    PerformanceConfig {
        // By default a command may wait for ever. Each of ours brings its own time; this is for
        // one that doesn't.
        default_command_timeout: options.silence_max,
        ..PerformanceConfig::default()
    }
}

fn connection(options: &ClusterOptions) -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: options.connect_wait_max,
        internal_command_timeout: options.connect_wait_max,
        // By default three, and what is in flight when a connection breaks is sent again: a
        // charge would run twice.
        max_command_attempts: 1,
        max_redirections: 0,
        // Unbounded by default.
        max_command_buffer_len: options.unanswered_per_connection_max + QUEUE_SLACK_MAX,
        // It can't fire under steady writes; the link probes instead.
        unresponsive: UnresponsiveConfig {
            max_timeout: None,
            interval: Duration::from_secs(3_600),
        },
        reconnect_on_auth_error: false,
        auto_client_setname: false,
        disable_cluster_health_check: true,
        tcp: TcpConfig {
            nodelay: Some(true),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}
