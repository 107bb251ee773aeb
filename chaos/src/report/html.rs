//! The page: verdict, table fault by fault, then a plot a scenario. Holds everything it shows.

use std::fmt::Write as _;

use super::plot::plot;
use super::style::SHEET;
use super::summary::recovery;
use super::{Report, RunReport, ScenarioReport, Spread, Summary};

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = String::with_capacity(1 << 18);
    let sound = report.is_sound();
    let (class, verdict) = if sound {
        ("ok", "Every promise was kept.")
    } else {
        ("bad", "A promise was broken.")
    };
    let _ = write!(
        page,
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Tidegate chaos report</title><style>{SHEET}</style></head><body><h1>Tidegate chaos report</h1><p class="verdict {class}">{verdict}</p><p class="soft">tidegate {}, begun {}.</p>"#,
        escape(&report.version),
        utc(report.began_at),
    );
    table(&mut page, report);
    for (number, scenario) in report.scenarios.iter().enumerate() {
        section(&mut page, number, scenario, report);
    }
    page.push_str("</body></html>\n");
    page
}

const HEAD: &str = r#"<thead><tr class="groups"><th class="name"></th><th></th><th></th><th colspan="5">checks</th><th colspan="3">wrongly admitted, units</th><th colspan="3">wrong or missing answers</th><th colspan="3">service</th></tr><tr><th class="name">fault</th><th>promises</th><th>runs</th><th>asked</th><th>admitted</th><th>denied</th><th>degraded</th><th>errors</th><th>proven</th><th>fault's bound</th><th>possible</th><th>wrongly denied</th><th>stuck</th><th>past deadline</th><th>recovery p50</th><th>recovery max</th><th>longest gap</th></tr></thead>"#;

fn table(page: &mut String, report: &Report) {
    let _ = write!(page, r#"<div class="scroll"><table>{HEAD}<tbody>"#);
    for (number, row) in report.summaries().iter().enumerate() {
        let _ = write!(
            page,
            r##"<tr><td class="name"><a href="#s{number}">{}</a></td>{}<td>{}</td>"##,
            escape(&name(&row.name, row.repair, report)),
            verdict(row),
            row.repetitions,
        );
        let counts = [
            row.checks,
            row.admitted,
            row.denied,
            row.degraded,
            row.errors,
            row.wrongly_admitted,
            row.wrongly_admitted_bound,
            row.wrongly_admitted_possible,
            row.wrongly_denied,
            row.stuck,
            row.past_deadline,
        ];
        for count in counts {
            let _ = write!(page, "<td>{}</td>", grouped(count));
        }
        let recovery = if row.not_recovered > 0 {
            None
        } else {
            row.recovery_ms
        };
        let never = if row.not_recovered > 0 { "never" } else { "" };
        let time = |of: Option<f64>| of.map_or_else(|| never.to_owned(), milliseconds);
        let _ = write!(
            page,
            "<td>{}</td><td>{}</td><td>{}</td></tr>",
            time(recovery.map(|r| r.p50)),
            time(recovery.map(|r| r.max)),
            row.without_service_ms
                .map_or_else(String::new, |gap: Spread| milliseconds(gap.max)),
        );
    }
    page.push_str("</tbody></table></div>");
    page.push_str(LEGEND);
}

const LEGEND: &str = r#"<p class="small soft">Proven: units that were above a limit whatever the true instants were between question and answer. The fault's bound: what the store had acknowledged when the fault took it away, at most one limit a ceiling. Possible: what the instants alone can't exclude; under load it is seldom zero. Recovery: from the fault (or from its end, where nothing can be served before) until the last interruption of 100 ms or more is over, on the shard and for the instance that saw it worst; without one, the longest gap between two answers of the store. Past deadline is measured against a timer that was set with the check.</p>"#;

fn verdict(row: &Summary) -> String {
    if !row.broken.is_empty() {
        let why = escape(&row.broken.join("; "));
        return format!(r#"<td class="bad" title="{why}">broken</td>"#);
    }
    if row.missed > 0 {
        let runs = row.repetitions;
        return format!(
            r#"<td class="slow" title="{} of {runs} runs missed a goal">kept, slow</td>"#,
            row.missed
        );
    }
    r#"<td class="ok">kept</td>"#.to_owned()
}

fn section(page: &mut String, number: usize, scenario: &ScenarioReport, report: &Report) {
    let name = name(&scenario.name, scenario.repair, report);
    let deadline = report.deadline;
    let _ = write!(
        page,
        r#"<section id="s{number}"><div class="head"><h2>{}</h2><span class="small soft">{}, {}</span></div><p>{}</p><p class="soft">{}</p><p class="soft small">{}</p>"#,
        escape(&name),
        escape(&scenario.server),
        escape(&scenario.cluster),
        escape(&scenario.fault),
        escape(&scenario.promise),
        escape(&scenario.load),
    );
    let mut runs: Vec<&RunReport> = scenario.runs.iter().collect();
    // The worst first: broken, then slowest to recover.
    runs.sort_by_key(|run| {
        let slowest = recovery(run).unwrap_or(u64::MAX);
        std::cmp::Reverse((run.broken.len(), run.judgement.wrongly_admitted, slowest))
    });
    if let Some((worst, others)) = runs.split_first() {
        page.push_str(KEY);
        figure(page, &name, worst, deadline);
        if !others.is_empty() {
            let _ = write!(
                page,
                "<details><summary>{} more run{}</summary>",
                others.len(),
                if others.len() == 1 { "" } else { "s" }
            );
            for run in others {
                figure(page, &name, run, deadline);
            }
            page.push_str("</details>");
        }
    }
    for why in &scenario.not_run {
        let _ = write!(
            page,
            r#"<p class="small slow">Not run: {}</p>"#,
            escape(why)
        );
    }
    page.push_str("</section>");
}

const KEY: &str = r#"<div class="key"><span><i class="stroke" style="background:var(--ink)"></i>asked</span><span><i style="background:var(--admitted)"></i>admitted</span><span><i style="background:var(--denied)"></i>denied</span><span><i style="background:var(--degraded)"></i>degraded</span><span><i style="background:var(--error)"></i>error</span><span><i class="stroke" style="background:var(--p50)"></i>p50</span><span><i class="stroke" style="background:var(--p99)"></i>p99</span><span><i class="stroke" style="background:var(--max)"></i>slowest</span><span><i style="background:var(--served)"></i>shard served</span><span><i style="background:var(--away)"></i>not served</span><span><i style="background:var(--stall)"></i>machine stood still</span></div>"#;

fn figure(page: &mut String, name: &str, run: &RunReport, deadline: u64) {
    let judged = &run.judgement;
    let recovery = recovery(run).map_or_else(|| "never".to_owned(), millis);
    let _ = write!(
        page,
        r#"<h3>Run {}</h3><p class="small">{} checks in {:.1} s; {} units wrongly admitted (bound {}), {} checks wrongly denied; recovery {recovery}"#,
        run.repetition,
        grouped(judged.checks),
        run.seconds,
        grouped(judged.wrongly_admitted),
        grouped(run.wrongly_admitted_bound),
        grouped(judged.wrongly_denied),
    );
    if let Some(latency) = run.latency {
        let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(millis);
        let _ = write!(page, "; latency p50 {p50}, p99 {p99}, slowest {max}");
    }
    if let Some((took, after)) = run.takeover.zip(run.after_takeover) {
        let [took, after] = [took, after].map(millis);
        let _ = write!(
            page,
            "; the replica took over after {took}, served all {after} later"
        );
    }
    if run.restored > 0 {
        let _ = write!(page, "; {} lost charges put back", grouped(run.restored));
    }
    let longest = run.stalls.iter().map(|(from, to)| to.saturating_sub(*from));
    if let Some(longest) = longest.max() {
        let stall = millis(longest);
        let _ = write!(page, "; the machine stood still for up to {stall}");
    }
    page.push_str("</p>");
    for broken in &run.broken {
        let _ = write!(
            page,
            r#"<p class="small bad">Broken: {}</p>"#,
            escape(broken)
        );
    }
    page.push_str(&plot(
        run,
        deadline,
        &format!("{name}, run {}", run.repetition),
    ));
    worst_ceilings(page, run);
}

fn worst_ceilings(page: &mut String, run: &RunReport) {
    if run.judgement.ceilings.is_empty() {
        return;
    }
    page.push_str("<details><summary>ceilings that were exceeded</summary><ul class=\"small\">");
    for ceiling in &run.judgement.ceilings {
        let scope = ceiling.region.as_deref().unwrap_or("all regions");
        let _ = write!(
            page,
            "<li><code>{}</code> of <code>{}</code>, {}: {} units in the window that ended at {:.3} s, limit {}; {} too many in all</li>",
            escape(&ceiling.policy),
            escape(&ceiling.subject),
            escape(scope),
            grouped(ceiling.peak),
            run.timeline.position(ceiling.peak_at) / 10.0,
            grouped(ceiling.limit),
            grouped(ceiling.wrongly_admitted),
        );
    }
    page.push_str("</ul></details>");
}

/// A scenario's name; with or without repair where it was run both ways.
pub(super) fn name(name: &str, repair: bool, report: &Report) -> String {
    let same = report.scenarios.iter().filter(|other| other.name == name);
    match (same.count() > 1, repair) {
        (false, _) => name.to_owned(),
        (true, true) => format!("{name}, repaired"),
        (true, false) => format!("{name}, unrepaired"),
    }
}

/// Text that can't be markup.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

/// Microseconds as people read them: `0.42 ms`, `37 ms`, `2.75 s`.
pub(super) fn millis(us: u64) -> String {
    milliseconds(us as f64 / 1e3)
}

fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 9.995 => format!("{ms:.2} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms => format!("{:.2} s", ms / 1e3),
    }
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An instant as `2026-11-30 19:20:07 UTC`, by the civil calendar (Howard Hinnant's
/// `civil_from_days`).
fn utc(us: u64) -> String {
    let secs = us / 1_000_000;
    let (days, of_day) = (secs / 86_400 + 719_468, secs % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(millis(420), "0.42 ms");
        assert_eq!(millis(37_200), "37 ms");
        assert_eq!(millis(2_750_000), "2.75 s");
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(1_709_164_799_000_000), "2024-02-28 23:59:59 UTC");
        assert_eq!(utc(1_709_164_800_000_000), "2024-02-29 00:00:00 UTC");
        assert_eq!(utc(1_735_689_599_000_000), "2024-12-31 23:59:59 UTC");
    }

    #[test]
    fn no_name_can_become_markup() {
        assert_eq!(escape(r#"<a b="c">&"#), "&lt;a b=&quot;c&quot;&gt;&amp;");
    }
}
