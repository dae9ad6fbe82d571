//! `sluice torture soft-state`: simulated years of soft state under every fault, seed by seed on all cores, resumable.
//!
//! A seed is a week of a net of ten nodes and a hundred sessions ([`sim::torture`]). Finished seeds are
//! appended to a file, so that the record of many years can grow over several runs.

use crate::experiment::sweep::{ExperimentSweep, RunFailed};
use bed::error::Error;
use bed::patience::Patience;
use serde::{Deserialize, Serialize};
use sim::torture::{FaultCounts, KINDS, Torture};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use terms::Span;

/// Simulated days of one seed.
const DAYS: u64 = 7;
const DAY: u64 = 86_400;

/// The options of the test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TortureOptions {
    /// Simulated days in all, rounded up to whole seeds.
    pub days: u64,
    /// The first seed.
    pub first: u64,
    /// The file of finished seeds; `None`: they are not recorded.
    pub record: Option<PathBuf>,
    /// True to show progress.
    pub progress: bool,
}

/// The record of a finished seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Finished {
    seconds: u64,
    messages: u64,
    kinds: BTreeMap<String, u64>,
    hash: u64,
}

/// The results of a run in which every law held. A broken law is an error.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TortureReport {
    /// Simulated years, the quiet end of each seed included.
    pub years: f64,
    /// Number of seeds.
    pub seeds: u64,
    /// RSVP messages that reached an agent.
    pub messages: u64,
    /// Laws that did not hold.
    pub broken: u64,
    /// The number of faults and outcomes of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// The kinds that never happened.
    pub missing: Vec<&'static str>,
    /// The length of this run, seconds.
    pub wall_s: f64,
}

/// Plays every seed that is not recorded yet.
///
/// # Errors
/// A law did not hold: names the seed, the simulated second and the law. Or the user stops the run; finished
/// seeds are kept.
pub fn soft_state(options: &TortureOptions, patience: &Patience) -> Result<TortureReport, Error> {
    let begun = Instant::now();
    let seeds: Vec<u64> = (options.first..options.first + options.days.div_ceil(DAYS)).collect();
    let sweep = ExperimentSweep {
        fingerprint: format!("soft-state 1 {DAYS} days"),
        kept: options.record.clone(),
        progress: options.progress,
        patience,
        threads: None,
    };
    let play = |seed: &u64| {
        let length = Span::from_secs(DAYS * DAY);
        let tally = Torture::usual(*seed, length).play().map_err(|broken| RunFailed(broken.to_string()))?;
        Ok(Finished::from(&tally))
    };
    let finished: Vec<Finished> = sweep.play(&seeds, u64::to_string, play)?;
    let mut report = TortureReport {
        years: finished.iter().map(|seed| seed.seconds).sum::<u64>() as f64 / (365.25 * DAY as f64),
        seeds: seeds.len() as u64,
        messages: finished.iter().map(|seed| seed.messages).sum(),
        broken: 0,
        kinds: BTreeMap::new(),
        missing: Vec::new(),
        wall_s: begun.elapsed().as_secs_f64(),
    };
    for (kind, count) in finished.iter().flat_map(|seed| &seed.kinds) {
        *report.kinds.entry(kind.clone()).or_default() += count;
    }
    let happened = |kind: &&str| report.kinds.get(*kind).is_some_and(|&count| count > 0);
    report.missing = KINDS.into_iter().filter(|kind| !happened(kind)).collect();
    Ok(report)
}

impl From<&FaultCounts> for Finished {
    fn from(tally: &FaultCounts) -> Finished {
        let kinds = tally.kinds.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
        Finished {
            seconds: tally.simulated.as_nanos() / Span::NANOS_PER_SEC,
            messages: tally.messages,
            kinds,
            hash: tally.hash,
        }
    }
}

impl TortureReport {
    /// Formats the results as text for people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:.2} simulated years of ten nodes and a hundred sessions, {} seeds, {} messages: no state died early, none outlived its\n\
             lifetime, ledgers, plans and ports agreed, and nothing was left at the end of any seed.\n\n",
            self.years, self.seeds, self.messages
        );
        let wide = self.kinds.keys().map(String::len).max().unwrap_or(0);
        for (kind, count) in &self.kinds {
            text += &format!("  {kind:wide$}  {count:>12}\n");
        }
        text + &format!("{:.1} s\n", self.wall_s)
    }

    /// Formats the results as the last line, for scripts.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| unreachable!("counts and words"))
    }
}
