//! The layout of a chart.

use super::{Anchor, Axis, Canvas, Chart, ChartLine, HEIGHT, Mark, Rgb, Type, WIDTH, font};

const LEFT: f64 = 72.0;
const RIGHT: f64 = WIDTH - 28.0;
const TOP: f64 = 98.0;
/// The free space at the right edge.
const MARGIN: f64 = 8.0;
const BOTTOM: f64 = HEIGHT - 62.0;

const TITLE: Type = Type { size: 17.0, bold: true, color: Rgb::INK, anchor: Anchor::Start, upwards: false };
const SUBTITLE: Type = Type { size: 11.5, bold: false, color: Rgb::SOFT, anchor: Anchor::Start, upwards: false };
const LEGEND: Type = Type { size: 12.5, bold: false, color: Rgb::INK, anchor: Anchor::Start, upwards: false };
const LABEL: Type = Type { size: 13.0, bold: false, color: Rgb::INK, anchor: Anchor::Middle, upwards: false };
const TICK: Type = Type { size: 12.0, bold: false, color: Rgb::SOFT, anchor: Anchor::Middle, upwards: false };

/// Draws the chart.
pub fn draw(chart: &Chart, on: &mut impl Canvas) {
    let x = Scale::new(&chart.x, chart.lines.iter().flat_map(|l| l.points.iter().map(|p| p.0)), LEFT, RIGHT);
    let y = Scale::new(&chart.y, chart.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1)), BOTTOM, TOP);
    on.area(0.0, 0.0, WIDTH, HEIGHT, Rgb::WHITE);
    on.text(LEFT, 32.0, &chart.title, TITLE);
    on.text(LEFT, 51.0, &chart.subtitle, SUBTITLE);
    legend(&chart.lines, on);
    grid(chart, &x, &y, on);
    if let Some((place, name)) = &chart.landmark {
        let at = x.at(*place);
        on.line(&[(at, TOP), (at, BOTTOM)], Rgb::GREY, 1.2, true);
        on.text(at - 6.0, TOP + 13.0, name, Type { anchor: Anchor::End, size: 11.5, ..TICK });
    }
    for line in &chart.lines {
        plot(line, &x, &y, on);
    }
}

/// True if title, subtitle and legend fit.
pub fn has_room(chart: &Chart) -> bool {
    let titles = [(&chart.title, TITLE), (&chart.subtitle, SUBTITLE)];
    let wide = |(text, look): (&String, Type)| font::width(text, look.size, look.bold) > WIDTH - LEFT - MARGIN;
    let named = chart.lines.iter().filter(|line| !line.name.is_empty());
    let legend: f64 = named.map(|line| 33.0 + font::width(&line.name, LEGEND.size, false) + 26.0).sum();
    !titles.into_iter().any(wide) && legend - 26.0 <= WIDTH - LEFT - MARGIN
}

/// Draws grid, axes, ticks and labels.
fn grid(chart: &Chart, x: &Scale, y: &Scale, on: &mut impl Canvas) {
    for (value, text) in y.ticks() {
        let at = y.at(value);
        on.line(&[(LEFT, at), (RIGHT, at)], Rgb::GRID, 1.0, false);
        on.text(LEFT - 9.0, at + 4.3, &text, Type { anchor: Anchor::End, ..TICK });
    }
    for (value, text) in x.ticks() {
        let at = x.at(value);
        on.line(&[(at, BOTTOM), (at, BOTTOM + 5.0)], Rgb::INK, 1.2, false);
        on.text(at, BOTTOM + 20.0, &text, TICK);
    }
    on.line(&[(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)], Rgb::INK, 1.4, false);
    on.text((LEFT + RIGHT) / 2.0, HEIGHT - 18.0, &chart.x.label, LABEL);
    on.text(24.0, (TOP + BOTTOM) / 2.0, &chart.y.label, Type { upwards: true, ..LABEL });
}

/// Draws the names of the lines in a row above the plot.
fn legend(lines: &[ChartLine], on: &mut impl Canvas) {
    let mut left = LEFT;
    // A line without a name belongs to the one after it.
    for line in lines.iter().rev().filter(|line| !line.name.is_empty()) {
        let baseline = TOP - 18.0;
        let sample = [(left, baseline - 4.5), (left + 26.0, baseline - 4.5)];
        stroke(line, &sample, on);
        mark(line, left + 13.0, baseline - 4.5, on);
        on.text(left + 33.0, baseline, &line.name, LEGEND);
        left += 33.0 + font::width(&line.name, LEGEND.size, false) + 26.0;
    }
}

fn plot(line: &ChartLine, x: &Scale, y: &Scale, on: &mut impl Canvas) {
    let points: Vec<(f64, f64)> = line.points.iter().map(|&(h, v)| (x.at(h), y.at(v))).collect();
    stroke(line, &points, on);
    for &(h, v) in &points {
        mark(line, h, v, on);
    }
}

fn stroke(line: &ChartLine, points: &[(f64, f64)], on: &mut impl Canvas) {
    match line.mark {
        Mark::Circle | Mark::Square | Mark::Solid => on.line(points, line.color, 2.4, false),
        Mark::None => on.line(points, line.color, 1.4, true),
        Mark::Alone => {}
    }
}

fn mark(line: &ChartLine, x: f64, y: f64, on: &mut impl Canvas) {
    match line.mark {
        Mark::Circle => on.circle(x, y, 5.0, line.color),
        Mark::Square | Mark::Alone => on.square(x, y, 9.0, line.color),
        Mark::Solid | Mark::None => {}
    }
}

/// An axis from zero to a round end, mapped to a stretch of the picture.
struct Scale {
    step: f64,
    end: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let reach = values.filter(|value| value.is_finite()).fold(axis.reach, f64::max).max(1e-9);
        let magnitude = 10f64.powf((reach / 5.0).log10().floor());
        let nice = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * magnitude);
        let step = nice.into_iter().find(|step| reach / step <= 7.0).unwrap_or(nice[4]);
        // A hair over a tick is rounding, not a reason for another one.
        let end = (reach / step - 0.02).ceil().max(1.0) * step;
        Scale { step, end, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if value.is_finite() { (value / self.end).clamp(0.0, 1.02) } else { 0.0 };
        self.from + (self.to - self.from) * share
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let count = (self.end / self.step).round() as u32;
        let digits = usize::from(self.step.fract() > 1e-9) + usize::from((self.step * 10.0).fract() > 1e-6);
        let step = self.step;
        (0..=count).map(move |i| (f64::from(i) * step, format!("{:.digits$}", f64::from(i) * step)))
    }
}
