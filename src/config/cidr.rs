//! Networks by address and prefix. Never resolves a name, and never lets an IPv4 address match
//! an IPv6 network by accident of its bits.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A network such as `10.0.0.0/8` or `2001:db8::/32`; an address alone is a network of one.
/// Invariant: the prefix fits the address, and the bits beyond it are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    base: IpAddr,
    prefix: u8,
}

/// Why a [`Cidr`] can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// Not an address with an optional prefix.
    #[error("`{0}` is no network: write 10.0.0.0/8, 2001:db8::/32 or one address")]
    Malformed(String),
    /// Bits beyond the prefix are set: probably not the network that was meant.
    #[error("`{given}` has bits set beyond its prefix: the network would be `{meant}`")]
    HostBits {
        /// What was written.
        given: String,
        /// The network that holds it.
        meant: Cidr,
    },
}

/// The address an IPv4-mapped IPv6 address (`::ffff:a.b.c.d`) stands for; others as they are.
pub fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The address with the bits beyond `prefix` zeroed.
pub fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32)));
            IpAddr::V4((u32::from(v4) & mask.unwrap_or(0)).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128)));
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask.unwrap_or(0)))
        }
    }
}

impl Cidr {
    /// Whether `address` is in the network, unmapped first.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = unmapped(address);
        address.is_ipv4() == self.base.is_ipv4() && masked(address, self.prefix) == self.base
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let malformed = || CidrError::Malformed(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = address.parse().map_err(|_| malformed())?;
        let longest = if base.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map_err(|_| malformed())?
            }
            Some(_) => return Err(malformed()),
            None => longest,
        };
        if prefix > longest {
            return Err(malformed());
        }
        let meant = Cidr {
            base: masked(base, prefix),
            prefix,
        };
        if meant.base != base {
            let given = text.to_owned();
            return Err(CidrError::HostBits { given, meant });
        }
        // A mapped base would never be met: addresses are unmapped before they are compared.
        match unmapped(base) {
            unmapped if unmapped != base => Err(CidrError::HostBits {
                given: text.to_owned(),
                meant: Cidr {
                    base: masked(unmapped, prefix.saturating_sub(96)),
                    prefix: prefix.saturating_sub(96),
                },
            }),
            _ => Ok(meant),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Cidr {
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
                matches!(bad.parse::<Cidr>(), Err(CidrError::Malformed(_))),
                "{bad}"
            );
        }
        let error = "10.1.0.0/8".parse::<Cidr>().unwrap_err();
        assert!(error.to_string().ends_with("`10.0.0.0/8`"), "{error}");
        let error = "::ffff:10.0.0.0/104".parse::<Cidr>().unwrap_err();
        assert!(error.to_string().contains("`10.0.0.0/8`"), "{error}");
    }
}
