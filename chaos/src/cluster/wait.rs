//! Waiting, with an end: for a node to listen, and for whatever else a cluster is to become.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::ClusterError;

/// Lines of a node's log that an error shows.
const LOG_LINES_MAX: usize = 12;
/// How long a node may take until it listens.
const LISTEN_MAX: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Asks until the answer is `Ok`; [`ClusterError::NotYet`] says what is there instead. A node that
/// doesn't answer is waited for like one that isn't ready.
pub(super) async fn wait_for<F>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> F,
) -> Result<(), ClusterError>
where
    F: Future<Output = Result<(), ClusterError>>,
{
    let begun = Instant::now();
    loop {
        let seen = match probe().await {
            Ok(()) => return Ok(()),
            Err(ClusterError::NotYet(seen)) => seen,
            Err(error @ (ClusterError::NoAnswer { .. } | ClusterError::Refused { .. })) => {
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        if begun.elapsed() > limit {
            return Err(ClusterError::TimedOut {
                what: what.to_owned(),
                seen,
                waited: begun.elapsed(),
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until something accepts at the address; `ended` says how the node ended, if it did.
pub(super) async fn wait_listening<E, L>(
    node: usize,
    address: SocketAddr,
    ended: impl Fn() -> E,
    log: impl Fn() -> L,
) -> Result<(), ClusterError>
where
    E: Future<Output = Result<Option<String>, ClusterError>>,
    L: Future<Output = String>,
{
    let begun = Instant::now();
    loop {
        let connect = tokio::net::TcpStream::connect(address);
        let connected = tokio::time::timeout(Duration::from_secs(1), connect).await;
        // Asked in any case: a stranger may listen where the node couldn't.
        if let Some(status) = ended().await? {
            return Err(ClusterError::NodeEnded {
                node,
                status,
                log: last_lines(&log().await),
            });
        }
        if let Ok(Ok(_)) = connected {
            return Ok(());
        }
        if begun.elapsed() > LISTEN_MAX {
            return Err(ClusterError::TimedOut {
                what: format!("node {node} to listen on {address}"),
                seen: last_lines(&log().await),
                waited: begun.elapsed(),
            });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The end of a log, as an error shows it.
pub(super) fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let first = lines.len().saturating_sub(LOG_LINES_MAX);
    lines.get(first..).unwrap_or_default().join("\n")
}
