//! A link: two directions, and what chance does to packets on it.

use crate::rng::Rng;
use crate::scenario::{Impairment, SimLinkSpec};
use terms::Span;

/// A link at work; its directions are `hops[2 * number + side]` of the world.
#[derive(Clone, Debug)]
pub struct SimLink {
    /// What it is.
    pub spec: SimLinkSpec,
    /// How signalling fares now.
    pub impairment: Impairment,
    /// How data fares now.
    pub data: Impairment,
    /// Why it is down: bits of [`LossReason`]; zero: it is up.
    pub down: u8,
    rng: Rng,
}

/// Why a link is down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LossReason {
    /// It was said so.
    Told = 1,
    /// The node at its first end has no power.
    First = 2,
    /// The node at its second end has no power.
    Second = 4,
    /// A partition.
    Partition = 8,
}

/// What becomes of a packet that is put on a link: how much later than it should each copy comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// The packet; `None`: it is lost.
    pub first: Option<Span>,
    /// Its double.
    pub second: Option<Span>,
}

impl SimLink {
    /// A link that is up and does no harm.
    pub fn new(spec: SimLinkSpec, number: usize, seed: u64) -> SimLink {
        // Streams from 1,000 on are the sources'.
        let stream = if number < 999 { number as u64 + 1 } else { 3 << 32 | number as u64 };
        let (impairment, data) = (Impairment::default(), Impairment::default());
        SimLink { spec, impairment, data, down: 0, rng: Rng::new(seed, stream) }
    }

    /// Whether chance may do something to packets.
    pub fn is_faulty(&self) -> bool {
        self.impairment != Impairment::default() || self.data != Impairment::default()
    }

    /// A packet is put on the link.
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
