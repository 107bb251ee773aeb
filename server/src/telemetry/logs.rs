//! Structured logs on standard error, by `tracing`. Never on standard output: that belongs to
//! the commands' answers. Never waits for whoever reads them: a thread of its own writes, and what
//! it can't write, or can't keep up with, is lost and counted.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt as lines};

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The word in flags.
    pub const fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that is no form of logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no form of logs: text or json")]
pub struct UnknownLogFormat(String);

impl FromStr for LogFormat {
    type Err = UnknownLogFormat;

    fn from_str(text: &str) -> Result<Self, UnknownLogFormat> {
        [LogFormat::Text, LogFormat::Json]
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| UnknownLogFormat(text.to_owned()))
    }
}

/// Why logs can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter can't be read.
    #[error(
        "`{given}` is no log filter: write a level (error, warn, info, debug, trace) or \
         target=level, separated by commas"
    )]
    Filter {
        /// What was given.
        given: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The process has a log already.
    #[error("the process has a log already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// The most lines that wait for a slow reader; more are lost.
const LINES_WAITING_MAX: usize = 8_192;

/// How long the end of the process waits for the lines that wait, when some were lost before.
const LAST_LINES_WAIT: Duration = Duration::from_millis(50);

/// Lines that found no room to wait.
static LINES_DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Lines that could not be written: a full disk, a reader that is gone.
static LINES_FAILED: AtomicU64 = AtomicU64::new(0);

/// Log lines of this process that nobody can read.
pub fn lines_lost() -> u64 {
    let dropped = LINES_DROPPED.get().map_or(0, ErrorCounter::dropped_lines);
    LINES_FAILED.load(Ordering::Relaxed) + dropped as u64
}

/// The process's log. Dropping it writes the lines that still wait.
#[must_use = "dropped, it writes no more"]
#[derive(Debug)]
pub struct Log {
    writer: Option<WorkerGuard>,
}

impl Drop for Log {
    fn drop(&mut self) {
        match self.writer.take() {
            // The writer would say on standard output that it is stuck, so it isn't waited for.
            Some(stuck) if lines_lost() > 0 => {
                std::mem::forget(stuck);
                std::thread::sleep(LAST_LINES_WAIT);
            }
            writer => drop(writer),
        }
    }
}

/// Writes to standard error, and counts the lines that it doesn't take.
struct CountedStderr;

impl Write for CountedStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if io::stderr().write_all(line).is_err() {
            LINES_FAILED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends the process's logs to standard error. `filter` is a level, or targets with levels as in
/// `info,tidegate_server::edge=debug`.
///
/// # Errors
/// When the filter can't be read, or the process has a log already.
pub fn install(format: LogFormat, filter: &str) -> Result<Log, LogError> {
    let colours = io::stderr().is_terminal();
    let (lines, writer) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_WAITING_MAX)
        .thread_name("log")
        .finish(CountedStderr);
    LINES_DROPPED.get_or_init(|| lines.error_counter());
    subscriber(format, filter, colours, lines)?
        .try_init()
        .map_err(LogError::Twice)?;
    let writer = Some(writer);
    Ok(Log { writer })
}

/// A subscriber that writes lines of `format` to `writer`.
///
/// # Errors
/// When the filter can't be read.
pub fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    colours: bool,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let given = filter;
    let filter = EnvFilter::try_new(filter).map_err(|source| LogError::Filter {
        given: given.to_owned(),
        source,
    })?;
    let builder = lines::Subscriber::builder()
        .with_env_filter(filter)
        // It would be said on standard error, which may be what can't be written.
        .log_internal_errors(false)
        .with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.with_ansi(colours).finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
        let captured = Captured::default();
        let writer = captured.clone();
        let subscriber = subscriber(format, filter, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = captured.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_json_line_is_one_object_with_its_fields() {
        let text = written(LogFormat::Json, "info", || {
            tracing::info!(policy = "p\n\"", "decided");
            tracing::debug!("not told");
        });
        assert_eq!(text.lines().count(), 1);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["policy"], "p\n\"");
        assert_eq!(line["message"], "decided");
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn a_text_line_has_no_colour_codes_when_nobody_sees_them() {
        let text = written(LogFormat::Text, "info", || tracing::info!(n = 1, "told"));
        assert!(
            text.contains("told n=1") && !text.contains('\u{1b}'),
            "{text}"
        );
    }

    #[test]
    fn a_filter_that_can_not_be_read_is_refused_with_its_text() {
        let error = subscriber(LogFormat::Text, "info,x=loud", false, std::io::sink)
            .err()
            .map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("info,x=loud")));
        assert!("xml".parse::<LogFormat>().is_err());
        assert_eq!("json".parse(), Ok(LogFormat::Json));
    }
}
