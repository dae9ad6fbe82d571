//! What a tree counts, so that everything that came in is accounted for.

use crate::meter::Color;

/// Packets and their IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

impl Tally {
    pub(super) fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }

    pub(super) fn sub(&mut self, len: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(len);
    }

    /// Both summed up.
    pub fn plus(self, other: Tally) -> Tally {
        Tally { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// One colour of one leaf: `metered` is the sum of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ColorTally {
    /// Given the colour.
    pub metered: Tally,
    /// Dropped by chance, the average being between its thresholds.
    pub early: Tally,
    /// Dropped, the average being above the upper threshold.
    pub forced: Tally,
    /// Dropped at the tail of a full queue.
    pub overflowed: Tally,
    /// In the queue now.
    pub queued: Tally,
    /// Sent.
    pub sent: Tally,
}

/// One leaf: `arrived` is the sum of `refused`, `held` and what was metered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeafCounters {
    /// Classified as the leaf's.
    pub arrived: Tally,
    /// Dropped by the shaper: its buffer was full, or the packet larger than its bucket.
    pub refused: Tally,
    /// In the shaper now.
    pub held: Tally,
    /// Green, yellow, red.
    pub colors: [ColorTally; 3],
}

impl LeafCounters {
    /// Of one colour.
    pub fn of(&self, color: Color) -> &ColorTally {
        &self.colors[color as usize]
    }

    /// All colours summed up.
    pub fn total(&self) -> ColorTally {
        self.colors.iter().fold(ColorTally::default(), |sum, c| ColorTally {
            metered: sum.metered.plus(c.metered),
            early: sum.early.plus(c.early),
            forced: sum.forced.plus(c.forced),
            overflowed: sum.overflowed.plus(c.overflowed),
            queued: sum.queued.plus(c.queued),
            sent: sum.sent.plus(c.sent),
        })
    }
}

/// The tree as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeCounters {
    /// Refused, being shorter than an IP header; in no leaf's counters.
    pub runts: Tally,
    /// How often time was told that had gone backwards; the latest time known was taken.
    pub backwards: u64,
}
