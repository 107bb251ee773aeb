//! Where nodes are reached. Never resolves a name: that is left to each connection attempt.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A node's host (name or address, IPv6 without brackets) and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress {
    host: Arc<str>,
    port: u16,
}

/// Text that is no `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no host:port")]
pub struct NodeAddressError(String);

impl NodeAddress {
    /// A node's address. Brackets around an IPv6 address are taken off.
    pub fn new(host: &str, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        NodeAddress {
            host: bare.unwrap_or(host).into(),
            port,
        }
    }

    /// The host, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address in a redirect or a node list of the server that is reached as `asked`: the
    /// last colon stands before the port, an IPv6 host has no brackets, and an empty host (or
    /// `?`) is the host that was asked.
    pub(super) fn announced(text: &str, asked: &NodeAddress) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some(match host {
            "" | "?" => NodeAddress::new(asked.host(), port),
            host => NodeAddress::new(host, port),
        })
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for NodeAddress {
    type Err = NodeAddressError;

    /// `host:port`, an IPv6 address in brackets.
    fn from_str(text: &str) -> Result<Self, NodeAddressError> {
        let error = || NodeAddressError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let port: u16 = port.parse().map_err(|_| error())?;
        if host.is_empty() || port == 0 || (host.contains(':') && !bracketed) {
            return Err(error());
        }
        Ok(NodeAddress::new(host, port))
    }
}

/// Where nodes are really reached, for those that announce an address which this host can't
/// reach: behind NAT, or in containers. Addresses that aren't listed stand for themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMap(HashMap<NodeAddress, NodeAddress>);

impl AddressMap {
    /// A map from announced to reachable addresses.
    pub fn new(pairs: impl IntoIterator<Item = (NodeAddress, NodeAddress)>) -> Self {
        AddressMap(pairs.into_iter().collect())
    }

    /// Where the node that announces `address` is reached.
    pub fn reach(&self, address: NodeAddress) -> NodeAddress {
        self.0.get(&address).cloned().unwrap_or(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(text: &str) -> String {
        let asked = NodeAddress::new("db.example", 6379);
        NodeAddress::announced(text, &asked).map_or_else(|| "-".into(), |a| a.to_string())
    }

    #[test]
    fn redirects_name_hosts_in_every_form_that_servers_use() {
        assert_eq!(reached("127.0.0.1:7002"), "127.0.0.1:7002");
        assert_eq!(reached("node-2.example:7002"), "node-2.example:7002");
        assert_eq!(reached("2001:db8::1:7002"), "[2001:db8::1]:7002");
        assert_eq!(reached(":7002"), "db.example:7002");
        assert_eq!(reached("?:7002"), "db.example:7002");
        for text in ["", "7002", "host:", "host:0", "host:70000", "host:x"] {
            assert_eq!(reached(text), "-", "{text}");
        }
    }

    #[test]
    fn an_address_is_read_as_it_is_shown() {
        for text in ["127.0.0.1:7000", "[::1]:7000", "redis:6379"] {
            let address: NodeAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "host", ":1", "::1:7000", "host:port", "host:0"] {
            assert!(text.parse::<NodeAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mapped_address_is_reached_elsewhere_and_others_where_they_say() {
        let (a, b) = (NodeAddress::new("10.0.0.1", 1), NodeAddress::new("::1", 2));
        let map = AddressMap::new([(a.clone(), b.clone())]);
        assert_eq!(map.reach(a), b);
        assert_eq!(map.reach(b.clone()), b);
    }
}
