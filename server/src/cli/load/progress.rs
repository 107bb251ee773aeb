//! Progress while it runs, on a terminal's standard error only. Never on standard output, and
//! never when nobody watches.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::numbers::thousands;
use super::plan::{Extent, Plan};
use super::tally::Counts;

const TEMPLATE: &str = "{bar:30} {msg}";

/// A bar, or nothing.
pub(super) struct Progress {
    bar: ProgressBar,
    extent: Extent,
    began: Instant,
}

impl Progress {
    /// Progress of a plan that begins now.
    pub fn new(plan: &Plan, quiet: bool) -> Self {
        let watched = !quiet && std::io::stderr().is_terminal();
        let length = match plan.extent {
            Extent::Time(time) => millis(time),
            Extent::Checks(checks) => checks,
        };
        let target = match watched {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress {
            bar,
            extent: plan.extent,
            began: Instant::now(),
        }
    }

    /// Shows counts.
    pub fn show(&self, counts: Counts) {
        if self.bar.is_hidden() {
            return;
        }
        let elapsed = self.began.elapsed();
        self.bar.set_position(match self.extent {
            Extent::Time(_) => millis(elapsed),
            Extent::Checks(_) => counts.checks(),
        });
        let rate = counts.checks() as f64 / elapsed.as_secs_f64().max(1e-3);
        let checks = counts.checks().max(1) as f64;
        let mut message = format!(
            "{:.1} s  {} checks  {}/s  {:.1} % admitted",
            elapsed.as_secs_f64(),
            thousands(counts.checks()),
            thousands(rate as u64),
            counts.admitted as f64 * 100.0 / checks,
        );
        for (count, word) in [(counts.degraded, "degraded"), (counts.errors, "errors")] {
            if count > 0 {
                message.push_str(&format!("  {} {word}", thousands(count)));
            }
        }
        self.bar.set_message(message);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
