//! The timelines of Figures 4 and 5 of seed 002, in the seed's seconds, and the expected rates in each second.

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

/// A figure's flows and times, in the seed's seconds.
#[derive(PartialEq, Debug)]
pub struct Schedule {
    /// The foreground flows.
    pub flows: &'static [Foreground],
    /// The competing flow: rate in Mb/s, and the second in which it begins.
    pub flood: (u64, u32),
    /// The second in which the bulk transfer ends.
    pub bulk_until: u32,
    /// The last second of the experiment.
    pub end: u32,
    /// The rate of the premium channel, Mb/s.
    pub premium: f64,
}

/// Figure 4 (section 5.2).
pub const FIGURE_4: Schedule = Schedule {
    flows: &[
        Foreground { reserved: 36, sent: 32, from: 25, until: 48 },
        Foreground { reserved: 9, sent: 8, from: 75, until: 105 },
        Foreground { reserved: 18, sent: 16, from: 130, until: 160 },
    ],
    flood: (80, 5),
    bulk_until: 185,
    end: 200,
    premium: 45.0,
};
/// Figure 5 (section 5.3). The seed says when the foreground flows begin; how long they last is as in Figure 4.
pub const FIGURE_5: Schedule = Schedule {
    flows: &[
        Foreground { reserved: 18, sent: 16, from: 37, until: 67 },
        Foreground { reserved: 9, sent: 8, from: 94, until: 124 },
    ],
    flood: (50, 5),
    bulk_until: 145,
    end: 155,
    premium: 27.0,
};
/// The share of the premium channel for background and foreground together.
pub const FACTOR: f64 = 0.9;

/// The timeline, whole or with every stretch a third as long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timeline {
    /// The figure's flows and times.
    pub of: &'static Schedule,
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
        self.of.flows.iter().copied().enumerate().find(|(_, flow)| on(flow))
    }

    /// Returns the background's grant in this second, Mb/s.
    pub fn grant(&self, second: u32) -> f64 {
        if second >= self.at(self.of.bulk_until) {
            return 0.0;
        }
        self.of.premium * FACTOR - self.foreground(second).map_or(0.0, |(_, flow)| flow.reserved as f64)
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
        let mut edges: Vec<u32> = vec![0, self.at(self.of.bulk_until), self.at(self.of.end)];
        edges.extend(self.of.flows.iter().flat_map(|flow| [self.at(flow.from), self.at(flow.until)]));
        edges.sort_unstable();
        edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_numbers() {
        let whole = Timeline { of: &FIGURE_4, by: 1 };
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
        let third = Timeline { of: &FIGURE_4, by: 3 };
        assert_eq!(third.phases().len(), 8);
        assert_eq!((third.at(200), third.at(25), third.at(48)), (66, 8, 16));
        let wide = Timeline { of: &FIGURE_5, by: 1 };
        assert!(close(wide.grant(0), 24.3) && close(wide.grant(40), 6.3) && close(wide.grant(100), 15.3));
    }
}
