//! [`Limiter`]: the only orchestration. A check is resolved against one snapshot of the policies,
//! the clock is read once, the store decides, and the answer is put into the caller's words.
//! Never counts anything itself.

mod builder;
mod error;
#[cfg(feature = "local-stage")]
mod fleet;
mod outcome;
#[cfg(feature = "local-stage")]
mod staged;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

pub use builder::{BuildError, DEADLINE_DEFAULT, LimiterBuilder};
pub use error::CheckError;
#[cfg(feature = "local-stage")]
pub use fleet::{FleetMember, FleetOptions};

use self::outcome::Asked;
#[cfg(feature = "local-stage")]
use crate::admission::{Admission, Cause, StageStats};
use crate::clock::Clock;
use crate::model::{
    ChargeId, Check, ClockSource, Cost, Decision, OnOutage, Policies, Policy, Region, Subject,
    Target, UNITS_MAX,
};
use crate::store::{
    CallClock, CallKind, ChargeCall, ChargeRequest, IdOrigin, IdSource, Outcome, Readiness,
    RefundCall, Refunded, ResetCall, Store, StoreError, StoreErrorKind,
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
    policies: ArcSwap<Snapshot>,
    /// The number of the policies in force; raised after they are put there.
    revision: AtomicU64,
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    deadline: Duration,
    #[cfg(feature = "local-stage")]
    stage: Option<Admission<S>>,
}

/// The policies that are in force, numbered: what was found under another number may not hold.
struct Snapshot {
    policies: Arc<Policies>,
    revision: u64,
}

/// A check whose names are known to be good and whose policy is found.
struct Resolved {
    target: Arc<Target>,
    region: Option<Region>,
    id: ChargeId,
    origin: IdOrigin,
    cost: Cost,
}

impl Resolved {
    fn asked(self) -> Asked {
        Asked {
            policy: self.target.policy.name.clone(),
            subject: self.target.subject.clone(),
            region: self.region,
            cost: self.cost,
            id: self.id,
        }
    }
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
        #[cfg(feature = "local-stage")]
        if let Some(stage) = self.stage.as_ref().filter(|_| check.cost > 0) {
            return self.check_by_stage(stage, check).await;
        }
        let resolved = self.resolve(check, &self.policies.load())?;
        let kind = if resolved.cost == 0 {
            CallKind::Peek
        } else {
            CallKind::Charge
        };
        let answer = self.ask(&resolved, kind).await;
        let target = Arc::clone(&resolved.target);
        match answer {
            Ok(outcome) => Ok(resolved.asked().by_store(&target, &outcome)),
            Err(error) if error.is_transient() || kind == CallKind::Charge => {
                let admits = target.policy.on_outage == OnOutage::Admit;
                Ok(resolved.asked().in_outage(admits, None))
            }
            Err(error) => Err(CheckError::Store(error)),
        }
    }

    /// Decides one check and changes nothing.
    ///
    /// # Errors
    /// As [`Limiter::check`], and when the store can't answer.
    pub async fn peek(&self, check: &Check) -> Result<Decision, CheckError> {
        let resolved = self.resolve(check, &self.policies.load())?;
        let outcome = self.ask(&resolved, CallKind::Peek).await?;
        let target = Arc::clone(&resolved.target);
        Ok(resolved.asked().by_store(&target, &outcome))
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
        let resolved = self.resolve(check, &self.policies.load())?;
        if resolved.target.ceilings.is_empty() {
            return Ok(Refunded::NotFound);
        }
        let call = RefundCall {
            clock: self.call_clock(&resolved.target.policy),
            target: Arc::clone(&resolved.target),
            id: resolved.id,
            cost,
            deadline: self.deadline_at(),
        };
        let refunded = self.store.refund(call).await?;
        #[cfg(feature = "local-stage")]
        if let (Some(stage), Refunded::Units(units)) = (&self.stage, refunded) {
            stage.forget(&resolved.target, Cause::Refunded(units));
        }
        Ok(refunded)
    }

    /// Forgets what the check's subject used in its region and over all regions.
    ///
    /// # Errors
    /// When the check's names are wrong, and when the store can't answer.
    pub async fn reset(&self, check: &Check) -> Result<(), CheckError> {
        let target = self.resolve(check, &self.policies.load())?.target;
        if target.ceilings.is_empty() {
            return Ok(());
        }
        let deadline = self.deadline_at();
        let call = ResetCall {
            target: Arc::clone(&target),
            deadline,
        };
        self.store.reset(call).await?;
        #[cfg(feature = "local-stage")]
        if let Some(stage) = &self.stage {
            stage.forget(&target, Cause::Reset);
        }
        Ok(())
    }

    /// Whether the store can decide now.
    pub fn readiness(&self) -> Readiness {
        self.store.readiness()
    }

    /// The policies as they stand.
    pub fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.policies.load().policies)
    }

    /// Puts other policies in force, from the next check on. What was used stays used.
    pub fn replace_policies(&self, policies: Policies) {
        let policies = Arc::new(policies);
        self.store.prepare(&policies);
        let before = self.policies.rcu(|before| Snapshot {
            policies: Arc::clone(&policies),
            revision: before.revision + 1,
        });
        self.revision
            .fetch_max(before.revision + 1, Ordering::AcqRel);
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What the local stage did so far; `None` when there is none.
    #[cfg(feature = "local-stage")]
    pub fn stats(&self) -> Option<StageStats> {
        self.stage.as_ref().map(Admission::stats)
    }

    /// Ends all leases and hands back what nobody spent: before a node goes. Returns how many
    /// there were. The store is told beside; give it as long as a check's deadline.
    #[cfg(feature = "local-stage")]
    pub fn end_leases(&self) -> usize {
        self.stage.as_ref().map_or(0, Admission::end_leases)
    }

    fn resolve(&self, check: &Check, snapshot: &Snapshot) -> Result<Resolved, CheckError> {
        let policies = &snapshot.policies;
        let policy = policies
            .get(&check.policy)
            .ok_or_else(|| CheckError::unknown_policy(&check.policy, policies))?;
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
