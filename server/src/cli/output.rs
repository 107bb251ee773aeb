//! What a command answers with: text on standard output, and how it ended.

use std::io::Write as _;

use super::failure::{Exit, Failure};

/// What a command comes to.
pub(super) type Outcome = Result<Exit, Failure>;

/// Prints an answer's line.
pub(super) fn print_line(line: &str) -> Result<(), Failure> {
    print_text(&format!("{line}\n")).map(|_| ())
}

/// Prints an answer. A reader that has seen enough (`| head`) is no failure.
pub(super) fn print_text(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(Failure::new(format!("can't write the answer: {error}"))),
    }
}
