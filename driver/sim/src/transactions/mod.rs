//! Transactions over several agents, tortured: two brokers, three agents, and every fault that a machine or a network
//! has (`FAULTS.md` C1 to C15, D1, D4).
//!
//! The agents are whole nodes with the real bookings, ledger and policy; the brokers run the real coordinator, wired
//! as the broker wires it. Between them are messages, and below them disks that write batches in transactions, lose
//! or keep what was under way at a crash, run out of space, and are set back to older copies. A judge reads what
//! every disk has at the moment at which it has it, and keeps a book of its own. Laws: no change at some members
//! only; what was acknowledged is there; never more than the capacity at any instant; no promise, transaction or
//! room without an end, once everybody is up.
//!
//! Reading order: [`message`], [`net`], [`disk`], [`agent`], [`broker`], [`wish`] (clients), [`faults`], [`check`] (the
//! judge), [`world`] (takes events in order), [`tally`].

mod agent;
mod broker;
mod check;
mod disk;
mod faults;
mod message;
mod net;
mod tally;
mod wish;
mod world;

use check::Law;
use std::collections::BTreeMap;

/// A run of transactions under faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitTorture {
    /// The seed of all random numbers.
    pub seed: u64,
    /// A defect that is planted; `None`: none. A judge that cannot find it is worth nothing.
    pub planted: Option<PlantedDefect>,
}

/// A defect, put between an engine and its world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PlantedDefect {
    /// A broker tells its decision before the decision is on the disk: a change is made at some members only.
    EarlyDecision,
    /// An agent's disk says that it has written before it has: what was acknowledged is lost.
    LyingDisk,
    /// An agent leaves a reservation out when it starts: its room is promised twice.
    ForgetfulAgent,
    /// A broker says its decision once, and answers no question: a promise has no end.
    SilentCoordinator,
}

/// The results of one run, or of many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommitCounts {
    /// The number of runs.
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
    /// The number of times that each fault and each outcome happened.
    pub kinds: BTreeMap<String, u64>,
    /// The first violations, in words.
    pub found: Vec<String>,
}

/// The most violations that are told in words.
const MOST_FOUND: usize = 40;

impl CommitTorture {
    /// A run without a planted defect.
    pub fn of(seed: u64) -> CommitTorture {
        CommitTorture { seed, planted: None }
    }

    /// Plays the run.
    pub fn play(&self) -> CommitCounts {
        let (tally, judge, messages) = world::TransactionWorld::new(self.seed, self.planted).play();
        let of = |law: Law| judge.violations.get(&law).copied().unwrap_or(0);
        CommitCounts {
            seeds: 1,
            half: of(Law::Half),
            lost: of(Law::Lost),
            overbooked: of(Law::Overbooked),
            stuck: of(Law::Stuck),
            messages,
            kinds: tally.rows().map(|(row, count)| (tally::words(row), count)).collect(),
            found: judge.words.iter().map(|words| format!("seed {}: {words}", self.seed)).collect(),
        }
    }
}

impl CommitCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &CommitCounts) {
        self.seeds += other.seeds;
        self.half += other.half;
        self.lost += other.lost;
        self.overbooked += other.overbooked;
        self.stuck += other.stuck;
        self.messages += other.messages;
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += count;
        }
        let room = MOST_FOUND.saturating_sub(self.found.len());
        self.found.extend(other.found.iter().take(room).cloned());
    }

    /// True if no law was broken.
    pub fn is_clean(&self) -> bool {
        self.half + self.lost + self.overbooked + self.stuck == 0
    }

    /// The kinds of faults and outcomes that have never happened.
    pub fn missing(&self) -> Vec<String> {
        tally::required().map(tally::words).filter(|kind| !self.kinds.contains_key(kind)).collect()
    }
}
