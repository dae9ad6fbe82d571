//! What Figure 4 of seed 002 does when, in the seed's seconds, and what is due in each of them.

/// A foreground flow: its reservation and what it sends, Mb/s, and when.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Foreground {
    /// What it reserves, Mb/s.
    pub reserved: u64,
    /// What it sends, Mb/s.
    pub sent: u64,
    /// From which second.
    pub from: u32,
    /// To which.
    pub until: u32,
}

/// The seed's three (section 5.2).
pub const FLOWS: [Foreground; 3] = [
    Foreground { reserved: 36, sent: 32, from: 25, until: 48 },
    Foreground { reserved: 9, sent: 8, from: 75, until: 105 },
    Foreground { reserved: 18, sent: 16, from: 130, until: 160 },
];
/// The competing flow, Mb/s of 1,000-byte packets, and from which second.
pub const FLOOD: (u64, u32) = (80, 5);
/// When the bulk transfer ends, and when the experiment does.
pub const BULK_UNTIL: u32 = 185;
/// The end.
pub const END: u32 = 200;
/// The premium channel, Mb/s.
pub const PREMIUM: f64 = 45.0;
/// Of it, what background and foreground have together.
pub const FACTOR: f64 = 0.9;

/// The timeline, whole or with every stretch a third as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// Through how much every second is divided.
    pub by: u32,
}

impl Timeline {
    /// A second of the seed's, here.
    pub fn at(&self, second: u32) -> u32 {
        second / self.by
    }

    /// The foreground flow that sends during the whole of this second, if one does.
    pub fn foreground(&self, second: u32) -> Option<(usize, Foreground)> {
        let on = |flow: &Foreground| (self.at(flow.from)..self.at(flow.until)).contains(&second);
        FLOWS.into_iter().enumerate().find(|(_, flow)| on(flow))
    }

    /// The background's grant in this second, Mb/s.
    pub fn grant(&self, second: u32) -> f64 {
        if second >= self.at(BULK_UNTIL) {
            return 0.0;
        }
        PREMIUM * FACTOR - self.foreground(second).map_or(0.0, |(_, flow)| flow.reserved as f64)
    }

    /// Whether a foreground flow's second counts: from the second after its first.
    pub fn counts_foreground(&self, second: u32) -> bool {
        self.foreground(second).is_some_and(|(_, flow)| second > self.at(flow.from))
    }

    /// Whether a second counts for the background: it runs, and neither this second nor the one before began with a
    /// change of its grant.
    pub fn counts_background(&self, second: u32) -> bool {
        let changed = |second: u32| second == 0 || self.grant(second) != self.grant(second - 1);
        self.grant(second) > 0.0 && !changed(second)
    }

    /// The stretches between changes: name, from, until, with the grant and the foreground's rates.
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
