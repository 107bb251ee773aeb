//! New policies in a running server: when its file changes, or on SIGHUP. Never puts a part of a
//! file in force: one that isn't valid leaves everything as it was, and the log names each fault.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::config::{Config, Settings};
use tidegate::Limiter;
use tidegate::config::ConfigError;
use tidegate::store::Store;

/// How often the file is looked at.
pub(super) const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// What tells one state of a file from another, through links (a mounted ConfigMap is one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

impl Stamp {
    fn of(file: &Path) -> Option<Self> {
        let metadata: Metadata = std::fs::metadata(file).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Stamp {
            modified: metadata.modified().ok(),
            len: metadata.len(),
            inode,
        })
    }
}

/// Watches a file.
pub(super) struct Watch {
    file: PathBuf,
    /// The file as it was when it was last read.
    read: Option<Stamp>,
    /// The file at the last look.
    seen: Option<Stamp>,
    /// The settings that the server started with.
    settings: Settings,
}

impl Watch {
    /// Watches `file`, which has just been read.
    pub fn new(file: PathBuf, settings: Settings) -> Self {
        let stamp = Stamp::of(&file);
        Watch {
            file,
            read: stamp,
            seen: stamp,
            settings,
        }
    }

    /// Whether the file has changed and come to rest: a look at a file that is being written
    /// would find half of it.
    pub fn has_changed(&mut self) -> bool {
        let now = Stamp::of(&self.file);
        let at_rest = now == self.seen;
        self.seen = now;
        at_rest && now.is_some() && now != self.read
    }

    /// Reads the file and puts its policies in force, or says why not.
    pub fn reload<S: Store>(&mut self, limiter: &Limiter<S>) {
        self.read = Stamp::of(&self.file);
        self.seen = self.read;
        let file = self.file.display();
        match Config::load(&self.file) {
            Ok(config) => {
                if config.settings != self.settings {
                    tracing::warn!(%file, "server settings have changed: they need a restart");
                }
                let policies = config.policies.len();
                if *limiter.policies() == config.policies {
                    tracing::info!(%file, policies, "policies are read again: nothing changed");
                    return;
                }
                match limiter.replace_policies(config.policies) {
                    Ok(()) => tracing::info!(%file, policies, "new policies are in force"),
                    Err(error) => tracing::error!(%file, %error, "the policies stay as they were"),
                }
            }
            Err(ConfigError::Invalid { faults, .. }) => {
                for fault in faults.iter() {
                    tracing::error!(
                        %file,
                        line = fault.at.line,
                        column = fault.at.column,
                        path = %fault.path,
                        cure = fault.cure,
                        "{}",
                        fault.problem
                    );
                }
                let faults = faults.len();
                tracing::error!(%file, faults, "the file is not valid: the policies stay as they were");
            }
            Err(error) => tracing::error!(%error, "the policies stay as they were"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::MemoryStore;

    const GOOD: &str = "version: 1\npolicies: {p: {algorithm: sliding_log, global: 5/s}}\n";
    const OTHER: &str = "version: 1\npolicies: {other: {algorithm: sliding_log, global: 5/s}}\n";

    struct Served {
        _directory: tempfile::TempDir,
        file: PathBuf,
        watch: Watch,
        limiter: Limiter<MemoryStore>,
    }

    fn served() -> Served {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("policies.yaml");
        std::fs::write(&file, GOOD).unwrap();
        let config = Config::load(&file).unwrap();
        let limiter = Limiter::builder()
            .policies(config.policies)
            .store(MemoryStore::default())
            .build()
            .unwrap();
        Served {
            _directory: directory,
            watch: Watch::new(file.clone(), config.settings),
            file,
            limiter,
        }
    }

    fn names(limiter: &Limiter<MemoryStore>) -> Vec<String> {
        let policies = limiter.policies();
        policies
            .iter()
            .map(|policy| policy.name().to_string())
            .collect()
    }

    #[test]
    fn a_changed_file_is_read_once_it_has_come_to_rest() {
        let mut served = served();
        assert!(!served.watch.has_changed());
        std::fs::write(&served.file, OTHER).unwrap();
        assert!(!served.watch.has_changed(), "the first look sees it move");
        assert!(served.watch.has_changed(), "the second sees it at rest");
        served.watch.reload(&served.limiter);
        assert_eq!(names(&served.limiter), ["other"]);
        assert!(!served.watch.has_changed());
    }

    #[test]
    fn a_file_that_is_not_valid_leaves_everything_as_it_was() {
        let mut served = served();
        for bad in [
            "version: 1\npolicies: {p: {algorithm: x, global: 9/s}}",
            "",
            ": [",
        ] {
            std::fs::write(&served.file, bad).unwrap();
            served.watch.reload(&served.limiter);
            let policies = served.limiter.policies();
            assert_eq!(*policies, Config::parse(GOOD).unwrap().policies, "{bad}");
        }
        std::fs::remove_file(&served.file).unwrap();
        served.watch.reload(&served.limiter);
        assert_eq!(names(&served.limiter), ["p"]);
        assert!(
            !served.watch.has_changed(),
            "a missing file is no change to act on"
        );
    }

    #[test]
    fn a_file_that_is_swapped_by_its_link_has_changed() {
        let mut served = served();
        let other = served.file.with_file_name("next");
        std::fs::write(&other, GOOD).unwrap();
        std::fs::rename(&other, &served.file).unwrap();
        assert!(!served.watch.has_changed());
        assert!(served.watch.has_changed());
    }
}
