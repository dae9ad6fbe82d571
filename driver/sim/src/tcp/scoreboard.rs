//! The scoreboard of RFC 6675 section 4, with counts kept up to date instead of loops over the window.
//!
//! With full segments, IsLost(s) means that at least three segments above `s` are SACKed. So a segment is
//! lost if and only if it is not SACKed and is below the third highest SACKed segment. SetPipe is then a sum
//! of three counts.

use super::Blocks;
use super::ranges::Ranges;

/// The number of SACKed segments above a segment that make it count as lost.
pub const DUP_THRESH: u32 = 3;

/// The sender's knowledge of its window.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scoreboard {
    /// The first segment that is not acknowledged: HighACK + 1.
    pub una: u32,
    /// One past the last segment sent: HighData + 1.
    pub high: u32,
    /// One past the last segment sent again in this recovery: HighRxt + 1. Not below `una`.
    pub high_rxt: u32,
    /// Segments in `una..high_rxt` that are not SACKed.
    pub resent: u32,
    /// Segments below it that are not SACKed are lost.
    edge: u32,
    sacked: Ranges,
}

impl Scoreboard {
    /// Update() for the cumulative acknowledgement. Returns the number of newly acknowledged segments, and
    /// how many of these were SACKed.
    #[inline]
    pub fn advance(&mut self, ack: u32) -> (u32, u32) {
        if ack <= self.una || ack > self.high {
            return (0, 0);
        }
        let acked = ack - self.una;
        let mut known = 0;
        if self.sacked.is_empty() {
            self.resent -= ack.min(self.high_rxt) - self.una;
        } else {
            let gone = self.sacked.advance(ack, self.high_rxt);
            self.resent -= ack.min(self.high_rxt) - self.una - gone.below;
            known = gone.all;
        }
        self.una = ack;
        self.high_rxt = self.high_rxt.max(ack);
        self.edge = self.edge.max(ack);
        (acked, known)
    }

    /// Update() for SACK blocks. Returns the number of newly SACKed segments.
    pub fn sack(&mut self, blocks: &Blocks) -> u32 {
        let mut new = 0;
        for &(from, to) in blocks {
            let change = self.sacked.insert(from.max(self.una + 1), to.min(self.high), self.high_rxt);
            self.resent -= change.below;
            new += change.all;
        }
        if new > 0 {
            self.edge = self.sacked.nth_highest(DUP_THRESH).unwrap_or(self.una);
        }
        new
    }

    /// Forgets all SACK information and starts again at the first segment: all segments count as lost.
    pub fn forget(&mut self) {
        self.sacked.clear();
        self.edge = self.una;
        self.restart();
    }

    /// Notes that no segment has been sent again yet.
    pub fn restart(&mut self) {
        self.high_rxt = self.una;
        self.resent = 0;
    }

    /// FlightSize: sent and not cumulatively acknowledged.
    #[inline]
    pub fn flight(&self) -> u32 {
        self.high - self.una
    }

    /// True if no segment is SACKed.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.sacked.is_empty()
    }

    /// IsLost(HighACK + 1).
    pub fn first_is_lost(&self) -> bool {
        self.edge > self.una
    }

    /// SetPipe(): the estimated number of segments in the network.
    pub fn pipe(&self) -> u32 {
        let total = self.sacked.total();
        let missing = self.flight() - total;
        // Exactly three are SACKed at the edge and above.
        let lost = if total < DUP_THRESH { 0 } else { self.edge - self.una - (total - DUP_THRESH) };
        missing - lost + self.resent
    }

    /// NextSeg() rule 1: the first lost segment that was not sent again.
    pub fn next_lost(&self) -> Option<u32> {
        let next = self.next_hole();
        (next < self.edge).then_some(next)
    }

    /// NextSeg() rule 3: the first segment below the highest SACKed one that was not sent again and is not
    /// known to be lost.
    pub fn next_doubtful(&self) -> Option<u32> {
        let next = self.next_hole();
        self.sacked.end().filter(|end| next < *end).map(|_| next)
    }

    /// The first segment from `high_rxt` on that is not SACKed.
    #[inline]
    pub fn next_hole(&self) -> u32 {
        if self.sacked.is_empty() { self.high_rxt } else { self.sacked.gap_from(self.high_rxt) }
    }

    /// The highest segment that is neither acknowledged nor SACKed.
    pub fn last_missing(&self) -> Option<u32> {
        self.sacked.gap_below(self.high).filter(|last| *last >= self.una)
    }

    /// Notes that a segment at or above `high_rxt` is sent again.
    pub fn send_again(&mut self, segment: u32) {
        self.high_rxt = segment + 1;
        self.resent += 1;
    }

    /// The SACKed ranges.
    pub fn sacked(&self) -> &Ranges {
        &self.sacked
    }
}
