//! What a run came to: a table for people, JSON for programs. Both say the same numbers.

use std::fmt::Write as _;

use serde::Serialize;

use super::numbers::thousands;
use super::plan::{Extent, Plan};
use super::run::Measured;
use tidegate::model::Source;

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// The result's JSON members, in their order.
#[derive(Debug, Serialize)]
struct ResultBody {
    /// All that were sent: `admitted + denied + errors`.
    checks: u64,
    admitted: u64,
    denied: u64,
    /// No decision came.
    errors: u64,
    /// Of the admitted and the denied: decided without the store.
    degraded: u64,
    seconds: f64,
    per_second: f64,
    /// Script calls sent; `null` when the server doesn't tell.
    store_calls: Option<u64>,
    latency_ms: LatencyBody,
    by_source: SourcesBody,
    /// Due by `--rate` and not sent in time.
    #[serde(skip_serializing_if = "is_zero")]
    unsent: u64,
}

#[derive(Debug, Serialize)]
struct LatencyBody {
    p50: f64,
    p95: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// The sources by their names; they sum to `admitted + denied`.
#[derive(Debug, Serialize)]
struct SourcesBody {
    denial_cache: u64,
    lease: u64,
    node_ceiling: u64,
    store: u64,
    outage: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The result as JSON, in one line.
pub(super) fn json(measured: &Measured) -> Result<String, serde_json::Error> {
    let tally = &measured.tally;
    let counts = tally.counts();
    let seconds = measured.took.as_secs_f64();
    serde_json::to_string(&ResultBody {
        checks: counts.checks(),
        admitted: counts.admitted,
        denied: counts.denied,
        errors: counts.errors,
        degraded: counts.degraded,
        seconds: rounded(seconds, 1e6),
        per_second: rounded(counts.checks() as f64 / seconds.max(1e-6), 10.0),
        store_calls: measured.store_calls,
        latency_ms: LatencyBody {
            p50: tally.latency_ms(0.5),
            p95: tally.latency_ms(0.95),
            p99: tally.latency_ms(0.99),
            p999: tally.latency_ms(0.999),
            max: tally.latency_ms_max(),
        },
        by_source: SourcesBody {
            denial_cache: tally.by_source(Source::DenialCache),
            lease: tally.by_source(Source::Lease),
            node_ceiling: tally.by_source(Source::NodeCeiling),
            store: tally.by_source(Source::Store),
            outage: tally.by_source(Source::Outage),
        },
        unsent: measured.unsent,
    })
}

fn rounded(number: f64, steps: f64) -> f64 {
    (number * steps).round() / steps
}

/// The result as a table, without the last line's end.
pub(super) fn table(plan: &Plan, backend: &str, measured: &Measured) -> String {
    let counts = measured.tally.counts();
    let seconds = measured.took.as_secs_f64();
    let checks = counts.checks();
    let share = |count: u64| match checks {
        0 => String::new(),
        all => format!("{:.1} %", count as f64 * 100.0 / all as f64),
    };
    let mut text = heading(plan, backend);
    let mut row = |name: &str, value: String, more: String| {
        let line = format!("  {name:<13}{value:>14}  {more}");
        let _ = write!(text, "\n{}", line.trim_end());
    };
    let per_second = checks as f64 / seconds.max(1e-6);
    row(
        "checks",
        thousands(checks),
        format!("{}/s over {seconds:.2} s", thousands(per_second as u64)),
    );
    row(
        "admitted",
        thousands(counts.admitted),
        share(counts.admitted),
    );
    row("denied", thousands(counts.denied), share(counts.denied));
    row(
        "degraded",
        thousands(counts.degraded),
        share(counts.degraded),
    );
    row("errors", thousands(counts.errors), share(counts.errors));
    match measured.store_calls {
        Some(0) => row(
            "store calls",
            "0".to_owned(),
            "counted in memory".to_owned(),
        ),
        Some(calls) => {
            let each = calls as f64 / checks.max(1) as f64;
            row(
                "store calls",
                thousands(calls),
                format!("{each:.3} a check"),
            );
        }
        None => row(
            "store calls",
            "-".to_owned(),
            "the server doesn't tell".to_owned(),
        ),
    }
    row("", String::new(), String::new());
    for (name, quantile) in QUANTILES {
        let ms = measured.tally.latency_ms(quantile);
        row(
            &format!("latency {name}"),
            format!("{ms:.3} ms"),
            String::new(),
        );
    }
    let max = measured.tally.latency_ms_max();
    row("latency max", format!("{max:.3} ms"), String::new());
    row("", String::new(), String::new());
    for source in Source::ALL {
        match measured.tally.by_source(source) {
            0 => {}
            count => row(source.name(), thousands(count), share(count)),
        }
    }
    text.push_str(&remarks(plan, measured));
    text
}

fn heading(plan: &Plan, backend: &str) -> String {
    let regions = match plan.regions.as_slice() {
        [] => String::new(),
        regions => format!(" in {}", regions.join(", ")),
    };
    let extent = match plan.extent {
        Extent::Time(time) => format!("{} s", time.as_secs_f64()),
        Extent::Checks(checks) => format!("{} checks", thousands(checks)),
    };
    let rate = plan
        .rate
        .map(|rate| format!(" at {}/s", thousands(rate.0)))
        .unwrap_or_default();
    format!(
        "{} of {} ({}){regions} on {backend}: {} tasks, {extent}{rate}\n",
        plan.policy,
        match plan.subjects {
            1 => "1 subject".to_owned(),
            n => format!("{} subjects", thousands(n)),
        },
        plan.distribution,
        thousands(plan.tasks),
    )
}

/// What a reader of the numbers must know.
fn remarks(plan: &Plan, measured: &Measured) -> String {
    let mut text = String::new();
    if measured.unsent > 0 {
        let unsent = thousands(measured.unsent);
        let _ = write!(
            text,
            "\n\nnot sent in time: {unsent} that were due; take more --tasks, or a lower --rate"
        );
    } else if plan.rate.is_some() {
        text.push_str("\n\nlatencies count from the instant at which each check was due");
    }
    if measured.tally.counts().degraded > 0 {
        text.push_str(
            "\n\ndegraded: the store did not answer within the --deadline, and the policy's \
             on_outage decided",
        );
    }
    for (error, count) in measured.tally.errors() {
        let _ = write!(text, "\n\n{} x {error}", thousands(count));
    }
    text
}
