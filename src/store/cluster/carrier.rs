//! fred, as one connection to one node: each of its defaults that doesn't fit is changed here.
//!
//! Never reconnects: a client lives as long as its connection, so nothing that waits in it can
//! be sent later, when its caller has long gone. [`super::link`] makes the next one.

use std::time::Duration;

use fred::clients::Client;
use fred::types::RespVersion;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, TcpConfig, TlsConfig,
    UnresponsiveConfig,
};

use super::address::NodeAddress;
use super::options::{ClusterOptions, Resp};

/// Commands that a client takes while its writer is busy; the in-flight bound is stricter.
const QUEUE_SLACK_MAX: usize = 1_024;

/// What every client of a store is made of.
#[derive(Debug)]
pub(super) struct Carrier {
    tls: Option<TlsConfig>,
}

impl Carrier {
    pub fn new(tls: Option<TlsConfig>) -> Self {
        Carrier { tls }
    }

    /// A client for `node`, not connected yet.
    pub fn client(&self, options: &ClusterOptions, node: &NodeAddress) -> Client {
        let version = match options.resp {
            Resp::V2 => RespVersion::RESP2,
            Resp::V3 => RespVersion::RESP3,
        };
        let config = self.config(options, node, version);
        Client::new(
            config,
            Some(performance(options)),
            Some(connection(options)),
            None,
        )
    }

    /// A client that listens. In RESP3, where messages and replies can't be confused; servers
    /// with sharded pub/sub all speak it.
    pub fn listener(&self, options: &ClusterOptions, node: &NodeAddress) -> Client {
        let config = self.config(options, node, RespVersion::RESP3);
        let performance = PerformanceConfig {
            broadcast_channel_capacity: options.events_len_max,
            ..performance(options)
        };
        Client::new(config, Some(performance), Some(connection(options)), None)
    }

    fn config(&self, options: &ClusterOptions, node: &NodeAddress, version: RespVersion) -> Config {
        let mut server = Server::new(node.host(), node.port());
        server.tls_server_name = options.tls.server_name.clone().map(Into::into);
        Config {
            // A connection that can't be made is reported at once; the link tries again.
            fail_fast: true,
            username: options.url.credentials.user.clone(),
            password: options.url.credentials.password.clone(),
            server: ServerConfig::Centralized { server },
            version,
            database: options.url.database.filter(|db| *db != 0),
            tls: self.tls.clone(),
            ..Config::default()
        }
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
