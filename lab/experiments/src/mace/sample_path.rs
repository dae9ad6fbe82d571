//! Figures 14 to 16: the bandwidth that admitted flows use over time, and the spacing of their packets, by simple sum (SSAC)
//! and by measured sum (MBAC). The runs are those of Table 2 with its first seed.

use crate::experiment::mace_table2::run_of;
use crate::experiment::sweep::{ExperimentSweep, RunFailed};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use serde::{Deserialize, Serialize};
use sim::mace::{GapHistogram, MaceOutcome, Params};
use terms::Span;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mace-fig14",
    about: "Bandwidth of admitted flows over time, and the spacing of their packets, by simple and measured sum (Figures 14 to 16)",
    source: "Jamin, Jin: Measurement-based Admission Control for Controlled-load Service (1998), Figures 14 to 16",
    takes: "20 seconds",
    run,
};

/// The rows of Table 2 whose path is drawn: the text names POO1, the caption of Figure 14 POO2.
const PATHS: [&str; 2] = ["POO1", "POO2"];
/// The row of Figures 15 and 16, with the reservations of Table 1.
const MIXED: &str = "MIXED, as Table 1";
const RULES: [&str; 2] = ["SSAC", "MBAC"];
/// The simulated seconds that Figure 14 shows.
const SHOWN_S: f64 = 2_500.0;
/// By how many percentage points more packets of 256 kbit/s flows come 10 ms or less apart under simple sum, and by how many per
/// cent more of the link measured sum uses (section 5.3).
const FEWER: f64 = 8.0;
const MORE_USED: f64 = 50.0;

/// The spacing figures: the figure's number, the interval of its flows, and their rate in words.
const SPACED: [(&str, u64, &str); 2] = [("15", 10, "256 kbit/s"), ("16", 40, "64 kbit/s")];

/// A run: its row, and its rule by its place in [`RULES`].
#[derive(Clone, Copy)]
struct PathRun {
    row: &'static str,
    rule: usize,
}

/// The results of a run: its path (seconds, Mb/s), per cent of the allocation, and the gaps of each of [`SPACED`].
#[derive(Serialize, Deserialize)]
struct PathYield {
    path: Vec<(f64, f64)>,
    /// Samples above the allocation, per cent.
    above: f64,
    utilisation: f64,
    /// The share of gaps, per cent, below each whole millisecond.
    gaps: [Vec<f64>; 2],
    /// The share of gaps within a quarter of the ideal one, per cent.
    near: [f64; 2],
    /// Packets of controlled load that were lost, per cent.
    lost: f64,
}

impl PathYield {
    fn of(params: &Params, outcome: &MaceOutcome) -> PathYield {
        let begin = params.warm_up.as_nanos() as f64 / 1e9;
        let path = outcome.path.iter().map(|sample| {
            let at = sample.at.as_nanos() as f64 / 1e9 - begin;
            (at, sample.came.as_bps() as f64 / 1e6)
        });
        let gaps = SPACED.map(|(_, ms, _)| together(params, outcome, Span::from_millis(ms)));
        let level = outcome.levels[0];
        let (all, above) = outcome.samples;
        PathYield {
            path: path.filter(|(at, _)| *at <= SHOWN_S).collect(),
            above: 100.0 * f64::from(above) / f64::from(all.max(1)),
            utilisation: outcome.utilisation,
            near: [0, 1].map(|n| 100.0 * gaps[n].near_share()),
            gaps: gaps
                .map(|gaps| (0..=sim::mace::spacing::LONGEST_GAP_MS).map(|ms| 100.0 * gaps.share_below(ms)).collect()),
            lost: 100.0 * level.dropped as f64 / level.offered.max(1) as f64,
        }
    }

    fn mean_mbps(&self) -> f64 {
        self.path.iter().map(|(_, mbps)| mbps).sum::<f64>() / self.path.len().max(1) as f64
    }
}

/// The gaps of all controlled load of models with that interval.
fn together(params: &Params, outcome: &MaceOutcome, interval: Span) -> GapHistogram {
    let models = params.models.iter().zip(&outcome.controlled);
    let mut sum = GapHistogram::of(interval);
    models.filter(|((model, _), _)| model.interval == interval).for_each(|(_, gaps)| sum.join(gaps));
    sum
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let quick = options.quick;
    let rows = PATHS.into_iter().chain([MIXED]);
    let runs: Vec<PathRun> = rows.flat_map(|row| [0, 1].map(|rule| PathRun { row, rule })).collect();
    let sweep = ExperimentSweep {
        fingerprint: format!("mace-fig14 1 {}", if quick { "quick" } else { "whole" }),
        kept: options.kept_runs(),
        progress: options.progress,
        patience: &options.patience,
        threads: None,
    };
    let play = |run: &PathRun| {
        let missing = || RunFailed(format!("Table 2 has no row {}", run.row));
        let (params, _) = run_of(run.row, run.rule == 1, quick).ok_or_else(missing)?;
        Ok::<_, RunFailed>(PathYield::of(&params, &sim::mace::run(&params)))
    };
    let found = sweep.play(&runs, |run| format!("{} {}", run.row, RULES[run.rule]), play)?;
    let mut finding = Finding::default();
    finding.title("14", "controlled load that comes in each sampling period, Mb/s on the wire");
    for (n, row) in PATHS.into_iter().enumerate() {
        path(&mut finding, row, [&found[2 * n], &found[2 * n + 1]], quick);
    }
    let mixed = [&found[2 * PATHS.len()], &found[2 * PATHS.len() + 1]];
    spacing(&mut finding, mixed);
    finding.notes.extend([
        "On the simulator: the runs of Table 2 with its first seed, background 130 %.".to_owned(),
        "The text has no numbers of Figure 14; the means beside it are those of Table 2 (utilisation of the allocation). Its \
         text says POO1, its caption POO2: both are here."
            .to_owned(),
        "The text says that measured sum uses 50 % more in the mixed run, Table 2 that it uses 106 % more (36 and 74 %)."
            .to_owned(),
    ]);
    Ok(finding)
}

/// Figure 14 of a row: by simple sum and by measured sum.
fn path(finding: &mut Finding, row: &str, found: [&PathYield; 2], quick: bool) {
    let mut lines = Vec::new();
    for (rule, (name, color)) in RULES.into_iter().zip([Rgb::GREY, Rgb::BLUE]).enumerate() {
        let PathYield { path, above, .. } = found[rule];
        let published = run_of(row, rule == 1, quick)
            .map(|(params, percent)| percent / 100.0 * params.allocated.as_bps() as f64 / 1e6);
        let label = format!("{row}, {name}");
        let rates = || path.iter().map(|(_, mbps)| *mbps);
        finding.cell("14", &label, "mean", published, &[found[rule].mean_mbps()]);
        finding.cell("14", &label, "lowest", None, &[rates().fold(f64::INFINITY, f64::min)]);
        finding.cell("14", &label, "highest", None, &[rates().fold(0.0, f64::max)]);
        finding.cell("14", &label, "above allocation %", None, &[*above]);
        lines.push(ChartLine { name: name.into(), color, mark: Mark::Solid, points: path.clone() });
    }
    if let Some((params, _)) = run_of(row, true, quick) {
        let (allocated, end) =
            (params.allocated.as_bps() as f64 / 1e6, found[1].path.last().map_or(0.0, |(at, _)| *at));
        let points = vec![(0.0, allocated), (end, allocated)];
        lines.push(ChartLine { name: "allocated".into(), color: Rgb::RED, mark: Mark::None, points });
    }
    if found[1].mean_mbps() <= found[0].mean_mbps() {
        finding.shortfalls.push(format!("{row}: measured sum uses no more than simple sum"));
    }
    let chart = Chart {
        title: format!("Bandwidth of {row} flows"),
        subtitle: "controlled load as it comes in; background 130 % of 10 Mb/s".into(),
        x: Axis { label: "Time (s)".into(), reach: 0.0 },
        y: Axis { label: "Controlled load (Mb/s)".into(), reach: 0.0 },
        lines,
        landmark: None,
    };
    finding.figure(&format!("mace-fig14-{}", row.to_lowercase()), &format!("Figure 14: {row}"), chart);
}

/// Figures 15 and 16: the mixed run by simple sum and by measured sum.
fn spacing(finding: &mut Finding, found: [&PathYield; 2]) {
    for (n, (table, ms, rate)) in SPACED.into_iter().enumerate() {
        finding.title(table, format!("gaps of controlled load of {rate}, five models: per cent of those below 80 ms"));
        // With the millisecond of the ideal gap, as a histogram of whole milliseconds counts; and without it.
        let upto = |rule: usize, ms: u64| found[rule].gaps[n].get(ms as usize).copied().unwrap_or(0.0);
        let within = |rule: usize| upto(rule, ms + 1);
        for (rule, name) in RULES.into_iter().enumerate() {
            finding.cell(table, name, &format!("{ms} ms or less"), None, &[within(rule)]);
            finding.cell(table, name, &format!("below {ms} ms"), None, &[upto(rule, ms)]);
            finding.cell(table, name, "within 25 %", None, &[found[rule].near[n]]);
        }
        let published = (table == "15").then_some(FEWER);
        finding.cell(table, "SSAC less MBAC", &format!("{ms} ms or less"), published, &[within(0) - within(1)]);
        finding.cell(table, "SSAC less MBAC", &format!("below {ms} ms"), None, &[upto(0, ms) - upto(1, ms)]);
        finding.cell(table, "SSAC less MBAC", "within 25 %", None, &[found[0].near[n] - found[1].near[n]]);
        let line = |rule: usize| ChartLine {
            name: RULES[rule].into(),
            color: [Rgb::GREY, Rgb::BLUE][rule],
            mark: Mark::Solid,
            points: found[rule].gaps[n].iter().enumerate().map(|(ms, percent)| (ms as f64, *percent)).collect(),
        };
        let chart = Chart {
            title: format!("Spacing of admitted flows of {rate}"),
            subtitle: format!("five models, background 130 % of 10 Mb/s; ideal {ms} ms; gaps below 80 ms"),
            x: Axis { label: "Time between two packets of a flow (ms)".into(), reach: 80.0 },
            y: Axis { label: "Packets with at most this (%)".into(), reach: 100.0 },
            lines: vec![line(0), line(1)],
            landmark: None,
        };
        finding.figure(&format!("mace-fig{table}"), &format!("Figure {table}: {rate}"), chart);
    }
    let more = 100.0 * (found[1].utilisation / found[0].utilisation.max(1e-9) - 1.0);
    finding.title("util", "how much more of the allocation measured sum uses than simple sum in the mixed run, %");
    finding.cell("util", "MIXED", "MBAC over SSAC", Some(MORE_USED), &[more]);
    for (name, value) in [
        ("spacing_share_256k_less", found[0].near[0] - found[1].near[0]),
        ("spacing_share_64k_less", found[0].near[1] - found[1].near[1]),
        ("ssac_lost", found[0].lost),
        ("mbac_lost", found[1].lost),
    ] {
        finding.value(name, value);
    }
    if found[1].utilisation <= found[0].utilisation {
        finding.shortfalls.push("mixed: measured sum uses no more than simple sum".into());
    }
    if found[1].lost > MOST_LOST {
        finding.shortfalls.push(format!("mixed: admitted flows lost {:.2} % by measured sum", found[1].lost));
    }
    if found[0].near[1] - found[1].near[1] > MOST_WORSE {
        finding
            .shortfalls
            .push("mixed: by measured sum flows of 64 kbit/s are spaced much worse than by simple sum".into());
    }
}

/// The most packets of admitted flows that may be lost, per cent.
const MOST_LOST: f64 = 1.0;
/// By how many points the share of packets within a quarter of 40 ms may be lower by measured sum: "slightly worsened".
const MOST_WORSE: f64 = 5.0;
