//! Why a store could not decide, whether a retry can help, and whether the charge may have run.

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No answer before the deadline.
    Deadline,
    /// No connection, or it broke, or the cluster has no node for the slot now.
    Unavailable,
    /// The store answers but rejects work: out of memory, busy with a script, loading.
    Overloaded,
    /// The store refuses this client: wrong password, no permission, wrong kind of key.
    Refused,
    /// An answer that makes no sense.
    Protocol,
}

/// The store could not decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {detail}")]
pub struct StoreError {
    /// What was being done: `charge`, `refund`, `reset`, `connect`.
    pub operation: &'static str,
    /// What kind of error it is.
    pub kind: StoreErrorKind,
    /// The cause, for people; never holds a secret.
    pub detail: String,
    /// Whether the call may have run all the same. When false it certainly did not.
    pub may_have_run: bool,
}

impl StoreError {
    /// An error that proves that the call did not run.
    pub fn not_run(
        operation: &'static str,
        kind: StoreErrorKind,
        detail: impl Into<String>,
    ) -> Self {
        StoreError {
            operation,
            kind,
            detail: detail.into(),
            may_have_run: false,
        }
    }

    /// An error after which nothing is known of the call.
    pub fn unknown(
        operation: &'static str,
        kind: StoreErrorKind,
        detail: impl Into<String>,
    ) -> Self {
        StoreError {
            operation,
            kind,
            detail: detail.into(),
            may_have_run: true,
        }
    }

    /// Whether the same call may succeed later without anybody's help.
    pub const fn is_transient(&self) -> bool {
        !matches!(
            self.kind,
            StoreErrorKind::Refused | StoreErrorKind::Protocol
        )
    }
}
