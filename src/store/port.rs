//! The port to whatever remembers charges, and its contract.
//!
//! Every adapter passes the same contract tests: a call decides its requests in order, first come
//! first served, and charges every ceiling of a request or none. A denial writes nothing. An id
//! that was charged before charges nothing and is answered as admitted.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use super::error::{StoreError, StoreErrorKind};
use super::shard::ShardId;
use crate::model::{ChargeId, Cost, Micros, Policies, Retry, Target, Timestamp};

/// Requests that one call carries at most: longer ones would hold a store up too long.
pub const REQUESTS_MAX: usize = 256;

/// Whose clock stamps a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClock {
    /// The store's own, read once.
    Store,
    /// This instant: tests, and policies that choose the caller's clock.
    At(Timestamp),
}

/// What a call does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Decide and charge.
    Charge,
    /// Decide and change nothing.
    Peek,
}

/// Where a charge's id comes from; it decides what the store must look up before it charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOrigin {
    /// Made by this node and never sent before.
    Fresh,
    /// Made by this node and sent before: the first attempt may or may not have been charged.
    Resent,
    /// Given by the caller, who may have sent it before, also to another node.
    Caller,
}

/// One request of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeRequest {
    /// The charge's name.
    pub id: ChargeId,
    /// Where the name comes from.
    pub origin: IdOrigin,
    /// Units asked for, at least 1 in a charge. A cost of 0 is answered like a peek of cost 0:
    /// admitted, nothing changed.
    pub cost: Cost,
    /// A lease: the entry counts from now on and is dated this far ahead of now, so that it frees
    /// its units one window after the lease's end. Sliding logs only: other ceilings are charged
    /// as by any request.
    pub held_for: Option<Micros>,
}

/// One atomic call: requests of one subject, region and policy, decided in order.
#[derive(Clone, Debug)]
pub struct ChargeCall {
    /// What is charged.
    pub target: Arc<Target>,
    /// What is asked, in the order in which it came; at least one.
    pub requests: Vec<ChargeRequest>,
    /// Whose clock stamps it.
    pub clock: CallClock,
    /// Charge, or only look.
    pub kind: CallKind,
    /// When the answer must be there. A store that answers from memory ignores it.
    pub deadline: Instant,
}

impl ChargeCall {
    /// Whether it is a call that a store takes. Every adapter asks this first.
    ///
    /// # Errors
    /// `Refused`, when it has no request or more than [`REQUESTS_MAX`].
    pub fn validate(&self) -> Result<(), StoreError> {
        let why = match self.requests.len() {
            0 => "a call without a request",
            n if n > REQUESTS_MAX => "a call with more than 256 requests",
            _ => return Ok(()),
        };
        Err(StoreError::not_run("charge", StoreErrorKind::Refused, why))
    }
}

/// One ceiling's part in an outcome, after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeilingOutcome {
    /// Units left.
    pub remaining: u64,
    /// Until the ceiling is whole again if nothing more comes.
    pub reset_after: Micros,
    /// This ceiling's own denial; absent when it had room.
    pub retry: Option<Retry>,
    /// Leaky bucket with a delay, on an admission: how long to wait.
    pub delay: Option<Micros>,
}

/// The answer to one request. Admitted when no ceiling denied it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Each ceiling of the target, in its order.
    pub ceilings: Vec<CeilingOutcome>,
    /// The id had been charged before; nothing was charged now.
    pub repeated: bool,
}

impl Outcome {
    /// Whether every ceiling had room.
    pub fn is_admitted(&self) -> bool {
        self.ceilings.iter().all(|c| c.retry.is_none())
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeReply {
    /// The instant at which it was decided.
    pub at: Timestamp,
    /// An outcome a request, in their order.
    pub outcomes: Vec<Outcome>,
}

/// Gives a charge back, whole or in part, in every ceiling of the target.
#[derive(Clone, Debug)]
pub struct RefundCall {
    /// What had been charged.
    pub target: Arc<Target>,
    /// The charge's name.
    pub id: ChargeId,
    /// Units to give back; all of them when absent. More than were charged gives back all.
    pub cost: Option<Cost>,
    /// Whose clock decides whether it still counts.
    pub clock: CallClock,
    /// When the answer must be there.
    pub deadline: Instant,
}

/// What a refund did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refunded {
    /// So many units were given back.
    Units(Cost),
    /// The charge isn't there, or not any more.
    NotFound,
}

/// Forgets what a subject used.
#[derive(Clone, Debug)]
pub struct ResetCall {
    /// Whose; its region's ceiling is forgotten, and the global one.
    pub target: Arc<Target>,
    /// When the answer must be there.
    pub deadline: Instant,
}

/// Whether a store can decide now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// It can't, and why.
    NotReady(String),
}

/// What remembers charges.
///
/// Contract: see the module's documentation. Dropping a returned future may leave the call done
/// or not done, never half done.
pub trait Store: Send + Sync + 'static {
    /// Decides and charges, all ceilings of a request or none.
    ///
    /// # Errors
    /// When the store could not decide; then nothing is known of the charge unless the error says
    /// that it did not run.
    fn charge(
        &self,
        call: ChargeCall,
    ) -> impl Future<Output = Result<ChargeReply, StoreError>> + Send;

    /// Gives back an earlier charge.
    ///
    /// # Errors
    /// When the store could not answer.
    fn refund(&self, call: RefundCall)
    -> impl Future<Output = Result<Refunded, StoreError>> + Send;

    /// Forgets what a subject used under a policy.
    ///
    /// # Errors
    /// When the store could not answer.
    fn reset(&self, call: ResetCall) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether it can decide now.
    fn readiness(&self) -> Readiness;

    /// How many calls were sent to a shared store so far; 0 for one in memory.
    fn calls_sent(&self) -> u64;

    /// Whether other limiters may charge to it, too.
    fn is_shared(&self) -> bool {
        true
    }

    /// The part of the store that decides for `target`, as far as is known now: what a breaker
    /// watches. [`ShardId::WHOLE`] for a store that fails as one.
    fn shard_of(&self, target: &Target) -> ShardId {
        let _ = target;
        ShardId::WHOLE
    }

    /// These policies are in force from now on: what their checks will need is made ready, so that
    /// no check has to wait for it. Never waits, and is no promise.
    fn prepare(&self, policies: &Policies) {
        let _ = policies;
    }

    /// How often something happened so far that may have ended an outage of a shard: another node
    /// serves it, or it is reached again. A breaker that sees the number change tries again.
    fn recoveries(&self) -> u64 {
        0
    }
}
