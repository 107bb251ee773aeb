//! A node's configuration file: what all clusters of ours share, then what this node needs.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use super::spec::{ClusterSpec, Shape};

const SHARED: &str = include_str!("../../../cluster/node.conf");

/// What one node's file says beyond the cluster's spec.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeConfig {
    /// Listens here; [`Ipv4Addr::UNSPECIFIED`] for all addresses.
    pub(super) bind: IpAddr,
    /// Is known to its peers by this one.
    pub(super) announce: IpAddr,
    pub(super) port: u16,
    /// Clients are sent here instead, when a proxy stands between.
    pub(super) endpoint: Option<IpAddr>,
    /// In the node's folder; without, it logs to its standard output.
    pub(super) log_file: Option<&'static str>,
}

/// The whole file.
pub(super) fn node_conf(spec: &ClusterSpec, config: &NodeConfig) -> String {
    let clustered = spec.shape != Shape::Single;
    let mut conf: String = SHARED
        .lines()
        .filter(|line| clustered || !line.starts_with("cluster-"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string can't fail.
        let _ = conf.write_fmt(text).and_then(|()| conf.write_char('\n'));
    };
    let (bind, port) = (config.bind, config.port);
    line(format_args!("bind {bind}\nport {port}\nprotected-mode no"));
    line(format_args!(
        "logfile \"{}\"\nsave \"\"",
        config.log_file.unwrap_or_default()
    ));
    let aof = if spec.persistent { "yes" } else { "no" };
    line(format_args!("appendonly {aof}"));
    if clustered {
        let timeout_ms = spec.node_timeout.as_millis();
        line(format_args!("cluster-node-timeout {timeout_ms}"));
        line(format_args!("cluster-announce-ip {}", config.announce));
        if bind != Ipv4Addr::UNSPECIFIED {
            // Or its packets couldn't be told from a client's where all share a host.
            line(format_args!("bind-source-addr {bind}"));
        }
        if let Some(endpoint) = config.endpoint {
            // Peers go on using the announced address; only clients are told this one.
            line(format_args!("cluster-announce-hostname {endpoint}"));
            line(format_args!("cluster-preferred-endpoint-type hostname"));
        }
    }
    if let Some(password) = &spec.password {
        line(format_args!(
            "requirepass {password}\nmasterauth {password}"
        ));
    }
    for (directive, values) in &spec.settings {
        line(format_args!("{directive} {values}"));
    }
    conf
}
