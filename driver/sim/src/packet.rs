//! Packets on the links: 64 bytes each, in one slab, chained by number.

use std::rc::Rc;
use terms::{FlowKey, Time};
use traffic::meter::Color;

/// Length of an IPv4 header without options, bytes.
pub const IPV4_HEADER: u32 = 20;
/// Length of the Router Alert option (RFC 2113), bytes.
pub const ROUTER_ALERT: u32 = 4;
/// IP protocol number of RSVP.
pub const RSVP: u8 = 46;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;
/// The longest packet, bytes, IP header included.
pub const LONGEST: u32 = 65_535;

/// The number that stands for no packet.
pub const NONE: u32 = u32::MAX;

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(64))]
pub struct SimPacket {
    /// The time at which it comes out of its link, ns.
    pub at: u64,
    /// The time at which its source sent it, ns.
    pub sent: u64,
    /// Content that depends on the kind.
    pub words: [u32; 7],
    /// The packet behind it on the same link.
    pub next: u32,
    /// The number of its source, connection or message, or its place in the pool.
    pub flow: u32,
    /// Length, IP header included, bytes.
    pub len: u16,
    /// The destination node.
    pub dst: u16,
    /// Time to live.
    pub ttl: u8,
    /// The DSCP.
    pub dscp: u8,
    /// The kind of its content.
    pub kind: PacketKind,
    /// The colour that the last meter gave it.
    pub color: Color,
}

/// The kind of a packet's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PacketKind {
    /// A packet of a traffic source; words: its number, low and high half.
    Data,
    /// An RSVP message; `flow` is its number among the messages.
    Signal,
    /// A SYN, which opens a TCP connection.
    Syn,
    /// The SYN+ACK.
    SynAck,
    /// TCP data; words: segment number.
    Segment,
    /// A TCP acknowledgement; words: first missing segment, SACK blocks.
    Ack,
    /// A packet of the pool; `flow` is its place there, words: the number of the flow at that place, its model.
    Pooled,
}

/// An RSVP message on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageInFlight {
    /// Source, destination and protocol.
    pub flow: FlowKey,
    /// True if it has the Router Alert option.
    pub alert: bool,
    /// The message.
    pub bytes: Rc<[u8]>,
}

/// A source's data in its packets, for its sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// The number of the source in the scenario.
    pub source: u32,
    /// The number of the packet.
    pub sequence: u64,
    /// Length, IP bytes.
    pub len: u32,
    /// The time at which it was sent.
    pub sent: Time,
}

impl SimPacket {
    /// A packet that is sent now.
    #[inline]
    pub fn new(kind: PacketKind, flow: u32, len: u32, dst: u16, now: Time) -> SimPacket {
        SimPacket {
            at: 0,
            sent: now.as_nanos(),
            words: [0; 7],
            next: NONE,
            flow,
            len: len.min(LONGEST) as u16,
            dst,
            ttl: 64,
            dscp: 0,
            kind,
            color: Color::Green,
        }
    }

    /// The source's data of a packet of kind [`PacketKind::Data`].
    pub fn data(&self) -> Data {
        let sequence = u64::from(self.words[0]) | u64::from(self.words[1]) << 32;
        Data { source: self.flow, sequence, len: u32::from(self.len), sent: Time::from_nanos(self.sent) }
    }
}

/// All packets in the world. The numbers of packets that ended are used again, the last one first.
#[derive(Clone, Debug)]
pub struct Packets {
    slab: Vec<SimPacket>,
    vacant: u32,
    /// Packets that began.
    born: u64,
    /// Packets that ended.
    gone: u64,
}

impl Default for Packets {
    fn default() -> Packets {
        Packets { slab: Vec::new(), vacant: NONE, born: 0, gone: 0 }
    }
}

impl Packets {
    /// Stores a packet and returns its number.
    #[inline]
    pub fn keep(&mut self, packet: SimPacket) -> u32 {
        self.born += 1;
        let n = self.vacant;
        if n == NONE {
            self.slab.push(packet);
            return self.slab.len() as u32 - 1;
        }
        let place = &mut self.slab[n as usize];
        self.vacant = place.next;
        *place = packet;
        n
    }

    /// Removes a packet.
    #[inline]
    pub fn let_go(&mut self, n: u32) {
        self.gone += 1;
        self.slab[n as usize].next = self.vacant;
        self.vacant = n;
    }

    /// Ends a packet, and stores another one in its place.
    #[inline(always)]
    pub fn replace(&mut self, n: u32, packet: SimPacket) {
        self.gone += 1;
        self.born += 1;
        self.slab[n as usize] = packet;
    }

    /// The number of packets that began.
    pub fn born(&self) -> u64 {
        self.born
    }

    /// The number of packets that ended.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// Memory of all packets, bytes.
    pub fn memory(&self) -> usize {
        self.slab.capacity() * size_of::<SimPacket>()
    }
}

/// All messages on links, apart from the packets that carry them.
#[derive(Clone, Debug, Default)]
pub struct MessagesInFlight {
    slab: Vec<Option<MessageInFlight>>,
    vacant: Vec<u32>,
}

impl MessagesInFlight {
    /// Stores a message and returns its number.
    pub fn keep(&mut self, message: MessageInFlight) -> u32 {
        if let Some(n) = self.vacant.pop() {
            self.slab[n as usize] = Some(message);
            return n;
        }
        self.slab.push(Some(message));
        self.slab.len() as u32 - 1
    }

    /// The message of a number.
    pub fn get(&self, n: u32) -> Option<&MessageInFlight> {
        self.slab.get(n as usize)?.as_ref()
    }

    /// Stores a copy of a message and returns its number.
    pub fn again(&mut self, n: u32) -> u32 {
        match self.get(n).cloned() {
            Some(message) => self.keep(message),
            None => n,
        }
    }

    /// Removes a message whose packet ended.
    pub fn let_go(&mut self, n: u32) {
        if self.slab.get_mut(n as usize).and_then(Option::take).is_some() {
            self.vacant.push(n);
        }
    }
}

impl std::ops::Index<u32> for Packets {
    type Output = SimPacket;
    #[inline]
    fn index(&self, n: u32) -> &SimPacket {
        &self.slab[n as usize]
    }
}

impl std::ops::IndexMut<u32> for Packets {
    #[inline]
    fn index_mut(&mut self, n: u32) -> &mut SimPacket {
        &mut self.slab[n as usize]
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_packet_is_a_cache_line() {
        assert_eq!(size_of::<super::SimPacket>(), 64);
    }
}
