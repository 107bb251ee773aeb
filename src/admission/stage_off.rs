//! Stands for the local stage in a build without the feature `local-stage`. There never is one.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Instant;

use super::answer::{Answer, Request, Resolved};
use crate::model::{Check, Cost, Decision, Target};

/// No local stage.
pub(crate) struct Stage<S> {
    never: Infallible,
    _store: PhantomData<S>,
}

/// The first word on a check.
#[expect(dead_code, reason = "no stage says anything")]
pub(crate) enum First {
    /// Its decision.
    Decided(Decision),
    /// It needs the store.
    Ask(Request, Infallible),
}

impl<S> Stage<S> {
    pub(crate) fn first<E>(
        &self,
        _: &Check,
        _: u64,
        _: impl FnOnce() -> Result<Resolved, E>,
    ) -> Result<First, E> {
        match self.never {}
    }

    pub(crate) async fn ask(&self, _: &Request, _: Infallible, _: Option<Instant>) -> Answer {
        match self.never {}
    }

    pub(crate) fn peek_in_outage(&self, _: &Target, _: u64) -> Answer {
        match self.never {}
    }

    pub(crate) fn forget_refunded(&self, _: &Target, _: Cost) {
        match self.never {}
    }

    pub(crate) fn forget_all(&self, _: &Target) {
        match self.never {}
    }
}
