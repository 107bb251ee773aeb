//! How a [`Limiter`] is put together.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::Limiter;
use super::ids::IdSource;
use crate::clock::{Clock, SystemClock};
use crate::model::Policies;
use crate::store::Store;

/// How long a check may take, store included, unless the builder says otherwise: 50 ms.
pub const DEADLINE_DEFAULT: Duration = Duration::from_millis(50);

/// The longest deadline: 60 s.
const DEADLINE_MAX: Duration = Duration::from_secs(60);

/// Why a limiter can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is nothing to enforce.
    #[error("a limiter needs at least one policy: call `policies` with what to enforce")]
    NoPolicies,
    /// The deadline is outside its bounds.
    #[error("a deadline of {0:?} is out of bounds: from 1 ms to 60 s")]
    Deadline(Duration),
}

/// Puts a [`Limiter`] together.
pub struct LimiterBuilder<S> {
    policies: Policies,
    store: S,
    clock: Arc<dyn Clock>,
    deadline: Duration,
}

impl Default for LimiterBuilder<()> {
    fn default() -> Self {
        LimiterBuilder {
            policies: Policies::default(),
            store: (),
            clock: Arc::new(SystemClock::default()),
            deadline: DEADLINE_DEFAULT,
        }
    }
}

impl<S> LimiterBuilder<S> {
    /// What to enforce.
    #[must_use]
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// What remembers charges.
    #[must_use]
    pub fn store<T: Store>(self, store: T) -> LimiterBuilder<T> {
        let LimiterBuilder {
            policies,
            clock,
            deadline,
            ..
        } = self;
        LimiterBuilder {
            policies,
            store,
            clock,
            deadline,
        }
    }

    /// The clock to read; the system's by default.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How long a check may take, store included: 1 ms to 60 s, [`DEADLINE_DEFAULT`] by default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

impl<S: Store> LimiterBuilder<S> {
    /// The limiter.
    ///
    /// # Errors
    /// When there is no policy, or the deadline is out of bounds.
    pub fn build(self) -> Result<Limiter<S>, BuildError> {
        if self.policies.is_empty() {
            return Err(BuildError::NoPolicies);
        }
        if self.deadline < Duration::from_millis(1) || self.deadline > DEADLINE_MAX {
            return Err(BuildError::Deadline(self.deadline));
        }
        Ok(Limiter {
            policies: ArcSwap::from_pointee(self.policies),
            store: Arc::new(self.store),
            clock: self.clock,
            ids: IdSource::new(),
            deadline: self.deadline,
        })
    }
}
