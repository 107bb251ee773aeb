//! The result as a table for people. Says the same numbers as the JSON.

use tidegate_chaos::report::Summary;

const HEAD: [&str; 11] = [
    "fault",
    "runs",
    "checks",
    "degraded",
    "over",
    "bound",
    "under",
    "stuck",
    "late",
    "recovery ms",
    "promises",
];

const LEGEND: &str = "\
over: units certainly admitted above a limit; bound: the most that the fault itself may let through
under: checks denied although there was room for certain; late: calls past their deadline
recovery: from the fault to full service, p50 and longest of the runs, on the slowest shard";

/// Rows under a head, columns aligned, the legend below.
pub(super) fn table(summaries: &[Summary]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(summaries.iter().map(row));
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(String::len)
                .max();
            let width = width.unwrap_or(0);
            match column {
                0 => line.push_str(&format!("{cell:<width$}")),
                _ => line.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text + LEGEND
}

fn row(of: &Summary) -> [String; 11] {
    let repair = if of.repair { "" } else { ", no repair" };
    let recovery = match of.recovery_ms {
        Some(spread) if of.not_recovered == 0 => format!("{:.0} / {:.0}", spread.p50, spread.max),
        _ => "never".to_owned(),
    };
    let promises = match (of.broken.is_empty(), of.missed) {
        (false, _) => "BROKEN",
        (true, 0) => "kept",
        (true, _) => "kept, slow",
    };
    [
        format!("{}{repair}", of.name),
        of.repetitions.to_string(),
        of.checks.to_string(),
        of.degraded.to_string(),
        of.wrongly_admitted.to_string(),
        of.wrongly_admitted_bound.to_string(),
        of.wrongly_denied.to_string(),
        of.stuck.to_string(),
        of.past_deadline.to_string(),
        recovery,
        promises.to_owned(),
    ]
}
