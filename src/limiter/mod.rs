//! [`Limiter`]: the only orchestration. A check is resolved against one snapshot of the policies,
//! the clock is read once, the store decides, and the answer is put into the caller's words.
//! Never counts anything itself.

mod builder;
mod error;
mod ids;
mod outcome;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

pub use builder::{BuildError, DEADLINE_DEFAULT, LimiterBuilder};
pub use error::CheckError;

use self::ids::IdSource;
use self::outcome::{decision, outage_decision};
use crate::clock::Clock;
use crate::model::{
    ChargeId, Check, ClockSource, Cost, Decision, OnOutage, Policies, Policy, Region, Source,
    Subject, Target, UNITS_MAX,
};
use crate::store::{
    CallClock, CallKind, ChargeCall, ChargeRequest, IdOrigin, Outcome, Readiness, RefundCall,
    Refunded, ResetCall, Store, StoreError, StoreErrorKind,
};

/// Decides whether a subject may do something now, by the policies it was built with, over a
/// [`Store`]. Cheap to share behind an [`Arc`].
///
/// ```
/// use tidegate::{Check, Limiter, MemoryStore};
/// use tidegate::model::{Algorithm, Allowance, CeilingRule, Policies, Policy, PolicyName};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rule = |rate: &str| -> Result<_, Box<dyn std::error::Error>> {
///     let (algorithm, allowance) = (Algorithm::SlidingLog, Allowance::Limited(rate.parse()?));
///     Ok(Some(CeilingRule { algorithm, allowance, delay: true }))
/// };
/// let policy = Policy::new(PolicyName::new("video_top")?, rule("3/min")?, rule("2/min")?)?;
/// let limiter = Limiter::builder()
///     .policies(Policies::new([policy])?)
///     .store(MemoryStore::default())
///     .build()?;
/// let check = Check::new("video_top", "key-1").region("us");
/// assert!(limiter.check(&check).await?.is_admitted());
/// assert!(limiter.check(&check).await?.is_admitted());
/// let denied = limiter.check(&check).await?;
/// assert!(!denied.is_admitted());
/// assert!(denied.retry_after().is_some());
/// # Ok(())
/// # }
/// ```
pub struct Limiter<S> {
    policies: ArcSwap<Policies>,
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    ids: IdSource,
    deadline: Duration,
}

/// A check whose names are known to be good and whose policy is found.
struct Resolved {
    target: Arc<Target>,
    region: Option<Region>,
    id: ChargeId,
    origin: IdOrigin,
    cost: Cost,
}

impl Limiter<()> {
    /// Starts to build a limiter.
    pub fn builder() -> LimiterBuilder<()> {
        LimiterBuilder::default()
    }
}

impl<S: Store> Limiter<S> {
    /// Decides one check and charges it when it is admitted. A cost of 0 charges nothing.
    ///
    /// # Errors
    /// When the question itself is wrong: an unknown policy, a name out of bounds, a missing
    /// region. A store that can't answer is no error here: the policy's outage choice decides and
    /// the decision says that it was degraded.
    pub async fn check(&self, check: &Check) -> Result<Decision, CheckError> {
        let resolved = self.resolve(check)?;
        let kind = if resolved.cost == 0 {
            CallKind::Peek
        } else {
            CallKind::Charge
        };
        match self.ask(&resolved, kind).await {
            Ok(outcome) => Ok(decision(&resolved, outcome, Source::Store)),
            Err(error) if error.is_transient() || kind == CallKind::Charge => Ok(outage_decision(
                &resolved,
                admits_in_outage(&resolved.target.policy),
            )),
            Err(error) => Err(CheckError::Store(error)),
        }
    }

    /// Decides one check and changes nothing.
    ///
    /// # Errors
    /// As [`Limiter::check`], and when the store can't answer.
    pub async fn peek(&self, check: &Check) -> Result<Decision, CheckError> {
        let resolved = self.resolve(check)?;
        let outcome = self.ask(&resolved, CallKind::Peek).await?;
        Ok(decision(&resolved, outcome, Source::Store))
    }

    /// Gives back the charge named `check.id`: `cost` units of it, or all of it.
    ///
    /// # Errors
    /// When the check names no id or its names are wrong, and when the store can't answer.
    pub async fn refund(&self, check: &Check, cost: Option<Cost>) -> Result<Refunded, CheckError> {
        if check.id.is_none() {
            return Err(CheckError::IdNeeded);
        }
        if cost == Some(0) {
            return Err(CheckError::NothingToRefund);
        }
        let resolved = self.resolve(check)?;
        if resolved.target.ceilings.is_empty() {
            return Ok(Refunded::NotFound);
        }
        let call = RefundCall {
            clock: self.call_clock(&resolved.target.policy),
            target: resolved.target,
            id: resolved.id,
            cost,
            deadline: self.deadline_at(),
        };
        Ok(self.store.refund(call).await?)
    }

    /// Forgets what the check's subject used in its region and over all regions.
    ///
    /// # Errors
    /// When the check's names are wrong, and when the store can't answer.
    pub async fn reset(&self, check: &Check) -> Result<(), CheckError> {
        let target = self.resolve(check)?.target;
        if target.ceilings.is_empty() {
            return Ok(());
        }
        let deadline = self.deadline_at();
        Ok(self.store.reset(ResetCall { target, deadline }).await?)
    }

    /// Whether the store can decide now.
    pub fn readiness(&self) -> Readiness {
        self.store.readiness()
    }

    /// The policies as they stand.
    pub fn policies(&self) -> Arc<Policies> {
        self.policies.load_full()
    }

    /// Puts other policies in force, from the next check on. What was used stays used.
    pub fn replace_policies(&self, policies: Policies) {
        self.policies.store(Arc::new(policies));
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn resolve(&self, check: &Check) -> Result<Resolved, CheckError> {
        let policies = self.policies.load();
        let policy = policies
            .get(&check.policy)
            .ok_or_else(|| CheckError::unknown_policy(&check.policy, &policies))?;
        let subject = Subject::new(check.subject.as_str())?;
        let region = check.region.as_deref().map(Region::new).transpose()?;
        let (id, origin) = match &check.id {
            Some(id) => (ChargeId::new(id.as_str())?, IdOrigin::Caller),
            None => (self.ids.next(), IdOrigin::Fresh),
        };
        let ceilings = policy.ceilings(&subject, region.as_ref())?;
        let counted_region = region.clone().filter(|_| policy.region.is_some());
        let target = Target {
            policy: Arc::clone(policy),
            subject,
            region: counted_region,
            ceilings,
        };
        // A cost beyond every limit is `never`, however far beyond; the bound keeps the store's
        // numbers exact.
        let cost = check.cost.min(UNITS_MAX + 1);
        Ok(Resolved {
            target: Arc::new(target),
            region,
            id,
            origin,
            cost,
        })
    }

    async fn ask(&self, resolved: &Resolved, kind: CallKind) -> Result<Outcome, StoreError> {
        if resolved.target.ceilings.is_empty() {
            return Ok(Outcome {
                ceilings: Vec::new(),
                repeated: false,
            });
        }
        let call = ChargeCall {
            target: Arc::clone(&resolved.target),
            requests: vec![ChargeRequest {
                id: resolved.id.clone(),
                origin: resolved.origin,
                cost: resolved.cost,
                held_for: None,
            }],
            clock: self.call_clock(&resolved.target.policy),
            kind,
            deadline: self.deadline_at(),
        };
        let reply = self.store.charge(call).await?;
        reply.outcomes.into_iter().next().ok_or_else(|| {
            let detail = "the store answered none of one request";
            StoreError::unknown("charge", StoreErrorKind::Protocol, detail)
        })
    }

    fn call_clock(&self, policy: &Policy) -> CallClock {
        match policy.clock {
            ClockSource::Store => CallClock::Store,
            ClockSource::Caller => CallClock::At(self.clock.wall()),
        }
    }

    fn deadline_at(&self) -> Instant {
        Instant::now() + self.deadline
    }
}

fn admits_in_outage(policy: &Policy) -> bool {
    policy.on_outage == OnOutage::Admit
}
