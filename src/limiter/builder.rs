//! How a [`Limiter`] is put together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::BuildError;
use super::operations::Limiter;
#[cfg(feature = "local-stage")]
use crate::admission::LocalStage;
use crate::admission::{Admission, Calls, Stage};
use crate::clock::{Clock, SystemClock};
use crate::model::Policies;
use crate::store::{IdSource, Store};

/// How long a check may take, store included, unless the builder says otherwise: 50 ms.
pub const DEADLINE_DEFAULT: Duration = Duration::from_millis(50);

/// The longest deadline: 60 s.
const DEADLINE_MAX: Duration = Duration::from_secs(60);

/// The most nodes that share a store.
#[cfg(feature = "local-stage")]
const NODES_MAX: u32 = 1_000_000;

/// Puts a [`Limiter`] together.
pub struct LimiterBuilder<S> {
    policies: Policies,
    store: S,
    clock: Arc<dyn Clock>,
    deadline: Duration,
    #[cfg(feature = "local-stage")]
    local_stage: Option<LocalStage>,
    #[cfg(feature = "local-stage")]
    nodes: Option<u32>,
}

impl<S> fmt::Debug for LimiterBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("LimiterBuilder");
        builder.field("policies", &self.policies.len());
        builder.field("deadline", &self.deadline);
        builder.finish_non_exhaustive()
    }
}

impl Limiter<()> {
    /// Starts to build a limiter.
    pub fn builder() -> LimiterBuilder<()> {
        LimiterBuilder {
            policies: Policies::default(),
            store: (),
            clock: Arc::new(SystemClock::default()),
            deadline: DEADLINE_DEFAULT,
            #[cfg(feature = "local-stage")]
            local_stage: None,
            #[cfg(feature = "local-stage")]
            nodes: None,
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
            #[cfg(feature = "local-stage")]
            nodes: self.nodes,
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

    /// How many limiters share the store, at least (1..=1,000,000): what `on_outage: local` divides
    /// each ceiling by. One that joins a fleet counts them itself, and never below this.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = Some(nodes);
        self
    }
}

impl<S: Store> LimiterBuilder<S> {
    /// The limiter.
    ///
    /// # Errors
    /// When there is no policy, one chooses `on_outage: local` and this limiter can't know its
    /// share, or a bound is out of its own.
    pub fn build(self) -> Result<Limiter<S>, BuildError> {
        if self.deadline < Duration::from_millis(1) || self.deadline > DEADLINE_MAX {
            return Err(BuildError::Deadline(self.deadline));
        }
        let calls = Arc::new(Calls {
            store: Arc::new(self.store),
            clock: self.clock,
            ids: IdSource::new(),
            deadline: self.deadline,
        });
        #[cfg(feature = "local-stage")]
        let (stage, nodes) = (stage(&calls, self.local_stage, self.nodes)?, self.nodes);
        #[cfg(not(feature = "local-stage"))]
        let (stage, nodes) = (None::<Stage<S>>, None::<u32>);
        // A store of this process alone has no other nodes: its share is the whole.
        let knows_its_share = !calls.store.is_shared() || (stage.is_some() && nodes.is_some());
        let admission = Admission::new(calls, stage);
        Limiter::new(self.policies, admission, knows_its_share)
    }
}

#[cfg(feature = "local-stage")]
fn stage<S: Store>(
    calls: &Arc<Calls<S>>,
    options: Option<LocalStage>,
    nodes: Option<u32>,
) -> Result<Option<Stage<S>>, BuildError> {
    if let Some(nodes) = nodes
        && !(1..=NODES_MAX).contains(&nodes)
    {
        return Err(BuildError::Nodes(nodes));
    }
    let Some(options) = options else {
        return Ok(None);
    };
    options.validate()?;
    let calls = Arc::clone(calls);
    Ok(Some(Stage::new(calls, options, nodes.unwrap_or(1))))
}
