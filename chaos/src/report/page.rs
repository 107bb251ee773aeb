//! The page: result, table fault by fault, then a plot a scenario. Holds everything it shows.

use std::cmp::Reverse;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::format::{grouped, micros, millis, utc};
use super::plot::{PlotError, plot};
use super::{Report, RunReport, ScenarioReport, Summary};

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub(super) fn page(report: &Report) -> Result<String, PlotError> {
    let (class, result) = match report.is_sound() {
        true => ("verdict ok", "Every promise was kept."),
        false => ("verdict bad", "A promise was broken."),
    };
    let sections: Vec<Markup> = (report.scenarios.iter().enumerate())
        .map(|(number, scenario)| section(number, scenario, report))
        .collect::<Result<_, _>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { "Tidegate chaos report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Tidegate chaos report" }
                p class=(class) { (result) }
                p.soft { "tidegate " (report.version) ", begun " (utc(report.began_at)) "." }
                (table(report))
                @for section in sections { (section) }
            }
        }
    };
    Ok(page.into_string())
}

const GROUPS: [(&str, u32); 5] = [
    ("", 3),
    ("checks", 5),
    ("wrongly admitted, units", 3),
    ("wrong or missing answers", 3),
    ("service", 3),
];
const COLUMNS: [&str; 16] = [
    "promises",
    "runs",
    "asked",
    "admitted",
    "denied",
    "degraded",
    "errors",
    "proven",
    "fault's bound",
    "possible",
    "wrongly denied",
    "stuck",
    "past deadline",
    "recovery p50",
    "recovery max",
    "longest gap",
];

fn table(report: &Report) -> Markup {
    html! {
        div.scroll { table {
            thead {
                tr.groups { @for (group, width) in GROUPS { th colspan=(width) { (group) } } }
                tr {
                    th.name { "fault" }
                    @for column in COLUMNS { th { (column) } }
                }
            }
            tbody {
                @for (number, row) in report.summaries().iter().enumerate() {
                    tr {
                        td.name {
                            a href={ "#s" (number) } { (report.scenario_name(&row.name, row.repair)) }
                        }
                        (result(row))
                        @for cell in cells(row) { td { (cell) } }
                    }
                }
            }
        } }
        p.small.soft { (LEGEND) }
    }
}

const LEGEND: &str = "Proven: units admitted above a limit whatever the true instants between \
    question and answer were. Fault's bound: what the store had acknowledged when the fault took \
    it away, at most one limit a ceiling. Possible: what the instants alone can't exclude; seldom \
    zero under load. Recovery: from the fault (or from its end, where nothing can be served \
    before) until the last interruption of 100 ms or more is over, on the shard and for the \
    instance that saw it worst; without one, the longest gap between two answers of the store. \
    Past deadline: measured against a timer that was set with the check.";

fn result(row: &Summary) -> Markup {
    let missed = format!("{} of {} runs missed a goal", row.missed, row.repetitions);
    match (row.broken.is_empty(), row.missed) {
        (false, _) => html! { td.bad title=(row.broken.join("; ")) { "broken" } },
        (true, 0) => html! { td.ok { "kept" } },
        (true, _) => html! { td.slow title=(missed) { "kept, slow" } },
    }
}

fn cells(row: &Summary) -> Vec<String> {
    let counts = [
        row.repetitions as u64,
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
    let recovery = match row.recovery_ms {
        _ if row.not_recovered > 0 => ["never".to_owned(), "never".to_owned()],
        Some(spread) => [spread.p50, spread.max].map(millis),
        None => Default::default(),
    };
    let gap = row.without_service_ms.map(|gap| millis(gap.max));
    let cells = counts.into_iter().map(grouped).chain(recovery);
    cells.chain([gap.unwrap_or_default()]).collect()
}

fn section(number: usize, scenario: &ScenarioReport, report: &Report) -> Result<Markup, PlotError> {
    let name = report.scenario_name(&scenario.name, scenario.repair);
    let mut runs: Vec<&RunReport> = scenario.runs.iter().collect();
    // The worst first: broken, then slowest to recover.
    runs.sort_by_key(|run| {
        let slowest = run.recovery().unwrap_or(u64::MAX);
        Reverse((run.broken.len(), run.judgement.wrongly_admitted, slowest))
    });
    let figures = runs
        .into_iter()
        .map(|run| figure(&name, run, report.deadline));
    let mut figures = figures.collect::<Result<Vec<_>, _>>()?.into_iter();
    let worst = figures.next();
    Ok(html! {
        section id={ "s" (number) } {
            div.head {
                h2 { (name) }
                span.small.soft { (scenario.server) ", " (scenario.cluster) }
            }
            p { (scenario.fault) }
            p.soft { (scenario.promise) }
            p.soft.small { (scenario.load) }
            @if let Some(worst) = worst {
                (key())
                (worst)
            }
            @if figures.len() > 0 {
                details {
                    summary { "more runs: " (figures.len()) }
                    @for figure in figures { (figure) }
                }
            }
            @for why in &scenario.not_run { p.small.slow { "Not run: " (why) } }
        }
    })
}

/// What the plot's colours mean: a variable of the style sheet, and whether it is a line.
const KEY: [(&str, bool, &str); 11] = [
    ("ink", true, "asked"),
    ("admitted", false, "admitted"),
    ("denied", false, "denied"),
    ("degraded", false, "degraded"),
    ("error", false, "error"),
    ("p50", true, "p50"),
    ("p99", true, "p99"),
    ("max", true, "slowest"),
    ("served", false, "shard served"),
    ("away", false, "not served"),
    ("stall", false, "machine stalled"),
];

fn key() -> Markup {
    html! {
        div.key {
            @for (variable, is_line, meaning) in KEY {
                span {
                    i.stroke[is_line] style={ "background:var(--" (variable) ")" } {}
                    (meaning)
                }
            }
        }
    }
}

fn figure(name: &str, run: &RunReport, deadline: u64) -> Result<Markup, PlotError> {
    let judged = &run.judgement;
    let recovery = run.recovery().map_or_else(|| "never".to_owned(), micros);
    let stalls = run.stalls.iter().map(|(from, to)| to.saturating_sub(*from));
    let title = format!("{name}, run {}", run.repetition);
    Ok(html! {
        h3 { "Run " (run.repetition) }
        p.small {
            (grouped(judged.checks)) " checks in " (format!("{:.1}", run.seconds)) " s; "
            (grouped(judged.wrongly_admitted)) " units wrongly admitted (bound "
            (grouped(run.wrongly_admitted_bound)) "), "
            (grouped(judged.wrongly_denied)) " checks wrongly denied; recovery " (recovery)
            @if let Some(latency) = run.latency { "; latency " (latency) }
            @if let Some((took, after)) = run.takeover.zip(run.after_takeover) {
                "; the replica took over after " (micros(took))
                " and served every instance " (micros(after)) " later"
            }
            @if run.restored > 0 { "; " (grouped(run.restored)) " lost charges restored" }
            @if let Some(longest) = stalls.max() {
                "; the machine stalled for up to " (micros(longest))
            }
        }
        @for broken in &run.broken { p.small.bad { "Broken: " (broken) } }
        (plot(run, deadline, &title)?)
        @if !judged.ceilings.is_empty() { (exceeded_ceilings(run)) }
    })
}

fn exceeded_ceilings(run: &RunReport) -> Markup {
    html! {
        details {
            summary { "ceilings that were exceeded" }
            ul.small {
                @for ceiling in &run.judgement.ceilings {
                    li {
                        code { (ceiling.policy) } " of " code { (ceiling.subject) } ", "
                        (ceiling.region.as_deref().unwrap_or("all regions")) ": "
                        (grouped(ceiling.peak)) " units in the window that ended at "
                        (format!("{:.3}", run.timeline.seconds(ceiling.peak_at))) " s, limit "
                        (grouped(ceiling.limit)) "; " (grouped(ceiling.wrongly_admitted))
                        " too many in all"
                    }
                }
            }
        }
    }
}
