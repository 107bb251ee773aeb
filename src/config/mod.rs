//! What an operator writes, from raw text to valid values: policies and server settings of a YAML
//! file.
//!
//! All faults of a file are reported at once, each with its line, its column, the way to it and
//! what would be right. Never holds a value that is not valid, and never applies a part of a file.

mod bounds;
mod cidr;
mod examples;
mod fault;
mod fit;
mod lease;
mod policy;
mod rate;
mod read;
mod schema;
mod secret;
mod server;
mod server_section;
mod suggest;
mod yaml;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use bounds::{CONNECTIONS_MAX_MAX, HEAD_BYTES_BOUNDS, ServerBounds, TIMEOUT_BOUNDS};
pub use cidr::{Cidr, CidrError, masked, unmapped};
pub use examples::{EXAMPLES, Example, examples_yaml};
pub use fault::{FAULTS_MAX, Fault, Faults, KeyPath, Mark};
pub use lease::LEASE_PERIOD_BOUNDS;
pub use policy::{DESCRIPTION_LEN_MAX, POLICIES_MAX};
pub use read::parse_duration;
pub use schema::SCHEMA_JSON;
pub use secret::{Secret, SecretError};
pub use server::{
    BATCH_MAX_MAX, BODY_BYTES_MAX_MAX, BODY_BYTES_MIN, ChoiceError, ErrorBody, HeaderField,
    HeaderFieldError, IPV6_PREFIX_MAX, IPV6_PREFIX_MIN, RateLimitHeaders, ServerSettings,
    TRUSTED_PROXIES_MAX, XRateLimitReset,
};
pub use suggest::nearest;
pub use yaml::{DEPTH_MAX, FILE_BYTES_MAX};

use self::yaml::{Entry, Node};
use crate::model::Policies;

/// The version of the file's format that this program reads.
pub const VERSION: u64 = 1;

/// A file's top keys.
const TOP_KEYS: &[&str] = &["version", "policies", "server"];

/// Everything a file says, valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What is enforced.
    pub policies: Policies,
    /// How the server's edges behave.
    pub server: ServerSettings,
}

/// Why a file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It can't be read at all.
    #[error("can't read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// What it says isn't valid.
    #[error("{}", in_file(file, faults))]
    Invalid {
        /// The file.
        file: PathBuf,
        /// All that is wrong with it.
        faults: Faults,
    },
}

/// The faults, each line that begins one headed by the file's name, as compilers print them.
fn in_file(file: &Path, faults: &Faults) -> String {
    let file = file.display();
    let mut lines: Vec<String> = faults.iter().map(|f| format!("{file}:{f}")).collect();
    let listed = lines.len();
    if faults.len() > listed {
        lines.push(format!("{file}: and {} more", faults.len() - listed));
    }
    lines.join("\n")
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// All that is wrong with it, in its order.
    pub fn parse(text: &str) -> Result<Self, Faults> {
        let mut faults = Faults::default();
        let config = match yaml::read(text, &mut faults) {
            Some(root) => top(&root, &mut faults),
            None => None,
        };
        faults.or(config)
    }

    /// Reads a file of at most [`FILE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// When it can't be read, or all that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read {
            file: file.to_owned(),
            source,
        };
        let mut bytes = Vec::new();
        // One byte beyond the bound shows that the file is longer, however long.
        File::open(file)
            .and_then(|open| open.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
            .map_err(read)?;
        Config::from_bytes(&bytes).map_err(|faults| ConfigError::Invalid {
            file: file.to_owned(),
            faults,
        })
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// All that is wrong with it, in its order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Faults> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Config::parse(text),
            Err(error) => Err(not_utf8(bytes, error.valid_up_to())),
        }
    }

    /// The example policies that are built in, with the server's defaults: see [`EXAMPLES`].
    ///
    /// # Errors
    /// Never in practice: a test reads them.
    pub fn examples() -> Result<Self, Faults> {
        Config::parse(&examples_yaml())
    }
}

fn not_utf8(bytes: &[u8], valid_up_to: usize) -> Faults {
    let before = String::from_utf8_lossy(bytes.get(..valid_up_to).unwrap_or_default());
    let last_line = before.rsplit('\n').next().unwrap_or_default();
    let at = Mark {
        line: before.matches('\n').count() + 1,
        column: last_line.chars().count() + 1,
    };
    let mut faults = Faults::default();
    let cure = "save the file in UTF-8";
    faults.add_with(at, &KeyPath::default(), "this is not UTF-8 text", cure);
    faults
}

fn top(root: &Node, faults: &mut Faults) -> Option<Config> {
    let path = KeyPath::default();
    let what = "a map with `version: 1` and `policies:`";
    let entries = read::map(root, &path, what, faults)?;
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    let unknown = entries
        .iter()
        .filter(|entry| !TOP_KEYS.contains(&entry.key.as_str()));
    for entry in unknown {
        read::unknown_key(entry, &path, TOP_KEYS, faults);
    }
    version(find("version"), &path, faults);
    let server = find("server")
        .map(|entry| server_section::settings(&entry.value, &path.key("server"), faults));
    let Some(entry) = find("policies") else {
        let cure = "a map of policies by name; `tidegate config example` prints one";
        faults.add_with(root.at, &path, "there is no `policies`", cure);
        return None;
    };
    let policies = policy::policies(&entry.value, &path.key("policies"), faults);
    let policies = match Policies::new(policies) {
        Ok(policies) => policies,
        Err(error) => {
            faults.add(entry.at, &path.key("policies"), error.to_string());
            return None;
        }
    };
    Some(Config {
        policies,
        server: server.unwrap_or_default(),
    })
}

fn version(entry: Option<&Entry>, path: &KeyPath, faults: &mut Faults) {
    let Some(entry) = entry else {
        let cure = format!("begin the file with `version: {VERSION}`");
        faults.add_with(Mark::START, path, "there is no `version`", cure);
        return;
    };
    let (path, node) = (path.key("version"), &entry.value);
    if let Some(version) = read::whole(node, &path, (0, u64::MAX), faults)
        && version != VERSION
    {
        let problem = format!("version {version} of the format is not known");
        faults.add_with(node.at, &path, problem, format!("write {VERSION}"));
    }
}
