//! A link and what becomes of packets on it: every packet that is put on a link is delivered, lost, or still there.

use crate::packet::{Body, Packet};
use crate::rng::Rng;
use crate::scenario::{Impairment, LinkSpec};
use terms::{Bytes, Span};

/// A link at work.
#[derive(Clone, Debug)]
pub struct Link {
    /// What it is.
    pub spec: LinkSpec,
    /// How signalling fares now.
    pub impairment: Impairment,
    /// By direction, named for the side that sends.
    pub counts: [LinkCounts; 2],
    /// Grows each time the link goes down: what was put on it before is lost.
    pub age: u32,
    rng: Rng,
}

/// What became of the packets of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounts {
    /// Put on the link.
    pub entered: u64,
    /// Made by duplication.
    pub doubled: u64,
    /// Came out at the other end.
    pub delivered: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost because the link went down.
    pub cut: u64,
    /// Still there.
    pub in_flight: u64,
}

impl LinkCounts {
    /// Whether nothing was made from nothing and nothing vanished.
    pub fn is_conserved(&self) -> bool {
        self.entered + self.doubled == self.delivered + self.lost + self.cut + self.in_flight
    }
}

impl Link {
    /// A link that is up and does no harm.
    pub fn new(spec: LinkSpec, number: usize, seed: u64) -> Link {
        let rng = Rng::new(seed, number as u64 + 1);
        Link { spec, impairment: Impairment::default(), counts: Default::default(), age: 0, rng }
    }

    /// How long a packet of that length occupies the sender.
    pub fn transmission(&self, len: u32) -> Span {
        self.spec.rate.span_for(Bytes::new(u64::from(len) + u64::from(self.spec.overhead)))
    }

    /// A packet is put on the link from that side: after how long (beyond transmission) it comes out, once or twice.
    pub fn fates(&mut self, side: usize, packet: &Packet) -> [Option<Span>; 2] {
        let counts = &mut self.counts[side];
        counts.entered += 1;
        let signal = matches!(packet.body, Body::Signal { .. });
        let imp = self.impairment;
        if signal && self.rng.happens(imp.loss) {
            counts.lost += 1;
            return [None, None];
        }
        let mut once = || {
            let late = signal && self.rng.happens(imp.reorder);
            let more = if late { self.rng.below(imp.late.as_nanos()) } else { 0 };
            self.spec.delay + Span::from_nanos(more)
        };
        let first = once();
        counts.in_flight += 1;
        let second = (signal && self.rng.happens(imp.duplicate)).then(|| {
            counts.in_flight += 1;
            counts.doubled += 1;
            let late = Span::from_nanos(self.rng.below(imp.late.as_nanos()));
            self.spec.delay + late
        });
        [Some(first), second]
    }
}
