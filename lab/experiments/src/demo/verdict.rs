//! The comparison of the demonstration's results with the expected ones.

use super::report::{DemoPoint, DemoReport, ETHERNET};
use bed::cbr::PACKET;

/// The frame rate may stay below the unloaded one by this fraction.
const FRAME_RATE: f64 = 0.02;
/// The flood must get this fraction of what the video leaves.
const FLOOD: f64 = 0.95;
/// Without a reservation, a saturated link must cost this fraction of the frames.
const COLLAPSE: f64 = 0.5;
/// A link is called saturated when what is sent exceeds it by this factor.
const SATURATED: f64 = 1.01;

/// Returns the expected results that did not appear, in words.
pub fn shortfalls(report: &DemoReport) -> Vec<String> {
    let Some(unloaded) = report.unloaded() else { return vec!["the unloaded video was not measured".into()] };
    let mut found = Vec::new();
    for point in &report.points {
        match point.reserved {
            true => reserved(report, unloaded, point, &mut found),
            false => unreserved(report, unloaded, point, &mut found),
        }
    }
    if unloaded.loss > 0.0 || unloaded.damaged_frames > 0 {
        found.push(format!("the unloaded video was disturbed: {}", unloaded.line()));
    }
    found
}

fn reserved(report: &DemoReport, unloaded: &DemoPoint, point: &DemoPoint, found: &mut Vec<String>) {
    let at = format!("with a reservation, flood {} Mb/s", point.flood_asked_mbps);
    if point.loss > 0.0 {
        found.push(format!("{at}: {} video packets were lost", point.lost_packets));
    }
    // More than the unloaded rate is a decoder that was held up before the point and caught up in it.
    if point.fps < unloaded.fps * (1.0 - FRAME_RATE) {
        found.push(format!("{at}: {:.2} frames/s instead of {:.2}", point.fps, unloaded.fps));
    }
    let left = report.bottleneck_mbps - point.video_wire_mbps;
    let due = FLOOD * left.min(point.flood_sent_mbps);
    if point.flood_mbps < due {
        found.push(format!("{at}: the flood got {:.2} Mb/s, less than {due:.2}", point.flood_mbps));
    }
}

fn unreserved(report: &DemoReport, unloaded: &DemoPoint, point: &DemoPoint, found: &mut Vec<String>) {
    let headers = f64::from(PACKET + ETHERNET) / f64::from(PACKET);
    let offered = unloaded.video_wire_mbps + point.flood_sent_mbps * headers;
    if offered > report.bottleneck_mbps * SATURATED && point.fps > unloaded.fps * COLLAPSE {
        found.push(format!(
            "without a reservation, flood {} Mb/s: {:.1} frames/s survive, more than half",
            point.flood_asked_mbps, point.fps
        ));
    }
}
