//! The command line tool: reads what was typed, asks, and says the answer.
//!
//! Answers go to standard output, everything else to standard error. Exit codes: 0 done or
//! admitted, 1 denied, 2 could not decide or bad usage. Never decides itself, and never prints a
//! secret.

mod args;
mod backend;
#[cfg(feature = "chaos")]
mod chaos;
mod check;
mod compose;
mod config_command;
mod documents;
mod failure;
mod load;
mod output;
mod refund;
mod reset;
mod serve;
mod show;
mod stage_args;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::failure::Exit;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    about = "A distributed rate limiter",
    long_about = "A distributed rate limiter: exact ceilings over all regions and in each region, \
                  counted in memory or on a Redis or Valkey cluster.",
    after_help = AFTER_HELP,
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Start here:
  tidegate serve                             a limiter on http://127.0.0.1:8080,
                                             in memory, with example policies
  tidegate config example > policies.yaml    policies to start from
  tidegate serve --config policies.yaml --redis redis://10.0.0.1:6379
                                             the same limiter for a fleet
  tidegate load --policy internal            how fast it is here

Each flag has a variable, shown beside it; a flag goes before its variable.
Exit codes: 0 done or admitted, 1 denied, 2 could not decide or bad usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the limiter as an HTTP server
    Serve(serve::ServeArgs),
    /// Ask whether a subject may do something now, and charge it
    Check(check::CheckArgs),
    /// Ask without charging
    Peek(check::PeekArgs),
    /// Give a charge back, whole or in part
    Refund(refund::RefundArgs),
    /// Forget what a subject used
    Reset(reset::ResetArgs),
    /// Check policy files, print their schema or examples
    Config(config_command::ConfigArgs),
    /// Drive a limiter with made-up traffic and measure it
    Load(load::LoadArgs),
    /// Hurt a cluster under load, and judge what a limiter answered meanwhile
    #[cfg(feature = "chaos")]
    Chaos(chaos::ChaosArgs),
    /// One limiter of a chaos run; `tidegate chaos` starts it
    #[cfg(feature = "chaos")]
    #[command(
        hide = true,
        after_help = "tidegate chaos starts it and hands it a plan."
    )]
    ChaosInstance,
    /// Print a shell's completion script
    Completions(documents::CompletionsArgs),
    /// Print the manual page
    Man(documents::ManArgs),
}

/// Reads `arguments` (the program's name first), does what they say, and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = without_empty_variables(command())
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help and versions are answers (0); everything else is bad usage (2).
            let exit = if error.use_stderr() {
                Exit::Undecided
            } else {
                Exit::Done
            };
            let _ = error.print();
            return exit.into();
        }
    };
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Check(args) => check::check(args),
        Command::Peek(args) => check::peek(args),
        Command::Refund(args) => refund::run(&args),
        Command::Reset(args) => reset::run(&args),
        Command::Config(args) => config_command::run(&args),
        Command::Load(args) => load::run(args),
        #[cfg(feature = "chaos")]
        Command::Chaos(args) => chaos::run(args),
        #[cfg(feature = "chaos")]
        Command::ChaosInstance => chaos::run_instance(),
        Command::Completions(args) => documents::completions(&args, &mut command()),
        Command::Man(args) => documents::man(&args, command()),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            Exit::Undecided.into()
        }
    }
}

/// The command line's description, for parsing, completions and manual pages.
fn command() -> clap::Command {
    Cli::command()
}

/// The same description, deaf to variables that are set to nothing: `TIDEGATE_REDIS=` means none,
/// as compose files write it.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let is_empty = arg
                .get_env()
                .and_then(std::env::var_os)
                .is_some_and(|value| value.is_empty());
            if is_empty { arg.env(None::<&str>) } else { arg }
        })
        .mut_subcommands(without_empty_variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command below `command`, with its path.
    fn all(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        let path = format!("{path} {}", command.get_name());
        for below in command.get_subcommands() {
            all(below, &path, found);
        }
        found.push((path, command.clone()));
    }

    fn commands() -> Vec<(String, clap::Command)> {
        let mut found = Vec::new();
        all(&command(), "", &mut found);
        found
    }

    #[test]
    fn the_description_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn each_flag_has_a_variable_of_its_name() {
        for (path, command) in commands() {
            for flag in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let long = flag.get_long().unwrap_or_else(|| panic!("{path}: {flag}"));
                if matches!(long, "help" | "version") {
                    continue;
                }
                let expected = format!("TIDEGATE_{}", long.replace('-', "_").to_uppercase());
                let variable = flag.get_env().and_then(|name| name.to_str());
                assert_eq!(variable, Some(expected.as_str()), "{path} --{long}");
            }
        }
    }

    #[test]
    fn each_command_and_flag_says_what_it_is_for_and_each_command_shows_examples() {
        for (path, command) in commands() {
            assert!(command.get_about().is_some(), "{path}");
            for argument in command.get_arguments() {
                let is_built_in = matches!(argument.get_id().as_str(), "help" | "version");
                assert!(
                    is_built_in || argument.get_help().is_some(),
                    "{path} {argument}"
                );
            }
            let shown = command.get_after_help().map(|help| help.to_string());
            let shown = shown.unwrap_or_else(|| panic!("{path} has no examples"));
            assert!(shown.contains("tidegate "), "{path}");
            let wide = shown.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{path}: wraps in a terminal of 80 columns");
        }
    }

    #[test]
    fn secrets_are_not_shown_with_their_variables() {
        for (path, command) in commands() {
            for flag in command.get_arguments() {
                let name = flag.get_id().as_str();
                if matches!(name, "redis" | "admin_token") {
                    assert!(flag.is_hide_env_values_set(), "{path} {flag}");
                }
            }
        }
    }
}
