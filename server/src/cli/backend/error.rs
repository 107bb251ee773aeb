//! Why a backend gave no answer. Never holds a secret.

use crate::cli::failure::Failure;
use tidegate::limiter::CheckError;
use tidegate::model::PolicyError;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum BackendError {
    /// The request is wrong: sending it again won't help.
    BadRequest(Failure),
    /// Nobody could answer.
    Unavailable(String),
}

impl From<CheckError> for BackendError {
    fn from(error: CheckError) -> Self {
        let cause = error.to_string();
        let cure = match error {
            CheckError::Store(_) => return BackendError::Unavailable(cause),
            CheckError::UnknownPolicy { .. } => {
                "give one of these as --policy, or your own file as --config"
            }
            CheckError::Policy(PolicyError::RegionNeeded(_)) => {
                "add --region NAME (for `load`: --regions NAME,NAME)"
            }
            _ => return BackendError::BadRequest(Failure::new(cause)),
        };
        BackendError::BadRequest(Failure::with_cure(cause, cure))
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::BadRequest(failure) => failure,
            BackendError::Unavailable(cause) => Failure::new(format!("could not decide: {cause}")),
        }
    }
}
