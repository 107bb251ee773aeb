//! The `server:` part of a file. Never holds a secret: a file is shown, copied and kept.

use std::str::FromStr;
use std::time::Duration;

use super::bounds::{CONNECTIONS_MAX_MAX, HEAD_BYTES_BOUNDS, ServerBounds, TIMEOUT_BOUNDS};
use super::cidr::Cidr;
use super::fault::{Faults, KeyPath};
use super::read;
use super::server::{
    BATCH_MAX_MAX, BODY_BYTES_MAX_MAX, BODY_BYTES_MIN, ErrorBody, IPV6_PREFIX_MAX, IPV6_PREFIX_MIN,
    RateLimitHeaders, ServerSettings, TRUSTED_PROXIES_MAX, XRateLimitReset,
};
use super::yaml::{Entry, Node, Value};

/// The section's keys, in the order of the documentation.
pub(super) const SERVER_KEYS: &[&str] = &[
    "policy_header",
    "subject_header",
    "region_header",
    "trusted_proxies",
    "ipv6_prefix",
    "error_body",
    "ratelimit_headers",
    "x_ratelimit_reset",
    "batch_max",
    "body_bytes_max",
    "connections_max",
    "in_flight_max",
    "head_bytes_max",
    "head_timeout",
    "body_timeout",
    "shutdown_timeout",
];

/// Reads the section; a setting that was wrong stays at its default and is reported.
pub(super) fn settings(node: &Node, path: &KeyPath, faults: &mut Faults) -> ServerSettings {
    let mut settings = ServerSettings::default();
    let entries = read::map(node, path, "a map of server settings", faults);
    for entry in entries.unwrap_or_default() {
        setting(&mut settings, entry, path, faults);
    }
    settings
}

fn setting(settings: &mut ServerSettings, entry: &Entry, section: &KeyPath, faults: &mut Faults) {
    let (path, node) = (&section.key(&entry.key), &entry.value);
    const HEADER: &str = "a header's name";
    match entry.key.as_str() {
        "policy_header" => {
            let header = read::parsed(node, path, HEADER, faults);
            set(&mut settings.policy_header, header);
        }
        "subject_header" => {
            let header = read::parsed(node, path, HEADER, faults);
            set(&mut settings.subject_header, header);
        }
        "region_header" => {
            let header = read::parsed(node, path, HEADER, faults);
            set(&mut settings.region_header, header);
        }
        "trusted_proxies" => settings.trusted_proxies = proxies(node, path, faults),
        "ipv6_prefix" => {
            let bounds = (IPV6_PREFIX_MIN.into(), IPV6_PREFIX_MAX.into());
            let bits = read::whole(node, path, bounds, faults);
            set(
                &mut settings.ipv6_prefix,
                bits.and_then(|bits| bits.try_into().ok()),
            );
        }
        "error_body" => {
            let body = choice::<ErrorBody>(node, path, ErrorBody::WORDS, faults);
            set(&mut settings.error_body, body);
        }
        "ratelimit_headers" => {
            let draft = choice::<RateLimitHeaders>(node, path, RateLimitHeaders::WORDS, faults);
            set(&mut settings.ratelimit_headers, draft);
        }
        "x_ratelimit_reset" => {
            let reset = choice::<XRateLimitReset>(node, path, XRateLimitReset::WORDS, faults);
            set(&mut settings.x_ratelimit_reset, reset);
        }
        "batch_max" => {
            let most = size(node, path, (1, BATCH_MAX_MAX), faults);
            set(&mut settings.batch_max, most);
        }
        "body_bytes_max" => {
            let most = size(node, path, (BODY_BYTES_MIN, BODY_BYTES_MAX_MAX), faults);
            set(&mut settings.body_bytes_max, most);
        }
        "admin_token" => {
            let cure = "give it as --admin-token-file FILE or in TIDEGATE_ADMIN_TOKEN";
            faults.add_with(entry.at, path, "a secret has no place in this file", cure);
        }
        _ if bound(&mut settings.bounds, entry, path, faults) => {}
        _ => read::unknown_key(entry, section, SERVER_KEYS, faults),
    }
}

/// Reads one of the bounds; false when the key is none of theirs.
fn bound(bounds: &mut ServerBounds, entry: &Entry, path: &KeyPath, faults: &mut Faults) -> bool {
    let node = &entry.value;
    match entry.key.as_str() {
        "connections_max" => {
            let most = size(node, path, (1, CONNECTIONS_MAX_MAX), faults);
            set(&mut bounds.connections_max, most);
        }
        "in_flight_max" => {
            let most = size(node, path, (1, CONNECTIONS_MAX_MAX), faults);
            set(&mut bounds.in_flight_max, most);
        }
        "head_bytes_max" => {
            let most = size(node, path, HEAD_BYTES_BOUNDS, faults);
            set(&mut bounds.head_bytes_max, most);
        }
        "head_timeout" => {
            let longest = read::duration(node, path, TIMEOUT_BOUNDS, faults);
            set(&mut bounds.head_timeout, longest.map(Duration::from));
        }
        "body_timeout" => {
            let longest = read::duration(node, path, TIMEOUT_BOUNDS, faults);
            set(&mut bounds.body_timeout, longest.map(Duration::from));
        }
        "shutdown_timeout" => {
            let longest = read::duration(node, path, TIMEOUT_BOUNDS, faults);
            set(&mut bounds.shutdown_timeout, longest.map(Duration::from));
        }
        _ => return false,
    }
    true
}

fn set<T>(setting: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *setting = value;
    }
}

fn size(
    node: &Node,
    path: &KeyPath,
    (least, most): (usize, usize),
    faults: &mut Faults,
) -> Option<usize> {
    let bounds = (least as u64, most as u64);
    read::whole(node, path, bounds, faults).and_then(|n| n.try_into().ok())
}

fn choice<T: FromStr + Copy>(
    node: &Node,
    path: &KeyPath,
    words: &[&str],
    faults: &mut Faults,
) -> Option<T> {
    let choices: Vec<(&str, T)> = words
        .iter()
        .filter_map(|word| Some((*word, word.parse().ok()?)))
        .collect();
    read::word(node, path, &choices, faults)
}

fn proxies(node: &Node, path: &KeyPath, faults: &mut Faults) -> Vec<Cidr> {
    const WHAT: &str = "a list of networks such as [10.0.0.0/8, 192.0.2.7]";
    let Value::List(items) = &node.value else {
        read::expected(node, path, WHAT, faults);
        return Vec::new();
    };
    if items.len() > TRUSTED_PROXIES_MAX {
        let problem = format!("{} networks are too many", items.len());
        let cure = format!("the most is {TRUSTED_PROXIES_MAX}");
        faults.add_with(node.at, path, problem, cure);
        return Vec::new();
    }
    let networks = items.iter().enumerate();
    networks
        .filter_map(|(n, item)| read::parsed(item, &path.index(n), "a network", faults))
        .collect()
}
