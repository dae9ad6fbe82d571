//! Packets and flows, as a data plane knows them.

use crate::{SenderGroup, SenderTemplate, Session, Time};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A differentiated services code point, six bits (RFC 2474).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Dscp(pub u8);

impl Dscp {
    /// The default forwarding of RFC 2474 section 4.1: best effort.
    pub const DEFAULT: Dscp = Dscp(0);
    /// Expedited forwarding (RFC 3246), of premium foreground flows.
    pub const EF: Dscp = Dscp(46);
    /// Assured forwarding class 1, low drop precedence (RFC 2597), of premium background flows.
    pub const AF11: Dscp = Dscp(10);
    /// The same class, medium drop precedence.
    pub const AF12: Dscp = Dscp(12);
    /// The same class, high drop precedence.
    pub const AF13: Dscp = Dscp(14);

    /// True if it is a code point that only reserved flows may use.
    pub fn is_premium(self) -> bool {
        matches!(self, Dscp::EF | Dscp::AF11 | Dscp::AF12 | Dscp::AF13)
    }
}

/// The low bits of a flow's addresses that do not count: 16 of each in `10.1.0.0/16 -> 10.2.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Wild {
    /// Bits of the source address.
    pub src: u8,
    /// Bits of the destination address.
    pub dst: u8,
}

impl Wild {
    /// Every bit of both addresses counts.
    pub const NONE: Wild = Wild { src: 0, dst: 0 };
}

/// The five-tuple of a packet, or the fields of it that all packets of a flow share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol number; zero in a flow: any protocol.
    pub protocol: u8,
    /// Source port; zero if the protocol has none, and in a fragment other than the first. For ESP and AH
    /// packets it is the upper half of the security parameter index and `dst_port` is the lower, as in an ESP
    /// header.
    pub src_port: u16,
    /// Destination port, with the same exceptions as `src_port`.
    pub dst_port: u16,
    /// The number of low address bits that do not count and are zero; none in the key of a packet.
    pub wild: Wild,
}

impl FlowKey {
    /// True for a flow of prefixes or of any protocol. Packets are looked up for it by its shape.
    pub fn is_masked(&self) -> bool {
        self.wild != Wild::NONE || self.protocol == 0
    }

    /// True if it names a sender's packets to one port, from any port. A source port of zero is "none given"
    /// (RFC 2205 sections 3.2 and A.9). For ESP and AH the field holds a number that may begin with zeros,
    /// and it counts.
    pub fn is_of_any_source_port(&self) -> bool {
        let spi = matches!(self.protocol, 50 | 51);
        self.src_port == 0 && self.dst_port != 0 && !spi && !self.is_masked() && !self.src.is_unspecified()
    }

    /// The packets of one sender of one session.
    pub fn of(session: &Session, sender: &SenderTemplate) -> FlowKey {
        let [s0, s1, s2, s3] = sender.src_port.to_be_bytes();
        let low = u16::from_be_bytes([s2, s3]);
        let (src_port, dst_port) =
            if session.is_gpi() { (u16::from_be_bytes([s0, s1]), low) } else { (low, session.dst_port) };
        let wild = Wild::NONE;
        FlowKey { src: sender.src, dst: session.dst, protocol: session.protocol, src_port, dst_port, wild }
    }

    /// The packets of any sender to the session (the wildcard filter of RFC 2205 section 1.3). The source is
    /// the unspecified address, which no packet on its way has.
    pub fn of_any_sender(session: &Session) -> FlowKey {
        let src = match session.dst {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        FlowKey::of(session, &SenderTemplate { src, src_port: 0 })
    }

    /// True if it names the packets of any sender to one destination.
    pub fn is_of_any_sender(&self) -> bool {
        self.src.is_unspecified() && !self.is_masked()
    }

    /// The sender of these packets, in their session.
    pub fn sender(&self, session: &Session) -> SenderTemplate {
        let [s0, s1] = if session.is_gpi() { self.src_port.to_be_bytes() } else { [0, 0] };
        let [s2, s3] = if session.is_gpi() { self.dst_port } else { self.src_port }.to_be_bytes();
        SenderTemplate { src: self.src, src_port: u32::from_be_bytes([s0, s1, s2, s3]) }
    }
}

/// A packet as meters, queues and schedulers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketMeta {
    /// Addresses, protocol and ports.
    pub flow: FlowKey,
    /// Length in bytes, IP header included.
    pub len: u32,
    /// The packet's code point.
    pub dscp: Dscp,
    /// The arrival time.
    pub arrival: Time,
    /// The sender's control group, on the host that sends the packet: of its groups the deepest that has a rule.
    /// `None`: none has one, or the packet is another host's.
    pub group: Option<SenderGroup>,
    /// The driver's own number for the packet (a buffer index, a packet number).
    pub id: u64,
}
