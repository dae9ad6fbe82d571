//! The packets of a kind of source: how many are lost, and how the others are spaced, at their source and at their
//! destination (the paper's section 5.2).

use terms::Span;

/// Gaps of so many milliseconds and more are not counted: before them a packet was lost, or the source was off.
pub const LONGEST_GAP_MS: usize = 80;
/// The gaps are counted in so many parts of a millisecond.
const PARTS: usize = 10;

/// The gaps between consecutive packets of each flow, in tenths of a millisecond.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GapHistogram {
    ideal: u64,
    bins: Vec<u64>,
    near: u64,
}

impl GapHistogram {
    /// No gaps yet, of sources that send at this interval.
    pub fn of(ideal: Span) -> GapHistogram {
        GapHistogram { ideal: ideal.as_nanos(), bins: vec![0; LONGEST_GAP_MS * PARTS], near: 0 }
    }

    /// Counts a gap, ns.
    pub fn add(&mut self, gap: u64) {
        let bin = usize::try_from(gap / (1_000_000 / PARTS as u64)).unwrap_or(usize::MAX);
        if let Some(count) = self.bins.get_mut(bin) {
            *count += 1;
            self.near += u64::from(gap.abs_diff(self.ideal) * 4 < self.ideal);
        }
    }

    /// Adds the gaps of another histogram.
    pub fn join(&mut self, other: &GapHistogram) {
        self.bins.iter_mut().zip(&other.bins).for_each(|(bin, more)| *bin += more);
        self.near += other.near;
    }

    /// The number of gaps.
    pub fn all(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// The share of the gaps that differ from the ideal by less than a quarter of it; 1 if there are none.
    pub fn near_share(&self) -> f64 {
        if self.all() == 0 { 1.0 } else { self.near as f64 / self.all() as f64 }
    }

    /// The share of the gaps below so many milliseconds; 0 if there are none.
    pub fn share_below(&self, ms: usize) -> f64 {
        self.bins.iter().take(ms * PARTS).sum::<u64>() as f64 / self.all().max(1) as f64
    }

    /// The share of the gaps of each whole millisecond, percent.
    pub fn percents(&self) -> Vec<f64> {
        self.percents_of(PARTS)
    }

    /// The share of the gaps of each tenth of a millisecond, percent.
    pub fn tenths(&self) -> Vec<f64> {
        self.percents_of(1)
    }

    fn percents_of(&self, bins: usize) -> Vec<f64> {
        let all = self.all().max(1) as f64;
        self.bins.chunks(bins).map(|counts| 100.0 * counts.iter().sum::<u64>() as f64 / all).collect()
    }
}

/// The packets of all sources of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceTally {
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived.
    pub came: u64,
    /// Wire bytes sent.
    pub sent_bytes: u64,
    /// The gaps where they are generated.
    pub generated: GapHistogram,
    /// The gaps where they arrive.
    pub arrived: GapHistogram,
}

impl SourceTally {
    /// Nothing yet, of sources that send at this interval.
    pub fn of(ideal: Span) -> SourceTally {
        let gaps = GapHistogram::of(ideal);
        SourceTally { sent: 0, came: 0, sent_bytes: 0, generated: gaps.clone(), arrived: gaps }
    }

    /// The tallies of several kinds together; those of the first are its ideal gaps.
    pub fn together<'a>(all: impl IntoIterator<Item = &'a SourceTally>) -> Option<SourceTally> {
        let mut all = all.into_iter();
        let mut sum = all.next()?.clone();
        for tally in all {
            sum.sent += tally.sent;
            sum.came += tally.came;
            sum.sent_bytes += tally.sent_bytes;
            sum.generated.join(&tally.generated);
            sum.arrived.join(&tally.arrived);
        }
        Some(sum)
    }

    /// The share of the packets that did not arrive.
    pub fn loss(&self) -> f64 {
        1.0 - self.came.min(self.sent) as f64 / self.sent.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_near_if_it_differs_by_less_than_a_quarter_and_long_ones_do_not_count() {
        let mut gaps = GapHistogram::of(Span::from_millis(40));
        assert_eq!((gaps.near_share(), gaps.share_below(80)), (1.0, 0.0));
        for gap in [40_000_000, 30_000_001, 30_000_000, 49_999_999, 50_000_000, 80_000_000, u64::MAX] {
            gaps.add(gap);
        }
        assert_eq!((gaps.all(), gaps.near_share()), (5, 0.6));
        assert_eq!((gaps.share_below(40), gaps.percents()[30]), (0.4, 40.0));
        assert_eq!((gaps.percents().len(), gaps.tenths().len(), gaps.tenths()[499]), (80, 800, 20.0));
    }

    #[test]
    fn kinds_together_lose_what_each_lost() {
        let tally = |sent, came| SourceTally { sent, came, ..SourceTally::of(Span::from_millis(10)) };
        let both = SourceTally::together([&tally(100, 80), &tally(300, 300)]).unwrap();
        assert_eq!((both.sent, both.came, both.loss()), (400, 380, 1.0 - 0.95));
        assert_eq!(SourceTally::together([]), None);
        assert_eq!(tally(0, 0).loss(), 1.0);
    }
}
