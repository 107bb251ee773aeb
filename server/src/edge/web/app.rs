//! What the endpoints share. Never counts what is limited: that is the limiter's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::Semaphore;

use super::request;
use crate::config::Settings;
use crate::edge::problem::Problem;
use crate::edge::protocol::DecisionKind;
use crate::telemetry::{Instruments, SubjectTagger, Throttle};
use tidegate::Limiter;
use tidegate::config::nearest;
use tidegate::limiter::CheckError;
use tidegate::model::{Decision, Micros, Source};
use tidegate::store::{Readiness, Store};

/// A cause that comes often is logged once in this long.
const LOG_PERIOD: Micros = Micros::from_secs(1);

/// How many policies' names a misspelt one is compared with: each costs a microsecond.
const NAMES_COMPARED_MAX: usize = 1_000;

/// A limiter, and how it is shown to HTTP clients.
pub struct App<S> {
    pub(super) limiter: Arc<Limiter<S>>,
    pub(super) settings: Settings,
    pub(super) instruments: Arc<Instruments>,
    pub(super) in_flight: Semaphore,
    pub(super) shed_log: Throttle,
    store_log: Throttle,
    tagger: SubjectTagger,
    /// The store has decided once: from then on the policies' outage choices serve without it.
    started: AtomicBool,
    stopping: AtomicBool,
}

impl<S: Store> App<S> {
    /// An edge of `limiter`.
    pub fn new(
        limiter: Arc<Limiter<S>>,
        settings: Settings,
        instruments: Arc<Instruments>,
    ) -> Self {
        App {
            limiter,
            in_flight: Semaphore::new(
                settings
                    .bounds
                    .in_flight_max
                    .clamp(1, Semaphore::MAX_PERMITS),
            ),
            settings,
            instruments,
            shed_log: Throttle::new(LOG_PERIOD),
            store_log: Throttle::new(LOG_PERIOD),
            tagger: SubjectTagger::default(),
            started: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// The limiter.
    pub fn limiter(&self) -> &Arc<Limiter<S>> {
        &self.limiter
    }

    /// Counts and logs a decision. The log line is at level `debug` and names the subject by its
    /// tag only.
    pub(super) fn decided(&self, decision: &Decision, since: Instant) {
        self.instruments.decided(decision, since.elapsed());
        if decision.facts().source == Source::Store && !self.started.load(Ordering::Relaxed) {
            self.started.store(true, Ordering::Relaxed);
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            let facts = decision.facts();
            tracing::debug!(
                policy = facts.policy.as_str(),
                region = facts.region.as_ref().map(|r| tracing::field::debug(r.as_str())),
                subject = %self.tagger.tag(&facts.subject),
                cost = facts.cost,
                decision = DecisionKind::of(decision).word(),
                source = facts.source.name(),
                degraded = facts.degraded,
                "decided"
            );
        }
    }

    /// What a question that got no decision is told: which member was wrong, and which policy may
    /// have been meant. A store's trouble is logged, as the caller can do nothing about it.
    pub(super) fn problem(&self, error: &CheckError) -> Problem {
        if let CheckError::Store(error) = error
            && let Some(before) = self.store_log.pass(self.limiter.clock().now())
        {
            tracing::warn!(%error, before, "the store could not answer");
        }
        let mut problem = request::unanswered(error);
        if let CheckError::UnknownPolicy { name, .. } = error {
            let policies = self.limiter.policies();
            let names = policies.iter().take(NAMES_COMPARED_MAX);
            let names: Vec<&str> = names.map(|policy| policy.name().as_str()).collect();
            if let Some(near) = nearest(name, &names) {
                problem.detail += &format!("; did you mean `{near}`?");
            }
        }
        problem
    }

    /// Counts a connection for which there was no place, and logs it now and then.
    pub(super) fn connection_shed(&self) {
        self.instruments.connection_shed();
        if let Some(before) = self.shed_log.pass(self.limiter.clock().now()) {
            let max = self.settings.bounds.connections_max;
            tracing::warn!(max, before, "refused a connection: too many are open");
        }
    }

    /// Whether clients should send checks here. A server whose store has answered once stays ready
    /// without it, by the policies' outage choices: if all servers left at once, an outage of the
    /// store would be one of the whole service. `strict` asks for the store's own state.
    pub(super) fn readiness(&self, strict: bool) -> Readiness {
        if self.is_stopping() {
            return Readiness::NotReady("the server is stopping".to_owned());
        }
        let store = self.limiter.readiness();
        if store == Readiness::Ready {
            self.started.store(true, Ordering::Relaxed);
        }
        match strict || !self.started.load(Ordering::Relaxed) {
            true => store,
            false => Readiness::Ready,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}
