//! The server's settings by flags: each goes before the file's `server:` section.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::cli::args::duration;
use crate::config::{
    BATCH_MAX_MAX, BODY_BYTES_MAX_MAX, BODY_BYTES_MIN, CONNECTIONS_MAX_MAX, DRAIN_BOUNDS,
    ErrorBody, HEAD_BYTES_BOUNDS, HeaderField, IPV6_PREFIX_MAX, IPV6_PREFIX_MIN, Network,
    RateLimitHeaders, Settings, TIMEOUT_BOUNDS, XRateLimitReset,
};
use tidegate::model::Micros;

/// Flags of the HTTP edge.
#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP (also in the file's `server:` section)")]
pub(super) struct SettingsArgs {
    /// Header of /v1/auth that names the policy [default: x-tidegate-policy]
    #[arg(long, value_name = "NAME", env = "TIDEGATE_POLICY_HEADER")]
    policy_header: Option<HeaderField>,

    /// Header of /v1/auth that names the subject, else the client's address is it
    /// [default: x-tidegate-subject]
    #[arg(long, value_name = "NAME", env = "TIDEGATE_SUBJECT_HEADER")]
    subject_header: Option<HeaderField>,

    /// Header of /v1/auth that names the region [default: x-tidegate-region]
    #[arg(long, value_name = "NAME", env = "TIDEGATE_REGION_HEADER")]
    region_header: Option<HeaderField>,

    /// Networks whose X-Forwarded-For is believed [default: none]
    #[arg(
        long,
        value_name = "NET,...",
        env = "TIDEGATE_TRUSTED_PROXIES",
        value_delimiter = ','
    )]
    trusted_proxies: Option<Vec<Network>>,

    /// IPv6 clients are one subject by their first so many bits [default: 64]
    #[arg(long, value_name = "BITS", env = "TIDEGATE_IPV6_PREFIX",
          value_parser = clap::value_parser!(u8).range(IPV6_PREFIX_MIN as i64..=IPV6_PREFIX_MAX as i64))]
    ipv6_prefix: Option<u8>,

    /// Form of a denial's body: problem or short [default: problem]
    #[arg(long, value_name = "FORM", env = "TIDEGATE_ERROR_BODY")]
    error_body: Option<ErrorBody>,

    /// RateLimit fields: draft-11, draft-12 or off [default: draft-11]
    #[arg(long, value_name = "DRAFT", env = "TIDEGATE_RATELIMIT_HEADERS")]
    ratelimit_headers: Option<RateLimitHeaders>,

    /// What X-RateLimit-Reset counts: epoch or delta [default: epoch]
    #[arg(long, value_name = "FORM", env = "TIDEGATE_X_RATELIMIT_RESET")]
    x_ratelimit_reset: Option<XRateLimitReset>,

    /// The most checks in a batch [default: 1000]
    #[arg(long, value_name = "N", env = "TIDEGATE_BATCH_MAX", value_parser = batch)]
    batch_max: Option<usize>,

    /// The longest body of a request, in bytes [default: 1048576]
    #[arg(long, value_name = "N", env = "TIDEGATE_BODY_BYTES_MAX", value_parser = body_bytes)]
    body_bytes_max: Option<usize>,

    /// The longest head of a request, in bytes [default: 16384]
    #[arg(long, value_name = "N", env = "TIDEGATE_HEAD_BYTES_MAX", value_parser = head_bytes)]
    head_bytes_max: Option<usize>,

    /// Connections open at once [default: 10000]
    #[arg(long, value_name = "N", env = "TIDEGATE_CONNECTIONS_MAX", value_parser = at_once)]
    connections_max: Option<usize>,

    /// Requests in flight at once [default: 5000]
    #[arg(long, value_name = "N", env = "TIDEGATE_IN_FLIGHT_MAX", value_parser = at_once)]
    in_flight_max: Option<usize>,

    /// How long a client may take to send a request's head, and be idle [default: 30s]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_HEAD_TIMEOUT", value_parser = timeout)]
    head_timeout: Option<Duration>,

    /// How long a client may take to send a request's body [default: 10s]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_BODY_TIMEOUT", value_parser = timeout)]
    body_timeout: Option<Duration>,

    /// How long to serve on when told to stop, not ready any more: until load balancers have heard
    /// of it [default: 0s]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_DRAIN", value_parser = drain)]
    drain: Option<Duration>,

    /// How long requests in flight may take to finish at a stop [default: 10s]
    #[arg(long, value_name = "TIME", env = "TIDEGATE_SHUTDOWN_TIMEOUT", value_parser = timeout)]
    shutdown_timeout: Option<Duration>,
}

impl SettingsArgs {
    /// Puts the settings that flags name in the place of the file's.
    pub fn apply_to(self, settings: &mut Settings) {
        set(&mut settings.policy_header, self.policy_header);
        set(&mut settings.subject_header, self.subject_header);
        set(&mut settings.region_header, self.region_header);
        set(&mut settings.trusted_proxies, self.trusted_proxies);
        set(&mut settings.ipv6_prefix, self.ipv6_prefix);
        set(&mut settings.error_body, self.error_body);
        set(&mut settings.ratelimit_headers, self.ratelimit_headers);
        set(&mut settings.x_ratelimit_reset, self.x_ratelimit_reset);
        set(&mut settings.batch_max, self.batch_max);
        set(&mut settings.body_bytes_max, self.body_bytes_max);
        let bounds = &mut settings.bounds;
        set(&mut bounds.head_bytes_max, self.head_bytes_max);
        set(&mut bounds.connections_max, self.connections_max);
        set(&mut bounds.in_flight_max, self.in_flight_max);
        set(&mut bounds.head_timeout, self.head_timeout);
        set(&mut bounds.body_timeout, self.body_timeout);
        set(&mut bounds.drain, self.drain);
        set(&mut bounds.shutdown_timeout, self.shutdown_timeout);
    }
}

fn set<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}

fn whole(text: &str, (least, most): (usize, usize)) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("write a whole number from {least} to {most}")),
    }
}

fn batch(text: &str) -> Result<usize, String> {
    whole(text, (1, BATCH_MAX_MAX))
}

fn body_bytes(text: &str) -> Result<usize, String> {
    whole(text, (BODY_BYTES_MIN, BODY_BYTES_MAX_MAX))
}

fn head_bytes(text: &str) -> Result<usize, String> {
    whole(text, HEAD_BYTES_BOUNDS)
}

fn at_once(text: &str) -> Result<usize, String> {
    whole(text, (1, CONNECTIONS_MAX_MAX))
}

fn timeout(text: &str) -> Result<Duration, String> {
    within(text, TIMEOUT_BOUNDS)
}

fn drain(text: &str) -> Result<Duration, String> {
    within(text, DRAIN_BOUNDS)
}

fn within(text: &str, (least, most): (Micros, Micros)) -> Result<Duration, String> {
    let time = duration(text)?;
    match (least..=most).contains(&Micros::from(time)) {
        true => Ok(time),
        false => Err(format!("write a time from {least} s to {most} s")),
    }
}

/// Where metrics and administrators' calls are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminListen {
    /// At the public listener.
    Same,
    /// At one of their own.
    At(SocketAddr),
}

/// Reads an address as [`listen`] does, or `same`.
pub(super) fn admin_listen(text: &str) -> Result<AdminListen, String> {
    match text {
        "same" => Ok(AdminListen::Same),
        _ => match listen(text) {
            Ok(address) => Ok(AdminListen::At(address)),
            Err(cure) => Err(format!("{cure}, or `same` for the public listener")),
        },
    }
}

/// Reads `127.0.0.1:8080`, `:8080` (all addresses) or `8080` (this machine only).
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let full = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None if text.bytes().all(|b| b.is_ascii_digit()) => format!("127.0.0.1:{text}"),
        None => text.to_owned(),
    };
    full.parse()
        .map_err(|_| "write ADDRESS:PORT, such as 127.0.0.1:8080, or :8080 for all".to_owned())
}
