//! How a command to a node can fail, what each failure proves, and why there is no connection.
//!
//! Never decides what to do about it: that is the dispatcher's.

use fred::error::{Error, ErrorKind};
use tokio::task::JoinError;

use super::error_reply::{DETAIL_LEN_MAX, ErrorReply};
use crate::store::cluster::address::NodeAddress;
use crate::store::error::StoreErrorKind;

/// Why a command brought no reply that could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// It never left this process.
    NotSent(NotSent),
    /// The connection ended while the reply was awaited.
    Disconnected(String),
    /// No reply came in time.
    TimedOut,
    /// An error reply.
    Reply(ErrorReply),
    /// A reply that makes no sense.
    Invalid(String),
}

/// Why a command never left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// There is no connection to the node now.
    NotConnected(ConnectError),
    /// The node said that the cluster is down, and hasn't taken it back yet.
    ClusterDown,
    /// Too many commands wait for their replies on the connection.
    TooManyUnanswered,
}

/// Why there is no connection to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectError {
    pub kind: StoreErrorKind,
    /// For people.
    pub detail: String,
}

impl CommandError {
    /// The connection had ended before the command was written.
    pub fn not_connected() -> Self {
        let error = ConnectError::unavailable("the connection ended");
        CommandError::NotSent(NotSent::NotConnected(error))
    }

    /// Whether nothing of the command ran, for certain.
    pub fn proves_not_run(&self) -> bool {
        match self {
            CommandError::NotSent(_) => true,
            CommandError::Disconnected(_) | CommandError::TimedOut => false,
            CommandError::Invalid(_) => false,
            CommandError::Reply(reply) => reply.proves_not_run(),
        }
    }

    pub fn kind(&self) -> StoreErrorKind {
        match self {
            CommandError::NotSent(NotSent::NotConnected(error)) => error.kind,
            CommandError::NotSent(NotSent::ClusterDown) => StoreErrorKind::Unavailable,
            CommandError::NotSent(NotSent::TooManyUnanswered) => StoreErrorKind::Overloaded,
            CommandError::Disconnected(_) | CommandError::Invalid(_) => StoreErrorKind::Unavailable,
            CommandError::TimedOut => StoreErrorKind::Deadline,
            CommandError::Reply(reply) => reply.kind(),
        }
    }

    /// For people; `node` is where it happened.
    pub fn describe(&self, node: &NodeAddress) -> String {
        match self {
            CommandError::NotSent(NotSent::NotConnected(error)) => {
                format!("no connection to {node}: {}", error.detail)
            }
            CommandError::NotSent(NotSent::ClusterDown) => {
                format!("{node} says that the cluster is down")
            }
            CommandError::NotSent(NotSent::TooManyUnanswered) => {
                format!("too many calls wait for {node}")
            }
            CommandError::Disconnected(why) => format!("the connection to {node} broke: {why}"),
            CommandError::TimedOut => format!("{node} didn't answer in time"),
            CommandError::Reply(reply) => format!("{node} answered {}", reply.detail),
            CommandError::Invalid(what) => format!("{node} answered something else: {what}"),
        }
    }

    /// Reads what fred reports of a command to the node reached as `asked`.
    ///
    /// Of a client whose connection ended, fred cancels what was never written and gives what was
    /// written the connection's error.
    pub fn from_fred(error: &Error, asked: &NodeAddress) -> Self {
        let details = error.details();
        match error.kind() {
            ErrorKind::Timeout => CommandError::TimedOut,
            ErrorKind::Canceled => CommandError::not_connected(),
            ErrorKind::Backpressure => CommandError::NotSent(NotSent::TooManyUnanswered),
            _ if begins_with_code(details) => {
                CommandError::Reply(ErrorReply::parse(details, asked))
            }
            ErrorKind::Unknown if details.starts_with("Client is not initialized") => {
                CommandError::not_connected()
            }
            _ => {
                let details = system_message(details).chars();
                CommandError::Disconnected(details.take(DETAIL_LEN_MAX).collect())
            }
        }
    }
}

impl ConnectError {
    pub fn unavailable(detail: &str) -> Self {
        ConnectError {
            kind: StoreErrorKind::Unavailable,
            detail: detail.to_owned(),
        }
    }

    /// A step of the greeting that failed.
    pub fn greeting(step: &str, node: &NodeAddress, error: &CommandError) -> Self {
        ConnectError {
            kind: error.kind(),
            detail: format!("{step}: {}", error.describe(node)),
        }
    }

    pub fn from_fred(error: &Error) -> Self {
        let details = error.details();
        // What rustls says reaches us as the socket's word: `error: InvalidCertificate(...)`.
        let tls = ["Certificate", "AlertReceived"]
            .iter()
            .any(|word| details.contains(word));
        let kind = match error.kind() {
            ErrorKind::Auth | ErrorKind::Tls | ErrorKind::Config => StoreErrorKind::Refused,
            _ if tls => StoreErrorKind::Refused,
            _ if details.starts_with("LOADING") => StoreErrorKind::Overloaded,
            _ => StoreErrorKind::Unavailable,
        };
        let detail = match tls {
            true => format!("the certificates are not accepted: {details}"),
            false => system_message(details).to_owned(),
        };
        ConnectError { kind, detail }
    }

    /// Why a connection's task ended.
    pub fn from_task(ended: Result<Result<(), Error>, JoinError>) -> Self {
        match ended {
            Ok(Ok(())) => ConnectError::unavailable("the connection was closed"),
            Ok(Err(error)) => ConnectError::from_fred(&error),
            Err(error) => {
                tracing::error!(%error, "the task behind a connection failed");
                ConnectError::unavailable("the task behind the connection failed")
            }
        }
    }
}

/// Servers begin an error with a word in capitals; fred's own errors are sentences.
fn begins_with_code(text: &str) -> bool {
    let word = text.split_ascii_whitespace().next().unwrap_or_default();
    let word = word.trim_end_matches(':');
    word.len() >= 3 && word.bytes().all(|b| b.is_ascii_uppercase())
}

/// What an operating system's error says, for people. fred shows them as the language does:
/// `Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }`.
fn system_message(details: &str) -> &str {
    details
        .split_once("message: \"")
        .filter(|_| details.starts_with("Os { "))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or(details, |(message, _)| message)
}

#[cfg(test)]
mod tests {
    use super::super::error_reply::ErrorCode;
    use super::*;

    #[test]
    fn what_fred_reports_of_a_lost_connection_is_told_apart() {
        let node = NodeAddress::new("db", 1);
        let read =
            |kind, text: &'static str| CommandError::from_fred(&Error::new(kind, text), &node);
        assert_eq!(
            read(ErrorKind::Timeout, "Request timed out."),
            CommandError::TimedOut
        );
        assert!(read(ErrorKind::Canceled, "Canceled.").proves_not_run());
        assert!(!read(ErrorKind::IO, "Connection closed.").proves_not_run());
        assert!(!read(ErrorKind::Unknown, "channel closed").proves_not_run());
        let moved = read(ErrorKind::Cluster, "MOVED 1 a:1");
        assert!(matches!(
            moved,
            CommandError::Reply(ErrorReply {
                code: ErrorCode::Moved(_),
                ..
            })
        ));
    }

    #[test]
    fn the_systems_errors_are_said_in_words() {
        let os = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(system_message(os), "Connection refused");
        for other in ["", "WRONGPASS message: \"x\"", "Os { cut"] {
            assert_eq!(system_message(other), other);
        }
    }
}
