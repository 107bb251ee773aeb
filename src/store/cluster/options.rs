//! A cluster store's options, their defaults and bounds.

use std::time::Duration;

use super::address::AddressMap;
use super::tls::{TlsError, TlsOptions};
use super::url::{StoreUrl, StoreUrlError};
use crate::model::KeyPrefix;

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resp {
    /// RESP2: every server, and a seventh less processor time a call on our side (fred writes its
    /// frames with less ado).
    #[default]
    V2,
    /// RESP3, by `HELLO 3`.
    V3,
}

/// How a [`super::store::ClusterStore`] reaches its nodes, and how far it goes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// Where the first nodes are, and who we are.
    pub url: StoreUrl,
    /// How `rediss://` is verified.
    pub tls: TlsOptions,
    /// What stands before every key.
    pub key_prefix: KeyPrefix,
    /// Which protocol is spoken.
    pub resp: Resp,
    /// Nodes that are reached elsewhere than they announce.
    pub address_map: AddressMap,
    /// Connections to each node (1..=16). More than one a core makes batches smaller, and the
    /// whole slower.
    pub connections_per_node: usize,
    /// Calls to one connection that may wait for their replies, abandoned ones included: it
    /// bounds what a paused node can make us hold. Beyond it a call is `Overloaded`.
    pub unanswered_per_connection_max: usize,
    /// How long a connection may take to be made, and again to be greeted.
    pub connect_wait_max: Duration,
    /// The shortest wait before a connection is tried again; it doubles up to the longest.
    pub reconnect_wait_min: Duration,
    /// The longest wait before a connection is tried again. It is tried for ever.
    pub reconnect_wait_max: Duration,
    /// How often an idle or silent connection is probed.
    pub probe_period: Duration,
    /// How long a probe may go unanswered before the connection is given up.
    pub silence_max: Duration,
    /// How often the slot map is refreshed while all is well.
    pub refresh_period: Duration,
    /// How often it is refreshed while a shard has no primary that can be reached, or a call timed
    /// out lately; the older the problem, the less often.
    pub refresh_period_degraded: Duration,
    /// The shortest time between two refreshes, whoever asks for them.
    pub refresh_gap_min: Duration,
    /// Nodes whose view of the cluster is asked in one refresh, and merged by their epochs.
    pub views_per_refresh_max: usize,
    /// Nodes that are known at most; more are ignored, with a warning.
    pub nodes_max: usize,
    /// Charges that are remembered at most, to be put back when a failover lost them; 0 for none.
    /// One takes about 150 bytes, and none is remembered for longer than 30 s.
    pub journal_len_max: usize,
    /// Events of shards, and announcements, that a slow listener may lag behind, before it loses the oldest.
    pub events_len_max: usize,
}

/// Why a store can't be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterOptionsError {
    /// The URL.
    #[error(transparent)]
    Url(#[from] StoreUrlError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A bound that is out of bounds.
    #[error("{name} is out of bounds: {bounds}")]
    Bound {
        /// Which.
        name: &'static str,
        /// What it may be.
        bounds: &'static str,
    },
    /// The self-test of the keys.
    #[error("the key {0} isn't in the slot of its subject")]
    MisplacedKey(String),
    /// There is nothing to run on.
    #[error("a cluster store needs a running tokio runtime with time and I/O")]
    NoRuntime,
}

impl ClusterOptions {
    /// The defaults, for the nodes of a URL or a comma-separated list of them:
    /// `redis[s]://[[user]:password@]host[:port]`.
    ///
    /// # Errors
    /// When the URL is malformed; the error never holds it.
    pub fn from_url(url: &str) -> Result<Self, ClusterOptionsError> {
        Ok(ClusterOptions {
            url: StoreUrl::parse(url)?,
            tls: TlsOptions::default(),
            key_prefix: KeyPrefix::default(),
            resp: Resp::default(),
            address_map: AddressMap::default(),
            connections_per_node: 1,
            unanswered_per_connection_max: 16_384,
            connect_wait_max: Duration::from_secs(1),
            reconnect_wait_min: Duration::from_millis(50),
            reconnect_wait_max: Duration::from_secs(1),
            probe_period: Duration::from_millis(250),
            silence_max: Duration::from_secs(2),
            refresh_period: Duration::from_secs(10),
            refresh_period_degraded: Duration::from_millis(20),
            refresh_gap_min: Duration::from_millis(20),
            views_per_refresh_max: 7,
            nodes_max: 1_024,
            journal_len_max: 65_536,
            events_len_max: 1_024,
        })
    }

    /// Whether every bound is within its own.
    ///
    /// # Errors
    /// The first that is not.
    pub fn validate(&self) -> Result<(), ClusterOptionsError> {
        let ms = Duration::from_millis;
        let times = [
            ("connect_wait_max", self.connect_wait_max),
            ("reconnect_wait_min", self.reconnect_wait_min),
            ("reconnect_wait_max", self.reconnect_wait_max),
            ("probe_period", self.probe_period),
            ("silence_max", self.silence_max),
            ("refresh_period", self.refresh_period),
            ("refresh_period_degraded", self.refresh_period_degraded),
            ("refresh_gap_min", self.refresh_gap_min),
        ];
        for (name, time) in times {
            bound(name, "1 ms to 1 h", time >= ms(1) && time <= ms(3_600_000))?;
        }
        let counts = [
            ("connections_per_node", self.connections_per_node, 16),
            (
                "unanswered_per_connection_max",
                self.unanswered_per_connection_max,
                1 << 20,
            ),
            ("views_per_refresh_max", self.views_per_refresh_max, 64),
            ("nodes_max", self.nodes_max, 16_384),
            ("events_len_max", self.events_len_max, 1 << 20),
        ];
        for (name, count, max) in counts {
            bound(
                name,
                "at least 1, and see its documentation",
                (1..=max).contains(&count),
            )?;
        }
        bound(
            "journal_len_max",
            "0 to 4,194,304",
            self.journal_len_max <= 1 << 22,
        )?;
        bound(
            "reconnect_wait_max",
            "at least reconnect_wait_min",
            self.reconnect_wait_max >= self.reconnect_wait_min,
        )
    }
}

fn bound(name: &'static str, bounds: &'static str, kept: bool) -> Result<(), ClusterOptionsError> {
    match kept {
        true => Ok(()),
        false => Err(ClusterOptionsError::Bound { name, bounds }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_bounds_and_zero_is_not() {
        let options = ClusterOptions::from_url("redis://a").unwrap();
        options.validate().unwrap();
        let none = ClusterOptions {
            connections_per_node: 0,
            ..options
        };
        let error = none.validate().unwrap_err().to_string();
        assert!(error.starts_with("connections_per_node"), "{error}");
    }

    #[test]
    fn options_never_show_a_password() {
        let options = ClusterOptions::from_url("redis://user:hush@a").unwrap();
        assert!(!format!("{options:?}").contains("hush"));
    }
}
