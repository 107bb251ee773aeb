//! Structured logs on standard error, by `tracing`. Never on standard output: that belongs to
//! the commands' answers.

use std::fmt;
use std::io::IsTerminal as _;
use std::str::FromStr;

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

/// Sends the process's logs to standard error. `filter` is a level, or targets with levels as in
/// `info,tidegate_server::edge=debug`.
///
/// # Errors
/// When the filter can't be read, or the process has a log already.
pub fn install(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let colours = std::io::stderr().is_terminal();
    subscriber(format, filter, colours, std::io::stderr)?
        .try_init()
        .map_err(LogError::Twice)
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
        .with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.with_ansi(colours).finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
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
