//! The timeline of Figure 4 of seed 002, in the seed's seconds, and the expected rates in each second.

/// A foreground flow: its reservation, its rate and its time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Foreground {
    /// The reserved rate, Mb/s.
    pub reserved: u64,
    /// The sending rate, Mb/s.
    pub sent: u64,
    /// The second in which it begins.
    pub from: u32,
    /// The second in which it ends.
    pub until: u32,
}

/// The seed's three foreground flows (section 5.2).
pub const FLOWS: [Foreground; 3] = [
    Foreground { reserved: 36, sent: 32, from: 25, until: 48 },
    Foreground { reserved: 9, sent: 8, from: 75, until: 105 },
    Foreground { reserved: 18, sent: 16, from: 130, until: 160 },
];
/// The competing flow: rate in Mb/s, of 1,000-byte packets, and the second in which it begins.
pub const FLOOD: (u64, u32) = (80, 5);
/// The second in which the bulk transfer ends.
pub const BULK_UNTIL: u32 = 185;
/// The last second of the experiment.
pub const END: u32 = 200;
/// The rate of the premium channel, Mb/s.
pub const PREMIUM: f64 = 45.0;
/// The share of the premium channel for background and foreground together.
pub const FACTOR: f64 = 0.9;

/// The timeline, whole or with every stretch a third as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// The divisor of every time.
    pub by: u32,
}

impl Timeline {
    /// Converts a second of the seed into one of this run.
    pub fn at(&self, second: u32) -> u32 {
        second / self.by
    }

    /// Returns the foreground flow that sends during the whole of this second, if there is one.
    pub fn foreground(&self, second: u32) -> Option<(usize, Foreground)> {
        let on = |flow: &Foreground| (self.at(flow.from)..self.at(flow.until)).contains(&second);
        FLOWS.into_iter().enumerate().find(|(_, flow)| on(flow))
    }

    /// Returns the background's grant in this second, Mb/s.
    pub fn grant(&self, second: u32) -> f64 {
        if second >= self.at(BULK_UNTIL) {
            return 0.0;
        }
        PREMIUM * FACTOR - self.foreground(second).map_or(0.0, |(_, flow)| flow.reserved as f64)
    }

    /// True if a foreground flow's second counts: from the second after its first.
    pub fn counts_foreground(&self, second: u32) -> bool {
        self.foreground(second).is_some_and(|(_, flow)| second > self.at(flow.from))
    }

    /// True if a second counts for the background: it runs, and its grant is the same as in the second
    /// before.
    pub fn counts_background(&self, second: u32) -> bool {
        let changed = |second: u32| second == 0 || self.grant(second) != self.grant(second - 1);
        self.grant(second) > 0.0 && !changed(second)
    }

    /// Returns begin and end of the stretches between changes.
    pub fn phases(&self) -> Vec<(u32, u32)> {
        let mut edges: Vec<u32> = vec![0, self.at(BULK_UNTIL), self.at(END)];
        edges.extend(FLOWS.iter().flat_map(|flow| [self.at(flow.from), self.at(flow.until)]));
        edges.sort_unstable();
        edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_numbers() {
        let whole = Timeline { by: 1 };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(whole.grant(0), 40.5) && close(whole.grant(24), 40.5));
        assert!(close(whole.grant(25), 4.5) && close(whole.grant(47), 4.5) && close(whole.grant(48), 40.5));
        assert!(close(whole.grant(80), 31.5) && close(whole.grant(140), 22.5) && close(whole.grant(185), 0.0));
        assert!(!whole.counts_foreground(25) && whole.counts_foreground(26) && !whole.counts_foreground(48));
        assert!(!whole.counts_background(0) && whole.counts_background(1) && !whole.counts_background(25));
        assert!(whole.counts_background(26) && !whole.counts_background(185));
        assert_eq!(
            whole.phases(),
            [(0, 25), (25, 48), (48, 75), (75, 105), (105, 130), (130, 160), (160, 185), (185, 200)]
        );
        let third = Timeline { by: 3 };
        assert_eq!(third.phases().len(), 8);
        assert_eq!((third.at(END), third.at(FLOWS[0].from), third.at(FLOWS[0].until)), (66, 8, 16));
    }
}
