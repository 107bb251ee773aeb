//! `tidegate refund`: gives an earlier charge back by its id, whole or in part.

use std::num::NonZeroU64;

use clap::Args;
use serde_json::json;

use super::args::{
    AdminArgs, DeadlineArgs, LogArgs, PolicyArgs, ServerArgs, StoreArgs, SubjectArgs, part,
};
use super::backend::{Backend, BackendArgs};
use super::compose;
use super::failure::{Exit, Failure};
use super::output::{Outcome, print_line};
use super::stage_args::StageArgs;
use tidegate::model::{Check, Refund};
use tidegate::store::Refunded;

const EXAMPLES: &str = "\
Examples:
  tidegate refund --redis redis://10.0.0.1:6379 --policy payments \\
                  --subject card-7 --id order-1234
  TIDEGATE_ADMIN_TOKEN=... tidegate refund --server http://127.0.0.1:8080 \\
                  --policy video_top --subject key-1 --region us \\
                  --id 01J... --cost 2

Exit codes: 0 given back, 1 no such charge (or not any more), 2 could not or bad
usage.";

/// Flags of `refund`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RefundArgs {
    #[command(flatten)]
    subject: SubjectArgs,

    /// The charge's id, as the check was told or answered
    #[arg(long, value_name = "TEXT", env = "TIDEGATE_ID")]
    id: String,

    /// Units to give back; all of the charge without it
    #[arg(long, value_name = "N", env = "TIDEGATE_COST",
          value_parser = part, allow_negative_numbers = true)]
    cost: Option<u64>,

    /// Print what was given back as JSON
    #[arg(long, env = "TIDEGATE_JSON")]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    admin: AdminArgs,

    #[command(flatten)]
    policies: PolicyArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    deadline: DeadlineArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// Gives back.
pub(super) fn run(args: &RefundArgs) -> Outcome {
    let _log = compose::install_logs(&args.log, "off")?;
    compose::shared_store_needed("refund", &args.server, &args.store)?;
    compose::small_runtime()?.block_on(async {
        let backend = BackendArgs {
            server: &args.server,
            admin: Some(&args.admin),
            policies: &args.policies,
            store: &args.store,
            deadline: args.deadline,
            stage: StageArgs::default(),
        };
        let backend = Backend::open(backend).await?;
        let Check {
            policy,
            subject,
            region,
            ..
        } = args.subject.check();
        let mut refund = Refund::new(policy, subject, args.id.as_str());
        (refund.region, refund.cost) = (region, args.cost.and_then(NonZeroU64::new));
        let refunded = backend.refund(&refund).await;
        args.told(refunded.map_err(Failure::from)?)
    })
}

impl RefundArgs {
    fn told(&self, refunded: Refunded) -> Outcome {
        let (id, subject) = (&self.id, &self.subject.subject);
        let units = match refunded {
            Refunded::Units(units) => Some(units),
            Refunded::NotFound => None,
        };
        let line = match (self.json, units) {
            (true, Some(units)) => json!({"refunded": units, "id": id}).to_string(),
            (true, None) => json!({"refunded": 0, "id": id}).to_string(),
            (false, Some(units)) => format!("given back: {units} of charge {id} to {subject}"),
            (false, None) => format!("no charge {id} of {subject} is there, or not any more"),
        };
        print_line(&line)?;
        Ok(match units {
            Some(_) => Exit::Done,
            None => Exit::Denied,
        })
    }
}
