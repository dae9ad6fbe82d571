//! The same experiment in simulated time, which needs no root: the same nodes, ledgers and plans, on
//! simulated links whose ports run an HTB like the kernel's. Ten seconds of a point take some milliseconds.

use super::report::{DemoPoint, DemoReport};
use crate::setup::SetupTime;
use bed::error::Error;
use sim::experiment::{self, ExperimentError, SimSweep, round_trip, testbed, video_tspec};
use std::path::Path;
use terms::{Rate, Span};

/// The length of an echo's IP packet, bytes. The round-trip time is stated for it.
const ECHO: u32 = 92;
/// Flood rates of the quick form, Mb/s.
const QUICK: [u64; 2] = [0, 10];

/// Plays the sweep, or with `quick` only its points without flood and at saturation. Writes figures and table
/// into `out`, if given.
///
/// # Errors
/// [`Error::Void`] if a checker of the simulator finds a law broken, [`Error::Failed`] if a file cannot be written.
pub fn simulate(quick: bool, out: Option<&Path>) -> Result<DemoReport, Error> {
    let all = SimSweep::default();
    let sweep = if quick { SimSweep { floods: QUICK.map(Rate::from_mbps).to_vec(), ..all } } else { all };
    let points = experiment::video(&sweep).map_err(void)?;
    let line = testbed(sweep.scheduler, Span::from_secs(30), sweep.seed);
    let bottleneck = line.links.iter().map(|link| link.rate).min().unwrap_or(Rate::ZERO);
    let mut report = DemoReport::new(bottleneck, setup_time(&points, round_trip(&line, ECHO))?);
    report.simulated = true;
    report.tspec = Some(video_tspec().into());
    report.notes.push("simulated time: no packet left this machine; frames are packets in groups, not pictures".into());
    let unreserved = points.iter().filter(|point| !point.reserved);
    report.points = unreserved.chain(points.iter().filter(|point| point.reserved)).map(point).collect();
    report.judge();
    if let Some(out) = out {
        report.write(out)?;
    }
    Ok(report)
}

fn void(failed: ExperimentError) -> Error {
    Error::Void(match failed {
        ExperimentError::Unplayable(what) => what.what,
        ExperimentError::Broken(broken) => format!("{broken}; please report this"),
    })
}

/// Returns the set-up time. All simulated set-ups of one kind take equally long, so one is the median.
fn setup_time(points: &[experiment::SimPoint], rtt: Span) -> Result<SetupTime, Error> {
    let first = points.iter().find_map(|point| Some((point.set_up?, point.end_to_end?)));
    let (setup, end_to_end) = first.ok_or_else(|| Error::Void("no reservation was confirmed".into()))?;
    let (rtt_ms, setup_ms) = (ms(rtt), ms(setup));
    Ok(SetupTime {
        count: 1,
        rtt_ms,
        setup_ms,
        setup_p10_ms: setup_ms,
        setup_p90_ms: setup_ms,
        end_to_end_ms: ms(end_to_end),
        target_ms: 3.0 * rtt_ms + 1.0,
    })
}

fn point(point: &experiment::SimPoint) -> DemoPoint {
    let video = &point.video;
    let frames = video.frames_sent.max(1) as f64;
    let spoilt = video.frames_sent.saturating_sub(video.frames_whole);
    DemoPoint {
        flood_asked_mbps: mbps(point.offered),
        flood_sent_mbps: mbps(point.offered),
        reserved: point.reserved,
        video_mbps: mbps(video.throughput()),
        video_wire_mbps: mbps(point.video_wire_rate()),
        fps: video.frames_per_kilosecond() as f64 / 1e3,
        damaged_frames: spoilt,
        frame_error_rate: spoilt as f64 / frames,
        loss: video.lost() as f64 / video.sent.max(1) as f64,
        lost_packets: video.lost(),
        overtaken_packets: 0,
        flood_mbps: mbps(point.flood.throughput()),
        setup_ms: point.set_up.map(ms),
    }
}

fn mbps(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e6
}

fn ms(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulated_sweep_shows_what_the_real_one_must() {
        let report = simulate(false, None).expect("a sweep");
        assert_eq!(report.shortfalls, [""; 0]);
        assert_eq!(report.points.len(), 26);
        let json = report.json();
        let line: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(line["bottleneck_mbps"].as_f64(), Some(10.0));
        assert_eq!(line["reserved"]["loss"].as_f64(), Some(0.0));
        assert!(line["unreserved"]["fps"].as_f64().expect("a number") < 6.0);
        assert!(report.text().contains("simulated time"));
        let beside: Vec<_> = report.beside().iter().map(|beside| (beside.published, beside.here)).collect();
        assert_eq!((beside.len(), beside[0]), (4, (12.0, 12.0)), "the paper's own frame rate: {beside:?}");
        assert!(report.text().contains("less than 10 %"), "{}", report.text());
        assert_eq!(simulate(true, None).expect("two points").json(), json, "the quick form agrees");
    }
}
