//! What is wrong with a limiter or with a question to it, in the caller's words.

use std::time::Duration;

#[cfg(feature = "local-stage")]
use crate::admission::LocalStageError;
use crate::model::{ChargeIdError, Policies, PolicyError, PolicyName, RegionError, SubjectError};
use crate::store::StoreError;

/// How many policy names an error lists.
const NAMES_LISTED_MAX: usize = 10;

/// Why a limiter can't be built, or can't enforce other policies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is nothing to enforce.
    #[error("a limiter needs at least one policy: call `policies` with what to enforce")]
    NoPolicies,
    /// The deadline is outside its bounds.
    #[error("a deadline of {0:?} is out of bounds: from 1 ms to 60 s")]
    Deadline(Duration),
    /// A policy's outage choice needs this node's share of a ceiling, which nobody can tell.
    #[error(
        "policy `{0}` chooses `on_outage: local`, this node's share of each ceiling: give the \
         limiter a local stage (`local_stage`) and say how many nodes share the store (`nodes`), or \
         let the policy choose `deny` or `admit`"
    )]
    ShareUnknown(PolicyName),
    /// The number of nodes is outside its bounds.
    #[error("{0} nodes are out of bounds: from 1 to 1000000")]
    Nodes(u32),
    /// A bound of the local stage is out of its own.
    #[cfg(feature = "local-stage")]
    #[error(transparent)]
    LocalStage(#[from] LocalStageError),
}

/// The question can't be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
