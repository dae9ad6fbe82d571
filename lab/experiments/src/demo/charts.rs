//! Figures 5 to 8 of seed 000, with its axes.

use super::report::{DemoPoint, DemoReport, ETHERNET};
use bed::cbr::PACKET;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};

/// Returns the four figures, each with a name for its files.
pub fn all(report: &DemoReport) -> Vec<(&'static str, Chart)> {
    let mut charts = vec![
        chart(report, "Video throughput against cross traffic", "Video throughput (Mb/s)", 3.5, |p| p.video_mbps),
        chart(report, "Video frame rate against cross traffic", "Whole frames shown (frames/s)", 28.0, |p| p.fps),
        chart(report, "Video frame errors against cross traffic", "Frames damaged or missing (%)", 100.0, |p| {
            p.frame_error_rate * 100.0
        }),
        chart(
            report,
            "Cross traffic received against cross traffic sent",
            "Cross traffic received (Mb/s)",
            10.0,
            |p| p.flood_mbps,
        ),
    ];
    let end = report.points.iter().map(|point| point.flood_sent_mbps).fold(0.0, f64::max).min(report.bottleneck_mbps);
    charts[3].lines.insert(
        0,
        ChartLine {
            name: "all of it".into(),
            color: Rgb::GREY,
            mark: Mark::None,
            points: vec![(0.0, 0.0), (end, end)],
        },
    );
    let names = ["figure-5-throughput", "figure-6-frame-rate", "figure-7-frame-errors", "figure-8-cross-traffic"];
    names.into_iter().zip(charts).collect()
}

fn chart(report: &DemoReport, title: &str, y: &str, reach: f64, value: impl Fn(&DemoPoint) -> f64) -> Chart {
    let line = |reserved: bool| -> Vec<(f64, f64)> {
        let points = report.points.iter().filter(|point| point.reserved == reserved);
        points.map(|point| (point.flood_sent_mbps, value(point))).collect()
    };
    let (mbps, wire) = report.unloaded().map_or((0.0, 0.0), |point| (point.video_mbps, point.video_wire_mbps));
    let link = report.bottleneck_mbps;
    let video = if report.simulated { "Simulated video" } else { "H.264 over RTP" };
    let named = |name: &str, color, mark, points| ChartLine { name: name.into(), color, mark, points };
    Chart {
        title: title.into(),
        subtitle: format!("{video} at {mbps:.2} Mb/s, UDP flood, both over a {link:.0} Mb/s link between two routers"),
        x: Axis { label: "Cross traffic sent (Mb/s)".into(), reach: link },
        y: Axis { label: y.into(), reach },
        lines: vec![
            named("without a reservation", Rgb::RED, Mark::Square, line(false)),
            named("with a reservation (RSVP, controlled load)", Rgb::BLUE, Mark::Circle, line(true)),
        ],
        landmark: Some(((link - wire) * f64::from(PACKET) / f64::from(PACKET + ETHERNET), "link full".into())),
    }
}
