//! How long the turns of an agent's loop took: `turns` of a status.

use serde::{Deserialize, Serialize};

/// The turns so far. A long one delays the refreshes of what is reserved.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TurnsDoc {
    /// How many.
    pub turns: u64,
    /// Processor time of the loop's thread.
    pub cpu: SpreadDoc,
    /// Time that passed, waits for a processor and for disks included.
    pub wall: SpreadDoc,
}

/// A distribution of times.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SpreadDoc {
    /// Half took at most so long, microseconds.
    pub p50_us: u64,
    /// 999 of 1,000 took at most so long, microseconds.
    pub p999_us: u64,
    /// The longest, microseconds.
    pub most_us: u64,
    /// At most so many microseconds: so many times, and not less than the line before; an eighth of an octave a line.
    pub histogram: Vec<(u64, u64)>,
}

impl SpreadDoc {
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &SpreadDoc) -> Vec<(u64, u64)> {
        let before = |upto| earlier.histogram.iter().find(|(at, _)| *at == upto).map_or(0, |(_, n)| *n);
        let now = self.histogram.iter().map(|&(upto, n)| (upto, n.saturating_sub(before(upto))));
        now.filter(|(_, n)| *n > 0).collect()
    }
}

/// How long at most so many of a thousand took, microseconds; 0 of none.
pub fn per_mille(histogram: &[(u64, u64)], share: u64) -> u64 {
    let all: u64 = histogram.iter().map(|(_, n)| n).sum();
    let mut seen = 0;
    let reached = histogram.iter().find(|(_, n)| {
        seen += n;
        u128::from(seen) * 1000 >= u128::from(all) * u128::from(share)
    });
    reached.map_or(0, |(upto, _)| *upto)
}
