//! "The one parameter that matters most is the average rate" (DeWitt, Gao and Ke, section 6): the video's reservation with
//! other token buckets, in simulated time. r is swept against the depth b, and against the peak rate p, under a flood that
//! saturates the link.
//!
//! The paper prints no numbers for it, so the cells have no published values; the sentence itself is judged. It was said
//! of a scheduler in which a flow that exceeds its bucket waits in a queue of its own; here what exceeds it is best effort.
//! The video is paced as vic paced its packets, so that a quarter of a frame is depth enough once r is. Below that r a
//! deeper bucket puts the loss off, for as long as its contents last.

use super::{Experiment, Finding, RunOptions};
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use sim::experiment::{ExperimentError, FRAME_BYTES, FRAMES_PER_SECOND, SimSweep, video_reserving, video_tspec};
use terms::{Bytes, Rate, Span, Tspec};
use traffic::port::SchedulerKind;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "bucket",
    about: "Which of r, b and p of a reservation matters to a video under a flood, in simulated time",
    source: "DeWitt, Gao, Ke: An Evaluation of RSVP Using Real Applications (1998), section 6",
    takes: "seconds",
    run,
};

/// The flood, which saturates the link of 10 Mb/s by itself.
const FLOOD: Rate = Rate::from_mbps(12);
/// r, per cent of what the video sends.
const RATES: [u64; 7] = [25, 50, 75, 90, 103, 125, 200];
/// b, quarters of a frame.
const DEPTHS: [u64; 6] = [1, 2, 4, 6, 8, 32];
/// p, per cent of r; the last: not bounded.
const PEAKS: [Option<u64>; 4] = [Some(100), Some(200), Some(1_000), None];
/// From this depth on, in quarters of a frame, a bucket holds a whole frame.
const WHOLE: u64 = 4;
/// From this r on, per cent, the whole video fits.
const ENOUGH: u64 = 103;
/// Frame rates that differ by this share of the unloaded rate are called equal.
const EQUAL: f64 = 0.02;

/// One series of a table: its column, and the frame rate at each r.
struct Series {
    column: String,
    fps: Vec<f64>,
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let mut finding = Finding::default();
    for (scheduler, name) in [(SchedulerKind::Htb, "HTB"), (SchedulerKind::Hfsc, "HFSC")] {
        let measured = Span::from_secs(if options.quick { 2 } else { 20 });
        let sweep = SimSweep { measured, scheduler, ..SimSweep::default() };
        let depths = series(&sweep, DEPTHS.map(|depth| (format!("b = {} frames", quarters(depth)), depth, None)))?;
        let peaks = PEAKS.map(|peak| (peak.map_or("p open".into(), |p| format!("p = {} r", hundredths(p))), 8, peak));
        let peaks = series(&sweep, peaks)?;
        tell(&mut finding, name, "b", &depths);
        tell(&mut finding, name, "p", &peaks);
        judge(&mut finding, name, &depths, &peaks);
        finding.figure(
            &format!("bucket-{}", name.to_lowercase()),
            &format!("Whole frames by r, for each depth, on {name}"),
            chart(name, &depths),
        );
    }
    finding.notes.push(format!(
        "the video sends {:.2} Mb/s in {FRAMES_PER_SECOND} frames of {FRAME_BYTES} bytes a second; the flood offers {} Mb/s; \
         what exceeds a bucket goes as best effort",
        sent() as f64 / 1e6,
        FLOOD.as_bps() / 1_000_000
    ));
    Ok(finding)
}

/// The rate of the video, bit/s.
fn sent() -> u64 {
    FRAME_BYTES * 8 * FRAMES_PER_SECOND
}

fn series<const N: usize>(sweep: &SimSweep, columns: [(String, u64, Option<u64>); N]) -> Result<Vec<Series>, Error> {
    let one = |(column, depth, peak): (String, u64, Option<u64>)| {
        let fps = RATES.iter().map(|rate| frames(sweep, &tspec(*rate, depth, peak))).collect::<Result<_, _>>()?;
        Ok(Series { column, fps })
    };
    columns.into_iter().map(one).collect()
}

fn tspec(rate: u64, depth: u64, peak: Option<u64>) -> Tspec {
    let r = Rate::from_bps(sent() * rate / 100);
    let p = peak.map_or(Rate::INFINITE, |peak| Rate::from_bps(r.as_bps() * peak / 100));
    Tspec { r, b: Bytes::new(FRAME_BYTES * depth / 4), p, ..video_tspec() }
}

/// Whole frames a second with this reservation.
fn frames(sweep: &SimSweep, tspec: &Tspec) -> Result<f64, Error> {
    let point = video_reserving(sweep, FLOOD, Some(*tspec)).map_err(|failed| {
        Error::Void(match failed {
            ExperimentError::Unplayable(what) => what.what,
            ExperimentError::Broken(broken) => format!("{broken}; please report this"),
        })
    })?;
    if point.set_up.is_none() {
        return Err(Error::Void(format!("the reservation of {tspec:?} was not confirmed")));
    }
    Ok(point.video.frames_per_kilosecond() as f64 / 1e3)
}

fn tell(finding: &mut Finding, scheduler: &str, against: &str, all: &[Series]) {
    let table = format!("{scheduler}, r : {against}");
    finding.title(&table, format!("whole frames a second, of {FRAMES_PER_SECOND}; r in % of what the video sends"));
    for (n, rate) in RATES.iter().enumerate() {
        for series in all {
            finding.cell(&table, &format!("{rate} %"), &series.column, None, &[series.fps[n]]);
        }
    }
}

fn judge(finding: &mut Finding, scheduler: &str, depths: &[Series], peaks: &[Series]) {
    let full = FRAMES_PER_SECOND as f64;
    let enough = RATES.iter().position(|rate| *rate >= ENOUGH).unwrap_or(0);
    let spread = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), fps| (low.min(fps), high.max(fps)));
        (high - low).max(0.0) / full
    };
    let of_depth = |depth: u64| DEPTHS.iter().position(|d| *d == depth).map(|n| &depths[n]);
    let whole = || DEPTHS.iter().filter(|depth| **depth >= WHOLE).filter_map(|depth| of_depth(*depth));
    // Where r is enough, neither p nor a bucket of a frame and more changes anything.
    let by_depth = spread(&mut whole().flat_map(|series| series.fps[enough..].iter().copied()));
    let by_any_depth = spread(&mut depths.iter().flat_map(|series| series.fps[enough..].iter().copied()));
    let by_peak = RATES.iter().enumerate().map(|(n, _)| spread(&mut peaks.iter().map(|series| series.fps[n])));
    let by_peak = by_peak.fold(0.0, f64::max);
    let by_rate = of_depth(8).map_or(0.0, |series| spread(&mut series.fps.iter().copied()));
    let key = scheduler.to_lowercase();
    for (name, value) in
        [("rate", by_rate), ("whole_bucket", by_depth), ("any_bucket", by_any_depth), ("peak", by_peak)]
    {
        finding.value(&format!("{key}_spread_by_{name}"), (value * 1e4).round() / 1e4);
    }
    if by_peak > EQUAL {
        finding.shortfalls.push(format!("{scheduler}: the peak rate changes {:.1} % of the frames", by_peak * 100.0));
    }
    if by_depth > EQUAL {
        let lost = by_depth * 100.0;
        finding
            .shortfalls
            .push(format!("{scheduler}: buckets of a frame and more differ by {lost:.1} % of the frames"));
    }
    if by_rate < 0.5 {
        finding.shortfalls.push(format!("{scheduler}: the rate changes only {:.1} % of the frames", by_rate * 100.0));
    }
    finding.notes.push(format!(
        "{scheduler}: of the frames, r decides {:.0} %, p {:.1} %, a bucket of a frame or more {:.1} % (any bucket: {:.0} %)",
        by_rate * 100.0,
        by_peak * 100.0,
        by_depth * 100.0,
        by_any_depth * 100.0
    ));
}

fn chart(scheduler: &str, depths: &[Series]) -> Chart {
    let colors = [Rgb::RED, Rgb::AMBER, Rgb::GREEN, Rgb::GREY, Rgb::BLUE];
    let lines = depths.iter().enumerate().map(|(n, series)| ChartLine {
        name: series.column.clone(),
        color: colors[n % colors.len()],
        mark: if n % 2 == 0 { Mark::Square } else { Mark::Circle },
        points: RATES.iter().map(|rate| *rate as f64).zip(series.fps.iter().copied()).collect(),
    });
    Chart {
        title: format!("What r and b of a reservation do, {scheduler}"),
        subtitle: format!("simulated time; flood {} Mb/s on 10 Mb/s", FLOOD.as_bps() / 1_000_000),
        x: Axis { label: "r, % of what the video sends".into(), reach: 0.0 },
        y: Axis { label: "Whole frames shown (frames/s)".into(), reach: FRAMES_PER_SECOND as f64 },
        lines: lines.collect(),
        landmark: None,
    }
}

/// Quarters as a decimal: `0.25`, `8`.
fn quarters(n: u64) -> String {
    format!("{}", n as f64 / 4.0)
}

fn hundredths(n: u64) -> String {
    format!("{}", n as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's sentence, and what depth does where r is too low.
    #[test]
    fn the_rate_matters_and_the_peak_does_not() {
        let found = run(&RunOptions::quick()).unwrap();
        assert_eq!(found.shortfalls, [""; 0]);
        for scheduler in ["HTB", "HFSC"] {
            let at = |rate: &str, column: &str| found.measured(&format!("{scheduler}, r : b"), rate, column).unwrap();
            assert!(at("103 %", "b = 2 frames") > 11.5 && at("50 %", "b = 2 frames") < 6.0, "{scheduler}");
            assert!(at("90 %", "b = 0.25 frames") < at("90 %", "b = 8 frames"), "{scheduler}: depth puts loss off");
        }
    }
}
