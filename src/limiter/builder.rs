//! How a [`Limiter`] is put together.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::{Limiter, Snapshot};
#[cfg(feature = "local-stage")]
use crate::admission::{Admission, FleetView, LocalStage, LocalStageError, Parts};
use crate::clock::{Clock, SystemClock};
use crate::model::Policies;
use crate::store::{IdSource, Store};

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
    /// A bound of the local stage is out of its own.
    #[cfg(feature = "local-stage")]
    #[error(transparent)]
    LocalStage(#[from] LocalStageError),
}

/// Puts a [`Limiter`] together.
pub struct LimiterBuilder<S> {
    policies: Policies,
    store: S,
    clock: Arc<dyn Clock>,
    deadline: Duration,
    #[cfg(feature = "local-stage")]
    local_stage: Option<LocalStage>,
}

impl Default for LimiterBuilder<()> {
    fn default() -> Self {
        LimiterBuilder {
            policies: Policies::default(),
            store: (),
            clock: Arc::new(SystemClock::default()),
            deadline: DEADLINE_DEFAULT,
            #[cfg(feature = "local-stage")]
            local_stage: None,
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
        LimiterBuilder {
            policies: self.policies,
            store,
            clock: self.clock,
            deadline: self.deadline,
            #[cfg(feature = "local-stage")]
            local_stage: self.local_stage,
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

#[cfg(feature = "local-stage")]
impl<S> LimiterBuilder<S> {
    /// What to do before the store is asked: for a store that is a round trip away. Without it
    /// each check asks the store. The limiter then needs a tokio runtime.
    #[must_use]
    pub fn local_stage(mut self, options: LocalStage) -> Self {
        self.local_stage = Some(options);
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
        self.store.prepare(&self.policies);
        let snapshot = Snapshot {
            policies: Arc::new(self.policies),
            revision: 0,
        };
        let (store, ids) = (Arc::new(self.store), Arc::new(IdSource::new()));
        Ok(Limiter {
            policies: ArcSwap::from_pointee(snapshot),
            revision: AtomicU64::new(0),
            #[cfg(feature = "local-stage")]
            stage: match self.local_stage {
                Some(options) => {
                    options.validate()?;
                    Some(Admission::new(Parts {
                        store: Arc::clone(&store),
                        clock: Arc::clone(&self.clock),
                        ids: Arc::clone(&ids),
                        fleet: Arc::new(FleetView::default()),
                        options,
                        deadline: self.deadline,
                    }))
                }
                None => None,
            },
            store,
            clock: self.clock,
            ids,
            deadline: self.deadline,
        })
    }
}
