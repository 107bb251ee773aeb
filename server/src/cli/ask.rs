//! Whom a command asks: a limiter in this process, or a server. Both answer alike.

use std::sync::Arc;

use super::args::{AdminArgs, DeadlineArgs, PolicyArgs, ServerArgs, StoreArgs};
use super::compose::{self, ProcessLimiter};
use super::failure::Failure;
use super::server_client::ServerClient;
use super::stage_args::StageArgs;
use tidegate::limiter::{CheckError, FleetMember, FleetOptions};
use tidegate::model::{Check, Decision, PolicyError, Refund};
use tidegate::store::{Refunded, Store as _};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AskError {
    /// The question is wrong: asking again won't help.
    Question(Failure),
    /// Nobody could answer.
    NoAnswer(String),
}

impl From<CheckError> for AskError {
    fn from(error: CheckError) -> Self {
        let cause = error.to_string();
        let cure = match error {
            CheckError::Store(_) => return AskError::NoAnswer(cause),
            CheckError::UnknownPolicy { .. } => {
                "give one of these as --policy, or your own file as --config"
            }
            CheckError::Policy(PolicyError::RegionNeeded(_)) => {
                "add --region NAME (for `load`: --regions NAME,NAME)"
            }
            _ => return AskError::Question(Failure::new(cause)),
        };
        AskError::Question(Failure::with_cure(cause, cure))
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Question(failure) => failure,
            AskError::NoAnswer(cause) => Failure::new(format!("could not decide: {cause}")),
        }
    }
}

/// Whoever answers.
pub(super) enum Answerer {
    /// A limiter of this process.
    Here {
        /// The limiter.
        limiter: Arc<ProcessLimiter>,
        /// Its place among the nodes on the store.
        member: Option<FleetMember>,
        /// Its store, for people.
        store: String,
    },
    /// A server.
    Server(Box<ServerClient>),
}

/// What is needed to find an [`Answerer`].
pub(super) struct Whom<'a> {
    pub server: &'a ServerArgs,
    pub admin: Option<&'a AdminArgs>,
    pub policies: &'a PolicyArgs,
    pub store: &'a StoreArgs,
    pub deadline: DeadlineArgs,
    pub stage: StageArgs,
}

impl Answerer {
    /// The server when one is named, else a limiter whose store is ready.
    pub async fn find(whom: Whom<'_>) -> Result<Self, Failure> {
        if let Some(url) = compose::given(&whom.server.server) {
            let token = match whom.admin {
                Some(admin) => compose::admin_token(admin)?,
                None => None,
            };
            let client = ServerClient::new(url, token)?;
            return Ok(Answerer::Server(Box::new(client)));
        }
        let (config, _) = compose::config(whom.policies)?;
        let policies = config.policies;
        let limiter = compose::limiter(policies, whom.store, whom.deadline, whom.stage)?;
        compose::wait_ready(&limiter).await?;
        let store = compose::store_name(&limiter, whom.store);
        let limiter = Arc::new(limiter);
        Ok(Answerer::Here {
            limiter,
            member: None,
            store,
        })
    }

    /// A limiter of this process joins the others on its store: for more than one question.
    pub fn join_fleet(&mut self) {
        if let Answerer::Here {
            limiter, member, ..
        } = self
        {
            *member = limiter.join_fleet(FleetOptions::default());
        }
    }

    pub async fn check(&self, check: &Check) -> Result<Decision, AskError> {
        match self {
            Answerer::Here { limiter, .. } => Ok(limiter.check(check).await?),
            Answerer::Server(server) => server.check(check).await,
        }
    }

    pub async fn peek(&self, check: &Check) -> Result<Decision, AskError> {
        match self {
            Answerer::Here { limiter, .. } => Ok(limiter.peek(check).await?),
            Answerer::Server(server) => server.peek(check).await,
        }
    }

    pub async fn refund(&self, refund: &Refund) -> Result<Refunded, AskError> {
        match self {
            Answerer::Here { limiter, .. } => Ok(limiter.refund(refund).await?),
            Answerer::Server(server) => server.refund(refund).await,
        }
    }

    pub async fn reset(&self, check: &Check) -> Result<(), AskError> {
        match self {
            Answerer::Here { limiter, .. } => Ok(limiter.reset(check).await?),
            Answerer::Server(server) => server.reset(check).await,
        }
    }

    /// How many calls were sent to a shared store so far; absent when a server doesn't tell.
    pub async fn calls_sent(&self) -> Option<u64> {
        match self {
            Answerer::Here { limiter, .. } => Some(limiter.store().calls_sent()),
            Answerer::Server(server) => server.calls_sent().await,
        }
    }

    /// Who it is, for people; without secrets.
    pub fn name(&self) -> &str {
        match self {
            Answerer::Here { store, .. } => store,
            Answerer::Server(server) => server.name(),
        }
    }
}
