//! The binary: parses and calls. Never more.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate::cli::run(std::env::args_os())
}
