//! What a newcomer sees when the server starts: where it listens, what it enforces, where it
//! counts, and a line to try. Never a secret.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;

use crate::cli::compose::Origin;
use crate::telemetry::logs::LogFormat;
use tidegate::model::{Allowance, Policies, Policy};

/// How many policies are named.
const NAMED_MAX: usize = 8;

/// What the server starts with.
pub(super) struct Greeting<'a> {
    pub address: SocketAddr,
    pub policies: &'a Policies,
    pub origin: &'a Origin,
    pub store: &'a str,
    /// Whether refunds and resets are on.
    pub admin: bool,
    /// Where metrics and administrators' calls are answered.
    pub metrics: Option<SocketAddr>,
}

impl Greeting<'_> {
    /// Says it to people, unless a program reads the log, and logs it.
    pub fn show(&self, form: LogFormat) {
        if form == LogFormat::Text {
            let _ = std::io::stderr().write_all(self.text().as_bytes());
        }
        let source = match self.origin {
            Origin::Examples => "examples, built in".to_owned(),
            Origin::File(file) => file.display().to_string(),
        };
        tracing::info!(
            address = %self.address,
            store = self.store,
            policies = self.policies.len(),
            source,
            admin = self.admin,
            admin_address = self.metrics.map(tracing::field::display),
            version = env!("CARGO_PKG_VERSION"),
            "listening"
        );
    }

    /// The greeting, in a few lines.
    fn text(&self) -> String {
        let mut text = format!(
            "tidegate {} on http://{}\n",
            env!("CARGO_PKG_VERSION"),
            self.address
        );
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<10}{value}");
        };
        line("policies", self.policies());
        line("store", self.store());
        if let Some(address) = self.metrics {
            line("metrics", format!("http://{address}/metrics"));
        }
        if !self.admin {
            line(
                "admin",
                "off (refunds and resets need --admin-token-file)".to_owned(),
            );
        }
        if let Some(policy) = self.to_try() {
            line("try", curl(self.address, policy));
        }
        text
    }

    fn policies(&self) -> String {
        let mut names: Vec<&str> = self
            .policies
            .iter()
            .take(NAMED_MAX)
            .map(|policy| policy.name().as_str())
            .collect();
        let more = self.policies.len().saturating_sub(names.len());
        let more_text = format!("and {more} more");
        if more > 0 {
            names.push(&more_text);
        }
        let names = names.join(", ");
        match self.origin {
            Origin::Examples => format!("examples, built in (--config FILE for yours): {names}"),
            Origin::File(file) => format!("{}: {names}", file.display()),
        }
    }

    fn store(&self) -> String {
        match self.store {
            "memory" => "memory: this process alone counts (--redis URL for a fleet)".to_owned(),
            store => store.to_owned(),
        }
    }

    /// The policy to show: the one with the most to see.
    fn to_try(&self) -> Option<&Policy> {
        let most = self
            .policies
            .iter()
            .max_by_key(|policy| policy.global().is_some() as u8 + policy.region().is_some() as u8);
        most.map(AsRef::as_ref)
    }
}

/// The region in which most is allowed, of those that the policy names.
fn widest_region(policy: &Policy) -> &str {
    let units = |allowance: &Allowance| match allowance {
        Allowance::Unlimited => u64::MAX,
        Allowance::Limited(quota) => quota.limit(),
    };
    let widest = policy
        .regions()
        .iter()
        .max_by_key(|(_, allowance)| units(allowance));
    match widest {
        Some((region, allowance)) if units(allowance) > 0 => region.as_str(),
        _ => "us",
    }
}

fn curl(address: SocketAddr, policy: &Policy) -> String {
    let region = match policy.region() {
        Some(_) => format!(r#","region":"{}""#, widest_region(policy)),
        None => String::new(),
    };
    let host = match address.ip().is_unspecified() {
        true => format!("127.0.0.1:{}", address.port()),
        false => address.to_string(),
    };
    format!(
        "curl -s http://{host}/v1/check -H 'content-type: application/json' \
         -d '{{\"policy\":\"{}\",\"subject\":\"key-1\"{region}}}'",
        policy.name()
    )
}
