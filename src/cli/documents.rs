//! Completion scripts and manual pages, made from the same description as the parser and the
//! help, so that none of them can lag behind.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::Shell;

use super::failure::{Exit, Failure};
use super::{Outcome, command, print_line, print_text};

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tidegate completions bash > /etc/bash_completion.d/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  tidegate man | man -l -
  tidegate man --directory /usr/local/share/man/man1    a page for each command";

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(super) struct ManArgs {
    /// Write a page for each command into this directory
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DIRECTORY")]
    directory: Option<PathBuf>,
}

/// Prints a shell's completion script.
pub(super) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "tidegate", &mut script);
    print_text(&String::from_utf8_lossy(&script))
}

/// Prints the manual page, or writes all pages.
pub(super) fn man(args: &ManArgs) -> Outcome {
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command())
            .render(&mut page)
            .map_err(|error| Failure::new(format!("the manual page: {error}")))?;
        return print_text(&String::from_utf8_lossy(&page));
    };
    written(directory).map_err(|error| {
        let directory = directory.display();
        Failure::new(format!("can't write manual pages to {directory}: {error}"))
    })?;
    print_line(&format!("manual pages are in {}", directory.display()))?;
    Ok(Exit::Done)
}

fn written(directory: &Path) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command(), directory)
}
