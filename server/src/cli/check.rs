//! `tidegate check` and `tidegate peek`: one question, one answer, one exit code.

use std::io::Write as _;

use clap::Args;

use super::args::{DeadlineArgs, LogArgs, PolicyArgs, ServerArgs, StoreArgs, SubjectArgs, cost};
use super::backend::{Backend, BackendArgs};
use super::compose;
use super::failure::{Exit, Failure};
use super::output::{Outcome, print_line};
use super::show::{self, Operation};
use super::stage_args::StageArgs;
use crate::edge::protocol::DecisionKind;
use tidegate::model::{Check, Decision};

const CHECK_EXAMPLES: &str = "\
Examples:
  tidegate check --server http://127.0.0.1:8080 --policy video_top \\
                 --subject key-1 --region us
  tidegate check --redis redis://10.0.0.1:6379 --config policies.yaml \\
                 --policy payments --subject card-7 --cost 3 --id order-1234
  tidegate check --policy payments --subject card-7 --json | jq .ceilings

With neither --server nor --redis the answer is counted in this process only,
which ends at once: enough to try a policy file, but nothing is remembered.

Exit codes: 0 admitted, 1 denied, 2 could not decide or bad usage.";

const PEEK_EXAMPLES: &str = "\
Examples:
  tidegate peek --server http://127.0.0.1:8080 --policy video_top \\
                --subject key-1 --region us
  tidegate peek --redis redis://10.0.0.1:6379 --policy payments \\
                --subject card-7 --cost 3

Exit codes: 0 would be admitted, 1 would be denied, 2 could not decide or bad
usage.";

/// Flags of `check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    question: QuestionArgs,

    /// The charge's own name: sent again, it charges once; `refund` needs it
    #[arg(long, value_name = "TEXT", env = "TIDEGATE_ID", help_heading = None)]
    id: Option<String>,
}

/// Flags of `peek`.
#[derive(Debug, Args)]
#[command(after_help = PEEK_EXAMPLES)]
pub(super) struct PeekArgs {
    #[command(flatten)]
    question: QuestionArgs,
}

#[derive(Debug, Args)]
struct QuestionArgs {
    #[command(flatten)]
    subject: SubjectArgs,

    /// Units asked for; 0 asks without charging
    #[arg(long, value_name = "N", env = "TIDEGATE_COST", default_value_t = 1,
          value_parser = cost, allow_negative_numbers = true)]
    cost: u64,

    /// Print the decision as JSON
    #[arg(long, env = "TIDEGATE_JSON")]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    policies: PolicyArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    deadline: DeadlineArgs,

    #[command(flatten)]
    log: LogArgs,
}

/// Asks and charges.
pub(super) fn check(args: CheckArgs) -> Outcome {
    let mut check = args.question.check();
    check.id = args.id.filter(|id| !id.is_empty());
    args.question.ask(&check, Operation::Check)
}

/// Asks and changes nothing.
pub(super) fn peek(args: PeekArgs) -> Outcome {
    let check = args.question.check();
    args.question.ask(&check, Operation::Peek)
}

impl QuestionArgs {
    fn check(&self) -> Check {
        self.subject.check().cost(self.cost)
    }

    fn ask(&self, check: &Check, operation: Operation) -> Outcome {
        let _log = compose::install_logs(&self.log, "off")?;
        compose::small_runtime()?.block_on(async {
            let backend = BackendArgs {
                server: &self.server,
                admin: None,
                policies: &self.policies,
                store: &self.store,
                deadline: self.deadline,
                stage: StageArgs::default(),
            };
            let backend = Backend::open(backend).await?;
            let decision = match operation {
                Operation::Check => backend.check(check).await,
                Operation::Peek => backend.peek(check).await,
            }
            .map_err(Failure::from)?;
            self.print(&decision, operation)?;
            Ok(exit(&decision))
        })
    }

    fn print(&self, decision: &Decision, operation: Operation) -> Result<(), Failure> {
        if self.json {
            let json = serde_json::to_string(decision);
            return print_line(&json.map_err(|error| Failure::new(error.to_string()))?);
        }
        print_line(&show::decision(decision, operation))?;
        let forgotten = compose::given(&self.server.server).is_none()
            && compose::given(&self.store.redis).is_none();
        if forgotten && operation == Operation::Check {
            let note = "\nnote: counted in this process only; --server or --redis keep count";
            let _ = writeln!(std::io::stderr(), "{note}");
        }
        Ok(())
    }
}

fn exit(decision: &Decision) -> Exit {
    match DecisionKind::of(decision) {
        DecisionKind::Admitted => Exit::Done,
        DecisionKind::RateLimited | DecisionKind::NeverAdmitted => Exit::Denied,
        DecisionKind::Unavailable => Exit::Undecided,
    }
}
