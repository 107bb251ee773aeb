//! The table fault by fault as Markdown: for a README or a post-mortem.

use std::fmt::Write as _;

use super::format::grouped;
use super::{Report, Spread};

/// The table, with what its columns mean.
pub(super) fn table(report: &Report) -> String {
    let summaries = report.summaries();
    let shards = summaries.iter().map(|row| row.recovery_by_shard_ms.len());
    let shards = shards.max().unwrap_or(0);
    let mut text = String::from("| fault | runs |");
    for shard in 0..shards {
        let _ = write!(text, " shard {shard} back |");
    }
    text.push_str(
        " replica took over | served after that | wrongly admitted (bound) | wrongly denied | stuck | late |\n|---|---|",
    );
    text.push_str(&"---|".repeat(shards + 6));
    for row in &summaries {
        let fault = report.scenario_name(&row.name, row.repair);
        let _ = write!(text, "\n| {fault} | {} |", row.repetitions);
        for shard in 0..shards {
            let back = row.recovery_by_shard_ms.get(shard).copied().flatten();
            let _ = write!(text, " {} |", spread(back));
        }
        let _ = write!(
            text,
            " {} | {} | {} ({}) | {} | {} | {} |",
            spread(row.takeover_ms),
            spread(row.after_takeover_ms),
            grouped(row.wrongly_admitted),
            grouped(row.wrongly_admitted_bound),
            row.wrongly_denied,
            row.stuck,
            row.past_deadline,
        );
    }
    text.push_str(LEGEND);
    text
}

const LEGEND: &str = "\n\nTimes in ms: middle run / slowest run. Back: from the fault (or from its end, where nothing can be\nserved before) until the last interruption of 100 ms or more is over, for the instance that saw it\nworst; without one, the longest gap between two answers of the store. Units wrongly admitted, in all\nruns together, and what the faults themselves may let through.\n";

fn spread(times: Option<Spread>) -> String {
    let rounded = |ms: f64| grouped(ms.round() as u64);
    times.map_or_else(String::new, |t| {
        format!("{} / {}", rounded(t.p50), rounded(t.max))
    })
}
