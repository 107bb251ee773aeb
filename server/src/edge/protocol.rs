//! The one table from what the limiter says to what a protocol answers. Every edge asks here, so
//! that two of them can't disagree about what a decision means. Never writes a response.
//!
//! Sources: RFC 9110 (429 is RFC 6585), RFC 9457, and the problem types of
//! draft-ietf-httpapi-ratelimit-headers-11.

use tidegate::limiter::CheckError;
use tidegate::model::{Decision, Denial, Retry};

/// What a denial that the store could not confirm tells a client to wait, when nothing better is
/// known: long enough that it isn't a hot loop, short against every outage.
pub const RETRY_UNCONFIRMED_SECS: u64 = 1;

/// What a decision means to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Go on.
    Admitted,
    /// Denied for now: a ceiling has no room.
    Exhausted,
    /// Denied for good: it costs more than a ceiling ever allows.
    NeverFits,
    /// Denied because the store could not confirm the charge.
    Unconfirmed,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 4] = [
        Verdict::Admitted,
        Verdict::Exhausted,
        Verdict::NeverFits,
        Verdict::Unconfirmed,
    ];

    /// What `decision` means.
    pub const fn of(decision: &Decision) -> Self {
        match decision {
            Decision::Admitted(_) => Verdict::Admitted,
            Decision::Denied(Denial {
                retry: Some(Retry::Never),
                ..
            }) => Verdict::NeverFits,
            Decision::Denied(denial) if denial.facts.degraded => Verdict::Unconfirmed,
            Decision::Denied(_) => Verdict::Exhausted,
        }
    }

    /// The status of an HTTP answer that has a body. An answer without one turns 200 into 204.
    pub const fn http_status(self) -> u16 {
        match self {
            Verdict::Admitted => 200,
            Verdict::Exhausted | Verdict::NeverFits => 429,
            Verdict::Unconfirmed => 503,
        }
    }

    /// The problem type's URI, absent when there is no problem.
    pub const fn problem_type(self) -> Option<&'static str> {
        match self {
            Verdict::Admitted => None,
            Verdict::Exhausted | Verdict::NeverFits => {
                Some("https://iana.org/assignments/http-problem-types#quota-exceeded")
            }
            Verdict::Unconfirmed => {
                Some("https://iana.org/assignments/http-problem-types#temporary-reduced-capacity")
            }
        }
    }

    /// The problem's title: the same for every occurrence of its type.
    pub const fn title(self) -> &'static str {
        match self {
            Verdict::Admitted => "Admitted",
            Verdict::Exhausted | Verdict::NeverFits => "Quota exceeded",
            Verdict::Unconfirmed => "Temporary reduced capacity",
        }
    }

    /// The word of the short body, and of logs.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Admitted => "admitted",
            Verdict::Exhausted => "rate_limited",
            Verdict::NeverFits => "never_admitted",
            Verdict::Unconfirmed => "temporarily_unavailable",
        }
    }

    /// What `Retry-After` says of `decision` in whole seconds: rounded up, never 0, and absent
    /// when it was admitted or when no wait would help.
    pub fn retry_after_secs(decision: &Decision) -> Option<u64> {
        let wait = decision.retry_after().map(|wait| wait.ceil_secs().max(1));
        match Verdict::of(decision) {
            Verdict::Admitted | Verdict::NeverFits => None,
            Verdict::Exhausted => wait,
            Verdict::Unconfirmed => wait.or(Some(RETRY_UNCONFIRMED_SECS)),
        }
    }
}

/// Why a question got no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
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
    /// Nothing lives at this address.
    UnknownAddress,
    /// The address doesn't know this method.
    MethodNotAllowed,
    /// The client was too slow.
    TooSlow,
    /// The question is too large.
    TooLarge,
    /// The question is not in a form that is read here.
    UnsupportedForm,
    /// This node has as much to do as it may.
    Overloaded,
    /// The store could not answer.
    StoreSilent,
    /// The store refuses this limiter: a fault of the set-up, which waiting doesn't cure.
    StoreRefuses,
}

impl Fault {
    /// The status of an HTTP answer.
    pub const fn http_status(self) -> u16 {
        match self {
            Fault::Malformed => 400,
            Fault::Unauthorized => 401,
            Fault::AdminOff => 403,
            Fault::UnknownPolicy | Fault::UnknownCharge | Fault::UnknownAddress => 404,
            Fault::MethodNotAllowed => 405,
            Fault::TooSlow => 408,
            Fault::TooLarge => 413,
            Fault::UnsupportedForm => 415,
            Fault::Overloaded | Fault::StoreSilent | Fault::StoreRefuses => 503,
        }
    }

    /// The problem's title: the status's own phrase, as RFC 9457 wants it of `about:blank`.
    pub const fn title(self) -> &'static str {
        match self {
            Fault::Malformed => "Bad Request",
            Fault::Unauthorized => "Unauthorized",
            Fault::AdminOff => "Forbidden",
            Fault::UnknownPolicy | Fault::UnknownCharge | Fault::UnknownAddress => "Not Found",
            Fault::MethodNotAllowed => "Method Not Allowed",
            Fault::TooSlow => "Request Timeout",
            Fault::TooLarge => "Content Too Large",
            Fault::UnsupportedForm => "Unsupported Media Type",
            Fault::Overloaded | Fault::StoreSilent | Fault::StoreRefuses => "Service Unavailable",
        }
    }

    /// What `Retry-After` says: absent where waiting doesn't help.
    pub const fn retry_after_secs(self) -> Option<u64> {
        match self {
            Fault::Overloaded | Fault::StoreSilent => Some(RETRY_UNCONFIRMED_SECS),
            _ => None,
        }
    }
}

impl From<&CheckError> for Fault {
    fn from(error: &CheckError) -> Self {
        match error {
            CheckError::UnknownPolicy { .. } => Fault::UnknownPolicy,
            CheckError::Store(error) if error.is_transient() => Fault::StoreSilent,
            CheckError::Store(_) => Fault::StoreRefuses,
            // What else there is, is wrong with the question.
            _ => Fault::Malformed,
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
            (admitted(), Verdict::Admitted, 200, None),
            (after(12_340_561), Verdict::Exhausted, 429, Some(13)),
            (after(12_000_000), Verdict::Exhausted, 429, Some(12)),
            (after(400_000), Verdict::Exhausted, 429, Some(1)),
            (after(0), Verdict::Exhausted, 429, Some(1)),
            (denied(Retry::Never), Verdict::NeverFits, 429, None),
            (outage(None), Verdict::Unconfirmed, 503, Some(1)),
            (
                outage(Some(Retry::After(Micros::new(2_000_001)))),
                Verdict::Unconfirmed,
                503,
                Some(3),
            ),
        ];
        for (decision, verdict, status, retry_after) in rows {
            assert_eq!(Verdict::of(&decision), verdict);
            assert_eq!(verdict.http_status(), status);
            assert_eq!(Verdict::retry_after_secs(&decision), retry_after);
        }
    }

    #[test]
    fn every_denial_has_a_problem_type_and_an_admission_has_none() {
        for verdict in Verdict::ALL {
            let is_problem = verdict != Verdict::Admitted;
            assert_eq!(verdict.problem_type().is_some(), is_problem, "{verdict:?}");
        }
    }
}
