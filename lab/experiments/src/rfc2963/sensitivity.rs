//! The effect of each parameter that the RFC leaves open on the tables: one is changed at a time, the rest
//! stays.

use super::play::{Played, Run, play};
use super::published::{A2, A3, A4, A5, A6, A7, COLUMNS, Goodput, Throughput};
use super::{LARGE, QUANTITIES, SMALL, params};
use crate::experiment::sweep::ExperimentSweep;
use crate::experiment::{Experiment, Finding, RunOptions, statistics};
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use sim::scenarios::rfc2963::{Params, Shaping, Thresholds};
use terms::{Bytes, Rate, Span};
use traffic::dropper::Coupling;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rfc2963-sensitivity",
    about: "What each parameter that RFC 2963 leaves open does to its tables, one changed at a time",
    source: "RFC 2963, appendix A: RMS distance from its tables in percent, at a CBS of 3 and of 100 KB",
    takes: "a minute or two",
    run,
};

/// Seeds of the full form.
const SEEDS: u64 = 2;

/// The distance above which a variant is not drawn, percent.
const FAR: f64 = 25.0;

/// A change, and its name.
type Variant = (&'static str, fn(&mut Params));

const VARIANTS: &[Variant] = &[
    ("as in lab run rfc2963", |_| {}),
    ("K 0.01 s", |p| p.k = Span::from_millis(10)),
    ("K 0.1 s", |p| p.k = Span::from_millis(100)),
    ("K 0.2 s", |p| p.k = Span::from_millis(200)),
    ("K 0.3 s", |p| p.k = Span::from_millis(300)),
    ("K 1 s", |p| p.k = Span::from_secs(1)),
    ("K 2 s", |p| p.k = Span::from_secs(2)),
    ("thresholds 0.5, 1, 2 CBS", |p| p.thresholds = Thresholds::OfCbs([50, 100, 200])),
    ("thresholds 1, 2, 4 CBS", |p| p.thresholds = Thresholds::OfCbs([100, 200, 400])),
    ("thresholds 2, 4, 8 CBS", |p| p.thresholds = Thresholds::OfCbs([200, 400, 800])),
    ("thresholds 4, 4, 8 CBS", |p| p.thresholds = Thresholds::OfCbs([400, 400, 800])),
    ("thresholds 10, 20, 40 KB", |p| p.thresholds = Thresholds::Fixed([10_000, 20_000, 40_000].map(Bytes::new))),
    ("MIR 20 Mb/s", |p| p.mir = Rate::from_mbps(20)),
    ("RIO decoupled", |p| p.coupling = Coupling::Decoupled),
    ("RTO floor 0.2 s", |p| p.tcp.rto.floor = Span::from_millis(200)),
    ("RTO floor 1 s", |p| p.tcp.rto.floor = Span::from_secs(1)),
    ("RTO floor 1.3 s", |p| p.tcp.rto.floor = Span::from_millis(1_300)),
    ("RTO floor 2 s", |p| p.tcp.rto.floor = Span::from_secs(2)),
    ("tick 1 ms", |p| p.tcp.rto.tick = Span::from_millis(1)),
    ("tick 0.5 s", |p| p.tcp.rto.tick = Span::from_millis(500)),
    ("limited transmit", |p| p.tcp.limited_transmit = true),
    ("delayed acknowledgements, 0.2 s", |p| p.tcp.delayed_ack = Some(Span::from_millis(200))),
    ("initial window 2", |p| p.tcp.initial_window = 2),
    ("SACK kept over timeouts", |p| p.tcp.forget_on_timeout = false),
    ("no rescue retransmission", |p| p.tcp.rescue = false),
    ("CUBIC", |p| p.tcp.growth = sim::scenario::Growth::Cubic),
    ("KB of 1,024 bytes", |p| p.cbs = Bytes::new(p.cbs.get() * 1_024 / 1_000)),
    ("all start at once", |p| p.start_spread = Span::from_nanos(1)),
    ("LANs of 12 Mb/s", |p| p.lan = Rate::from_mbps(12)),
    ("LANs of 20 Mb/s", |p| p.lan = Rate::from_mbps(20)),
];

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let seeds = options.seeds.unwrap_or(if options.quick { 1 } else { SEEDS });
    let sizes: &[u64] = if options.quick { &[SMALL] } else { &[SMALL, LARGE] };
    let mut runs = Vec::new();
    for (variant, (_, change)) in VARIANTS.iter().enumerate() {
        for shaping in [Shaping::TrRas, Shaping::Green] {
            for &kilobytes in sizes {
                for seed in 1..=seeds {
                    let mut params = params(shaping, kilobytes, seed);
                    change(&mut params);
                    runs.push((variant, Run { shaping, kilobytes, params }));
                }
            }
        }
    }
    let sweep = ExperimentSweep {
        fingerprint: format!("rfc2963-sensitivity {} {:?}", env!("CARGO_PKG_VERSION"), Params::default()),
        kept: options.kept_runs(),
        progress: options.progress,
        patience: &options.patience,
        threads: None,
    };
    let key = |(variant, run): &(usize, Run)| {
        format!("{}, {:?}, {} KB, seed {}", VARIANTS[*variant].0, run.shaping, run.kilobytes, run.params.seed)
    };
    let found = sweep.play(&runs, key, |(_, run)| play(run))?;
    let mut finding = Finding::default();
    finding.title("sensitivity", "RMS distance from the published cells, percent");
    for (variant, (name, _)) in VARIANTS.iter().enumerate() {
        let here = |shaping: Shaping, kilobytes: u64| {
            let mine = runs
                .iter()
                .zip(&found)
                .filter(|((n, run), _)| *n == variant && super::matches(run, shaping, kilobytes));
            mean(mine.map(|(_, played)| played))
        };
        let mut distance = |column: &str, pairs: &[(f64, f64)]| {
            let percent = statistics::distance(pairs).map(|found| found.rms * 100.0);
            finding.cell("sensitivity", name, column, None, percent.as_slice());
        };
        for (shaping, tables, column) in
            [(Shaping::TrRas, [&A2, &A3], "A.2, A.3"), (Shaping::Green, [&A5, &A6], "A.5, A.6")]
        {
            distance(column, &throughput(&here(shaping, SMALL), tables));
        }
        for (shaping, table, column) in [(Shaping::TrRas, &A4, "A.4"), (Shaping::Green, &A7, "A.7")] {
            let pairs: Vec<_> = sizes.iter().flat_map(|&size| goodput(&here(shaping, size), table, size)).collect();
            distance(column, &pairs);
        }
    }
    finding.figure(
        "sensitivity",
        "Distance from the tables, by variant in the order of the table",
        chart(&finding, seeds),
    );
    finding.notes.push(format!("{seeds} seed(s) a variant; a difference of a percent is chance"));
    Ok(finding)
}

/// Returns the mean of runs, one customer's values after the other.
fn mean<'a>(runs: impl Iterator<Item = &'a Played>) -> Vec<super::CustomerResult> {
    let all: Vec<&Played> = runs.collect();
    let place = |n: usize| {
        let of = |read: fn(&super::CustomerResult) -> f64| {
            all.iter().map(|run| read(&run.customers[n])).sum::<f64>() / all.len() as f64
        };
        super::CustomerResult {
            green: of(|c| c.green),
            yellow: of(|c| c.yellow),
            total: of(|c| c.total),
            goodput: of(|c| c.goodput),
        }
    };
    (0..sim::scenarios::rfc2963::ROUTERS).map(place).collect()
}

fn throughput(customers: &[super::CustomerResult], tables: [&Throughput; 2]) -> Vec<(f64, f64)> {
    let published = tables.into_iter().flatten();
    let pairs = customers.iter().zip(published);
    pairs
        .flat_map(|(customer, row)| QUANTITIES.iter().zip(row).map(|((_, read), &cell)| (cell, read(customer))))
        .collect()
}

fn goodput(customers: &[super::CustomerResult], table: &Goodput, size: u64) -> Vec<(f64, f64)> {
    let row = table.iter().find(|(kilobytes, _)| *kilobytes == size);
    let cells = row.into_iter().flat_map(|(_, row)| COLUMNS.into_iter().zip(row));
    cells.map(|((_, customer), &cell)| (cell, customers[customer].goodput)).collect()
}

/// Draws the tables of throughput, which have the most cells. Variants that are far off are left out, because
/// they would hide the others.
fn chart(finding: &Finding, seeds: u64) -> Chart {
    let columns = [("A.2, A.3", Rgb::BLUE), ("A.5, A.6", Rgb::RED)];
    let lines = columns.into_iter().map(|(column, color)| {
        let cells = finding.cells.iter().filter(|cell| cell.column == column).enumerate();
        let points =
            cells.filter(|(_, cell)| cell.measured <= FAR).map(|(n, cell)| (n as f64, cell.measured)).collect();
        ChartLine { name: column.to_string(), color, mark: Mark::Alone, points }
    });
    Chart {
        title: "What the open parameters do to RFC 2963's tables".into(),
        subtitle: format!(
            "variants in the order of the table, 0 is the experiment's own; {seeds} seed(s); over {FAR} % not drawn"
        ),
        x: Axis { label: "Variant".into(), reach: 0.0 },
        y: Axis { label: "RMS distance of all cells (%)".into(), reach: 0.0 },
        lines: lines.collect(),
        landmark: None,
    }
}
