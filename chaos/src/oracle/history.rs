//! What was asked and answered, as each instance wrote it down: one JSON object a line, so that a
//! history can be read with `jq` in a post-mortem. Never interprets: [`super::judge`] does.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// How a check ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It may go on.
    Admitted,
    /// It must not.
    Denied,
    /// The limiter could not decide and said so.
    Failed,
    /// No answer came while the instance lived: neither a decision nor an error.
    Stuck,
}

/// Which part of the limiter answered; the names are those of [`tidegate::model::Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// The store.
    Store,
    /// A denial remembered from the store.
    DenialCache,
    /// The node's own ceiling.
    NodeCeiling,
    /// Capacity that was charged ahead.
    Lease,
    /// The policy's outage choice.
    Outage,
    /// Nothing did: an error, or a call that is stuck.
    Nothing,
}

impl From<tidegate::model::Source> for AnsweredBy {
    fn from(source: tidegate::model::Source) -> Self {
        use tidegate::model::Source;
        match source {
            Source::DenialCache => AnsweredBy::DenialCache,
            Source::NodeCeiling => AnsweredBy::NodeCeiling,
            Source::Lease => AnsweredBy::Lease,
            Source::Outage => AnsweredBy::Outage,
            // The store; a source that isn't known here is excused as little.
            _ => AnsweredBy::Store,
        }
    }
}

/// One check and its answer. Instants are microseconds since the Unix epoch by the clock of the
/// one machine that runs the instances and the store, so they compare between processes and with
/// the store's `TIME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Which instance asked.
    pub instance: u16,
    /// The policy.
    pub policy: String,
    /// Who is limited.
    pub subject: String,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Units asked for.
    pub cost: u64,
    /// The charge's name, as the decision gave it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// When it was asked.
    pub sent: u64,
    /// When the answer was there; for a stuck call, when it was given up waiting for.
    pub answered: u64,
    /// How long after its deadline the answer came, in microseconds: measured against a timer
    /// that was set for the deadline together with the check, so that a busy machine counts for
    /// both. 0 when it was in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// How it ended.
    pub status: Status,
    /// Whether it was decided without the store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
    /// Who answered.
    pub by: AnsweredBy,
    /// When to come again, in microseconds; absent when admitted, never, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Writes a history to a file.
#[derive(Debug)]
pub(crate) struct HistoryWriter(BufWriter<File>);

impl HistoryWriter {
    /// Begins a history; a file that is there already is emptied.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(HistoryWriter(BufWriter::with_capacity(
            1 << 18,
            File::create(path)?,
        )))
    }

    /// Adds one record.
    pub(crate) fn write(&mut self, record: &Record) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, record)?;
        self.0.write_all(b"\n")
    }

    /// Puts everything into the file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reads a history back.
///
/// # Errors
/// The operating system's, and [`io::ErrorKind::InvalidData`] with the line's number when a line
/// is no record: a history with holes proves nothing.
pub(crate) fn read_history(path: &Path) -> io::Result<Vec<Record>> {
    let file = BufReader::new(File::open(path)?);
    let records = serde_json::Deserializer::from_reader(file).into_iter();
    records.collect::<Result<_, _>>().map_err(|error| {
        let error = format!("{}: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn record() -> Record {
        Record {
            instance: 2,
            policy: "chaos".into(),
            subject: "key-1".into(),
            region: Some("us".into()),
            cost: 3,
            id: "abc-1".into(),
            sent: 1_760_000_000_123_456,
            answered: 1_760_000_000_124_000,
            late: 0,
            status: Status::Denied,
            degraded: false,
            by: AnsweredBy::Store,
            retry_after: Some(17),
        }
    }

    #[test]
    fn a_history_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let bare = Record {
            region: None,
            id: String::new(),
            retry_after: None,
            degraded: true,
            status: Status::Stuck,
            by: AnsweredBy::Nothing,
            late: 9,
            ..record()
        };
        let mut writer = HistoryWriter::create(&path).unwrap();
        writer.write(&record()).unwrap();
        writer.write(&bare).unwrap();
        writer.finish().unwrap();
        assert_eq!(read_history(&path).unwrap(), [record(), bare]);
    }

    #[test]
    fn a_torn_line_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("torn.jsonl");
        let whole = serde_json::to_string(&record()).unwrap();
        std::fs::write(&path, format!("{whole}\n{}", &whole[..40])).unwrap();
        let error = read_history(&path).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
