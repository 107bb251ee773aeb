//! The one table from what the limiter says to what a protocol answers. Every edge asks here, so
//! that two of them can't disagree about what a decision means. Never writes a response.
//!
//! Sources: RFC 9110 (429 is RFC 6585), RFC 9457, and the problem types of
//! draft-ietf-httpapi-ratelimit-headers-11.

use tidegate::limiter::CheckError;
use tidegate::model::{Decision, Denial, Retry};

/// What a denial that the store could not confirm tells a client to wait, when nothing better is
/// known: long enough that it isn't a hot loop, short against every outage.
pub const RETRY_UNAVAILABLE_SECS: u64 = 1;

/// What a decision means to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecisionKind {
    /// Go on.
    Admitted,
    /// Denied for now: a ceiling has no room.
    RateLimited,
    /// Denied for good: the check costs more than a ceiling ever allows.
    NeverAdmitted,
    /// Denied because the store could not confirm the charge.
    Unavailable,
}

impl DecisionKind {
    /// All of them.
    #[cfg(test)]
    const ALL: [DecisionKind; 4] = [
        DecisionKind::Admitted,
        DecisionKind::RateLimited,
        DecisionKind::NeverAdmitted,
        DecisionKind::Unavailable,
    ];

    /// What `decision` means.
    pub const fn of(decision: &Decision) -> Self {
        match decision {
            Decision::Admitted(_) => DecisionKind::Admitted,
            Decision::Denied(Denial {
                retry: Some(Retry::Never),
                ..
            }) => DecisionKind::NeverAdmitted,
            Decision::Denied(denial) if denial.facts.degraded => DecisionKind::Unavailable,
            Decision::Denied(_) => DecisionKind::RateLimited,
        }
    }

    /// The status of an HTTP answer that has a body. An answer without one turns 200 into 204.
    pub const fn http_status(self) -> u16 {
        match self {
            DecisionKind::Admitted => 200,
            DecisionKind::RateLimited | DecisionKind::NeverAdmitted => 429,
            DecisionKind::Unavailable => 503,
        }
    }

    /// The problem type's URI, absent when there is no problem.
    pub const fn problem_type(self) -> Option<&'static str> {
        match self {
            DecisionKind::Admitted => None,
            DecisionKind::RateLimited | DecisionKind::NeverAdmitted => {
                Some("https://iana.org/assignments/http-problem-types#quota-exceeded")
            }
            DecisionKind::Unavailable => {
                Some("https://iana.org/assignments/http-problem-types#temporary-reduced-capacity")
            }
        }
    }

    /// The problem's title: the same for every occurrence of its type.
    pub const fn title(self) -> &'static str {
        match self {
            DecisionKind::Admitted => "Admitted",
            DecisionKind::RateLimited | DecisionKind::NeverAdmitted => "Quota exceeded",
            DecisionKind::Unavailable => "Temporary reduced capacity",
        }
    }

    /// The word of the short body, and of logs.
    pub const fn word(self) -> &'static str {
        match self {
            DecisionKind::Admitted => "admitted",
            DecisionKind::RateLimited => "rate_limited",
            DecisionKind::NeverAdmitted => "never_admitted",
            DecisionKind::Unavailable => "temporarily_unavailable",
        }
    }

    /// What `Retry-After` says of `decision` in whole seconds: rounded up, never 0, and absent
    /// when it was admitted or when no wait would help.
    pub fn retry_after_secs(decision: &Decision) -> Option<u64> {
        let wait = decision.retry_after().map(|wait| wait.ceil_secs().max(1));
        match DecisionKind::of(decision) {
            DecisionKind::Admitted | DecisionKind::NeverAdmitted => None,
            DecisionKind::RateLimited => wait,
            DecisionKind::Unavailable => wait.or(Some(RETRY_UNAVAILABLE_SECS)),
        }
    }
}

/// Why a question got no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The question is malformed or a value is out of bounds.
    Malformed,
    /// The bearer token is missing or wrong.
    Unauthorized,
    /// Administration is off.
    AdminOff,
    /// No such policy.
    UnknownPolicy,
    /// No such charge, or not any more.
    UnknownCharge,
    /// Nothing is at this path.
    UnknownPath,
    /// The path doesn't know this method.
    MethodNotAllowed,
    /// The client was too slow.
    Timeout,
    /// The question is too large.
    TooLarge,
    /// The question is in a form that is not read here.
    UnsupportedMediaType,
    /// This node has as much to do as it may.
    Overloaded,
    /// The store could not answer.
    StoreUnavailable,
    /// The store rejects this limiter: a fault of the set-up, which waiting doesn't cure.
    StoreRejects,
}

impl ErrorKind {
    /// The status of an HTTP answer.
    pub const fn http_status(self) -> u16 {
        match self {
            ErrorKind::Malformed => 400,
            ErrorKind::Unauthorized => 401,
            ErrorKind::AdminOff => 403,
            ErrorKind::UnknownPolicy | ErrorKind::UnknownCharge | ErrorKind::UnknownPath => 404,
            ErrorKind::MethodNotAllowed => 405,
            ErrorKind::Timeout => 408,
            ErrorKind::TooLarge => 413,
            ErrorKind::UnsupportedMediaType => 415,
            ErrorKind::Overloaded | ErrorKind::StoreUnavailable | ErrorKind::StoreRejects => 503,
        }
    }

    /// The problem's title: the status's own phrase, as RFC 9457 wants it of `about:blank`.
    pub const fn title(self) -> &'static str {
        match self {
            ErrorKind::Malformed => "Bad Request",
            ErrorKind::Unauthorized => "Unauthorized",
            ErrorKind::AdminOff => "Forbidden",
            ErrorKind::UnknownPolicy | ErrorKind::UnknownCharge | ErrorKind::UnknownPath => {
                "Not Found"
            }
            ErrorKind::MethodNotAllowed => "Method Not Allowed",
            ErrorKind::Timeout => "Request Timeout",
            ErrorKind::TooLarge => "Content Too Large",
            ErrorKind::UnsupportedMediaType => "Unsupported Media Type",
            ErrorKind::Overloaded | ErrorKind::StoreUnavailable | ErrorKind::StoreRejects => {
                "Service Unavailable"
            }
        }
    }

    /// What `Retry-After` says: absent where waiting doesn't help.
    pub const fn retry_after_secs(self) -> Option<u64> {
        match self {
            ErrorKind::Overloaded | ErrorKind::StoreUnavailable => Some(RETRY_UNAVAILABLE_SECS),
            _ => None,
        }
    }
}

impl From<&CheckError> for ErrorKind {
    fn from(error: &CheckError) -> Self {
        match error {
            CheckError::UnknownPolicy { .. } => ErrorKind::UnknownPolicy,
            CheckError::Store(error) if error.is_transient() => ErrorKind::StoreUnavailable,
            CheckError::Store(_) => ErrorKind::StoreRejects,
            // What else there is, is wrong with the question.
            _ => ErrorKind::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::testing::{admitted, denied, outage};
    use tidegate::model::Micros;

    #[test]
    fn each_decision_has_its_row() {
        let after = |us| denied(Retry::After(Micros::new(us)));
        let rows = [
            (admitted(), DecisionKind::Admitted, 200, None),
            (after(12_340_561), DecisionKind::RateLimited, 429, Some(13)),
            (after(12_000_000), DecisionKind::RateLimited, 429, Some(12)),
            (after(400_000), DecisionKind::RateLimited, 429, Some(1)),
            (after(0), DecisionKind::RateLimited, 429, Some(1)),
            (denied(Retry::Never), DecisionKind::NeverAdmitted, 429, None),
            (outage(None), DecisionKind::Unavailable, 503, Some(1)),
            (
                outage(Some(Retry::After(Micros::new(2_000_001)))),
                DecisionKind::Unavailable,
                503,
                Some(3),
            ),
        ];
        for (decision, kind, status, retry_after) in rows {
            assert_eq!(DecisionKind::of(&decision), kind);
            assert_eq!(kind.http_status(), status);
            assert_eq!(DecisionKind::retry_after_secs(&decision), retry_after);
        }
    }

    #[test]
    fn every_denial_has_a_problem_type_and_an_admission_has_none() {
        for kind in DecisionKind::ALL {
            let is_problem = kind != DecisionKind::Admitted;
            assert_eq!(kind.problem_type().is_some(), is_problem, "{kind:?}");
        }
    }
}
