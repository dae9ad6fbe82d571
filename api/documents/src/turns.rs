//! The durations of the turns of an agent's loop: `turns` of a status.

use serde::{Deserialize, Serialize};

/// The turns so far. A long one delays the refreshes of reservations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TurnsDoc {
    /// The number of turns.
    pub turns: u64,
    /// Processor time of the loop's thread.
    pub cpu: SpreadDoc,
    /// Time that passed, waits for a processor and for disks included.
    pub wall: SpreadDoc,
}

/// A distribution of times.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SpreadDoc {
    /// The median, microseconds.
    pub p50_us: u64,
    /// The time that 999 of 1,000 did not exceed, microseconds.
    pub p999_us: u64,
    /// The longest, microseconds.
    pub most_us: u64,
    /// The bins: an upper bound in microseconds and the count above the bin before. A bin is an eighth of an
    /// octave.
    pub histogram: Vec<(u64, u64)>,
}

impl SpreadDoc {
    /// The histogram of the turns after `earlier`.
    pub fn since(&self, earlier: &SpreadDoc) -> Vec<(u64, u64)> {
        let before = |upto| earlier.histogram.iter().find(|(at, _)| *at == upto).map_or(0, |(_, n)| *n);
        let now = self.histogram.iter().map(|&(upto, n)| (upto, n.saturating_sub(before(upto))));
        now.filter(|(_, n)| *n > 0).collect()
    }
}

/// The time that `share` of a thousand did not exceed, microseconds; 0 if there are none.
pub fn per_mille(histogram: &[(u64, u64)], share: u64) -> u64 {
    let all: u64 = histogram.iter().map(|(_, n)| n).sum();
    let mut seen = 0;
    let reached = histogram.iter().find(|(_, n)| {
        seen += n;
        u128::from(seen) * 1000 >= u128::from(all) * u128::from(share)
    });
    reached.map_or(0, |(upto, _)| *upto)
}
