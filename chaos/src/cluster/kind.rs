//! Which kind of nodes a cluster under test has. Says once a process what it chose.

use std::io::Write as _;
use std::sync::Once;

use super::{ClusterError, docker};

const KIND_VARIABLE: &str = "TIDEGATE_CLUSTER";

/// What the nodes of a cluster under test are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterKind {
    /// Processes of this machine, on loopback.
    Processes,
    /// Docker containers on a network of their own; on Linux.
    Containers,
}

/// The kind that was asked for, else `TIDEGATE_CLUSTER` (`containers`, `processes`, `auto`),
/// else `auto`: containers where Docker answers and has an image, unless
/// `TIDEGATE_REDIS_SERVER` names a program.
pub(super) async fn resolve(asked: Option<ClusterKind>) -> Result<ClusterKind, ClusterError> {
    let wish = std::env::var(KIND_VARIABLE).unwrap_or_default();
    let kind = match (asked, wish.as_str()) {
        (Some(kind), _) => return Ok(kind),
        (None, "containers") => ClusterKind::Containers,
        (None, "processes") => ClusterKind::Processes,
        (None, "" | "auto") => {
            let named = std::env::var_os("TIDEGATE_REDIS_SERVER").is_some_and(|v| !v.is_empty());
            if !named && docker::usable().await {
                ClusterKind::Containers
            } else {
                ClusterKind::Processes
            }
        }
        (None, other) => {
            return Err(ClusterError::Unsupported {
                what: format!("{KIND_VARIABLE}={other}"),
                why: "there is no such kind of cluster".into(),
                cure: "Set it to containers, processes or auto".into(),
            });
        }
    };
    Ok(kind)
}

/// Says on standard error, the first time in this process, what kind of cluster was chosen.
pub(super) fn say_once(description: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        // Straight to the stream: a passing test's output is held back, and this is not to be.
        let _ = writeln!(std::io::stderr(), "cluster under test: {description}");
    });
}
