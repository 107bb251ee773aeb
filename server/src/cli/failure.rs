//! Why a command could not do its work, and what would cure it. Never holds a secret.

use std::fmt;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Done, or admitted.
    Done,
    /// Denied, or not found.
    Denied,
    /// Done, and a promise was found broken.
    #[cfg(feature = "chaos")]
    Broken,
    /// Could not decide, or bad usage.
    Undecided,
}

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Denied => 1,
            #[cfg(feature = "chaos")]
            Exit::Broken => 1,
            Exit::Undecided => 2,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// A cause, and a cure when there is one to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    cause: String,
    cure: Option<String>,
}

impl Failure {
    /// A cause nobody can tell a cure for.
    pub fn new(cause: impl Into<String>) -> Self {
        Failure {
            cause: cause.into(),
            cure: None,
        }
    }

    /// What went wrong.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// A cause and what would cure it.
    pub fn with_cure(cause: impl Into<String>, cure: impl Into<String>) -> Self {
        Failure {
            cause: cause.into(),
            cure: Some(cure.into()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.cause)?;
        match &self.cure {
            Some(cure) => write!(f, "\n  {cure}"),
            None => Ok(()),
        }
    }
}
