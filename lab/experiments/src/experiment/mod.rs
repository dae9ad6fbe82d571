//! Experiments on the simulator and on real packets. Each compares its measurements with a published document, cell by cell.
//!
//! An experiment is one file with one [`Experiment`] in it, and one line in [`ALL`] (`all.rs`). The frame does the rest:
//! [`finding`] holds the cells and writes them as text, CSV and JSON, [`sweep`] plays many runs on all cores
//! and keeps finished ones, [`statistics`] has means and confidence intervals, [`report`] makes one page of
//! all results.

mod all;
mod bucket;
pub mod finding;
pub(crate) mod mace_table2;
mod profiled;
pub mod report;
pub mod statistics;
pub mod sweep;
mod tables;
mod video;

pub use all::{ALL, find, is_on_both};
pub use finding::{Cell, Figure, Finding};

use bed::error::Error;
use bed::patience::Patience;
use linux::error::SystemError;
use std::path::{Path, PathBuf};

/// An experiment: its name, a description, and the function that runs it.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description, in a line.
    pub about: &'static str,
    /// The document with the published values.
    pub source: &'static str,
    /// The approximate time that it takes on two cores.
    pub takes: &'static str,
    /// Runs it. Published values are in the cells; expected results that did not appear are in the
    /// shortfalls.
    pub run: fn(&RunOptions) -> Result<Finding, Error>,
}

/// The place of an experiment that can be played on the simulator and on real packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunOn {
    /// In simulated time.
    Sim,
    /// On real packets, in namespaces.
    Netns,
}

/// The options of a run.
#[derive(Debug)]
pub struct RunOptions {
    /// Fewer points, fewer seeds: seconds.
    pub quick: bool,
    /// The number of seeds, in place of the experiment's own.
    pub seeds: Option<u64>,
    /// The folder of its results: figures, tables, and the finished runs.
    pub out: Option<PathBuf>,
    /// The place where it is played; `None`: the experiment's usual one.
    pub on: Option<RunOn>,
    /// True to play finished runs again.
    pub fresh: bool,
    /// True to show progress.
    pub progress: bool,
    /// The means by which the user stops the run.
    pub patience: Patience,
}

impl RunOptions {
    /// Returns the quick form, without progress and without a folder.
    pub fn quick() -> RunOptions {
        RunOptions {
            quick: true,
            seeds: None,
            out: None,
            on: None,
            fresh: false,
            progress: false,
            patience: Patience::endless(),
        }
    }

    /// Returns the file of finished runs, if results are kept.
    pub fn kept_runs(&self) -> Option<PathBuf> {
        self.out.as_ref().map(|out| out.join("runs.jsonl"))
    }
}

/// Returns the default folder of an experiment's results.
pub fn folder(root: &Path, name: &str) -> PathBuf {
    root.join(name)
}

/// Runs an experiment, and writes its results into its folder.
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
