//! What is wrong with a question, in the caller's words.

use crate::model::{ChargeIdError, Policies, PolicyError, RegionError, SubjectError};
use crate::store::StoreError;

/// How many policy names an error lists.
const NAMES_LISTED_MAX: usize = 10;

/// The question can't be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// No policy of this name.
    #[error("no policy is named `{name}`; there are: {known}")]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// Names that exist, for people.
        known: String,
    },
    /// The subject is out of bounds.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// The region is out of bounds.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The charge id is out of bounds.
    #[error(transparent)]
    Id(#[from] ChargeIdError),
    /// The policy needs more than was given.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A refund names no charge.
    #[error("a refund must name the charge: give its id")]
    IdNeeded,
    /// A refund of nothing.
    #[error("a refund of 0 units gives nothing back: leave the cost out to give back all")]
    NothingToRefund,
    /// The store could not answer.
    #[error("the store could not answer: {0}")]
    Store(#[from] StoreError),
}

impl CheckError {
    pub(super) fn unknown_policy(name: &str, policies: &Policies) -> Self {
        let mut known: Vec<&str> = policies
            .iter()
            .take(NAMES_LISTED_MAX)
            .map(|p| p.name.as_str())
            .collect();
        if policies.len() > NAMES_LISTED_MAX {
            known.push("...");
        }
        let shown: String = name.chars().take(63).collect();
        CheckError::UnknownPolicy {
            name: shown,
            known: known.join(", "),
        }
    }

    /// Whether the caller can cure it by asking differently.
    pub const fn is_callers_fault(&self) -> bool {
        !matches!(self, CheckError::Store(_))
    }
}
