//! Experiments on the simulator: each compares what it measures with what a document published, cell by cell.
//!
//! An experiment is one file with one [`Experiment`] in it, and one line in [`ALL`]. The frame does the rest:
//! [`finding`] holds the cells and writes them as text, CSV and JSON, [`sweep`] plays many runs on all cores and keeps
//! what is finished, [`statistics`] has means and confidence intervals, [`report`] makes one page of it all.

pub mod finding;
mod mace_table2;
pub mod report;
pub mod statistics;
pub mod sweep;
mod tables;
mod video;

pub use finding::{Cell, Figure, Finding};

use crate::error::Error;
use crate::patience::Patience;
use linux::error::SystemError;
use std::path::{Path, PathBuf};

/// Every experiment, in the order of `sluice lab list`.
pub const ALL: &[Experiment] = &[
    crate::rfc2963::EXPERIMENT,
    crate::rfc2963::sensitivity::EXPERIMENT,
    mace_table2::EXPERIMENT,
    video::EXPERIMENT,
    crate::gara::fig4::EXPERIMENT,
    crate::gara::fig6::EXPERIMENT,
    crate::gara::deadline::EXPERIMENT,
];

/// An experiment: its name, what it is, and how it is run.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// The document whose figures it is held against.
    pub source: &'static str,
    /// About how long it takes on two cores.
    pub takes: &'static str,
    /// Runs it. What the document published is in the cells; what was to be shown and was not, in the shortfalls.
    pub run: fn(&RunOptions) -> Result<Finding, Error>,
}

/// How an experiment is to be run.
#[derive(Debug)]
pub struct RunOptions {
    /// Fewer points, fewer seeds: seconds.
    pub quick: bool,
    /// Another number of seeds than the experiment's own.
    pub seeds: Option<u64>,
    /// The folder of its results: figures, tables, and the runs that are finished.
    pub out: Option<PathBuf>,
    /// Whether finished runs are played again.
    pub fresh: bool,
    /// Whether it tells how far it is.
    pub progress: bool,
    /// Whether the user wants it to stop.
    pub patience: Patience,
}

impl RunOptions {
    /// The quick form, told to nobody, kept nowhere.
    pub fn quick() -> RunOptions {
        RunOptions { quick: true, seeds: None, out: None, fresh: false, progress: false, patience: Patience::endless() }
    }

    /// The file that keeps finished runs, if results are kept.
    pub fn kept_runs(&self) -> Option<PathBuf> {
        self.out.as_ref().map(|out| out.join("runs.jsonl"))
    }
}

/// Where an experiment's results are kept by default.
pub fn folder(root: &Path, name: &str) -> PathBuf {
    root.join(name)
}

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

/// Runs an experiment, and writes what it found into its folder.
///
/// # Errors
/// As [`Experiment::run`]; or a file cannot be written.
pub fn run(experiment: &Experiment, options: &RunOptions) -> Result<Finding, Error> {
    let begun = std::time::Instant::now();
    if let Some(kept) = options.kept_runs().filter(|kept| options.fresh && kept.exists()) {
        let wrong = |error| SystemError::because(format!("remove {}", kept.display()), error);
        std::fs::remove_file(&kept).map_err(wrong)?;
    }
    let mut finding = (experiment.run)(options)?;
    finding.experiment = experiment.name.to_string();
    finding.source = experiment.source.to_string();
    finding.about = experiment.about.to_string();
    finding.quick = options.quick;
    finding.wall_s = begun.elapsed().as_secs_f64();
    if let Some(out) = &options.out {
        finding.write(out)?;
    }
    Ok(finding)
}
