//! The video against the flood (DeWitt, Gao and Ke, section 5.4): `sluice demo` as an experiment, in simulated time and
//! on real packets.
//!
//! The paper prints curves, so most cells have no published values; the few numbers of its text stand beside theirs
//! ([`crate::demo::BESIDE`]). The run is judged as in `sluice demo`.

use super::{Experiment, Finding, RunOptions};
use crate::demo;
use crate::demo::{DemoOptions, DemoPoint, DemoReport};
use bed::error::Error;
use bed::testbed::UpOptions;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "video",
    about: "A video against a flood over 10 Mb/s, without and with a reservation, in simulated time",
    source: "DeWitt, Gao, Ke: An Evaluation of RSVP Using Real Applications (1998), Figures 5 to 8",
    takes: "seconds",
    run,
};

/// The same on real packets.
pub const PACKETS_EXPERIMENT: Experiment = Experiment {
    name: "video-packets",
    about: "The same on real packets: ffmpeg's video through agents, kernel and 10 Mb/s",
    source: EXPERIMENT.source,
    takes: "5 minutes; root",
    run: run_packets,
};

/// A figure of the paper: number, name, axis label, and the function that reads the value from a point.
type Quantity = (&'static str, &'static str, &'static str, fn(&DemoPoint) -> f64);

const QUANTITIES: [Quantity; 4] = [
    ("5", "throughput", "Video received (Mb/s)", |point| point.video_mbps),
    ("6", "frame-rate", "Whole frames shown (frames/s)", |point| point.fps),
    ("7", "frame-errors", "Damaged frames (%)", |point| point.frame_error_rate * 100.0),
    ("8", "cross-traffic", "Flood received (Mb/s)", |point| point.flood_mbps),
];

fn run(options: &RunOptions) -> Result<Finding, Error> {
    Ok(finding_of(&demo::simulate(options.quick, None)?))
}

fn run_packets(options: &RunOptions) -> Result<Finding, Error> {
    let up = UpOptions::usual()?;
    let mut wanted = match &options.out {
        Some(out) if !options.quick => DemoOptions::full(up, out.clone()),
        _ => DemoOptions::quick(up),
    };
    wanted.progress = options.progress;
    Ok(finding_of(&demo::run(&wanted, &options.patience)?))
}

fn finding_of(report: &DemoReport) -> Finding {
    let time = if report.simulated { "simulated time" } else { "real packets" };
    let mut finding =
        Finding { shortfalls: report.shortfalls.clone(), notes: report.notes.clone(), ..Finding::default() };
    for (figure, name, label, read) in QUANTITIES {
        finding.title(figure, format!("{label}, by the flood sent (Mb/s)"));
        let mut lines = Vec::new();
        for (reserved, column, color, mark) in
            [(false, "unreserved", Rgb::RED, Mark::Square), (true, "reserved", Rgb::BLUE, Mark::Circle)]
        {
            let points = || report.points.iter().filter(move |point| point.reserved == reserved);
            for point in points() {
                finding.cell(figure, &format!("{}", point.flood_sent_mbps), column, None, &[read(point)]);
            }
            let points = points().map(|point| (point.flood_sent_mbps, read(point))).collect();
            lines.push(ChartLine { name: column.into(), color, mark, points });
        }
        let chart = Chart {
            title: format!("Figure {figure}: {}", label.to_lowercase()),
            subtitle: format!("{time}; bottleneck {} Mb/s", report.bottleneck_mbps),
            x: Axis { label: "Flood sent (Mb/s)".into(), reach: 0.0 },
            y: Axis { label: label.into(), reach: 0.0 },
            lines,
            landmark: None,
        };
        finding.figure(name, &format!("Figure {figure} of the paper, {time}"), chart);
    }
    finding.title("text", "what the paper's text says of Figures 6 and 7, without a reservation");
    for beside in report.beside() {
        finding.cell("text", beside.what, "unreserved", Some(beside.published), &[beside.here]);
    }
    finding
}
