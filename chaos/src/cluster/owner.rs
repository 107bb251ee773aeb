//! Who owns what a cluster under test has started, so that leftovers can be told from what is in
//! use; and that only one at a time removes them. Never takes a process number alone for an owner: numbers are used again.

use std::path::Path;
use std::time::{Duration, Instant};

/// How long another's sweep is waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// This process and the watchdog that cleans up after it, as [`is_gone`] reads them.
pub(super) fn owners(watchdog: u32) -> String {
    format!("{}+{}", owner(std::process::id()), owner(watchdog))
}

/// Whether all that [`owners`] named are no more: while a watchdog lives it is at work itself, and
/// two that remove the same things get in each other's way.
pub(super) fn are_gone(names: &str) -> bool {
    names.split('+').all(is_gone)
}

/// `number-starttime` of a process of this machine, or `number-` when there is none, or only what
/// its parent has yet to take note of.
fn owner(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold spaces; the state follows it, and 19 words later the
    // start time.
    let words = stat.rsplit(')').next().unwrap_or_default();
    let mut words = words.split_whitespace();
    let alive = words.next().filter(|state| !["Z", "X"].contains(state));
    let started = alive.and_then(|_| words.nth(18));
    format!("{pid}-{}", started.unwrap_or_default())
}

/// Whether the owner that [`owner`] named is no more.
fn is_gone(name: &str) -> bool {
    let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
    // Without /proc nobody can be told from a successor, so every owner is taken for alive.
    Path::new("/proc/self/stat").exists()
        && pid.is_some_and(|pid| name.ends_with('-') || owner(pid) != name)
}

/// Where process numbers mean what they mean here: this boot and process-number namespace.
pub(super) fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace = namespace.to_string_lossy();
    let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
    format!("{}-{namespace}", boot.trim())
}

/// Held while leftovers are removed; it ends with the process that holds it, however that ends.
pub(super) struct SweepLock {
    #[cfg(target_os = "linux")]
    _name: std::os::unix::net::UnixListener,
}

impl SweepLock {
    /// Waits while another process sweeps. None after 10 s of that, and where there is nothing to
    /// tell owners by.
    pub(super) async fn take() -> Option<Self> {
        let begun = Instant::now();
        loop {
            #[cfg(target_os = "linux")]
            if let Some(lock) = Self::try_take() {
                return Some(lock);
            }
            if cfg!(not(target_os = "linux")) || begun.elapsed() > WAIT_MAX {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[cfg(target_os = "linux")]
    fn try_take() -> Option<Self> {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener};
        // A name without a file, which the kernel gives to one at a time.
        let name = SocketAddr::from_abstract_name("tidegate-sweep").ok()?;
        let _name = UnixListener::bind_addr(&name).ok()?;
        Some(Self { _name })
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn we_are_here_and_neither_our_predecessor_nor_the_impossible_is() {
        let own = owner(std::process::id());
        assert!(!is_gone(&own));
        assert!(is_gone(&format!("{}-1", std::process::id())));
        assert!(is_gone(&format!("{}-17", u32::MAX)));
        assert!(!is_gone("no owner"));
        assert!(!are_gone(&owners(u32::MAX)) && !are_gone(&format!("7-1+{own}")));
        assert!(are_gone(&format!(
            "{}-1+{}-",
            std::process::id(),
            u32::MAX - 1
        )));
    }
}
