//! A server's error reply, and what it proves of the command.
//!
//! Never keeps a reply's text beyond its code and a bounded explanation.

use crate::model::Slot;
use crate::store::cluster::address::NodeAddress;
use crate::store::error::StoreErrorKind;

/// Characters of a server's explanation that are kept.
pub(super) const DETAIL_LEN_MAX: usize = 200;

/// A server's error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorReply {
    pub code: ErrorCode,
    /// For people.
    pub detail: String,
    /// It came out of the running script, which may have written before.
    pub in_script: bool,
}

/// What the server says, by the reply's first word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
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
    NotAllowed,
    WrongType,
    /// A full or failing disk: MISCONF.
    Misconfigured,
    Other,
}

/// Where a slot is, by the node that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub slot: Slot,
    pub to: NodeAddress,
}

impl ErrorReply {
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
            "MOVED" => redirect().map_or(ErrorCode::Other, ErrorCode::Moved),
            "ASK" => redirect().map_or(ErrorCode::Other, ErrorCode::Ask),
            "TRYAGAIN" => ErrorCode::TryAgain,
            "CLUSTERDOWN" => ErrorCode::ClusterDown,
            "LOADING" => ErrorCode::Loading,
            "MASTERDOWN" => ErrorCode::MasterDown,
            "READONLY" => ErrorCode::ReadOnly,
            "NOREPLICAS" => ErrorCode::NoReplicas,
            "OOM" => ErrorCode::OutOfMemory,
            "BUSY" => ErrorCode::Busy,
            "NOSCRIPT" => ErrorCode::NoScript,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => ErrorCode::NotAllowed,
            "WRONGTYPE" => ErrorCode::WrongType,
            "MISCONF" => ErrorCode::Misconfigured,
            _ => ErrorCode::Other,
        };
        ErrorReply {
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
            ErrorCode::ClusterDown => false,
            ErrorCode::Moved(_) | ErrorCode::Ask(_) | ErrorCode::TryAgain | ErrorCode::NoScript => {
                true
            }
            ErrorCode::Loading
            | ErrorCode::Busy
            | ErrorCode::NotAllowed
            | ErrorCode::MasterDown => !self.in_script,
            ErrorCode::ReadOnly
            | ErrorCode::NoReplicas
            | ErrorCode::OutOfMemory
            | ErrorCode::Misconfigured => !self.in_script,
            ErrorCode::WrongType | ErrorCode::Other => false,
        }
    }

    pub fn kind(&self) -> StoreErrorKind {
        match self.code {
            ErrorCode::Moved(_)
            | ErrorCode::Ask(_)
            | ErrorCode::TryAgain
            | ErrorCode::ClusterDown => StoreErrorKind::Unavailable,
            ErrorCode::MasterDown | ErrorCode::ReadOnly | ErrorCode::NoScript => {
                StoreErrorKind::Unavailable
            }
            ErrorCode::Loading | ErrorCode::NoReplicas | ErrorCode::OutOfMemory => {
                StoreErrorKind::Overloaded
            }
            ErrorCode::Busy | ErrorCode::Misconfigured => StoreErrorKind::Overloaded,
            ErrorCode::NotAllowed | ErrorCode::WrongType => StoreErrorKind::Refused,
            ErrorCode::Other => StoreErrorKind::Protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> ErrorReply {
        ErrorReply::parse(text, &NodeAddress::new("db", 1))
    }

    #[test]
    fn redirects_name_slot_and_node() {
        let to = |host, port| {
            let slot = Slot::new(3999).unwrap();
            let to = NodeAddress::new(host, port);
            Redirect { slot, to }
        };
        assert_eq!(
            reply("MOVED 3999 127.0.0.1:6381").code,
            ErrorCode::Moved(to("127.0.0.1", 6381))
        );
        assert_eq!(reply("ASK 3999 :6381").code, ErrorCode::Ask(to("db", 6381)));
        for text in ["MOVED", "MOVED 3999", "MOVED 99999 a:1", "MOVED x a:1"] {
            assert_eq!(reply(text).code, ErrorCode::Other, "{text}");
        }
    }

    #[test]
    fn what_an_error_reply_proves() {
        use StoreErrorKind::{Overloaded, Protocol, Refused, Unavailable};
        for (text, proves, kind) in [
            ("MOVED 1 a:1", true, Unavailable),
            ("TRYAGAIN Multiple keys request", true, Unavailable),
            ("NOSCRIPT No matching script.", true, Unavailable),
            ("CLUSTERDOWN The cluster is down", false, Unavailable),
            ("LOADING Redis is loading", true, Overloaded),
            ("OOM allow-oom flag is not set", true, Overloaded),
            (
                "OOM not allowed script: ab, on @user_script:1.",
                false,
                Overloaded,
            ),
            ("BUSY Redis is busy running a script", true, Overloaded),
            ("NOAUTH Authentication required.", true, Refused),
            ("WRONGTYPE Operation against", false, Refused),
            ("ERR unknown", false, Protocol),
        ] {
            let found = reply(text);
            assert_eq!(
                (found.proves_not_run(), found.kind()),
                (proves, kind),
                "{text}"
            );
        }
    }
}
