//! A run's plot: what was answered each 100 ms, how long it took, which shards served, and the
//! fault's events, over one axis of seconds. Inline SVG that takes its colours from the page.

use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::format::micros;
use super::{Latency, RunReport, Step, Timeline};

/// Why a plot can't be drawn.
pub(super) type PlotError = DrawingAreaErrorKind<std::io::Error>;
type Drawn = Result<(), PlotError>;
type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Series<T> = [(RGBColor, fn(&T) -> u64)];

const WIDTH: i32 = 1040;
const LEFT: i32 = 58;
const RIGHT: i32 = 10;
const EVENT_ROW: i32 = 15;
const EVENT_ROWS_MAX: usize = 4;
/// Above each panel, for its caption.
const CAPTION: i32 = 26;
const COUNTS_HEIGHT: i32 = 170 + CAPTION;
const LATENCY_HEIGHT: i32 = 110 + CAPTION;
const SHARD_ROW: i32 = 16;
const SECONDS_HEIGHT: i32 = 24;
const CHARACTER_WIDTH: i32 = 7;

/// Variables of the style sheet. The drawing library knows fixed colours only, so each is drawn in
/// a colour of its own, by its place here, and put in that colour's place in the end.
const VARIABLES: [&str; 14] = [
    "ink", "soft", "line", "bad", "admitted", "denied", "degraded", "error", "p50", "p99", "max",
    "served", "away", "stall",
];
const INK: RGBColor = RGBColor(0, 0, 0);
const SOFT: RGBColor = RGBColor(0, 0, 1);
const LINE: RGBColor = RGBColor(0, 0, 2);
const BAD: RGBColor = RGBColor(0, 0, 3);
const ADMITTED: RGBColor = RGBColor(0, 0, 4);
const DENIED: RGBColor = RGBColor(0, 0, 5);
const DEGRADED: RGBColor = RGBColor(0, 0, 6);
const ERROR: RGBColor = RGBColor(0, 0, 7);
const P50: RGBColor = RGBColor(0, 0, 8);
const P99: RGBColor = RGBColor(0, 0, 9);
const MAX: RGBColor = RGBColor(0, 0, 10);
const SERVED: RGBColor = RGBColor(0, 0, 11);
const AWAY: RGBColor = RGBColor(0, 0, 12);
const STALL: RGBColor = RGBColor(0, 0, 13);

/// Draws a run; `deadline` in microseconds.
pub(super) fn plot(run: &RunReport, deadline: u64, title: &str) -> Result<Markup, PlotError> {
    let labels = event_labels(run);
    let rows = labels.iter().map(|label| label.row + 1).max().unwrap_or(1);
    let shards = run
        .timeline
        .steps
        .first()
        .map_or(0, |step| step.served.len());
    let top = EVENT_ROW * rows as i32;
    // One strip more than shards: the machine's.
    let bottom = top + COUNTS_HEIGHT + LATENCY_HEIGHT + CAPTION + SHARD_ROW * (shards + 1) as i32;
    let height = bottom + SECONDS_HEIGHT;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32));
        let root = root.into_drawing_area();
        let (_, below) = root.split_vertically(top);
        let (counts_panel, below) = below.split_vertically(COUNTS_HEIGHT);
        let (latency_panel, shards_panel) = below.split_vertically(LATENCY_HEIGHT);
        counts(&counts_panel, &run.timeline)?;
        latencies(&latency_panel, &run.timeline, deadline)?;
        shard_strips(&shards_panel, run, shards)?;
        for label in &labels {
            label.draw(&root, bottom)?;
        }
        root.present()?;
    }
    for (number, variable) in VARIABLES.into_iter().enumerate() {
        let fixed = format!("\"#0000{number:02X}\"");
        svg = svg.replace(&fixed, &format!("\"var(--{variable})\""));
    }
    // The page has an element of its own around the drawing, which grows and shrinks with it.
    let (_, drawing) = svg.split_once('>').unwrap_or_default();
    let drawing = drawing.trim_end().trim_end_matches("</svg>");
    Ok(html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(title) {
            title { (title) }
            (PreEscaped(drawing))
            (hover_columns(&run.timeline, top + CAPTION..bottom))
        }
    })
}

fn text(color: RGBColor, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    let style = ("sans-serif", 11).into_font().color(&color);
    style.pos(Pos::new(horizontal, vertical))
}

/// A chart with a caption over the seconds of a run. A macro, since the chart's type follows from
/// its vertical axis.
macro_rules! chart {
    ($panel:expr, $caption:expr, $timeline:expr, $y:expr) => {{
        let caption = text(SOFT, HPos::Left, VPos::Bottom);
        $panel.draw_text($caption, &caption, (LEFT, CAPTION - 5))?;
        ChartBuilder::on($panel)
            .margin_top(CAPTION)
            .margin_right(RIGHT)
            .set_label_area_size(LabelAreaPosition::Left, LEFT)
            .build_cartesian_2d(0.0..$timeline.steps.len().max(1) as f64 / 10.0, $y)?
    }};
}

fn counts(panel: &Panel<'_>, timeline: &Timeline) -> Drawn {
    let most = timeline
        .steps
        .iter()
        .map(|step| step.checks.max(step.answered()));
    let most = round_up(most.max().unwrap_or(1).max(1) as f64);
    let mut chart = chart!(panel, "checks per 100 ms", timeline, 0.0..most);
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().disable_x_axis().y_labels(5);
    mesh.y_label_formatter(&|count| format!("{count:.0}"));
    mesh.label_style(text(SOFT, HPos::Right, VPos::Center))
        .axis_style(TRANSPARENT);
    mesh.bold_line_style(LINE)
        .light_line_style(TRANSPARENT)
        .draw()?;
    // From the top of the stack down: each area covers the ones below it.
    let series: &Series<Step> = &[
        (ERROR, |step| step.answered()),
        (DEGRADED, |step| step.admitted + step.denied + step.degraded),
        (DENIED, |step| step.admitted + step.denied),
        (ADMITTED, |step| step.admitted),
    ];
    for (color, of) in series {
        let area = AreaSeries::new(outline(timeline, *of), 0.0, color.filled());
        chart.draw_series(area)?;
    }
    chart.draw_series(LineSeries::new(outline(timeline, |step| step.checks), INK))?;
    Ok(())
}

/// A line of steps: level over each step.
fn outline(timeline: &Timeline, of: fn(&Step) -> u64) -> impl Iterator<Item = (f64, f64)> {
    let steps = timeline.steps.iter().enumerate();
    steps.flat_map(move |(at, step)| {
        [at, at + 1].map(|corner| (corner as f64 / 10.0, of(step) as f64))
    })
}

/// The next round number: a small even multiple of a power of ten.
fn round_up(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor());
    let step = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0]
        .into_iter()
        .find(|step| step * power >= most);
    step.unwrap_or(10.0) * power
}

fn latencies(panel: &Panel<'_>, timeline: &Timeline, deadline: u64) -> Drawn {
    // In microseconds.
    let (shortest, longest) = (1e2, 1e7);
    let mut chart = chart!(panel, "latency", timeline, (shortest..longest).log_scale());
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().disable_x_axis().y_labels(6);
    mesh.y_label_formatter(&|us| match us {
        us if *us < 1e6 => format!("{} ms", us / 1e3),
        us => format!("{} s", us / 1e6),
    });
    mesh.label_style(text(SOFT, HPos::Right, VPos::Center))
        .axis_style(TRANSPARENT);
    mesh.bold_line_style(LINE)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let end = timeline.steps.len() as f64 / 10.0;
    let deadline_at = (deadline as f64).clamp(shortest, longest);
    let line = [(0.0, deadline_at), (end, deadline_at)];
    chart.draw_series(DashedLineSeries::new(line, 6, 3, BAD.stroke_width(1)))?;
    let style = text(SOFT, HPos::Right, VPos::Bottom);
    let label = format!("deadline {}", micros(deadline));
    chart.draw_series([Text::new(label, (end, deadline_at * 1.1), style)])?;
    let series: &Series<Latency> = &[
        (MAX, |latency| latency.max),
        (P99, |latency| latency.p99),
        (P50, |latency| latency.p50),
    ];
    let steps: Vec<(usize, &Step)> = timeline.steps.iter().enumerate().collect();
    for (color, of) in series {
        // A step without an answer has no latency: the line is broken there.
        for answered in steps.split(|(_, step)| step.latency.is_none()) {
            let points = answered.iter().filter_map(|(at, step)| {
                let us = of(&step.latency?) as f64;
                Some(((*at as f64 + 0.5) / 10.0, us.clamp(shortest, longest)))
            });
            let line = color.stroke_width(2);
            chart.draw_series(LineSeries::new(points, line))?;
        }
    }
    Ok(())
}

/// When each shard was served, and when the machine let an instance wait: what happened then is
/// not the limiter's doing.
fn shard_strips(panel: &Panel<'_>, run: &RunReport, shards: usize) -> Drawn {
    let timeline = &run.timeline;
    let area = panel.margin(0, SECONDS_HEIGHT, 0, 0);
    let rows = shards as f64 + 1.0;
    let mut chart = chart!(&area, "shards served by the store", timeline, rows..0.0);
    for row in 0..=shards {
        let label = match row {
            row if row == shards => "machine".to_owned(),
            row => format!("shard {row}"),
        };
        let at = (LEFT - 6, CAPTION + SHARD_ROW * row as i32 + SHARD_ROW / 2);
        area.draw_text(&label, &text(SOFT, HPos::Right, VPos::Center), at)?;
    }
    let strip = |row: usize, from: f64, to: f64, color: RGBColor| {
        let row = row as f64;
        Rectangle::new([(from, row + 0.1), (to, row + 0.85)], color.filled())
    };
    for shard in 0..shards {
        let served = |step: &Step| step.served.get(shard).is_some_and(|answers| *answers > 0);
        let mut from = 0;
        for steps in timeline.steps.chunk_by(|a, b| served(a) == served(b)) {
            let to = from + steps.len();
            let color = if steps.iter().any(served) {
                SERVED
            } else {
                AWAY
            };
            let (begin, end) = (from as f64 / 10.0, to as f64 / 10.0);
            chart.draw_series([strip(shard, begin, end, color)])?;
            from = to;
        }
    }
    let end = timeline.steps.len() as f64 / 10.0;
    let stalls = run.stalls.iter().map(|(from, to)| {
        let [from, to] = [from, to].map(|at| timeline.seconds(*at).min(end));
        strip(shards, from, to.max(from + end / 1e3), STALL)
    });
    chart.draw_series(stalls)?;
    let every = [1, 2, 5, 10, 30, 60]
        .into_iter()
        .find(|every| end / f64::from(*every) <= 16.0);
    for second in (0..=end as u32).step_by(every.unwrap_or(120) as usize) {
        let (x, _) = chart.backend_coord(&(f64::from(second), 0.0));
        let (_, height) = panel.dim_in_pixel();
        let horizontal = if x > WIDTH - 20 {
            HPos::Right
        } else {
            HPos::Center
        };
        let style = text(SOFT, horizontal, VPos::Center);
        panel.draw_text(
            &format!("{second} s"),
            &style,
            (x, height as i32 - SECONDS_HEIGHT / 2),
        )?;
    }
    Ok(())
}

/// Invisible columns that show their figures when pointed at.
fn hover_columns(timeline: &Timeline, rows: Range<i32>) -> Markup {
    let width = f64::from(WIDTH - LEFT - RIGHT) / timeline.steps.len().max(1) as f64;
    html! {
        @for (at, step) in timeline.steps.iter().enumerate() {
            rect.touch x=(format!("{:.1}", f64::from(LEFT) + at as f64 * width)) y=(rows.start)
                width=(format!("{width:.1}")) height=(rows.end - rows.start) {
                title {
                    (format!("{:.1}", at as f64 / 10.0)) " s: " (step.checks) " asked\nadmitted "
                    (step.admitted) ", denied " (step.denied) ", degraded " (step.degraded)
                    ", errors " (step.errors)
                    @if let Some(latency) = step.latency { "\n" (latency) }
                }
            }
        }
    }
}

/// An event's label: those that would overlap stand in different rows.
struct EventLabel {
    row: usize,
    x: i32,
    is_left: bool,
    text: String,
}

fn event_labels(run: &RunReport) -> Vec<EventLabel> {
    let mut ends = [i32::MIN; EVENT_ROWS_MAX];
    let length = run.timeline.steps.len().max(1) as f64 / 10.0;
    let mut events: Vec<_> = run.events.iter().collect();
    events.sort_by_key(|event| event.at);
    let label = |event: &super::Event| {
        let at = run.timeline.seconds(event.at).min(length);
        let text = format!("{} ({at:.1} s)", event.label);
        let x = LEFT + (at / length * f64::from(WIDTH - LEFT - RIGHT)) as i32;
        let width = CHARACTER_WIDTH * text.chars().count() as i32;
        let is_left = x + width + 8 > WIDTH - RIGHT;
        let from = if is_left { x - width } else { x };
        let free = ends.iter().position(|end| *end < from - 8);
        let row = free.unwrap_or(EVENT_ROWS_MAX - 1);
        if let Some(end) = ends.get_mut(row) {
            *end = (*end).max(from + width);
        }
        EventLabel {
            row,
            x,
            is_left,
            text,
        }
    };
    events.into_iter().map(label).collect()
}

impl EventLabel {
    fn draw(&self, root: &Panel<'_>, bottom: i32) -> Drawn {
        let y = EVENT_ROW * self.row as i32 + EVENT_ROW / 2;
        let line = [(self.x, y - 5), (self.x, bottom)];
        root.draw(&DashedPathElement::new(line, 3, 3, INK.stroke_width(1)))?;
        let (horizontal, x) = match self.is_left {
            true => (HPos::Right, self.x - 4),
            false => (HPos::Left, self.x + 4),
        };
        root.draw_text(&self.text, &text(INK, horizontal, VPos::Center), (x, y))
    }
}
