//! The packets of the signalling protocols, as a data plane sees them.

use crate::FlowKey;

/// The value that a packet reader stores as each port of an ICMP echo that begins with Boomerang's magic.
pub const BOOMERANG_PORT: u16 = 0x4711;

/// Packets that belong to signalling: they have a class of their own at every interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignallingPackets {
    /// The IP protocol.
    pub protocol: u8,
    /// The source and the destination port; `None`: every packet of the protocol.
    pub ports: Option<(u16, u16)>,
}

impl SignallingPackets {
    /// True if a packet with this key is one of them.
    pub fn contains(&self, packet: &FlowKey) -> bool {
        self.protocol == packet.protocol && self.ports.is_none_or(|ports| ports == (packet.src_port, packet.dst_port))
    }
}

/// Signalling that this project speaks: RSVP (RFC 2205), and Boomerang in ICMP and ICMPv6 echoes.
pub const SIGNALLING: &[SignallingPackets] = &[
    SignallingPackets { protocol: 46, ports: None },
    SignallingPackets { protocol: 1, ports: Some((BOOMERANG_PORT, BOOMERANG_PORT)) },
    SignallingPackets { protocol: 58, ports: Some((BOOMERANG_PORT, BOOMERANG_PORT)) },
];
