//! Figure 10 of seed 000: a parallel FFT beside cross traffic, with static reservations on the routers.
//!
//! The program is `examples/c/fft.c`, by FFTW over OpenMPI, unmodified: it knows nothing of reservations. Its three nodes
//! are three namespaces of `examples/fft.toml`, the testbed of Figure 9; cross traffic shares the link into one of them, on
//! which a third of the data comes. [`nodes`] is the testbed and starts the program.

mod nodes;

use crate::experiment::{Experiment, Finding, RunOptions};
use bed::cbr::Cbr;
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use nodes::{FftNodes, FftRun};
use std::time::{Duration, Instant};
use terms::Rate;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fft",
    about: "A parallel FFT (OpenMPI, FFTW) under cross traffic, with static reservations of 0, 1 and 10 Mb/s on the routers",
    source: "DeWitt, Gao, Ke: An Evaluation of RSVP Using Real Applications (1998), Figure 10",
    takes: "root, an hour",
    run,
};

/// The peak rates that are reserved, Mb/s.
const PEAKS: [u64; 3] = [0, 1, 10];
const COLUMNS: [&str; 3] = ["no reservation", "1 Mb/s", "10 Mb/s"];
const TABLE: &str = "10";
/// The time in which the queues fill, or drain.
const SETTLE: Duration = Duration::from_millis(500);
/// With 10 Mb/s reserved, the unloaded time must be this share of the time at any cross traffic; in the quick form less.
const SHARE: [f64; 2] = [0.9, 0.7];
/// A reservation may be this much slower than a smaller one before the order counts as wrong.
const ORDER: f64 = 1.05;
/// Less than this share of the cross traffic was sent: the processors were full, not the link.
const SENT: f64 = 0.97;

struct Plan {
    floods: Vec<u64>,
    rounds: u32,
    /// The longest run.
    limit: Duration,
}

impl Plan {
    fn of(options: &RunOptions) -> Plan {
        match options.quick {
            true => Plan { floods: vec![0, 100], rounds: 2, limit: Duration::from_secs(30) },
            false => Plan { floods: vec![0, 50, 70, 80, 90, 100], rounds: 32, limit: Duration::from_secs(900) },
        }
    }
}

/// A run at a cross traffic, with a reservation.
struct Point {
    flood: u64,
    peak: u64,
    run: FftRun,
    void: bool,
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let (plan, mut points) = (Plan::of(options), Vec::new());
    let nodes = FftNodes::up(&options.patience)?;
    let flood = nodes.flood()?;
    for (n, &peak) in PEAKS.iter().enumerate() {
        nodes.reserve(Rate::from_mbps(peak), &options.patience)?;
        for &rate in &plan.floods {
            // Without cross traffic a reservation has nothing to do: the quick form has that run once.
            if options.quick && rate == 0 && n > 0 {
                continue;
            }
            if options.progress {
                eprint!("\rFFT with {}, cross traffic {rate} of 100 Mb/s      ", COLUMNS[n]);
            }
            points.push(point(&nodes, &flood, rate, peak, &plan, options)?);
        }
    }
    if options.progress {
        eprintln!();
    }
    let mut finding = Finding::default();
    tell(&mut finding, &points, &plan);
    judge(&mut finding, &points, options.quick);
    draw(&mut finding, &points);
    Ok(finding)
}

fn point(
    nodes: &FftNodes,
    flood: &Cbr,
    rate: u64,
    peak: u64,
    plan: &Plan,
    options: &RunOptions,
) -> Result<Point, Error> {
    flood.set_rate(Rate::from_mbps(rate));
    options.patience.wait(SETTLE)?;
    let (before, begin) = (flood.count(), Instant::now());
    let run = nodes.compute(plan.rounds, plan.limit, flood, &options.patience)?;
    let sent = flood.count().since(&before).sent as f64 * 8.0 * f64::from(bed::cbr::PACKET);
    // A run that was ended has not had cross traffic to its end.
    let asked = rate as f64 * 1e6 * if run.is_whole() { begin.elapsed().as_secs_f64() } else { run.seconds() };
    let void = sent < SENT * asked;
    flood.set_rate(Rate::ZERO);
    Ok(Point { flood: rate, peak, run, void })
}

/// The time of a point, if it counts.
fn at(points: &[Point], flood: u64, peak: u64) -> Option<f64> {
    points
        .iter()
        .find(|point| (point.flood, point.peak) == (flood, peak) && !point.void)
        .map(|point| point.run.seconds())
}

fn tell(finding: &mut Finding, points: &[Point], plan: &Plan) {
    finding.title(TABLE, format!("time of {} rounds, s", plan.rounds));
    for flood in &plan.floods {
        let row = format!("{flood} Mb/s sent");
        for (column, peak) in COLUMNS.into_iter().zip(PEAKS) {
            if let Some(seconds) = at(points, *flood, peak) {
                finding.cell(TABLE, &row, column, None, &[seconds]);
            }
        }
    }
    for point in points {
        let with = format!("{} Mb/s of cross traffic, {} Mb/s reserved", point.flood, point.peak);
        if point.void {
            finding.notes.push(format!("VOID: {with}: the processors were full, and the cross traffic was not sent"));
        }
        if !point.run.is_whole() {
            finding
                .notes
                .push(format!("{with}: not ended after {:.0} s, which stand for its time", point.run.seconds()));
        }
    }
    if let Some(alone) = points.iter().find(|point| point.flood == 0 && point.run.is_whole()) {
        let (seconds, communication) = (alone.run.seconds(), alone.run.communication());
        finding.value("unloaded_s", seconds);
        finding.notes.push(format!(
            "Alone, {communication:.1} of {seconds:.1} s are transforms and their messages (about 1:1 in the paper). A node computes \
             for 2 s in a round, which is a wait here, and its link is 15 Mb/s: the nodes of 1998 sent less than 10 Mb/s."
        ));
    }
    finding.notes.push("The paper prints a curve: the cases are equal below 70 Mb/s of cross traffic, then less reserved suffers more.".into());
}

fn judge(finding: &mut Finding, points: &[Point], quick: bool) {
    let Some(alone) = at(points, 0, 0) else {
        finding.shortfalls.push("the unloaded run is void".into());
        return;
    };
    let worst = |peak: u64| {
        let loaded = points.iter().filter(|point| point.peak == peak && point.flood > 0 && !point.void);
        loaded.map(|point| point.run.seconds()).fold(0.0, f64::max)
    };
    let [none, one, ten] = PEAKS.map(worst);
    for (name, time) in [("share_none", none), ("share_1mbit", one), ("share_10mbit", ten)] {
        finding.value(name, if time > 0.0 { alone / time } else { 0.0 });
    }
    let wanted = SHARE[usize::from(quick)];
    if ten == 0.0 || alone / ten < wanted {
        finding.shortfalls.push(format!("with 10 Mb/s reserved it took {ten:.1} s at worst, unloaded {alone:.1} s"));
    }
    if ten > one * ORDER || one > none * ORDER {
        finding.shortfalls.push(format!("at worst {none:.1} s without, {one:.1} s with 1 and {ten:.1} s with 10 Mb/s"));
    }
}

fn draw(finding: &mut Finding, points: &[Point]) {
    let colors = [Rgb::GREY, Rgb::RED, Rgb::BLUE];
    let line = |((name, peak), color): ((&str, u64), Rgb)| ChartLine {
        name: name.into(),
        color,
        mark: Mark::Circle,
        points: points
            .iter()
            .filter(|point| point.peak == peak && !point.void)
            .map(|point| (point.flood as f64, point.run.seconds()))
            .collect(),
    };
    let chart = Chart {
        title: "A parallel FFT under cross traffic".into(),
        subtitle: "1024 x 1024, three nodes; a link of 100 Mb/s into one of them; r = p/2, b = p x 1 s".into(),
        x: Axis { label: "Cross traffic sent (Mb/s)".into(), reach: 100.0 },
        y: Axis { label: "Time (s)".into(), reach: 0.0 },
        lines: COLUMNS.into_iter().zip(PEAKS).zip(colors).map(line).collect(),
        landmark: None,
    };
    finding.figure("fft", "Figure 10: the time of the FFT for each reservation", chart);
}
