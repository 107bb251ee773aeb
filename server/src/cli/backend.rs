//! Whom a command asks: a limiter in this process, or a server. Both answer alike.

mod error;
mod remote;

use std::sync::Arc;

pub(super) use self::error::BackendError;
use self::remote::RemoteServer;

use super::args::{AdminArgs, DeadlineArgs, PolicyArgs, ServerArgs, StoreArgs};
use super::compose::{self, ProcessLimiter};
use super::failure::Failure;
use super::stage_args::StageArgs;
use tidegate::limiter::{FleetMember, FleetOptions};
use tidegate::model::{Check, Decision, Refund};
use tidegate::store::{Refunded, Store as _};

/// Who answers.
pub(super) enum Backend {
    /// A limiter of this process.
    Local {
        /// The limiter.
        limiter: Arc<ProcessLimiter>,
        /// Its place among the nodes on the store.
        member: Option<FleetMember>,
        /// Its store, for people.
        store: String,
    },
    /// A server.
    Remote(Box<RemoteServer>),
}

/// What is needed to open a [`Backend`].
pub(super) struct BackendArgs<'a> {
    pub server: &'a ServerArgs,
    pub admin: Option<&'a AdminArgs>,
    pub policies: &'a PolicyArgs,
    pub store: &'a StoreArgs,
    pub deadline: DeadlineArgs,
    pub stage: StageArgs,
}

impl Backend {
    /// The server when one is named, else a limiter whose store is ready.
    pub async fn open(args: BackendArgs<'_>) -> Result<Self, Failure> {
        if let Some(url) = compose::given(&args.server.server) {
            let token = match args.admin {
                Some(admin) => compose::admin_token(admin)?,
                None => None,
            };
            let client = RemoteServer::new(url, token)?;
            return Ok(Backend::Remote(Box::new(client)));
        }
        let (config, _) = compose::config(args.policies)?;
        let policies = config.policies;
        let limiter = compose::limiter(policies, args.store, args.deadline, args.stage)?;
        compose::wait_ready(&limiter).await?;
        let store = compose::store_name(&limiter, args.store);
        let limiter = Arc::new(limiter);
        Ok(Backend::Local {
            limiter,
            member: None,
            store,
        })
    }

    /// A limiter of this process joins the others on its store: for more than one question.
    pub fn join_fleet(&mut self) {
        if let Backend::Local {
            limiter, member, ..
        } = self
        {
            *member = limiter.join_fleet(FleetOptions::default());
        }
    }

    pub async fn check(&self, check: &Check) -> Result<Decision, BackendError> {
        match self {
            Backend::Local { limiter, .. } => Ok(limiter.check(check).await?),
            Backend::Remote(server) => server.check(check).await,
        }
    }

    pub async fn peek(&self, check: &Check) -> Result<Decision, BackendError> {
        match self {
            Backend::Local { limiter, .. } => Ok(limiter.peek(check).await?),
            Backend::Remote(server) => server.peek(check).await,
        }
    }

    pub async fn refund(&self, refund: &Refund) -> Result<Refunded, BackendError> {
        match self {
            Backend::Local { limiter, .. } => Ok(limiter.refund(refund).await?),
            Backend::Remote(server) => server.refund(refund).await,
        }
    }

    pub async fn reset(&self, check: &Check) -> Result<(), BackendError> {
        match self {
            Backend::Local { limiter, .. } => Ok(limiter.reset(check).await?),
            Backend::Remote(server) => server.reset(check).await,
        }
    }

    /// How many calls were sent to a shared store so far; absent when a server doesn't tell.
    pub async fn calls_sent(&self) -> Option<u64> {
        match self {
            Backend::Local { limiter, .. } => Some(limiter.store().calls_sent()),
            Backend::Remote(server) => server.calls_sent().await,
        }
    }

    /// Who it is, for people; without secrets.
    pub fn name(&self) -> &str {
        match self {
            Backend::Local { store, .. } => store,
            Backend::Remote(server) => server.name(),
        }
    }
}
