//! Networks by address and prefix. Never resolves a name, and never lets an IPv4 address match
//! an IPv6 network by accident of its bits.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A network such as `10.0.0.0/8` or `2001:db8::/32`; an address alone is a network of one.
/// Invariant: the bits beyond the prefix are zero, and an IPv4 network is never written as IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

/// Why a [`Network`] can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Not an address with an optional prefix.
    #[error("`{0}` is no network: write 10.0.0.0/8, 2001:db8::/32 or one address")]
    Malformed(String),
    /// Bits beyond the prefix are set: probably not the network that was meant.
    #[error("`{given}` has bits set beyond its prefix: the network would be `{meant}`")]
    HostBits {
        /// What was written.
        given: String,
        /// The network that holds it.
        meant: Network,
    },
}

impl Network {
    /// Whether `address` is in the network; an IPv4 address may be written as IPv6
    /// (`::ffff:a.b.c.d`).
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let net = match text.parse::<IpAddr>() {
            Ok(address) => Ok(IpNet::from(address)),
            Err(_) => text.parse::<IpNet>(),
        };
        let given = || text.to_owned();
        let net = net.map_err(|_| NetworkError::Malformed(given()))?;
        // Addresses are looked up in their own family: an IPv4 network written as IPv6 would never
        // be met.
        let (base, prefix) = match (net.addr().to_canonical(), net.prefix_len()) {
            (v4 @ IpAddr::V4(_), prefix @ 96..) => (v4, prefix - 96),
            (_, prefix) => (net.addr(), prefix),
        };
        let meant = IpNet::new(base, prefix).map_err(|_| NetworkError::Malformed(given()))?;
        let meant = Network(meant.trunc());
        match meant.0 == net {
            true => Ok(meant),
            false => Err(NetworkError::HostBits {
                given: given(),
                meant,
            }),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Network {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        assert!(net("10.0.0.0/8").contains(ip("10.255.0.1")));
        assert!(!net("10.0.0.0/8").contains(ip("11.0.0.1")));
        assert!(net("2001:db8::/32").contains(ip("2001:db8:ffff::1")));
        assert!(!net("2001:db8::/32").contains(ip("2001:db9::1")));
        assert!(net("0.0.0.0/0").contains(ip("203.0.113.9")));
        assert!(net("192.0.2.1").contains(ip("192.0.2.1")));
        assert!(!net("192.0.2.1").contains(ip("192.0.2.2")));
    }

    #[test]
    fn families_do_not_meet_but_mapped_addresses_are_unmapped() {
        assert!(!net("0.0.0.0/0").contains(ip("::1")));
        assert!(!net("::/0").contains(ip("192.0.2.1")));
        assert!(net("192.0.2.0/24").contains(ip("::ffff:192.0.2.9")));
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_one_that_was_meant() {
        for bad in [
            "",
            "x",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "::/129",
        ] {
            assert!(
                matches!(bad.parse::<Network>(), Err(NetworkError::Malformed(_))),
                "{bad}"
            );
        }
        let error = "10.1.0.0/8".parse::<Network>().unwrap_err();
        assert!(error.to_string().ends_with("`10.0.0.0/8`"), "{error}");
        let error = "::ffff:10.0.0.0/104".parse::<Network>().unwrap_err();
        assert!(error.to_string().contains("`10.0.0.0/8`"), "{error}");
    }
}
