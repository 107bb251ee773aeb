//! The real binary, as a user's shell runs it: what it prints where, and its exit codes.

mod answers;
mod batches;
mod documents;
mod hardship;
mod load;
mod policies;
mod redis;
mod serve;
mod served;
mod usage;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// What a run came to.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Run {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Run {
    /// The JSON that is all of standard output.
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// The run, when it ended with this code.
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

/// The binary with none of the machine's variables for it.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let ours = |name: &str| name.starts_with("TIDEGATE_") || name == "RUST_LOG";
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn tidegate(arguments: &[&str]) -> Run {
    command(arguments).output().unwrap().into()
}

/// The same with something on standard input.
fn tidegate_reading(arguments: &[&str], input: &str) -> Run {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap().into()
}

/// A file of this text that is removed when dropped.
fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}
