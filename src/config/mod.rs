//! Policies as operators write them, from raw text to valid values.
//!
//! All faults of a file are reported at once, each with its line, its column, the way to it and
//! what would be right. Never holds a value that is not valid, and never applies a part of a file.
//!
//! ```
//! use tidegate::model::Policies;
//!
//! let policies = Policies::from_yaml(
//!     "version: 1
//! policies:
//!   api: {algorithm: sliding_log, global: 1000/min, region: 300/min}
//! ",
//! )?;
//! assert!(policies.get("api").is_some());
//! # Ok::<(), tidegate::config::Faults>(())
//! ```

mod fault;
mod fit;
mod lease;
mod policy;
mod rate;
mod read;
mod schema;
mod section;
mod suggest;
mod yaml;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use fault::{FAULTS_MAX, Fault, Faults, KeyPath, Mark};
pub use policy::POLICIES_MAX;
pub use read::parse_duration;
pub use schema::SCHEMA_JSON;
pub use section::Section;
pub use suggest::nearest;
pub use yaml::FILE_BYTES_MAX;

use self::yaml::{Entry, Node};
use crate::model::Policies;

/// The version of the file's format that this program reads.
const VERSION: u64 = 1;

/// A file's top keys.
const TOP_KEYS: &[&str] = &["version", "policies", "server"];

/// Why a file can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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

impl Policies {
    /// Reads a policy file's text. A `server` section is left to the server.
    ///
    /// # Errors
    /// All that is wrong with it, in its order.
    pub fn from_yaml(text: &str) -> Result<Self, Faults> {
        let (policies, ()) = parse(text.as_bytes(), |section| section.ignore())?;
        Ok(policies)
    }

    /// Reads a policy file of at most [`FILE_BYTES_MAX`] bytes. A `server` section is left to the
    /// server.
    ///
    /// # Errors
    /// When it can't be read, or all that is wrong with it.
    pub fn from_file(file: &Path) -> Result<Self, ConfigError> {
        let (policies, ()) = load(file, |section| section.ignore())?;
        Ok(policies)
    }
}

/// Reads a file's bytes: its policies, and what `server` makes of its `server` section.
///
/// # Errors
/// All that is wrong with both, in the order of the file.
pub fn parse<T>(
    bytes: &[u8],
    server: impl FnOnce(&mut Section<'_>) -> T,
) -> Result<(Policies, T), Faults> {
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?;
    let mut faults = Faults::default();
    let read = match yaml::read(text, &mut faults) {
        Some(root) => top(&root, server, &mut faults),
        None => None,
    };
    faults.or(read)
}

/// Reads a file of at most [`FILE_BYTES_MAX`] bytes, as [`parse`] does.
///
/// # Errors
/// When it can't be read, or all that is wrong with it.
pub fn load<T>(
    file: &Path,
    server: impl FnOnce(&mut Section<'_>) -> T,
) -> Result<(Policies, T), ConfigError> {
    let read = |source| ConfigError::Read {
        file: file.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    // One byte beyond the bound shows that the file is longer, however long.
    File::open(file)
        .and_then(|open| open.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(read)?;
    parse(&bytes, server).map_err(|faults| ConfigError::Invalid {
        file: file.to_owned(),
        faults,
    })
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

fn top<T>(
    root: &Node,
    server: impl FnOnce(&mut Section<'_>) -> T,
    faults: &mut Faults,
) -> Option<(Policies, T)> {
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
    let mut section = Section::new(find("server"), path.key("server"), faults);
    let settings = server(&mut section);
    section.finish();
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
    Some((policies, settings))
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
