//! The simulations of RFC 2963, appendix A: do rate adaptive shapers help TCP through a three colour marker?
//!
//! [`published`] has the tables, `play` one run, `judge` the criteria, `charts` the figures, `variants` cases that
//! the RFC describes and does not simulate.
//! `docs/experiments.md` lists the parameters that the RFC leaves open, and the values that fit.

mod charts;
mod judge;
pub mod live;
mod play;
pub mod published;
pub mod sensitivity;
mod variants;

use crate::experiment::sweep::ExperimentSweep;
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
pub use play::{CustomerResult, Played, Run, play};
use published::{A2, A3, A4, A5, A6, A7, COLUMNS, Goodput, Throughput};
use sim::scenarios::rfc2963::{Params, Shaping};
use terms::Bytes;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rfc2963",
    about: "Rate adaptive shapers before a trTCM: 100 TCP connections over 70 Mb/s, tables A.2 to A.7",
    source: "RFC 2963, appendix A (Bonaventure, De Cnodder 2000)",
    takes: "half a minute",
    run,
};

/// CBS of the tables by router, KB of 1,000 bytes.
const SMALL: u64 = 3;
/// From this CBS on, in KB, bursts fit the bucket and shaping is only delay.
const LARGE: u64 = 100;
/// CBS of the quick form.
const QUICK: [u64; 2] = [SMALL, LARGE];
/// The seeds of the full form: each cell is the mean of that many runs.
const SEEDS: u64 = 3;

/// Returns the parameters of one run.
pub fn params(shaping: Shaping, kilobytes: u64, seed: u64) -> Params {
    Params { cbs: Bytes::new(kilobytes * 1_000), shaping, seed, ..Params::default() }
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let sizes: Vec<u64> = if options.quick { QUICK.to_vec() } else { A4.iter().map(|row| row.0).collect() };
    let seeds = options.seeds.unwrap_or(if options.quick { 1 } else { SEEDS });
    let mut runs = Vec::new();
    for shaping in [Shaping::TrRas, Shaping::Green] {
        for &kilobytes in &sizes {
            runs.extend((1..=seeds).map(|seed| Run { shaping, kilobytes, params: params(shaping, kilobytes, seed) }));
        }
    }
    runs.extend(variants::runs(seeds));
    let sweep = ExperimentSweep {
        // Runs of other parameters, or of another simulator, are not these.
        fingerprint: format!("rfc2963 {} {:?}", env!("CARGO_PKG_VERSION"), Params::default()),
        kept: options.kept_runs(),
        progress: options.progress,
        patience: &options.patience,
        threads: None,
    };
    let begun = std::time::Instant::now();
    let found = sweep.play(&runs, Run::name, play)?;
    let results = Results { runs, found };
    let mut finding = Finding::default();
    results.throughput(&mut finding, Shaping::TrRas, [("A.2", &A2), ("A.3", &A3)]);
    results.goodput(&mut finding, Shaping::TrRas, "A.4", &A4, &sizes);
    results.throughput(&mut finding, Shaping::Green, [("A.5", &A5), ("A.6", &A6)]);
    results.goodput(&mut finding, Shaping::Green, "A.7", &A7, &sizes);
    variants::tables(&results, &mut finding);
    charts::add(&mut finding, seeds);
    finding.shortfalls = judge::shortfalls(&finding, options.quick);
    finding.notes = results.notes(seeds, begun.elapsed().as_secs_f64());
    Ok(finding)
}

/// A column of the tables of throughput, and the function that reads it.
type Quantity = (&'static str, fn(&CustomerResult) -> f64);

const QUANTITIES: [Quantity; 3] = [
    ("green", |customer| customer.green),
    ("yellow", |customer| customer.yellow),
    ("total", |customer| customer.total),
];

/// All runs and their results.
struct Results {
    runs: Vec<Run>,
    found: Vec<Played>,
}

impl Results {
    /// Returns the value of `read` for each seed of a point.
    fn samples(&self, shaping: Shaping, kilobytes: u64, read: impl Fn(&Played) -> f64) -> Vec<f64> {
        let is_here = |run: &Run| matches(run, shaping, kilobytes) && !run.params.unresponsive;
        self.of(is_here, read)
    }

    /// Returns the value of `read` for each of these runs.
    fn of(&self, is_here: impl Fn(&Run) -> bool, read: impl Fn(&Played) -> f64) -> Vec<f64> {
        let here = |(run, played)| is_here(run).then(|| read(played));
        self.runs.iter().zip(&self.found).filter_map(here).collect()
    }

    fn throughput(&self, finding: &mut Finding, shaping: Shaping, tables: [(&str, &Throughput); 2]) {
        for (half, (table, published)) in tables.into_iter().enumerate() {
            let whose = if half == 0 { "unshaped" } else { shaped(shaping) };
            finding.title(table, format!("throughput in Mb/s at a CBS of {SMALL} KB, {whose}"));
            finding.title(&published::of_red(table), "red traffic in Mb/s: the rest of the total".to_owned());
            for (place, row) in published.iter().enumerate() {
                let customer = half * 5 + place;
                let name = format!("C{}", customer + 1);
                for (n, &published) in row.iter().enumerate() {
                    let (column, read) = QUANTITIES[n];
                    let samples = self.samples(shaping, SMALL, |played| read(&played.customers[customer]));
                    finding.cell(table, &name, column, Some(published), &samples);
                }
                let samples = self.samples(shaping, SMALL, |played| played.customers[customer].red());
                finding.cell(&published::of_red(table), &name, "red", Some(published::red(*row)), &samples);
            }
        }
    }

    fn goodput(&self, finding: &mut Finding, shaping: Shaping, table: &str, published: &Goodput, sizes: &[u64]) {
        finding.title(table, format!("goodput in Mb/s by CBS in KB; shaped: {}", shaped(shaping)));
        for (kilobytes, row) in published.iter().filter(|(kilobytes, _)| sizes.contains(kilobytes)) {
            for ((column, customer), &published) in COLUMNS.into_iter().zip(row) {
                let samples = self.samples(shaping, *kilobytes, |played| played.customers[customer].goodput);
                finding.cell(table, &kilobytes.to_string(), column, Some(published), &samples);
            }
        }
    }

    fn notes(&self, seeds: u64, wall: f64) -> Vec<String> {
        let (packets, events) =
            self.found.iter().fold((0, 0), |(p, e), played| (p + played.packets, e + played.events));
        let cpu: f64 = self.found.iter().map(|played| played.seconds).sum();
        vec![
            format!("{} runs of 102 simulated seconds, {seeds} seed(s) a cell, in {wall:.1} s", self.runs.len()),
            format!(
                "{:.2} million data packets, {:.2} million events; one core: {:.2} million packets/s, {:.2} million events/s",
                packets as f64 / 1e6,
                events as f64 / 1e6,
                packets as f64 / 1e6 / cpu.max(1e-9),
                events as f64 / 1e6 / cpu.max(1e-9)
            ),
        ]
    }
}

fn matches(run: &Run, shaping: Shaping, kilobytes: u64) -> bool {
    run.shaping == shaping && run.kilobytes == kilobytes
}

fn shaped(shaping: Shaping) -> &'static str {
    match shaping {
        Shaping::None => "unshaped",
        Shaping::TrRas => "trRAS",
        Shaping::Green => "G-trRAS",
        Shaping::SrRas => "srRAS",
        Shaping::SrGreen => "G-srRAS",
    }
}
