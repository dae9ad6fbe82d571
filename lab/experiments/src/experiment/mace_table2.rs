//! Table 2 of the measurement paper: simple sum and measured sum, six kinds of flows, packet by packet.
//!
//! The paper does not state its target utilisation v; [`TARGET`] is the value that comes nearest over all
//! rows, and a figure shows the sweep over v. Two facts of its text decide how the pool is made: there are
//! "always connections waiting", and it could not offer more than 100.

use super::sweep::{ExperimentSweep, RunFailed};
use super::{Experiment, Finding, RunOn, RunOptions};
use crate::mace::live;
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use serde::{Deserialize, Serialize};
use sim::mace::model::{CBR, EXP1, EXP2, Model, POO1, POO2, POO3};
use sim::mace::{MaceOutcome, Params, RuleTerms, run as play};
use terms::{Rate, Span};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mace-table2",
    about: "How many flows simple sum and measured sum admit, and how much of the allocation they use",
    source: "Jamin, Jin: Measurement-based Admission Control for Controlled-load Service (1998), Table 2",
    takes: "eight minutes; root, an hour with --on netns",
    run,
};

/// v, in hundredths.
const TARGET: u32 = 110;
const SEEDS: u64 = 5;
const SLOW: Rate = Rate::from_bps(77_200);
const FAST: Rate = Rate::from_bps(154_000);
/// 39 % and 23 % of 10 Mbit/s (section 5.3).
const LARGE: Rate = Rate::from_kbps(3_900);
const SMALL: Rate = Rate::from_kbps(2_300);

/// A row: its name, the flows and the rate that each declares, the allocation, the published values (simple
/// sum's utilisation and flows, then measured sum's), and its line's colour.
struct Row {
    name: &'static str,
    models: &'static [(Model, Rate)],
    allocated: Rate,
    published: [f64; 4],
    color: Rgb,
}

const ROWS: [Row; 7] = [
    Row {
        name: "POO1",
        models: &[(POO1, SLOW)],
        allocated: LARGE,
        published: [44.5, 50.0, 72.5, 83.0],
        color: Rgb::BLUE,
    },
    Row {
        name: "POO2",
        models: &[(POO2, FAST)],
        allocated: SMALL,
        published: [31.0, 15.0, 61.0, 27.0],
        color: Rgb::RED,
    },
    Row {
        name: "POO3",
        models: &[(POO3, SLOW)],
        allocated: SMALL,
        published: [16.0, 29.0, 46.0, 91.0],
        color: Rgb::GREEN,
    },
    Row {
        name: "EXP1",
        models: &[(EXP1, SLOW)],
        allocated: LARGE,
        published: [49.0, 50.0, 89.6, 93.0],
        color: Rgb::AMBER,
    },
    Row {
        name: "EXP2",
        models: &[(EXP2, FAST)],
        allocated: SMALL,
        published: [29.0, 14.0, 93.0, 47.0],
        color: Rgb(0x7a, 0x3f, 0xa0),
    },
    // Section 4.2, fourth scenario; the reservations are those of its text.
    Row {
        name: "MIXED",
        models: &[(CBR, SLOW), (POO2, SLOW), (EXP1, SLOW), (POO3, FAST), (EXP2, FAST)],
        allocated: SMALL,
        published: [36.0, 19.0, 74.0, 34.0],
        color: Rgb::GREY,
    },
    // The same with the reservations of Table 1 and of the third scenario: the text has POO2 and POO3 the other way round.
    Row {
        name: "MIXED, as Table 1",
        models: &[(CBR, SLOW), (POO2, FAST), (EXP1, SLOW), (POO3, SLOW), (EXP2, FAST)],
        allocated: SMALL,
        published: [36.0, 19.0, 74.0, 34.0],
        color: Rgb(0x4a, 0x4f, 0x58),
    },
];

const COLUMNS: [&str; 4] = ["ssac_util", "ssac_flows", "mbac_util", "mbac_flows"];
/// The packets of admitted flows that were lost, percent.
const LOST: [&str; 2] = ["ssac_lost", "mbac_lost"];
/// The most of them, percent.
const MOST_LOST: f64 = 1.0;
/// Live runs at a time for each processor. Fourteen on two of them, a test build, kept agents from answering for ten seconds.
const SIDE_BY_SIDE: usize = 3;
/// A row is like the paper's if both utilisations are within this share of it.
const LIKE: f64 = 0.15;

/// The results of a run.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Yield {
    utilisation: f64,
    flows: f64,
    /// The samples above the allocation, percent.
    above: f64,
    /// The packets of admitted flows that were lost, percent.
    lost: f64,
}

impl Yield {
    fn of(outcome: &MaceOutcome) -> Yield {
        let (all, above) = outcome.samples;
        let level = outcome.levels[0];
        Yield {
            utilisation: outcome.utilisation,
            flows: outcome.median_flows as f64,
            above: 100.0 * f64::from(above) / f64::from(all.max(1)),
            lost: 100.0 * level.dropped as f64 / level.offered.max(1) as f64,
        }
    }
}

/// One run: its row, algorithm and parameters.
#[derive(Clone, Copy)]
struct Job {
    row: usize,
    /// v in hundredths; zero: simple sum.
    target: u32,
    window: u32,
    pool: usize,
    /// The background load, percent of the link.
    background: u32,
    seed: u64,
}

const TABLE: Job = Job { row: 0, target: 0, window: 20, pool: 100, background: 130, seed: 0 };

/// The base of the varied runs. Best effort cannot disturb them whatever it sends, so they run without it.
const ALONE: Job = Job { target: TARGET, background: 0, ..TABLE };
const TARGETS: [u32; 7] = [70, 80, 90, 100, 110, 120, 130];
const WINDOWS: [u32; 6] = [2, 5, 10, 20, 40, 80];
const POOLS: [usize; 6] = [50, 75, 100, 125, 150, 200];

impl Job {
    fn key(&self) -> String {
        let Job { row, target, window, pool, background, seed } = self;
        format!("{} v{target} w{window} p{pool} b{background} s{seed}", ROWS[*row].name)
    }

    fn params(&self, quick: bool) -> Params {
        let row = &ROWS[self.row];
        let rule = match self.target {
            0 => RuleTerms::SimpleSum,
            v => RuleTerms::MeasuredSum { target: (v, 100), departures: false },
        };
        let whole = Params {
            window: self.window,
            pool: self.pool,
            background_percent: self.background,
            ..Params::scenario_three(row.models.to_vec(), row.allocated, rule, self.seed)
        };
        if !quick {
            return whole;
        }
        // Everything a fifth as long; a window stays a tenth of a lifetime.
        Params { lifetime: Span::from_secs(200), sampling: Span::from_secs(1), duration: Span::from_secs(600), ..whole }
    }

    fn play(&self, quick: bool) -> Yield {
        Yield::of(&play(&self.params(quick)))
    }
}

/// The parameters of a run of the table, of its first seed: a row by its name, by simple sum or by measured sum; and what is
/// published of its utilisation, per cent.
pub(crate) fn run_of(row: &str, measured: bool, quick: bool) -> Option<(Params, f64)> {
    let row = ROWS.iter().position(|known| known.name == row)?;
    let target = if measured { TARGET } else { 0 };
    let published = ROWS[row].published[if measured { 2 } else { 0 }];
    Some((Job { row, target, ..TABLE }.params(quick), published))
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let (quick, live) = (options.quick, options.on == Some(RunOn::Netns));
    let seeds = options.seeds.unwrap_or(if quick || live { 1 } else { SEEDS });
    let rows = 0..ROWS.len();
    let table = rows.clone().flat_map(|row| {
        [0, TARGET].into_iter().flat_map(move |target| (0..seeds).map(move |seed| Job { row, target, seed, ..TABLE }))
    });
    let of_rows = |job: Job| (0..ROWS.len()).map(move |row| Job { row, ..job });
    let mut jobs: Vec<Job> = table.collect();
    let cells = jobs.len();
    if !quick && !live {
        jobs.extend(TARGETS.into_iter().flat_map(|target| of_rows(Job { target, ..ALONE })));
        jobs.extend(WINDOWS.into_iter().flat_map(|window| of_rows(Job { window, ..ALONE })));
        jobs.extend(POOLS.into_iter().flat_map(|pool| of_rows(Job { pool, ..ALONE })));
    }
    let sweep = ExperimentSweep {
        fingerprint: format!("mace-table2 2 {}", if quick { "quick" } else { "whole" }),
        kept: options.kept_runs(),
        progress: options.progress,
        patience: &options.patience,
        threads: None,
    };
    let found: Vec<Yield> = if live {
        let params: Vec<Params> = jobs.iter().map(|job| job.params(quick)).collect();
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let batches = params.chunks(SIDE_BY_SIDE * processors).map(|batch| live::play(batch, options, "Table 2"));
        batches.collect::<Result<Vec<_>, Error>>()?.concat().iter().map(Yield::of).collect()
    } else {
        sweep.play(&jobs, Job::key, |job| Ok::<_, RunFailed>(job.play(quick)))?
    };
    let mut finding = Finding::default();
    fill(&mut finding, &jobs[..cells], &found[..cells]);
    judge(&mut finding);
    draw(&mut finding, &jobs[cells..], &found[cells..]);
    notes(&mut finding, seeds, live);
    Ok(finding)
}

/// Fills in the cells of the table.
fn fill(finding: &mut Finding, jobs: &[Job], found: &[Yield]) {
    finding.title("2", "utilisation of the allocation in percent, and flows admitted at a time (median)");
    for (n, row) in ROWS.iter().enumerate() {
        let of = |measured: bool, read: fn(&Yield) -> f64| -> Vec<f64> {
            let mine = jobs.iter().zip(found).filter(|(job, _)| job.row == n && (job.target > 0) == measured);
            mine.map(|(_, found)| read(found)).collect()
        };
        let samples =
            [of(false, |y| y.utilisation), of(false, |y| y.flows), of(true, |y| y.utilisation), of(true, |y| y.flows)];
        for ((column, published), samples) in COLUMNS.into_iter().zip(row.published).zip(samples) {
            finding.cell("2", row.name, column, Some(published), &samples);
        }
        for (column, samples) in LOST.into_iter().zip([of(false, |y| y.lost), of(true, |y| y.lost)]) {
            finding.cell("2", row.name, column, None, &samples);
        }
    }
}

/// Checks that simple sum admits the floor of allocation by rate, and measured sum more in every row, and that admitted flows
/// lose little. How many rows are like the paper's is counted.
fn judge(finding: &mut Finding) {
    let mut like = Vec::new();
    for row in &ROWS {
        let near = |column: &str, published: f64| {
            finding.measured("2", row.name, column).is_some_and(|found| (found / published - 1.0).abs() <= LIKE)
        };
        if near("ssac_util", row.published[0]) && near("mbac_util", row.published[2]) {
            like.push(row.name);
        }
        let measured = |column| finding.measured("2", row.name, column).unwrap_or(0.0);
        let (simple, more) = (measured("ssac_flows"), measured("mbac_flows"));
        let mut shortfalls = Vec::new();
        if let [(_, declared)] = row.models {
            let floor = (row.allocated.as_bps() / declared.as_bps()) as f64;
            if simple != floor {
                shortfalls.push(format!("{}: simple sum admits {simple}, by floor it is {floor}", row.name));
            }
        }
        if more <= simple {
            shortfalls.push(format!("{}: measured sum admits {more}, simple sum {simple}", row.name));
        }
        for column in LOST {
            let lost = finding.measured("2", row.name, column).unwrap_or(0.0);
            if lost > MOST_LOST {
                shortfalls.push(format!("{}: admitted flows lost {lost:.2} % ({column})", row.name));
            }
        }
        finding.shortfalls.extend(shortfalls);
    }
    // The second reading of MIXED is no row of the paper's.
    like.retain(|name| *name != ROWS[6].name);
    finding.value("rows_like_the_paper", like.len() as f64);
    let rows = if like.is_empty() { "no row".into() } else { like.join(", ") };
    finding
        .notes
        .push(format!("Both utilisations are within 15 % of the paper's in {} of 6 rows: {rows}.", like.len()));
}

/// Draws a chart over one varied quantity, a line per row.
fn chart(title: &str, x: &str, y: &str, jobs: &[(Job, Yield)], at: fn(&Job) -> f64, read: fn(&Yield) -> f64) -> Chart {
    let lines = ROWS.iter().enumerate().map(|(n, row)| {
        let points = jobs.iter().filter(|(job, _)| job.row == n).map(|(job, found)| (at(job), read(found))).collect();
        ChartLine { name: row.name.into(), color: row.color, mark: Mark::Circle, points }
    });
    Chart {
        title: title.into(),
        subtitle: format!("3,000 s, one seed; unless varied v = {:.2}, window 20, pool 100", f64::from(TARGET) / 100.0),
        x: Axis { label: x.into(), reach: 0.0 },
        y: Axis { label: y.into(), reach: 0.0 },
        lines: lines.collect(),
        landmark: None,
    }
}

fn draw(finding: &mut Finding, jobs: &[Job], found: &[Yield]) {
    if jobs.is_empty() {
        return;
    }
    let all: Vec<(Job, Yield)> = jobs.iter().copied().zip(found.iter().copied()).collect();
    let (targets, rest) = all.split_at(TARGETS.len() * ROWS.len());
    let (windows, pools) = rest.split_at(WINDOWS.len() * ROWS.len());
    let v = |job: &Job| f64::from(job.target) / 100.0;
    let window = |job: &Job| f64::from(job.window);
    let used = "Used of the allocation (%)";
    let above = "Samples above the allocation (%)";
    let target = "Target utilisation v";
    let samples = "Window (samples of 5 s)";
    let charts = [
        (
            "target",
            "A higher target fills the allocation",
            chart("What the target buys", target, used, targets, v, |y| y.utilisation),
        ),
        (
            "target-risk",
            "and at some point exceeds it",
            chart("What the target costs", target, above, targets, v, |y| y.above),
        ),
        (
            "window",
            "A longer window remembers peaks for longer and admits less",
            chart("What the window does", samples, used, windows, window, |y| y.utilisation),
        ),
        (
            "window-risk",
            "A short window forgets peaks that come back",
            chart("What a short window costs", samples, above, windows, window, |y| y.above),
        ),
        (
            "pool",
            "Flows that are hardly ever on (POO3) are bounded by how many ask, not by the rule",
            chart("How many ask", "Flows that ask", "Flows admitted", pools, |job| job.pool as f64, |y| y.flows),
        ),
    ];
    for (name, caption, chart) in charts {
        finding.figure(name, caption, chart);
    }
}

fn notes(finding: &mut Finding, seeds: u64, live: bool) {
    let v = f64::from(TARGET) / 100.0;
    finding.notes.extend([
        format!("{seeds} seeds; v = {v:.2}, which the paper does not state; samples of 5 s, windows of 20, a pool of 100, background 130 %."),
        "POO2 by simple sum: 2,300 / 154 = 14.9, so 14 fit; the paper prints 15.".to_string(),
        "MIXED: five models in equal parts; which of them are let in first decides how many fit. The text of the fourth \
         scenario swaps what POO2 and POO3 reserve against Table 1: both readings are here, beside the same published row."
            .to_string(),
    ]);
    if live {
        finding.notes.push(
            "Real packets, all runs side by side; flows are the median of the agent's count at each sample.".into(),
        );
    }
}
