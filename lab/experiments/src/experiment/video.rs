//! The video against the flood (DeWitt, Gao and Ke, section 5.4) in simulated time: `sluice demo --sim` as an experiment.
//!
//! The paper prints curves, not numbers, so the cells have no published values; the run is judged as in
//! `sluice demo`.

use super::{Experiment, Finding, RunOptions};
use crate::demo;
use crate::demo::DemoPoint;
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "video",
    about: "A video against a flood over 10 Mb/s, without and with a reservation, in simulated time",
    source: "DeWitt, Gao, Ke: An Evaluation of RSVP Using Real Applications (1998), Figures 5 to 8",
    takes: "seconds",
    run,
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
    let report = demo::simulate(options.quick, None)?;
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
            subtitle: format!("simulated time; bottleneck {} Mb/s", report.bottleneck_mbps),
            x: Axis { label: "Flood sent (Mb/s)".into(), reach: 0.0 },
            y: Axis { label: label.into(), reach: 0.0 },
            lines,
            landmark: None,
        };
        finding.figure(name, &format!("Figure {figure} of the paper, in simulated time"), chart);
    }
    Ok(finding)
}
