//! What a chaos run found: figures for scripts ([`Summary`]), everything for machines (JSON), one
//! page for people, with a plot a fault and no file beside it, and its table in Markdown. Never
//! judges: the oracle did.

mod format;
mod markdown;
mod page;
mod plot;
mod results;
mod summary;
mod timeline;

use std::io;
use std::path::{Path, PathBuf};

pub use results::{Event, Report, RunReport, ScenarioReport};
pub use summary::{Spread, Summary};
pub use timeline::{Latency, STEP, Step, Timeline};

impl Report {
    /// Writes `chaos.html`, `chaos.md` and `chaos.json` into a directory, made when it is missing;
    /// returns the page's path.
    ///
    /// # Errors
    /// The operating system's.
    pub fn write_to(&self, dir: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(dir)?;
        let page = dir.join("chaos.html");
        let html = page::page(self).map_err(io::Error::other)?;
        std::fs::write(&page, html)?;
        std::fs::write(dir.join("chaos.md"), markdown::table(self))?;
        let json = serde_json::to_vec(self)?;
        std::fs::write(dir.join("chaos.json"), json)?;
        Ok(page)
    }
}
