//! What the server is told: a policy file with its `server` section, and secrets that come from
//! elsewhere.
//!
//! Never holds a value that is not valid, and never applies a part of a file: all its faults are
//! reported at once, those of the policies and those of the settings in the file's order.

mod bounds;
mod examples;
mod network;
mod schema;
mod secret;
mod section;
mod settings;

use std::path::Path;

pub(crate) use bounds::{CONNECTIONS_MAX_MAX, DRAIN_BOUNDS, HEAD_BYTES_BOUNDS, TIMEOUT_BOUNDS};
pub(crate) use examples::{EXAMPLES, examples_yaml};
pub(crate) use network::Network;
pub(crate) use schema::schema_json;
pub(crate) use settings::{
    BATCH_MAX_MAX, BODY_BYTES_MAX_MAX, BODY_BYTES_MIN, HeaderField, IPV6_PREFIX_MAX,
    IPV6_PREFIX_MIN,
};

pub use bounds::Bounds;
pub use secret::{Secret, SecretError};
pub use settings::{ErrorBody, RateLimitHeaders, Settings, XRateLimitReset};

use tidegate::config::{ConfigError, Faults};
use tidegate::model::Policies;

/// Everything a file says, valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What is enforced.
    pub policies: Policies,
    /// How the server behaves.
    pub settings: Settings,
}

impl From<(Policies, Settings)> for Config {
    fn from((policies, settings): (Policies, Settings)) -> Self {
        Config { policies, settings }
    }
}

impl Config {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// All that is wrong with it, in its order.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<Self, Faults> {
        tidegate::config::parse(bytes.as_ref(), section::settings).map(Config::from)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it can't be read, or all that is wrong with it.
    pub(crate) fn load(file: &Path) -> Result<Self, ConfigError> {
        tidegate::config::load(file, section::settings).map(Config::from)
    }

    /// The example policies that are built in, with default settings: see [`EXAMPLES`].
    ///
    /// # Errors
    /// Never in practice: a test reads them.
    pub(crate) fn examples() -> Result<Self, Faults> {
        Config::parse(examples_yaml())
    }
}

#[cfg(test)]
mod tests;
