//! A run's plot: what was answered each 100 ms, how long it took, which shards served, and the
//! fault's moments, over one axis of seconds. Inline SVG that takes its colours from the page.

use std::fmt::Write as _;

use super::html::escape;
use super::{Latency, RunReport, Step, Timeline};

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
const MARK_ROW: f64 = 15.0;
const MARK_ROWS_MAX: usize = 4;
const COUNTS_HEIGHT: f64 = 170.0;
const LATENCY_HEIGHT: f64 = 110.0;
const SHARD_HEIGHT: f64 = 12.0;
const GAP: f64 = 26.0;
/// The latency axis, in microseconds: powers of ten from 0.1 ms to 10 s.
const DECADES: [(f64, &str); 6] = [
    (1e2, "0.1 ms"),
    (1e3, "1 ms"),
    (1e4, "10 ms"),
    (1e5, "100 ms"),
    (1e6, "1 s"),
    (1e7, "10 s"),
];

/// A class of the style sheet, and the figure that is drawn in it.
type Series<T> = (&'static str, fn(&T) -> u64);

/// Where things stand, in the drawing's units.
struct Frame<'a> {
    timeline: &'a Timeline,
    counts_top: f64,
    latency_top: f64,
    shards_top: f64,
    bottom: f64,
    counts_max: f64,
}

impl<'a> Frame<'a> {
    fn of(timeline: &'a Timeline, mark_rows: usize) -> Self {
        let most = timeline
            .steps
            .iter()
            .map(|step| step.checks.max(step.answered()));
        let shards = timeline.steps.first().map_or(0, |step| step.served.len());
        let counts_top = 8.0 + MARK_ROW * mark_rows as f64;
        let latency_top = counts_top + COUNTS_HEIGHT + GAP;
        let shards_top = latency_top + LATENCY_HEIGHT + GAP;
        Frame {
            timeline,
            counts_top,
            latency_top,
            shards_top,
            // One strip more: the machine's.
            bottom: shards_top + (SHARD_HEIGHT + 4.0) * (shards + 1) as f64,
            counts_max: nice(most.max().unwrap_or(1).max(1) as f64),
        }
    }

    fn x(&self, steps: f64) -> f64 {
        let width = (WIDTH - LEFT - RIGHT) / self.timeline.steps.len().max(1) as f64;
        LEFT + steps * width
    }

    fn count_y(&self, count: f64) -> f64 {
        self.counts_top + COUNTS_HEIGHT * (1.0 - count / self.counts_max)
    }

    fn latency_y(&self, us: f64) -> f64 {
        let share = (us.clamp(1e2, 1e7).log10() - 2.0) / 5.0;
        self.latency_top + LATENCY_HEIGHT * (1.0 - share)
    }
}

/// The next round number: a small even multiple of a power of ten.
fn nice(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor());
    let step = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
        .into_iter()
        .find(|step| step * power >= most);
    step.unwrap_or(10.0) * power
}

/// Draws a run; `deadline` in microseconds.
pub(super) fn plot(run: &RunReport, deadline: u64, title: &str) -> String {
    let mut svg = String::new();
    let rows = mark_rows(run);
    let used = rows.iter().map(|(row, ..)| row + 1).max().unwrap_or(1);
    let frame = Frame::of(&run.timeline, used);
    let height = frame.bottom + 24.0;
    let title = escape(title);
    let _ = write!(
        svg,
        r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{title}"><title>{title}</title>"#
    );
    counts(&mut svg, &frame);
    latencies(&mut svg, &frame, deadline);
    shards(&mut svg, &frame);
    stalls(&mut svg, &frame, run);
    seconds(&mut svg, &frame);
    touches(&mut svg, &frame);
    for (row, at, label) in rows {
        mark(&mut svg, &frame, row, at, &label);
    }
    svg.push_str("</svg>");
    svg
}

fn counts(svg: &mut String, frame: &Frame) {
    for share in [0.0, 0.5, 1.0] {
        let count = frame.counts_max * share;
        grid(svg, frame.count_y(count), &format!("{count:.0}"));
    }
    caption(svg, frame.counts_top, "checks per 100 ms");
    let series: [Series<Step>; 4] = [
        ("admitted", |step| step.admitted),
        ("denied", |step| step.denied),
        ("degraded", |step| step.degraded),
        ("error", |step| step.errors),
    ];
    let mut floor = vec![0.0; frame.timeline.steps.len()];
    for (class, of) in series {
        let top: Vec<f64> = frame
            .timeline
            .steps
            .iter()
            .zip(&floor)
            .map(|(step, floor)| floor + of(step) as f64)
            .collect();
        if top != floor {
            let up = outline(frame, &top);
            let down = outline(frame, &floor).into_iter().rev();
            let points: Vec<String> = up.into_iter().chain(down).collect();
            let _ = write!(
                svg,
                r#"<polygon class="{class}" points="{}"/>"#,
                points.join(" ")
            );
        }
        floor = top;
    }
    let asked: Vec<f64> = frame
        .timeline
        .steps
        .iter()
        .map(|step| step.checks as f64)
        .collect();
    let points = outline(frame, &asked).join(" ");
    let _ = write!(svg, r#"<polyline class="asked" points="{points}"/>"#);
}

/// A line of steps: level over each step.
fn outline(frame: &Frame, levels: &[f64]) -> Vec<String> {
    let corners = levels.iter().enumerate().flat_map(|(step, level)| {
        [step, step + 1].map(|at| format!("{:.1},{:.1}", frame.x(at as f64), frame.count_y(*level)))
    });
    corners.collect()
}

fn latencies(svg: &mut String, frame: &Frame, deadline: u64) {
    for (us, label) in DECADES {
        grid(svg, frame.latency_y(us), label);
    }
    caption(svg, frame.latency_top, "latency");
    let y = frame.latency_y(deadline as f64);
    let (right, text) = (WIDTH - RIGHT, super::html::millis(deadline));
    let _ = write!(
        svg,
        r#"<path class="deadline" d="M{LEFT} {y:.1}H{right}"/><text x="{right}" y="{:.1}" text-anchor="end">deadline {text}</text>"#,
        y - 3.0
    );
    let series: [Series<Latency>; 3] = [
        ("max", |latency| latency.max),
        ("p99", |latency| latency.p99),
        ("p50", |latency| latency.p50),
    ];
    for (class, of) in series {
        let mut path = String::new();
        let mut pen = 'M';
        for (at, step) in frame.timeline.steps.iter().enumerate() {
            // A step without an answer has no latency: the line is broken there.
            let Some(latency) = &step.latency else {
                pen = 'M';
                continue;
            };
            let (x, y) = (
                frame.x(at as f64 + 0.5),
                frame.latency_y(of(latency) as f64),
            );
            let _ = write!(path, "{pen}{x:.1} {y:.1}");
            pen = 'L';
        }
        let _ = write!(svg, r#"<path class="{class}" d="{path}"/>"#);
    }
}

fn shards(svg: &mut String, frame: &Frame) {
    let count = frame
        .timeline
        .steps
        .first()
        .map_or(0, |step| step.served.len());
    caption(svg, frame.shards_top, "shards served by the store");
    for shard in 0..count {
        let top = frame.shards_top + (SHARD_HEIGHT + 4.0) * shard as f64;
        let _ = write!(
            svg,
            r#"<text x="{}" y="{:.1}" text-anchor="end">shard {shard}</text>"#,
            LEFT - 6.0,
            top + SHARD_HEIGHT - 2.0
        );
        let mut begin = 0;
        let served = |at: usize| {
            let step = frame.timeline.steps.get(at)?;
            step.served.get(shard).map(|answers| *answers > 0)
        };
        for at in 1..=frame.timeline.steps.len() {
            if served(at) == served(begin) {
                continue;
            }
            let class = if served(begin) == Some(true) {
                "served"
            } else {
                "away"
            };
            let (x, end) = (frame.x(begin as f64), frame.x(at as f64));
            let _ = write!(
                svg,
                r#"<rect class="{class}" x="{x:.1}" y="{top:.1}" width="{:.1}" height="{SHARD_HEIGHT}"/>"#,
                end - x
            );
            begin = at;
        }
    }
}

/// When the machine let an instance wait: what happened then is not the limiter's doing.
fn stalls(svg: &mut String, frame: &Frame, run: &RunReport) {
    let top = frame.bottom - SHARD_HEIGHT - 4.0;
    let _ = write!(
        svg,
        r#"<text x="{}" y="{:.1}" text-anchor="end">machine</text>"#,
        LEFT - 6.0,
        top + SHARD_HEIGHT - 2.0
    );
    let steps = frame.timeline.steps.len() as f64;
    for (from, to) in &run.stalls {
        let [x, end] = [from, to].map(|at| frame.x(frame.timeline.position(*at).min(steps)));
        let _ = write!(
            svg,
            r#"<rect class="stall" x="{x:.1}" y="{top:.1}" width="{:.1}" height="{SHARD_HEIGHT}"/>"#,
            (end - x).max(1.0)
        );
    }
}

fn seconds(svg: &mut String, frame: &Frame) {
    let total = frame.timeline.steps.len() / 10;
    let every = [1, 2, 5, 10, 30, 60]
        .into_iter()
        .find(|every| total / every <= 16);
    let every = every.unwrap_or(120);
    for second in (0..=total).step_by(every) {
        let x = frame.x(second as f64 * 10.0);
        let _ = write!(
            svg,
            r#"<text x="{x:.1}" y="{:.1}" text-anchor="{}">{second} s</text>"#,
            frame.bottom + 16.0,
            if x > WIDTH - 20.0 { "end" } else { "middle" }
        );
    }
}

/// Invisible columns that say their figures when pointed at.
fn touches(svg: &mut String, frame: &Frame) {
    let height = frame.bottom - frame.counts_top;
    for (at, step) in frame.timeline.steps.iter().enumerate() {
        let (x, width) = (frame.x(at as f64), frame.x(1.0) - frame.x(0.0));
        let latency = step.latency.map_or_else(String::new, |latency| {
            let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(super::html::millis);
            format!("\np50 {p50}, p99 {p99}, max {max}")
        });
        let _ = write!(
            svg,
            "<rect class=\"touch\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{:.1} s: {} asked\nadmitted {}, denied {}, degraded {}, errors {}{latency}</title></rect>",
            frame.counts_top,
            at as f64 / 10.0,
            step.checks,
            step.admitted,
            step.denied,
            step.degraded,
            step.errors,
        );
    }
}

/// Each mark's row, place and label: labels that would touch stand in different rows.
fn mark_rows(run: &RunReport) -> Vec<(usize, f64, String)> {
    let mut ends = [f64::MIN; MARK_ROWS_MAX];
    let steps = run.timeline.steps.len().max(1) as f64;
    let mut marks: Vec<_> = run.marks.iter().collect();
    marks.sort_by_key(|mark| mark.at);
    let place = |mark: &&super::Mark| {
        let at = run.timeline.position(mark.at).min(steps);
        let label = format!("{} ({:.1} s)", mark.label, at / 10.0);
        let x = LEFT + at / steps * (WIDTH - LEFT - RIGHT);
        let width = label.chars().count() as f64 * 6.6;
        let (from, to) = if is_right(x, width) {
            (x - width, x)
        } else {
            (x, x + width)
        };
        let free = ends.iter().position(|end| *end < from - 8.0);
        let row = free.unwrap_or(MARK_ROWS_MAX - 1);
        if let Some(end) = ends.get_mut(row) {
            *end = end.max(to);
        }
        (row, at, label)
    };
    marks.iter().map(place).collect()
}

/// Whether a label has no room to the right of its mark.
fn is_right(x: f64, width: f64) -> bool {
    x + width + 8.0 > WIDTH - RIGHT
}

fn mark(svg: &mut String, frame: &Frame, row: usize, at: f64, label: &str) {
    let x = frame.x(at);
    let y = 4.0 + MARK_ROW * (row as f64 + 0.7);
    let width = label.chars().count() as f64 * 6.6;
    let (anchor, text_x) = if is_right(x, width) {
        ("end", x - 4.0)
    } else {
        ("start", x + 4.0)
    };
    let _ = write!(
        svg,
        r#"<path class="at" d="M{x:.1} {:.1}V{:.1}"/><text class="mark" x="{text_x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
        y - 9.0,
        frame.bottom,
        escape(label)
    );
}

fn grid(svg: &mut String, y: f64, label: &str) {
    let _ = write!(
        svg,
        r#"<path class="grid" d="M{LEFT} {y:.1}H{}"/><text x="{}" y="{:.1}" text-anchor="end">{label}</text>"#,
        WIDTH - RIGHT,
        LEFT - 6.0,
        y + 4.0
    );
}

fn caption(svg: &mut String, top: f64, text: &str) {
    let _ = write!(
        svg,
        r#"<text x="{LEFT}" y="{:.1}">{text}</text>"#,
        top - 5.0
    );
}
