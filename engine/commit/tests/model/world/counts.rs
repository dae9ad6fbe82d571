//! Counts of the faults that a search went through. A fault that never happened is not checked by it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A fault, or a consequence of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The coordinator was killed.
    CoordinatorCrash,
    /// A participant was killed.
    ParticipantCrash,
    /// A crash lost records that were not yet on the disk.
    LostRecord,
    /// A crash kept records of which the process had not heard that they were on the disk.
    KeptUnsaid,
    /// A write failed.
    FailedWrite,
    /// Messages under way were lost.
    LostMessage,
    /// A message came again, or too late, and changed nothing.
    Repetition,
    /// A late or repeated Prepare of a transaction that is over was refused.
    RefusedRepetition,
    /// A message of an older epoch was refused.
    RefusedEpoch,
    /// A coordinator was told that it is outdated. Nothing but a defect leads to it here.
    OutdatedCoordinator,
    /// The window of a promise passed without a decision.
    Moot,
    /// The decision was another one than time had made of a promise.
    Contradiction,
    /// A caller was told that its transaction was committed.
    Commit,
    /// A caller was told that its transaction was aborted.
    Abort,
}

/// All of them, with their names in a report.
pub const ALL: [(Seen, &str); 14] = [
    (Seen::CoordinatorCrash, "crashes of the coordinator"),
    (Seen::ParticipantCrash, "crashes of a participant"),
    (Seen::LostRecord, "crashes that lost records"),
    (Seen::KeptUnsaid, "crashes that kept records not yet reported"),
    (Seen::FailedWrite, "failed writes"),
    (Seen::LostMessage, "checks in which all messages under way are lost"),
    (Seen::Repetition, "messages without effect"),
    (Seen::RefusedRepetition, "repeated or late Prepares refused"),
    (Seen::RefusedEpoch, "messages of an older epoch refused"),
    (Seen::OutdatedCoordinator, "outdated coordinators"),
    (Seen::Moot, "moot promises"),
    (Seen::Contradiction, "contradictions reported"),
    (Seen::Commit, "commits told"),
    (Seen::Abort, "aborts told"),
];

/// The counts of one search.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; ALL.len()]);

impl Counts {
    pub fn add(&self, seen: Seen) {
        self.0[seen as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self, seen: Seen) -> u64 {
        self.0[seen as usize].load(Ordering::Relaxed)
    }
}
