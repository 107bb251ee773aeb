//! Loopback addresses that are free: one a node, or a proxy before it, where the system has them.
//!
//! Linux answers on all of 127.0.0.0/8, so that nodes can be told apart by address; elsewhere
//! there is 127.0.0.1 and its ports. Never holds what it found: someone else may be quicker.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::ClusterError;

/// Whether each node has an address of its own.
pub(super) const OWN_ADDRESSES: bool = cfg!(target_os = "linux");
/// The bus port is the data port and this.
const BUS_OFFSET: u16 = 10_000;
/// How often addresses are drawn when the first ones are taken.
pub(super) const ATTEMPTS_MAX: usize = 50;
/// A proxy's last octet is its node's and this.
const PROXY_OFFSET: u8 = 100;

/// Addresses for `count` nodes, whose data and bus ports are free, and for their proxies.
pub(super) fn free_addresses(count: usize) -> Result<Vec<SocketAddr>, ClusterError> {
    draw(count, |address, port| match OWN_ADDRESSES {
        true => (address, port).into(),
        false => (Ipv4Addr::LOCALHOST, port + u16::from(address.octets()[3])).into(),
    })
}

/// Addresses with this port for `count` proxies before nodes that live elsewhere; Linux only.
pub(super) fn free_proxy_addresses(
    count: usize,
    port: u16,
) -> Result<Vec<SocketAddr>, ClusterError> {
    let nodes = draw(count, |address, _| (address, port).into())?;
    Ok(nodes.into_iter().map(proxy_of).collect())
}

/// Where the proxy before a node listens: the same port at an address of its own.
pub(super) fn proxy_of(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => {
            let [a, b, c, node] = v4.ip().octets();
            let proxy = Ipv4Addr::new(a, b, c, node.saturating_add(PROXY_OFFSET));
            (proxy, v4.port()).into()
        }
        SocketAddr::V6(_) => address,
    }
}

fn draw(
    count: usize,
    at: impl Fn(Ipv4Addr, u16) -> SocketAddr,
) -> Result<Vec<SocketAddr>, ClusterError> {
    for _ in 0..ATTEMPTS_MAX {
        let (x, y): (u8, u8) = rand::random();
        // Below the ports that the system gives to outgoing connections, the bus port too.
        let base_port = rand::random_range(10_000..22_000);
        let addresses: Vec<SocketAddr> = (1..=count)
            .map(|node| u8::try_from(node).unwrap_or(u8::MAX))
            .map(|node| at(Ipv4Addr::new(127, x.clamp(1, 254), y, node), base_port))
            .collect();
        if addresses.iter().copied().all(is_free) {
            return Ok(addresses);
        }
    }
    Err(ClusterError::Unsupported {
        what: "finding free ports for the nodes".into(),
        why: format!("each of {ATTEMPTS_MAX} attempts met a port that is taken"),
        cure: "End what listens on the ports 10000 to 32000 or, with containers and proxies, 6379"
            .into(),
    })
}

fn is_free(address: SocketAddr) -> bool {
    let bus = SocketAddr::new(address.ip(), address.port().saturating_add(BUS_OFFSET));
    let proxy = !OWN_ADDRESSES || TcpListener::bind(proxy_of(address)).is_ok();
    proxy && TcpListener::bind(address).is_ok() && TcpListener::bind(bus).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_their_proxies_have_distinct_addresses() {
        let nodes = free_addresses(6).unwrap();
        let mut all: Vec<_> = nodes
            .iter()
            .flat_map(|&node| [node, proxy_of(node)])
            .collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), if OWN_ADDRESSES { 12 } else { 6 });
    }

    #[test]
    fn a_taken_address_is_not_free() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!is_free(taken.local_addr().unwrap()));
    }
}
