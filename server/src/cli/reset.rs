//! `tidegate reset`: forgets what a subject used. Never guesses whose: policy and subject must be
//! named.

use clap::Args;
use serde_json::json;

use super::args::{
    AdminArgs, DeadlineArgs, LogArgs, PolicyArgs, ServerArgs, StoreArgs, SubjectArgs,
};
use super::backend::{Backend, BackendArgs};
use super::compose;
use super::failure::{Exit, Failure};
use super::output::{Outcome, print_line};
use super::stage_args::StageArgs;

const EXAMPLES: &str = "\
Examples:
  tidegate reset --redis redis://10.0.0.1:6379 --policy video_top \\
                 --subject key-1 --region us
  TIDEGATE_ADMIN_TOKEN=... tidegate reset --server http://127.0.0.1:8080 \\
                 --policy payments --subject card-7

The ceiling over all regions is forgotten, and that of the region named. Other
nodes may go on denying from memory for up to 5 s (their --denial-trust-max).

Exit codes: 0 done, 2 could not or bad usage.";

/// Flags of `reset`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ResetArgs {
    #[command(flatten)]
    subject: SubjectArgs,

    /// Print what was done as JSON
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

/// Forgets.
pub(super) fn run(args: &ResetArgs) -> Outcome {
    let _log = compose::install_logs(&args.log, "off")?;
    compose::shared_store_needed("reset", &args.server, &args.store)?;
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
        let check = args.subject.check();
        backend.reset(&check).await.map_err(Failure::from)?;
        let (policy, subject) = (&check.policy, &check.subject);
        if args.json {
            let mut done = json!({"reset": true, "policy": policy, "subject": subject});
            if let Some(region) = &check.region {
                done["region"] = json!(region);
            }
            print_line(&done.to_string())?;
        } else {
            let place = check
                .region
                .as_deref()
                .map(|region| format!(" in {region}"));
            let place = place.unwrap_or_default();
            print_line(&format!(
                "forgotten: what {subject} used{place} under {policy}"
            ))?;
        }
        Ok(Exit::Done)
    })
}
