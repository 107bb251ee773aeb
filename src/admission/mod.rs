//! The way of one check from its names to its decision: what the local stage knows of its target
//! answers at once, the rest is asked of the store, and where that can't answer the policy's outage
//! choice decides. Without a local stage each check is asked of the store by a call of its own.
//!
//! Never admits what nobody charged, but for a policy's outage choice, and then the decision says
//! so.

mod answer;
mod calls;
#[cfg(feature = "local-stage")]
mod stage;
#[cfg(not(feature = "local-stage"))]
#[path = "stage_off.rs"]
mod stage;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use crate::model::{ChargeId, Check, Decision, OnOutage, Target};
use crate::store::{CallKind, Refunded, Store, StoreError};

use self::answer::Answer;
use self::stage::First;

pub(crate) use self::answer::{Request, Resolved};
pub(crate) use self::calls::Calls;
pub(crate) use self::stage::Stage;
#[cfg(feature = "local-stage")]
pub use self::stage::{
    BreakerOptions, BreakerState, LocalDecision, LocalStage, LocalStageError, OutageReason,
    StageStats,
};
#[cfg(feature = "local-stage")]
pub(crate) use self::stage::{FleetView, decode, encode};

/// What decides the checks of one limiter.
pub(crate) struct Admission<S> {
    calls: Arc<Calls<S>>,
    stage: Option<Stage<S>>,
}

impl<S: Store> Admission<S> {
    pub(crate) fn new(calls: Arc<Calls<S>>, stage: Option<Stage<S>>) -> Self {
        Admission { calls, stage }
    }

    /// Decides `check` under the configuration numbered `revision`, and charges it when it is
    /// admitted; by `deadline`, when that comes before a check's own. `resolve` is called unless this thread knows the names already.
    pub(crate) async fn check<E>(
        &self,
        check: &Check,
        revision: u64,
        deadline: Option<Instant>,
        resolve: impl FnOnce() -> Result<Resolved, E>,
    ) -> Result<Decision, E> {
        if check.cost == 0 {
            let deadline = self.calls.deadline_by(deadline);
            return Ok(self.check_of_nothing(resolve()?, deadline).await);
        }
        let (request, answer) = match &self.stage {
            Some(stage) => match stage.first(check, revision, resolve)? {
                First::Decided(decision) => return Ok(decision),
                First::Ask(request, held) => {
                    let answer = stage.ask(&request, held, deadline).await;
                    (request, answer)
                }
            },
            None => {
                let (request, target) = resolve()?.parts();
                let deadline = self.calls.deadline_by(deadline);
                let asked = self.ask(&request, &target, CallKind::Charge, deadline);
                let answer = match asked.await {
                    Ok(answer) => answer,
                    Err(_) => by_outage_choice(&target),
                };
                (request, answer)
            }
        };
        Ok(request.decision(answer))
    }

    /// Whether the check's units would fit now, or for a cost of 0 whether one would. Charges
    /// nothing, and what it says is the store's own word.
    pub(crate) async fn peek(&self, resolved: Resolved) -> Result<Decision, StoreError> {
        let (request, target) = resolved.parts();
        let deadline = self.calls.deadline_at();
        let answer = self
            .ask(&request, &target, CallKind::Peek, deadline)
            .await?;
        Ok(request.decision(answer))
    }

    /// A peek that is answered without the store, too, as a check is.
    async fn check_of_nothing(&self, resolved: Resolved, deadline: Instant) -> Decision {
        let revision = resolved.revision;
        let (request, target) = resolved.parts();
        let asked = self.ask(&request, &target, CallKind::Peek, deadline);
        let answer = match (asked.await, &self.stage) {
            (Ok(answer), _) => answer,
            (Err(_), Some(stage)) => stage.peek_in_outage(&target, revision),
            (Err(_), None) => by_outage_choice(&target),
        };
        request.decision(answer)
    }

    /// Asks the store about one request by a call of its own.
    async fn ask(
        &self,
        request: &Request,
        target: &Arc<Target>,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<Answer, StoreError> {
        if target.ceilings.is_empty() {
            return Ok(Answer::UNLIMITED);
        }
        let mut charge = request.charge();
        charge.cost = charge.cost.max(1);
        let asked = self.calls.charge_one(target, charge, kind, deadline);
        let outcome = asked.await?;
        Ok(Answer::by_store(target, &outcome))
    }

    /// Gives back `cost` units of the charge named `id`, or all of them.
    pub(crate) async fn refund(
        &self,
        target: &Arc<Target>,
        id: ChargeId,
        cost: Option<NonZeroU64>,
    ) -> Result<Refunded, StoreError> {
        if target.ceilings.is_empty() {
            return Ok(Refunded::NotFound);
        }
        let (cost, deadline) = (cost.map(NonZeroU64::get), self.calls.deadline_at());
        let refunded = self.calls.refund(target, id, cost, deadline).await?;
        if let (Some(stage), Refunded::Units(units)) = (&self.stage, refunded) {
            stage.forget_refunded(target, units);
        }
        Ok(refunded)
    }

    /// Forgets what was charged to `target`.
    pub(crate) async fn reset(&self, target: &Arc<Target>) -> Result<(), StoreError> {
        if target.ceilings.is_empty() {
            return Ok(());
        }
        self.calls.reset(target).await?;
        if let Some(stage) = &self.stage {
            stage.forget_all(target);
        }
        Ok(())
    }

    /// The store, the clock and the ids.
    pub(crate) fn calls(&self) -> &Calls<S> {
        &self.calls
    }

    /// The local stage, if there is one.
    #[cfg(feature = "local-stage")]
    pub(crate) fn stage(&self) -> Option<&Stage<S>> {
        self.stage.as_ref()
    }
}

/// Without a local stage a node knows no share of its own: what isn't admitted is denied.
fn by_outage_choice(target: &Target) -> Answer {
    Answer::in_outage(target.policy.on_outage == OnOutage::Admit, None)
}
