//! One direction of a link: conditioner, queue, and the packets on the wire.
//!
//! Packets on a wire keep their order, so only the first of them is in the event queue; the others are
//! chained behind it. A FIFO knows each packet's departure as soon as the packet comes, so the whole way from
//! queue to far end is one event.

mod conditioning;
mod counting;
mod recognising;
mod rio;
mod waiting;

pub use conditioning::Conditioning;
pub use recognising::{MOST_SAMPLES, MaceQueue, QueueOffer};
pub use rio::RioQueue;
pub use waiting::HopWaiting;

use crate::packet::NONE;
use crate::scenario::{EgressReport, Queue, QueueSpec, SimLinkSpec, Tally};
use terms::{Bytes, Rate, Span, Time};
use traffic::meter::Color;
use traffic::tree::Tree;

/// The state of a direction: two cache lines that every packet needs, and the rest.
#[derive(Debug)]
#[repr(align(64))]
pub struct HopPort {
    /// The time at which the last packet put on the wire has left, ns.
    pub free_at: u64,
    /// Propagation delay, ns.
    pub delay: u64,
    /// The first packet on the wire.
    pub head: u32,
    /// The last packet on the wire.
    pub tail: u32,
    /// The node at the far end.
    pub to: u32,
    /// The only direction that feeds this one, if there is exactly one and nothing can change that.
    pub fed_by: u32,
    /// The number of times that the link went down. Packets of an earlier age are lost.
    pub age: u32,
    /// True if it is the only feeder of another direction.
    pub feeds: bool,
    /// True if the link is up.
    pub up: bool,
    /// True if packets may be lost, doubled or late at random, or are captured.
    pub watched: bool,
    /// True if packets are counted by colour. If not, all packets that were not dropped were put on the link.
    pub colored: bool,
    /// Lengths of recent packets; `spans` has their transmission times, ns.
    lengths: [u32; 2],
    spans: [u64; 2],
    /// Packets put on the link.
    pub entered: u64,
    /// Packets that came out at the far end.
    pub delivered: u64,
    /// IP bytes that came to the queue.
    bytes: u64,
    /// The queue of packets in front of the link.
    pub egress: HopQueue,
    /// The conditioner in front of the queue.
    pub conditioning: Option<Box<Conditioning>>,
    /// State that most packets do not need.
    pub rest: Box<Rest>,
}

/// State of a direction that most packets do not need.
#[derive(Debug)]
pub struct Rest {
    rate: Rate,
    overhead: u32,
    /// The sending node, and its interface by position.
    pub from: (u32, u32),
    /// Counters of doubled, lost and stray packets.
    pub counts: HopCounts,
    /// Packets that came to the queue, by colour if there are colours.
    tally: EgressReport,
    /// The tally at the start and at the end of the measured window.
    pub edges: [Option<EgressReport>; 2],
    /// The number of the capture of its packets.
    pub capture: Option<u32>,
}

/// The queue of packets in front of a link.
#[derive(Debug)]
pub enum HopQueue {
    /// First in, first out, without limits.
    Fifo,
    /// A FIFO with limits.
    Limited(Box<HopWaiting>),
    /// RED or RIO.
    Rio(Box<RioQueue>),
    /// The node's port.
    Port,
    /// A queue tree.
    Tree(Box<Tree>),
    /// Two levels, and recognition before them.
    Mace(Box<MaceQueue>),
}

/// Counters of the packets of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HopCounts {
    /// Copies made by duplication.
    pub doubled: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets lost because the link went down.
    pub cut: u64,
    /// Late or doubled packets that now travel alone.
    pub strays: u64,
}

impl HopPort {
    /// A direction that is up and has no faults.
    pub fn new(link: &SimLinkSpec, from: (u32, u32), to: u32) -> HopPort {
        let rest = Rest {
            rate: link.rate,
            overhead: link.overhead,
            from,
            counts: HopCounts::default(),
            tally: EgressReport::default(),
            edges: [None; 2],
            capture: None,
        };
        HopPort {
            free_at: 0,
            delay: link.delay.as_nanos(),
            head: NONE,
            tail: NONE,
            to,
            fed_by: NONE,
            age: 0,
            feeds: false,
            up: true,
            watched: false,
            colored: false,
            lengths: [0; 2],
            spans: [0; 2],
            entered: 0,
            delivered: 0,
            bytes: 0,
            egress: HopQueue::Port,
            conditioning: None,
            rest: Box::new(rest),
        }
    }

    /// The transmission time of a packet of `len` bytes, ns.
    #[inline(always)]
    pub fn transmission(&mut self, len: u32) -> u64 {
        if self.lengths[0] == len {
            return self.spans[0];
        }
        if self.lengths[1] == len {
            return self.spans[1];
        }
        self.reckon(len)
    }

    #[cold]
    fn reckon(&mut self, len: u32) -> u64 {
        let bytes = Bytes::new(u64::from(len) + u64::from(self.rest.overhead));
        let span = self.rest.rate.span_for(bytes).as_nanos();
        self.lengths = [len, self.lengths[0]];
        self.spans = [span, self.spans[0]];
        span
    }

    /// Queues a packet at `now`. Returns the time at which it comes out at the far end, ns.
    #[inline(always)]
    pub fn send(&mut self, now: u64, len: u32) -> u64 {
        let start = self.free_at.max(now);
        self.free_at = start + self.transmission(len);
        self.entered += 1;
        self.free_at + self.delay
    }

    /// Counts a packet offered to the queue.
    #[inline(always)]
    pub fn offered(&mut self, color: Color, len: u32) {
        self.bytes += u64::from(len);
        if self.colored {
            let tally = &mut self.rest.tally.offered[color as usize];
            tally.packets += 1;
            tally.bytes += u64::from(len);
        }
    }

    /// Counts a packet that the queue dropped.
    #[cold]
    pub fn dropped(&mut self, color: Color, len: u32) {
        let color = if self.colored { color } else { Color::Green };
        let tally = &mut self.rest.tally.dropped[color as usize];
        tally.packets += 1;
        tally.bytes += u64::from(len);
    }

    /// Counts a packet that the shaper dropped.
    #[cold]
    pub fn refused(&mut self, len: u32) {
        self.rest.tally.refused.packets += 1;
        self.rest.tally.refused.bytes += u64::from(len);
    }

    /// True if packets can be sent on as soon as their arrival time is known.
    pub fn is_plain(&self) -> bool {
        matches!(self.egress, HopQueue::Fifo | HopQueue::Limited(_) | HopQueue::Rio(_))
            && self.conditioning.as_ref().is_none_or(|c| !c.shapes())
            && self.rest.capture.is_none()
    }

    /// True if it is a FIFO, which knows the departure times of its packets.
    pub fn is_simple(&self) -> bool {
        matches!(self.egress, HopQueue::Fifo | HopQueue::Limited(_) | HopQueue::Rio(_))
    }

    /// The counters from the beginning. A tree has its own.
    pub fn tally(&self) -> EgressReport {
        let HopQueue::Tree(tree) = &self.egress else {
            let mut tally = self.rest.tally;
            if !self.colored {
                let packets = self.entered + tally.dropped[0].packets;
                tally.offered[0] = Tally { packets, bytes: self.bytes };
            }
            return tally;
        };
        let mut sum = EgressReport::default();
        for leaf in tree.leaves().filter_map(|(leaf, _)| tree.counters(leaf)) {
            sum.refused = sum.refused.plus(leaf.refused);
            for (c, color) in leaf.colors.iter().enumerate() {
                sum.offered[c] = sum.offered[c].plus(color.metered);
                sum.dropped[c] = sum.dropped[c].plus(color.early).plus(color.forced).plus(color.overflowed);
            }
        }
        sum
    }

    /// The counters of the measured window so far.
    pub fn report(&self) -> EgressReport {
        let Some(from) = self.rest.edges[0] else { return EgressReport::default() };
        let until = self.rest.edges[1].unwrap_or_else(|| self.tally());
        let less = |a: Tally, b: Tally| Tally { packets: a.packets - b.packets, bytes: a.bytes - b.bytes };
        EgressReport {
            offered: [0, 1, 2].map(|c| less(until.offered[c], from.offered[c])),
            dropped: [0, 1, 2].map(|c| less(until.dropped[c], from.dropped[c])),
            refused: less(until.refused, from.refused),
        }
    }
}

impl HopQueue {
    /// Builds a queue from its description.
    ///
    /// # Errors
    /// A text that names the error.
    pub fn new(queue: &Queue, link: &SimLinkSpec, stream: [u64; 2]) -> Result<HopQueue, String> {
        Ok(match queue {
            Queue::Port => HopQueue::Port,
            Queue::Fifo(QueueSpec { packets: u32::MAX, bytes }) if bytes.get() == u64::MAX => HopQueue::Fifo,
            Queue::Fifo(limits) => HopQueue::Limited(Box::new(HopWaiting::new(*limits))),
            Queue::Rio { dropper, marker, queue } => {
                HopQueue::Rio(Box::new(RioQueue::new(dropper, marker, *queue, stream)?))
            }
            Queue::Mace(spec) => {
                let key = [stream[0], !stream[0]];
                HopQueue::Mace(Box::new(MaceQueue::new(spec, link, key)?))
            }
            Queue::Tree(spec) => {
                let shape = spec.link;
                if shape.rate != link.rate || shape.overhead != link.overhead {
                    return Err(format!(
                        "the tree is for {} with {} bytes of overhead, the link has {} and {}",
                        shape.rate, shape.overhead, link.rate, link.overhead
                    ));
                }
                let seed = stream[0] ^ stream[1].rotate_left(32);
                HopQueue::Tree(Box::new(Tree::new((**spec).clone(), Time::ZERO, seed).map_err(|why| why.to_string())?))
            }
        })
    }
}

/// The [`Span`] of so many nanoseconds.
pub fn span(nanos: u64) -> Span {
    Span::from_nanos(nanos)
}
