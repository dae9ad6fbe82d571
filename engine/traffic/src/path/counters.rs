//! The counters of a leaf, which account for every packet that came in.

use crate::meter::Color;

/// Packets and their IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// The number of packets.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }

    pub(super) fn sub(&mut self, len: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(len);
    }

    /// The sum of both.
    pub fn plus(self, other: Tally) -> Tally {
        Tally { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// One colour of one leaf: `metered` is the sum of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ColorTally {
    /// Packets that got the colour.
    pub metered: Tally,
    /// Packets dropped by chance, with the average between its thresholds.
    pub early: Tally,
    /// Packets dropped with the average above the upper threshold.
    pub forced: Tally,
    /// Packets dropped at the tail of a full queue.
    pub overflowed: Tally,
    /// Packets in the queue now.
    pub queued: Tally,
    /// Packets sent.
    pub sent: Tally,
}

/// One leaf: `arrived` is the sum of `refused`, `held` and the metered packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeafCounters {
    /// Packets classified as the leaf's.
    pub arrived: Tally,
    /// Packets dropped by the shaper: its buffer was full, or the packet larger than its bucket.
    pub refused: Tally,
    /// Packets in the shaper now.
    pub held: Tally,
    /// The tallies of green, yellow and red.
    pub colors: [ColorTally; 3],
}

impl LeafCounters {
    /// No packet has come.
    pub(super) const ZERO: LeafCounters = {
        let none = Tally { packets: 0, bytes: 0 };
        let color = ColorTally { metered: none, early: none, forced: none, overflowed: none, queued: none, sent: none };
        LeafCounters { arrived: none, refused: none, held: none, colors: [color; 3] }
    };

    /// The tally of one colour.
    pub fn of(&self, color: Color) -> &ColorTally {
        &self.colors[color as usize]
    }

    /// The sum of all colours.
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
