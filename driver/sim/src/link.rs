//! A link: two directions, and random faults of the packets on it.

use crate::rng::Rng;
use crate::scenario::{Impairment, SimLinkSpec};
use terms::Span;

/// A link and its state. Its directions are `hops[2 * number + side]` of the world.
#[derive(Clone, Debug)]
pub struct SimLink {
    spec: SimLinkSpec,
    /// Present faults of signalling packets.
    impairment: Impairment,
    /// Present faults of data packets.
    data: Impairment,
    /// Reasons why it is down, as bits of [`LossReason`]; zero if it is up.
    down: u8,
    rng: Rng,
}

/// A reason why a link is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LossReason {
    /// The script or a caller took it down.
    Told = 1,
    /// The node at its first end has no power.
    First = 2,
    /// The node at its second end has no power.
    Second = 4,
    /// A partition separates its ends.
    Partition = 8,
}

/// The fate of a packet on a link: the extra delay of each copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// The extra delay of the packet; `None` if it is lost.
    pub first: Option<Span>,
    /// The extra delay of its copy, if there is one.
    pub second: Option<Span>,
}

impl SimLink {
    /// A link that is up and has no faults.
    pub fn new(spec: SimLinkSpec, number: usize, seed: u64) -> SimLink {
        // Streams from 1,000 on are the sources'.
        let stream = if number < 999 { number as u64 + 1 } else { 3 << 32 | number as u64 };
        let (impairment, data) = (Impairment::default(), Impairment::default());
        SimLink { spec, impairment, data, down: 0, rng: Rng::new(seed, stream) }
    }

    /// The link's description.
    pub fn spec(&self) -> &SimLinkSpec {
        &self.spec
    }

    /// Sets or clears one reason why it is down. If that changes its state, returns true if it is up now.
    pub fn set(&mut self, why: LossReason, down: bool) -> Option<bool> {
        let before = self.down == 0;
        self.down = if down { self.down | why as u8 } else { self.down & !(why as u8) };
        let up = self.down == 0;
        (before != up).then_some(up)
    }

    /// Sets the faults of signalling packets, or of data packets.
    pub fn impair(&mut self, impairment: Impairment, data: bool) {
        *(if data { &mut self.data } else { &mut self.impairment }) = impairment;
    }

    /// True if data packets may be lost, doubled or late at random.
    pub fn spoils_data(&self) -> bool {
        self.data != Impairment::default()
    }

    /// True if packets may be lost, doubled or late at random.
    pub fn is_faulty(&self) -> bool {
        self.impairment != Impairment::default() || self.data != Impairment::default()
    }

    /// Draws the fate of a packet; `signal` selects the faults of signalling.
    pub fn fate(&mut self, signal: bool) -> Fate {
        let imp = if signal { self.impairment } else { self.data };
        if self.rng.happens(imp.loss) {
            return Fate { first: None, second: None };
        }
        let late = imp.late.as_nanos();
        let first = if self.rng.happens(imp.reorder) { self.rng.below(late) } else { 0 };
        let second = self.rng.happens(imp.duplicate).then(|| Span::from_nanos(self.rng.below(late)));
        Fate { first: Some(Span::from_nanos(first)), second }
    }
}
