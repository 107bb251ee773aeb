//! What chaos is at, on standard error: a bar where somebody watches, a line a finished run for
//! everyone who didn't ask for JSON. Never on standard output.

use std::io::IsTerminal as _;
use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use tidegate_chaos::report::RunReport;
use tidegate_chaos::scenario::{Phase, RunId, ScenarioError};

const TEMPLATE: &str = "{bar:24} {pos}/{len} {spinner} {msg} ({elapsed})";

/// A bar, lines, or nothing.
pub(super) struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    /// Of so many runs.
    pub fn new(quiet: bool, runs: usize) -> Self {
        let watched = !quiet && std::io::stderr().is_terminal();
        let target = match watched {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        if watched {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress { bar, quiet }
    }

    /// A run is at this.
    pub fn phase(&self, id: RunId, phase: Phase) {
        let at = match phase {
            Phase::Starting => "starting".to_owned(),
            Phase::Asking(ms) => format!("asking for {} s", ms / 1_000),
            Phase::Judging => "judging".to_owned(),
        };
        self.bar.set_message(format!("{}: {at}", title(id)));
    }

    /// A run has finished.
    pub fn finished(&self, id: RunId, ran: Result<&RunReport, &ScenarioError>) {
        self.bar.inc(1);
        let run = match ran {
            Ok(run) => run,
            Err(error) => return self.say(&format!("{}: NOT RUN: {error}", title(id))),
        };
        let judged = &run.judgement;
        let recovery = run.recovery();
        let recovery = recovery.map_or("never".to_owned(), |us| format!("{} ms", us / 1_000));
        let mut line = format!(
            "{}: {} checks, {} wrongly admitted (bound {}), {} wrongly denied, recovery {recovery}",
            title(id),
            judged.checks,
            judged.wrongly_admitted,
            run.wrongly_admitted_bound,
            judged.wrongly_denied,
        );
        for broken in &run.broken {
            line.push_str(&format!("\n  BROKEN: {broken}"));
        }
        for missed in &run.missed {
            line.push_str(&format!("\n  goal missed: {missed}"));
        }
        self.say(&line);
    }

    /// A scenario can't be run here.
    pub fn left_out(&self, name: &str, why: &str, runs: u32) {
        self.bar.inc(u64::from(runs));
        self.say(&format!("{name}: not run: {why}"));
    }

    fn say(&self, line: &str) {
        if self.quiet {
            return;
        }
        if self.bar.is_hidden() {
            // Nobody can be told that the standard error is gone.
            let _ = writeln!(std::io::stderr(), "{line}");
        } else {
            self.bar.println(line);
        }
    }

    /// All is done.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}

fn title(id: RunId) -> String {
    let repair = match (id.repair, id.scenario.is_repairable()) {
        (true, true) => " with repair",
        (false, true) => " without repair",
        _ => "",
    };
    format!("{}{repair} #{}", id.scenario.name, id.repetition)
}
