//! What a limiter does: it resolves names against one snapshot of the policies, and has admission
//! decide.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::error::{BuildError, CheckError};
use crate::admission::{Admission, Request, Resolved};
#[cfg(feature = "local-stage")]
use crate::admission::{LocalDecision, Stage, StageStats};
use crate::clock::Clock;
use crate::model::{
    ChargeId, Check, Decision, OnOutage, Policies, Refund, Region, Subject, Target,
};
use crate::store::{IdOrigin, Readiness, Refunded, Store};

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
    pub(super) admission: Admission<S>,
    /// Whether policies may choose `on_outage: local`.
    knows_its_share: bool,
}

impl<S> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies = Arc::clone(&self.policies.load().policies);
        let mut limiter = f.debug_struct("Limiter");
        limiter.field("policies", &policies.len());
        limiter.finish_non_exhaustive()
    }
}

/// The policies that are in force, numbered: what was found under another number may not hold.
struct Snapshot {
    policies: Arc<Policies>,
    revision: u64,
}

impl<S: Store> Limiter<S> {
    /// `knows_its_share` says whether policies may choose `on_outage: local`.
    pub(super) fn new(
        policies: Policies,
        admission: Admission<S>,
        knows_its_share: bool,
    ) -> Result<Self, BuildError> {
        may_be_in_force(&policies, knows_its_share)?;
        admission.calls().store.prepare(&policies);
        let snapshot = Snapshot {
            policies: Arc::new(policies),
            revision: 0,
        };
        Ok(Limiter {
            policies: ArcSwap::from_pointee(snapshot),
            revision: AtomicU64::new(0),
            admission,
            knows_its_share,
        })
    }

    /// Decides one check and charges it when it is admitted. A cost of 0 charges nothing and asks
    /// what [`Limiter::peek`] asks.
    ///
    /// # Errors
    /// When the question itself is wrong: an unknown policy, a name out of bounds, a missing
    /// region. A store that can't answer is no error here: the policy's outage choice decides and
    /// the decision says that it was degraded.
    pub async fn check(&self, check: &Check) -> Result<Decision, CheckError> {
        let resolve = || self.resolve_check(check);
        let revision = self.revision();
        self.admission.check(check, revision, None, resolve).await
    }

    /// As [`Limiter::check`], by `deadline` at the latest: what many checks of one request have in
    /// common. Checks of one subject and region that are begun together ride together, in the order in
    /// which they are first polled.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    pub async fn check_by(&self, check: &Check, deadline: Instant) -> Result<Decision, CheckError> {
        let resolve = || self.resolve_check(check);
        let (revision, deadline) = (self.revision(), Some(deadline));
        self.admission
            .check(check, revision, deadline, resolve)
            .await
    }

    /// How long a check may take, store included.
    pub fn deadline(&self) -> Duration {
        self.admission.calls().deadline
    }

    /// Whether the check would be admitted now; for a cost of 0, whether one unit would. Charges
    /// nothing, and always asks the store.
    ///
    /// # Errors
    /// As [`Limiter::check`], and when the store can't answer.
    pub async fn peek(&self, check: &Check) -> Result<Decision, CheckError> {
        Ok(self.admission.peek(self.resolve_check(check)?).await?)
    }

    /// Decides a check when a remembered denial or a lease answers it on this thread: the cheapest
    /// way for a caller that needs no more than yes or no. Counted and spent like a check. `None`
    /// says nothing of the check: ask [`Limiter::check`].
    #[cfg(feature = "local-stage")]
    pub fn check_locally(&self, check: &Check) -> Option<LocalDecision> {
        self.admission
            .stage()?
            .check_locally(check, self.revision())
    }

    /// Gives a charge back, whole or in part.
    ///
    /// # Errors
    /// When the refund's names are wrong, and when the store can't answer.
    pub async fn refund(&self, refund: &Refund) -> Result<Refunded, CheckError> {
        let id = ChargeId::new(refund.id.as_str())?;
        let Refund {
            policy,
            subject,
            region,
            cost,
            ..
        } = refund;
        let target = self.resolve(policy, subject, region.as_deref())?.target;
        Ok(self.admission.refund(&Arc::new(target), id, *cost).await?)
    }

    /// Forgets what the check's subject used in its region and over all regions. Its cost and id
    /// mean nothing here.
    ///
    /// # Errors
    /// When the check's names are wrong, and when the store can't answer.
    pub async fn reset(&self, check: &Check) -> Result<(), CheckError> {
        let target = self
            .resolve(&check.policy, &check.subject, check.region.as_deref())?
            .target;
        Ok(self.admission.reset(&Arc::new(target)).await?)
    }

    /// Whether the store can decide now.
    pub fn readiness(&self) -> Readiness {
        self.store().readiness()
    }

    /// The policies as they stand.
    pub fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.policies.load().policies)
    }

    /// Puts other policies in force, from the next check on. What was used stays used.
    ///
    /// # Errors
    /// When a limiter could not be built with them; then those before stay in force.
    pub fn replace_policies(&self, policies: Policies) -> Result<(), BuildError> {
        may_be_in_force(&policies, self.knows_its_share)?;
        let policies = Arc::new(policies);
        self.store().prepare(&policies);
        let before = self.policies.rcu(|before| Snapshot {
            policies: Arc::clone(&policies),
            revision: before.revision + 1,
        });
        let revision = before.revision + 1;
        self.revision.fetch_max(revision, Ordering::AcqRel);
        Ok(())
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.admission.calls().store
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.admission.calls().clock
    }

    /// What the local stage did so far; `None` when there is none.
    #[cfg(feature = "local-stage")]
    pub fn stats(&self) -> Option<StageStats> {
        self.admission.stage().map(Stage::stats)
    }

    /// Ends all leases and hands back what nobody spent: before a node goes. Returns how many
    /// there were. The store is told beside; give it as long as a check's deadline.
    #[cfg(feature = "local-stage")]
    pub fn end_leases(&self) -> usize {
        self.admission.stage().map_or(0, Stage::end_leases)
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    fn resolve_check(&self, check: &Check) -> Result<Resolved, CheckError> {
        let names = self.resolve(&check.policy, &check.subject, check.region.as_deref())?;
        let (id, origin) = match &check.id {
            Some(id) => (ChargeId::new(id.as_str())?, IdOrigin::Caller),
            None => (self.admission.calls().ids.next(), IdOrigin::Fresh),
        };
        let request = Request {
            policy: names.target.policy.name.clone(),
            subject: names.target.subject.clone(),
            region: names.region,
            cost: Request::cost_of(check),
            id,
            origin,
        };
        Ok(Resolved {
            request,
            target: names.target,
            revision: names.revision,
        })
    }

    fn resolve(
        &self,
        policy: &str,
        subject: &str,
        region: Option<&str>,
    ) -> Result<Names, CheckError> {
        let snapshot = self.policies.load();
        let policies = &snapshot.policies;
        let policy = policies
            .get(policy)
            .ok_or_else(|| CheckError::unknown_policy(policy, policies))?;
        let subject = Subject::new(subject)?;
        let region = region.map(Region::new).transpose()?;
        let ceilings = policy.ceilings(&subject, region.as_ref())?;
        let target = Target {
            policy: Arc::clone(policy),
            subject,
            // A region counts only where the policy has ceilings of regions.
            region: region.clone().filter(|_| policy.region.is_some()),
            ceilings,
        };
        Ok(Names {
            target,
            region,
            revision: snapshot.revision,
        })
    }
}

/// Names that are known to be good.
struct Names {
    target: Target,
    /// As it was asked for, also where it doesn't count.
    region: Option<Region>,
    revision: u64,
}

fn may_be_in_force(policies: &Policies, knows_its_share: bool) -> Result<(), BuildError> {
    if policies.is_empty() {
        return Err(BuildError::NoPolicies);
    }
    let mut policies = policies.iter();
    match policies.find(|policy| policy.on_outage == OnOutage::Local) {
        Some(policy) if !knows_its_share => Err(BuildError::ShareUnknown(policy.name.clone())),
        _ => Ok(()),
    }
}
