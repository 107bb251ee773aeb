//! `tidegate config`: checks files, prints the schema and examples.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;

use super::compose;
use super::failure::{Exit, Failure};
use super::output::{Outcome, print_line, print_text};
use crate::config::{Config, EXAMPLES, examples_yaml, schema_json};
use tidegate::config::{ConfigError, FILE_BYTES_MAX, Faults};

const CONFIG_EXAMPLES: &str = "\
Examples:
  tidegate config example > policies.yaml   policies to start from
  tidegate config check policies.yaml       every fault with line and column
  tidegate config schema > schema.json      for your editor";

const CHECK_EXAMPLES: &str = "\
Examples:
  tidegate config check policies.yaml
  tidegate config check --json policies.yaml | jq '.faults[].problem'
  kubectl get configmap limits -o jsonpath='{.data.policies\\.yaml}' |
                 tidegate config check -

Exit codes: 0 valid, 2 not valid or not readable.";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  tidegate config schema > policies.schema.json

Editors with the YAML language server then take this as a file's first line:
  # yaml-language-server: $schema=./policies.schema.json";

const EXAMPLE_EXAMPLES: &str = "\
Examples:
  tidegate config example > policies.yaml       all of them in one file
  tidegate config example video                 one of them";

/// Arguments of `config`.
#[derive(Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every fault of a policy file with its line and column
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Print the JSON schema of policy files
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    /// Print example policies
    #[command(after_help = EXAMPLE_EXAMPLES)]
    Example(ExampleArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The policy file; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print the result as JSON
    #[arg(long, env = "TIDEGATE_JSON")]
    json: bool,
}

#[derive(Debug, Args)]
struct ExampleArgs {
    /// Which one; all of them in one file without it
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(
        EXAMPLES.iter().map(|example| {
            clap::builder::PossibleValue::new(example.name).help(example.purpose)
        })))]
    name: Option<String>,
}

/// Does what was asked.
pub(super) fn run(args: &ConfigArgs) -> Outcome {
    match &args.command {
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Schema => print_text(&schema_json()),
        ConfigCommand::Example(args) => example(args.name.as_deref()),
    }
}

fn example(name: Option<&str>) -> Outcome {
    match name.and_then(|name| EXAMPLES.iter().find(|example| example.name == name)) {
        Some(example) => print_text(example.yaml),
        None => print_text(&examples_yaml()),
    }
}

fn check(args: &CheckArgs) -> Outcome {
    let from_input = args.file.as_os_str() == "-";
    let name = match from_input {
        true => Path::new("(standard input)"),
        false => args.file.as_path(),
    };
    let loaded = match from_input {
        true => from_standard_input(name),
        false => Config::load(name),
    };
    match loaded {
        Ok(_) if args.json => {
            print_line(&report(name, None)?)?;
            Ok(Exit::Done)
        }
        Ok(config) => {
            let policies = config.policies.len();
            let word = if policies == 1 { "policy" } else { "policies" };
            print_line(&format!("{}: valid, {policies} {word}", name.display()))?;
            Ok(Exit::Done)
        }
        Err(ConfigError::Invalid { faults, .. }) if args.json => {
            print_line(&report(name, Some(&faults))?)?;
            Ok(Exit::Undecided)
        }
        // The faults are what was asked for, so they go to standard output.
        Err(error @ ConfigError::Invalid { .. }) => {
            print_line(&error.to_string())?;
            Ok(Exit::Undecided)
        }
        Err(error) => Err(compose::unusable(name, error)),
    }
}

fn from_standard_input(name: &Path) -> Result<Config, ConfigError> {
    let mut bytes = Vec::new();
    let file = name.to_owned();
    match std::io::stdin()
        .lock()
        .take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
    {
        Ok(_) => Config::parse(&bytes).map_err(|faults| ConfigError::Invalid { file, faults }),
        Err(source) => Err(ConfigError::Read { file, source }),
    }
}

/// The result's JSON members.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: String,
    valid: bool,
    faults: Vec<FaultBody<'a>>,
}

#[derive(Debug, Serialize)]
struct FaultBody<'a> {
    line: usize,
    column: usize,
    path: String,
    problem: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<&'a str>,
}

/// The result as JSON, in one line.
fn report(file: &Path, faults: Option<&Faults>) -> Result<String, Failure> {
    let body = Report {
        file: file.display().to_string(),
        valid: faults.is_none(),
        faults: faults
            .into_iter()
            .flat_map(Faults::iter)
            .map(|fault| FaultBody {
                line: fault.at.line,
                column: fault.at.column,
                path: fault.path.to_string(),
                problem: &fault.problem,
                cure: fault.cure.as_deref(),
            })
            .collect(),
    };
    serde_json::to_string(&body).map_err(|error| Failure::new(format!("the result: {error}")))
}
