//! What can befall a call at a node, and what each answer proves.
//!
//! Never decides what to do about it: that is the call's. Never keeps a reply's text beyond its
//! code and a bounded explanation.

use fred::error::{Error, ErrorKind};

use super::address::NodeAddress;
use crate::model::Slot;
use crate::store::StoreErrorKind;

/// Characters of a server's explanation that are kept.
const DETAIL_LEN_MAX: usize = 200;

/// Why a call to a node brought no answer that could be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It never left this process.
    NotSent(NotSent),
    /// The connection broke with the call on it.
    Lost(String),
    /// Nothing came in time.
    Silent,
    /// The server refused it.
    Refused(Refusal),
}

/// Why a call never left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotSent {
    /// There is no connection to the node now; the kind says why it can't be made.
    NoLink(StoreErrorKind, String),
    /// The node said that the cluster is down, and hasn't taken it back yet.
    ClusterDown,
    /// Too many calls wait on the connection.
    TooManyUnanswered,
}

/// A server's error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: Code,
    /// For people.
    pub detail: String,
    /// It came out of the running script, which may have written before.
    pub in_script: bool,
}

/// What the server said, by its first word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Moved(Redirect),
    Ask(Redirect),
    TryAgain,
    ClusterDown,
    Loading,
    MasterDown,
    ReadOnly,
    NoReplicas,
    OutOfMemory,
    Busy,
    NoScript,
    /// NOAUTH, WRONGPASS, NOPERM.
    Denied,
    WrongType,
    /// A full or failing disk: MISCONF.
    Misconfigured,
    Other,
}

/// Where a slot is, by the node that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub slot: Slot,
    pub to: NodeAddress,
}

impl Refusal {
    /// Reads an error reply of the node that is reached as `asked`.
    pub fn parse(text: &str, asked: &NodeAddress) -> Self {
        let mut words = text.split_ascii_whitespace();
        let word = words.next().unwrap_or_default();
        let mut redirect = || {
            let slot = words.next()?.parse().ok().and_then(Slot::new)?;
            let to = NodeAddress::announced(words.next()?, asked)?;
            Some(Redirect { slot, to })
        };
        let code = match word {
            "MOVED" => redirect().map_or(Code::Other, Code::Moved),
            "ASK" => redirect().map_or(Code::Other, Code::Ask),
            "TRYAGAIN" => Code::TryAgain,
            "CLUSTERDOWN" => Code::ClusterDown,
            "LOADING" => Code::Loading,
            "MASTERDOWN" => Code::MasterDown,
            "READONLY" => Code::ReadOnly,
            "NOREPLICAS" => Code::NoReplicas,
            "OOM" => Code::OutOfMemory,
            "BUSY" => Code::Busy,
            "NOSCRIPT" => Code::NoScript,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Code::Denied,
            "WRONGTYPE" => Code::WrongType,
            "MISCONF" => Code::Misconfigured,
            _ => Code::Other,
        };
        Refusal {
            code,
            detail: text.chars().take(DETAIL_LEN_MAX).collect(),
            in_script: text.contains("script: ") || text.contains("user_script"),
        }
    }

    /// Whether this reply proves that nothing of the call ran.
    ///
    /// Not so for CLUSTERDOWN: fred drops a connection that says it, and gives the same error to
    /// every other call that waits there, of which some may have run before.
    pub fn proves_not_run(&self) -> bool {
        match self.code {
            Code::ClusterDown => false,
            Code::Moved(_) | Code::Ask(_) | Code::TryAgain | Code::NoScript => true,
            Code::Loading | Code::Busy | Code::Denied | Code::MasterDown => !self.in_script,
            Code::ReadOnly | Code::NoReplicas | Code::OutOfMemory | Code::Misconfigured => {
                !self.in_script
            }
            Code::WrongType | Code::Other => false,
        }
    }

    pub fn kind(&self) -> StoreErrorKind {
        match self.code {
            Code::Moved(_) | Code::Ask(_) | Code::TryAgain | Code::ClusterDown => {
                StoreErrorKind::Unavailable
            }
            Code::MasterDown | Code::ReadOnly | Code::NoScript => StoreErrorKind::Unavailable,
            Code::Loading | Code::NoReplicas | Code::OutOfMemory => StoreErrorKind::Overloaded,
            Code::Busy | Code::Misconfigured => StoreErrorKind::Overloaded,
            Code::Denied | Code::WrongType => StoreErrorKind::Refused,
            Code::Other => StoreErrorKind::Protocol,
        }
    }
}

impl Fault {
    /// Whether nothing of the call ran, for certain.
    pub fn proves_not_run(&self) -> bool {
        match self {
            Fault::NotSent(_) => true,
            Fault::Lost(_) | Fault::Silent => false,
            Fault::Refused(refusal) => refusal.proves_not_run(),
        }
    }

    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Fault::NotSent(NotSent::NoLink(kind, _)) => *kind,
            Fault::NotSent(NotSent::ClusterDown) | Fault::Lost(_) => StoreErrorKind::Unavailable,
            Fault::NotSent(NotSent::TooManyUnanswered) => StoreErrorKind::Overloaded,
            Fault::Silent => StoreErrorKind::Deadline,
            Fault::Refused(refusal) => refusal.kind(),
        }
    }

    /// For people; `node` is where it happened.
    pub fn describe(&self, node: &NodeAddress) -> String {
        match self {
            Fault::NotSent(NotSent::NoLink(_, why)) => format!("no connection to {node}: {why}"),
            Fault::NotSent(NotSent::ClusterDown) => format!("{node} says that the cluster is down"),
            Fault::NotSent(NotSent::TooManyUnanswered) => {
                format!("too many calls wait for {node}")
            }
            Fault::Lost(why) => format!("the connection to {node} broke: {why}"),
            Fault::Silent => format!("{node} didn't answer in time"),
            Fault::Refused(refusal) => format!("{node} answered {}", refusal.detail),
        }
    }

    /// Reads what fred reports of a command to the node reached as `asked`.
    ///
    /// Of a client whose connection ended, fred cancels what was never written and gives what was
    /// written the connection's error.
    pub fn from_fred(error: &Error, asked: &NodeAddress) -> Self {
        let details = error.details();
        match error.kind() {
            ErrorKind::Timeout => Fault::Silent,
            ErrorKind::Canceled => Fault::NotSent(NotSent::NoLink(
                StoreErrorKind::Unavailable,
                "the connection ended".into(),
            )),
            ErrorKind::Backpressure => Fault::NotSent(NotSent::TooManyUnanswered),
            _ if begins_with_code(details) => Fault::Refused(Refusal::parse(details, asked)),
            ErrorKind::Unknown if details.starts_with("Client is not initialized") => {
                Fault::NotSent(NotSent::NoLink(
                    StoreErrorKind::Unavailable,
                    "the connection ended".into(),
                ))
            }
            _ => Fault::Lost(in_words(details).chars().take(DETAIL_LEN_MAX).collect()),
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
pub(super) fn in_words(details: &str) -> &str {
    details
        .split_once("message: \"")
        .filter(|_| details.starts_with("Os { "))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or(details, |(message, _)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Refusal {
        Refusal::parse(text, &NodeAddress::new("db", 1))
    }

    #[test]
    fn redirects_name_slot_and_node() {
        let to = |host, port| {
            let slot = Slot::new(3999).unwrap();
            let to = NodeAddress::new(host, port);
            Redirect { slot, to }
        };
        assert_eq!(
            refusal("MOVED 3999 127.0.0.1:6381").code,
            Code::Moved(to("127.0.0.1", 6381))
        );
        assert_eq!(refusal("ASK 3999 :6381").code, Code::Ask(to("db", 6381)));
        for text in ["MOVED", "MOVED 3999", "MOVED 99999 a:1", "MOVED x a:1"] {
            assert_eq!(refusal(text).code, Code::Other, "{text}");
        }
    }

    #[test]
    fn what_a_refusal_proves() {
        for (text, proves, kind) in [
            ("MOVED 1 a:1", true, StoreErrorKind::Unavailable),
            (
                "TRYAGAIN Multiple keys request",
                true,
                StoreErrorKind::Unavailable,
            ),
            (
                "NOSCRIPT No matching script.",
                true,
                StoreErrorKind::Unavailable,
            ),
            (
                "CLUSTERDOWN The cluster is down",
                false,
                StoreErrorKind::Unavailable,
            ),
            ("LOADING Redis is loading", true, StoreErrorKind::Overloaded),
            (
                "OOM allow-oom flag is not set",
                true,
                StoreErrorKind::Overloaded,
            ),
            (
                "OOM command not allowed script: ab, on @user_script:1.",
                false,
                StoreErrorKind::Overloaded,
            ),
            (
                "BUSY Redis is busy running a script",
                true,
                StoreErrorKind::Overloaded,
            ),
            (
                "NOAUTH Authentication required.",
                true,
                StoreErrorKind::Refused,
            ),
            (
                "WRONGTYPE Operation against",
                false,
                StoreErrorKind::Refused,
            ),
            ("ERR unknown", false, StoreErrorKind::Protocol),
        ] {
            let found = refusal(text);
            assert_eq!(
                (found.proves_not_run(), found.kind()),
                (proves, kind),
                "{text}"
            );
        }
    }

    #[test]
    fn what_fred_reports_of_a_lost_connection_is_told_apart() {
        let node = NodeAddress::new("db", 1);
        let read = |kind, text: &'static str| Fault::from_fred(&Error::new(kind, text), &node);
        assert_eq!(
            read(ErrorKind::Timeout, "Request timed out."),
            Fault::Silent
        );
        assert!(read(ErrorKind::Canceled, "Canceled.").proves_not_run());
        assert!(!read(ErrorKind::IO, "Connection closed.").proves_not_run());
        assert!(!read(ErrorKind::Unknown, "channel closed").proves_not_run());
        let moved = read(ErrorKind::Cluster, "MOVED 1 a:1");
        assert!(matches!(
            moved,
            Fault::Refused(Refusal {
                code: Code::Moved(_),
                ..
            })
        ));
    }

    #[test]
    fn the_systems_errors_are_said_in_words() {
        let os = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(in_words(os), "Connection refused");
        for other in ["", "WRONGPASS message: \"x\"", "Os { cut"] {
            assert_eq!(in_words(other), other);
        }
    }
}
