//! The settings in the `server` section of a policy file. Never takes a secret from there: a file is
//! shown, copied and kept.

use std::str::FromStr;
use std::time::Duration;

use super::bounds::{CONNECTIONS_MAX_MAX, DRAIN_BOUNDS, HEAD_BYTES_BOUNDS, TIMEOUT_BOUNDS};
use super::settings::{
    BATCH_MAX_MAX, BODY_BYTES_MAX_MAX, BODY_BYTES_MIN, ErrorBody, HeaderField, IPV6_PREFIX_MAX,
    IPV6_PREFIX_MIN, RateLimitHeaders, Settings, TRUSTED_PROXIES_MAX, XRateLimitReset,
};
use tidegate::config::Section;

/// Reads the section; a setting that is absent or wrong stays at its default. The keys are asked
/// for in the order of the documentation, in which messages list them.
pub(super) fn settings(section: &mut Section<'_>) -> Settings {
    let mut settings = Settings::default();
    let it = &mut settings;
    set(&mut it.policy_header, header(section, "policy_header"));
    set(&mut it.subject_header, header(section, "subject_header"));
    set(&mut it.region_header, header(section, "region_header"));
    let networks = section.list(
        "trusted_proxies",
        "a list of networks such as [10.0.0.0/8, 192.0.2.7]",
        ("a network", "networks"),
        TRUSTED_PROXIES_MAX,
    );
    set(&mut it.trusted_proxies, networks);
    let prefixes = (IPV6_PREFIX_MIN.into(), IPV6_PREFIX_MAX.into());
    let prefix = section.whole("ipv6_prefix", prefixes);
    set(
        &mut it.ipv6_prefix,
        prefix.and_then(|bits| bits.try_into().ok()),
    );
    set(
        &mut it.error_body,
        choice(section, "error_body", ErrorBody::WORDS),
    );
    let draft = choice(section, "ratelimit_headers", RateLimitHeaders::WORDS);
    set(&mut it.ratelimit_headers, draft);
    let reset = choice(section, "x_ratelimit_reset", XRateLimitReset::WORDS);
    set(&mut it.x_ratelimit_reset, reset);
    set(
        &mut it.batch_max,
        size(section, "batch_max", (1, BATCH_MAX_MAX)),
    );
    let body_bytes = (BODY_BYTES_MIN, BODY_BYTES_MAX_MAX);
    set(
        &mut it.body_bytes_max,
        size(section, "body_bytes_max", body_bytes),
    );
    let at_once = (1, CONNECTIONS_MAX_MAX);
    let bounds = &mut it.bounds;
    set(
        &mut bounds.connections_max,
        size(section, "connections_max", at_once),
    );
    set(
        &mut bounds.in_flight_max,
        size(section, "in_flight_max", at_once),
    );
    set(
        &mut bounds.head_bytes_max,
        size(section, "head_bytes_max", HEAD_BYTES_BOUNDS),
    );
    set(&mut bounds.head_timeout, timeout(section, "head_timeout"));
    set(&mut bounds.body_timeout, timeout(section, "body_timeout"));
    let drain = section.duration("drain", DRAIN_BOUNDS);
    set(&mut bounds.drain, drain.map(Duration::from));
    set(
        &mut bounds.shutdown_timeout,
        timeout(section, "shutdown_timeout"),
    );
    section.forbid(
        "admin_token",
        "a secret has no place in this file",
        "give it as --admin-token-file FILE or in TIDEGATE_ADMIN_TOKEN",
    );
    settings
}

fn set<T>(setting: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *setting = value;
    }
}

fn header(section: &mut Section<'_>, key: &'static str) -> Option<HeaderField> {
    section.parsed(key, "a header's name")
}

fn size(
    section: &mut Section<'_>,
    key: &'static str,
    (least, most): (usize, usize),
) -> Option<usize> {
    let read = section.whole(key, (least as u64, most as u64))?;
    read.try_into().ok()
}

fn timeout(section: &mut Section<'_>, key: &'static str) -> Option<Duration> {
    section.duration(key, TIMEOUT_BOUNDS).map(Duration::from)
}

fn choice<T: FromStr + Copy>(
    section: &mut Section<'_>,
    key: &'static str,
    words: &[&str],
) -> Option<T> {
    let choices: Vec<(&str, T)> = words
        .iter()
        .filter_map(|word| Some((*word, word.parse().ok()?)))
        .collect();
    section.word(key, &choices)
}
