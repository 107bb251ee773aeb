//! Who owns what a cluster under test has started, so that leftovers can be told from what is in
//! use. Never takes a process number alone for an owner: numbers are used again.

use std::path::Path;

/// `number-starttime` of a process of this machine, or `number-` when there is none.
pub(super) fn owner(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold spaces; the start time is the 20th word after it.
    let started = stat.rsplit(')').next();
    let started = started.and_then(|rest| rest.split_whitespace().nth(19));
    format!("{pid}-{}", started.unwrap_or_default())
}

/// Whether the owner that [`owner`] named is no more.
pub(super) fn is_gone(name: &str) -> bool {
    let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
    // Without /proc nobody can be told from a successor, so everyone is held for alive.
    Path::new("/proc/self/stat").exists() && pid.is_some_and(|pid| owner(pid) != name)
}

/// Where process numbers mean what they mean here: this boot and process-number namespace.
pub(super) fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace = namespace.to_string_lossy();
    let namespace: String = namespace.chars().filter(char::is_ascii_digit).collect();
    format!("{}-{namespace}", boot.trim())
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
    }
}
