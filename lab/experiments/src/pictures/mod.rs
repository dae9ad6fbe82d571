//! The pictures in `docs/traffic`: each shows an algorithm of `engine/traffic` or `engine/wheel` itself, on a
//! small input.
//!
//! No input is random or timed, so a picture changes only when its algorithm does: the test `pictures`
//! compares the committed files with these.

mod conditioning;
mod link;
mod sharing;
mod whole;

use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use terms::Time;

/// Returns every picture: the file's name without its ending, and the SVG.
pub fn all() -> Vec<(&'static str, String)> {
    let charts = [
        ("bucket", conditioning::bucket()),
        ("meters", conditioning::meters()),
        ("rio", conditioning::rio()),
        ("ras", conditioning::ras()),
        ("priority", sharing::priority()),
        ("drr", sharing::drr()),
        ("wf2q", sharing::wf2q()),
        ("hfsc", sharing::hfsc()),
        ("htb", sharing::htb()),
        ("tree", whole::tree()),
        ("wheel", whole::wheel()),
    ];
    charts.into_iter().map(|(name, chart)| (name, chart.svg())).collect()
}

fn chart(title: &str, subtitle: &str, x: &str, y: &str, lines: Vec<ChartLine>) -> Chart {
    let axis = |label: &str| Axis { label: label.into(), reach: 0.0 };
    Chart { title: title.into(), subtitle: subtitle.into(), x: axis(x), y: axis(y), lines, landmark: None }
}

fn line(name: &str, color: Rgb, mark: Mark, points: Vec<(f64, f64)>) -> ChartLine {
    ChartLine { name: name.into(), color, mark, points }
}

const fn ms(n: u64) -> Time {
    Time::from_nanos(n * 1_000_000)
}

fn in_ms(at: Time) -> f64 {
    at.as_nanos() as f64 / 1e6
}
