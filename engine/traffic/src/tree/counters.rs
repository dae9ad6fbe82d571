//! The counters of a tree beside those of its leaves.

use crate::path::Tally;

/// The tree as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeCounters {
    /// Packets refused because they were shorter than an IP header; in no leaf's counters.
    pub runts: Tally,
    /// Calls with a time that had gone backwards; the latest time known was used.
    pub backwards: u64,
}
