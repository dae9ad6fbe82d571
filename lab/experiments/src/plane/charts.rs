//! The figures: arrivals and departures per class over time, and delays.

use super::report::{Passage, PlaneReport};
use figures::{Axis, Chart, ChartLine, Mark, Rgb};

/// Points along the time axis.
const STEPS: usize = 40;
/// The number of classes in a figure: the busiest.
const MOST: usize = 5;

const COLORS: [Rgb; MOST] = [Rgb::BLUE, Rgb::RED, Rgb(0x2e, 0x8b, 0x57), Rgb(0x8e, 0x44, 0xad), Rgb(0xc0, 0x8a, 0x00)];

/// Returns the figures, each with a name for its files.
pub fn all(report: &PlaneReport) -> Vec<(&'static str, Chart)> {
    vec![
        ("arrivals", over_time(report, "Arrivals per class", "Arrived (Mb/s of IP bytes)", &report.arrivals)),
        ("departures", over_time(report, "Departures per class", "Sent (Mb/s of IP bytes)", &report.departures)),
        ("delay", delay(report)),
    ]
}

fn subtitle(report: &PlaneReport) -> String {
    let mbps = report.link_bps as f64 / 1e6;
    format!("{}: link of {mbps:.3} Mb/s, {} bytes of overhead a packet", report.name, report.overhead)
}

/// Returns the indexes of the classes with the most arrivals, in the tree's order.
fn busiest(report: &PlaneReport) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..report.classes.len()).collect();
    classes.sort_by_key(|&class| std::cmp::Reverse(report.classes[class].arrived.bytes));
    classes.truncate(MOST);
    classes.retain(|&class| report.classes[class].arrived.packets > 0);
    classes.sort_unstable();
    classes
}

fn lines(report: &PlaneReport, points: impl Fn(usize) -> Vec<(f64, f64)>) -> Vec<ChartLine> {
    let line = |(i, class): (usize, usize)| ChartLine {
        name: report.classes[class].name.clone(),
        color: COLORS[i % MOST],
        mark: if i % 2 == 0 { Mark::Circle } else { Mark::Square },
        points: points(class),
    };
    busiest(report).into_iter().enumerate().map(line).collect()
}

fn over_time(report: &PlaneReport, title: &str, y: &str, passages: &[Passage]) -> Chart {
    let step = (report.seconds / STEPS as f64).max(1e-9);
    let mut bits = vec![vec![0.0; STEPS]; report.classes.len()];
    for passage in passages {
        let at = ((passage.at as f64 / 1e9 / step) as usize).min(STEPS - 1);
        bits[passage.class as usize][at] += f64::from(passage.len) * 8e-6;
    }
    let points =
        |class: usize| bits[class].iter().enumerate().map(|(i, b)| ((i as f64 + 0.5) * step, b / step)).collect();
    Chart {
        title: title.into(),
        subtitle: subtitle(report),
        x: Axis { label: "Time since the first packet (s)".into(), reach: report.seconds },
        y: Axis { label: y.into(), reach: report.link_bps as f64 / 1e6 },
        lines: lines(report, points),
        landmark: None,
    }
}

/// Draws the cumulative distribution of each class's delays, in percent.
fn delay(report: &PlaneReport) -> Chart {
    let longest = report.classes.iter().filter_map(|c| Some(c.delay.as_ref()?.max_ms)).fold(0.0, f64::max);
    let points = |class: usize| {
        let quantiles = report.classes[class].delay.iter().flat_map(|delay| &delay.quantiles);
        quantiles.enumerate().map(|(twentieth, ms)| (*ms, twentieth as f64 * 5.0)).collect()
    };
    Chart {
        title: "Delay per class".into(),
        subtitle: subtitle(report),
        x: Axis { label: "Delay from arrival to departure (ms)".into(), reach: longest },
        y: Axis { label: "Packets that waited at most so long (%)".into(), reach: 100.0 },
        lines: lines(report, points),
        landmark: None,
    }
}
