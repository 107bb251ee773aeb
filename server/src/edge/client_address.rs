//! Whose address a request comes from, and the subject it is limited as.
//!
//! `X-Forwarded-For` is read from the right, as long as what is there is a trusted proxy: the
//! first address that isn't is the client. What stands further left was written by whoever sent
//! the request. Never believes a peer that is not in the list of trusted proxies.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::config::Settings;

/// What a subject made from an address begins with. Subjects that callers name themselves must
/// not, so that nobody can use up another address's ceiling.
pub const SUBJECT_PREFIX: &str = "ip:";

/// The address of a request's peer, as an extension of the request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The most addresses of `X-Forwarded-For` that are looked at, from the right: longer chains of
/// trusted proxies don't exist, longer lists are an attempt to keep us busy.
const HOPS_MAX: usize = 32;

/// The client's address. `forwarded` are the values of `X-Forwarded-For` in the order in which
/// they stand in the request.
pub fn client_address<'a>(
    peer: IpAddr,
    forwarded: impl DoubleEndedIterator<Item = &'a str>,
    settings: &Settings,
) -> IpAddr {
    let mut client = peer.to_canonical();
    let hops = forwarded.rev().flat_map(|value| value.rsplit(','));
    for hop in hops.take(HOPS_MAX) {
        if !settings.trusts(client) {
            break;
        }
        // A proxy that writes what is no address can't say for whom it forwards: then it is the
        // client itself.
        match address(hop.trim()) {
            Some(address) => client = address.to_canonical(),
            None => break,
        }
    }
    client
}

/// The subject that a client's address is limited as: `ip:203.0.113.7`, or `ip:2001:db8:1:2::/64`
/// for the whole network in which an IPv6 client may move freely.
pub fn subject(client: IpAddr, ipv6_prefix: u8) -> String {
    let client = client.to_canonical();
    match IpNet::new(client, ipv6_prefix) {
        Ok(network) if client.is_ipv6() && ipv6_prefix < 128 => {
            format!("{SUBJECT_PREFIX}{}", network.trunc())
        }
        _ => format!("{SUBJECT_PREFIX}{client}"),
    }
}

/// An address as proxies write it: alone, with a port, or in brackets.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(socket.ip());
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(trusted: &[&str]) -> Settings {
        Settings {
            trusted_proxies: trusted.iter().map(|net| net.parse().unwrap()).collect(),
            ..Settings::default()
        }
    }

    fn client(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
        let peer = peer.parse().unwrap();
        client_address(peer, forwarded.iter().copied(), &settings(trusted)).to_string()
    }

    #[test]
    fn a_peer_that_is_not_trusted_is_the_client_whatever_it_writes() {
        assert_eq!(client("203.0.113.7", &["1.2.3.4"], &[]), "203.0.113.7");
        assert_eq!(
            client("203.0.113.7", &["1.2.3.4"], &["10.0.0.0/8"]),
            "203.0.113.7"
        );
    }

    #[test]
    fn the_client_is_the_first_untrusted_address_from_the_right() {
        let trusted = &["10.0.0.0/8", "127.0.0.1"];
        let forged = "6.6.6.6, 198.51.100.9, 10.1.1.1";
        assert_eq!(client("127.0.0.1", &[forged], trusted), "198.51.100.9");
        let lines = ["6.6.6.6", "198.51.100.9", "10.1.1.1"];
        assert_eq!(client("127.0.0.1", &lines, trusted), "198.51.100.9");
    }

    #[test]
    fn a_chain_of_trusted_proxies_alone_ends_at_its_first() {
        let trusted = &["10.0.0.0/8"];
        assert_eq!(
            client("10.0.0.1", &["10.0.0.3, 10.0.0.2"], trusted),
            "10.0.0.3"
        );
        assert_eq!(client("10.0.0.1", &[], trusted), "10.0.0.1");
    }

    #[test]
    fn what_is_no_address_ends_the_walk_at_the_proxy_that_wrote_it() {
        let trusted = &["10.0.0.0/8"];
        for garbage in [
            "unknown",
            "",
            "1.2.3.4.5",
            "fe80::1%eth0",
            "8.8.8.8;",
            "\u{fc}",
        ] {
            assert_eq!(
                client("10.0.0.1", &[garbage], trusted),
                "10.0.0.1",
                "{garbage}"
            );
            let behind = format!("{garbage}, 10.0.0.2");
            assert_eq!(client("10.0.0.1", &[&behind], trusted), "10.0.0.2");
        }
    }

    #[test]
    fn ports_and_brackets_are_read() {
        let trusted = &["10.0.0.0/8"];
        for (text, meant) in [
            ("198.51.100.9:4711", "198.51.100.9"),
            ("[2001:db8::9]:4711", "2001:db8::9"),
            ("[2001:db8::9]", "2001:db8::9"),
            ("2001:db8::9", "2001:db8::9"),
            ("::ffff:198.51.100.9", "198.51.100.9"),
        ] {
            assert_eq!(client("10.0.0.1", &[text], trusted), meant, "{text}");
        }
    }

    #[test]
    fn a_mapped_peer_is_trusted_as_the_address_it_stands_for() {
        assert_eq!(
            client("::ffff:10.0.0.1", &["198.51.100.9"], &["10.0.0.0/8"]),
            "198.51.100.9"
        );
    }

    #[test]
    fn an_endless_list_is_looked_at_in_part() {
        let list = vec!["10.0.0.2"; 100_000].join(",");
        let list = format!("198.51.100.9,{list}");
        assert_eq!(client("10.0.0.1", &[&list], &["10.0.0.0/8"]), "10.0.0.2");
    }

    #[test]
    fn ipv6_clients_are_one_subject_by_network_and_ipv4_ones_alone() {
        let subject = |text: &str, prefix| subject(text.parse().unwrap(), prefix);
        assert_eq!(subject("203.0.113.7", 64), "ip:203.0.113.7");
        assert_eq!(subject("::ffff:203.0.113.7", 64), "ip:203.0.113.7");
        assert_eq!(subject("2001:db8:1:2:3:4:5:6", 64), "ip:2001:db8:1:2::/64");
        assert_eq!(subject("2001:db8:1:2:ffff::1", 64), "ip:2001:db8:1:2::/64");
        assert_eq!(subject("2001:db8:1:2::1", 48), "ip:2001:db8:1::/48");
        assert_eq!(subject("2001:db8:1:2::1", 128), "ip:2001:db8:1:2::1");
        // An IPv4 address inside other IPv6 space is not IPv4.
        assert_eq!(subject("64:ff9b::203.0.113.7", 64), "ip:64:ff9b::/64");
    }
}
