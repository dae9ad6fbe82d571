//! `sluice torture commit`: transactions over several agents in simulated time, seed by seed on all cores, resumable.
//!
//! A seed is an hour of two brokers and three agents under every fault, and the quiet after it
//! ([`sim::transactions`]). Finished blocks of seeds are appended to a file, so that a long record can grow over
//! several runs.

use crate::experiment::sweep::ExperimentSweep;
use bed::error::Error;
use bed::patience::Patience;
use serde::{Deserialize, Serialize};
use sim::transactions::{CommitCounts, CommitTorture};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// The most seeds of a block.
const BLOCK: u64 = 100;

/// The options of the test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitOptions {
    /// The number of seeds.
    pub seeds: u64,
    /// The first seed.
    pub first: u64,
    /// The file of finished seeds; `None`: they are not recorded.
    pub record: Option<PathBuf>,
    /// True to show progress.
    pub progress: bool,
}

/// The record of a finished block.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Block {
    half: u64,
    lost: u64,
    overbooked: u64,
    stuck: u64,
    messages: u64,
    kinds: BTreeMap<String, u64>,
    found: Vec<String>,
}

/// The results, for scripts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CommitReport {
    /// Number of seeds.
    pub seeds: u64,
    /// Changes that were made at some members only, or without a decision.
    pub half: u64,
    /// Acknowledged changes that were not there.
    pub lost: u64,
    /// Sums that exceeded a capacity.
    pub overbooked: u64,
    /// Promises, transactions and room without an end.
    pub stuck: u64,
    /// Messages that arrived.
    pub messages: u64,
    /// The number of faults and outcomes of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// The kinds that never happened.
    pub missing: Vec<String>,
    /// The length of this run, seconds.
    pub wall_s: f64,
}

/// Plays every seed that is not recorded yet. Returns the results, and the first violations in words.
///
/// # Errors
/// The user stops the run (finished seeds are kept), or the file cannot be written.
pub fn run(options: &CommitOptions, patience: &Patience) -> Result<(CommitReport, Vec<String>), Error> {
    let begun = Instant::now();
    let sweep = ExperimentSweep {
        fingerprint: "commit 1".to_owned(),
        kept: options.record.clone(),
        progress: options.progress,
        patience,
        threads: None,
    };
    let end = options.first.saturating_add(options.seeds);
    let blocks = (options.first..end).step_by(BLOCK as usize);
    let blocks: Vec<(u64, u64)> = blocks.map(|first| (first, end.min(first + BLOCK))).collect();
    let play = |block: &(u64, u64)| {
        let mut counts = CommitCounts::default();
        (block.0..block.1).for_each(|seed| counts.add(&CommitTorture::of(seed).play()));
        Ok(Block::from(counts))
    };
    let finished: Vec<Block> = sweep.play(&blocks, |(first, end)| format!("{first}-{end}"), play)?;
    let mut counts = CommitCounts::default();
    for block in finished {
        counts.add(&CommitCounts::from(block));
    }
    let (missing, found) = (counts.missing(), counts.found);
    let CommitCounts { half, lost, overbooked, stuck, messages, kinds, .. } = counts;
    let (seeds, wall_s) = (options.seeds, begun.elapsed().as_secs_f64());
    Ok((CommitReport { seeds, half, lost, overbooked, stuck, messages, kinds, missing, wall_s }, found))
}

impl From<CommitCounts> for Block {
    fn from(counts: CommitCounts) -> Block {
        let CommitCounts { half, lost, overbooked, stuck, messages, kinds, found, .. } = counts;
        Block { half, lost, overbooked, stuck, messages, kinds, found }
    }
}

impl From<Block> for CommitCounts {
    fn from(block: Block) -> CommitCounts {
        let Block { half, lost, overbooked, stuck, messages, kinds, found } = block;
        CommitCounts { seeds: 0, half, lost, overbooked, stuck, messages, kinds, found }
    }
}

impl CommitReport {
    /// True if no law was broken.
    pub fn is_clean(&self) -> bool {
        self.half + self.lost + self.overbooked + self.stuck == 0
    }

    /// Formats the results as text for people.
    pub fn text(&self) -> String {
        let CommitReport { seeds, half, lost, overbooked, stuck, messages, .. } = self;
        let mut text = format!(
            "{seeds} seeds of two brokers and three agents, {messages} messages: {half} half, {lost} lost, \
             {overbooked} overbooked, {stuck} stuck\n\n"
        );
        let wide = self.kinds.keys().map(String::len).max().unwrap_or(0);
        for (kind, count) in &self.kinds {
            text += &format!("  {kind:wide$}  {count:>12}\n");
        }
        for kind in &self.missing {
            text += &format!("  {kind:wide$}  {:>12}\n", "never");
        }
        text + &format!("{:.1} s\n", self.wall_s)
    }
}
