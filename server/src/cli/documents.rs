//! Completion scripts and manual pages, made from the same description as the parser and the
//! help, so that none of them can lag behind.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::Shell;

use super::failure::{Exit, Failure};
use super::output::{Outcome, print_line, print_text};

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

/// Prints a shell's completion script for `command`.
pub(super) fn completions(args: &CompletionsArgs, command: &mut clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "tidegate", &mut script);
    print_text(&String::from_utf8_lossy(&script))
}

/// Prints the manual page of `command`, or writes all pages.
pub(super) fn man(args: &ManArgs, mut command: clap::Command) -> Outcome {
    command.build();
    let Some(directory) = &args.directory else {
        let page = page(&command).map_err(|error| Failure::new(format!("the page: {error}")))?;
        return print_text(&page);
    };
    let directory = directory.as_path();
    fs::create_dir_all(directory)
        .and_then(|()| write_pages(&command, directory))
        .map_err(|error| {
            let directory = directory.display();
            Failure::new(format!("can't write manual pages to {directory}: {error}"))
        })?;
    print_line(&format!("manual pages are in {}", directory.display()))?;
    Ok(Exit::Done)
}

fn write_pages(command: &clap::Command, directory: &Path) -> io::Result<()> {
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        write_pages(below, directory)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(directory.join(format!("{name}.1")), page(command)?)
}

/// A command's page. Its examples keep their lines, which the renderer of all sections at once
/// would fill.
fn page(command: &clap::Command) -> io::Result<String> {
    let man = clap_mangen::Man::new(command.clone()).manual("Tidegate");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(examples) = command.get_after_help() {
        let examples = verbatim(&examples.to_string());
        write!(page, ".SH EXAMPLES\n.nf\n{examples}.fi\n")?;
    }
    String::from_utf8(page).map_err(io::Error::other)
}

/// Text as roff that stands as it is: backslashes and hyphens escaped, and no line that begins
/// like a request.
fn verbatim(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) {
            lines.push_str("\\&");
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}
