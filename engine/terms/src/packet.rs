//! What a data plane knows of a packet.

use crate::{SenderTemplate, Session, Time};
use core::net::IpAddr;

/// A differentiated services code point, six bits (RFC 2474).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Dscp(pub u8);

/// The five-tuple of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Source port; zero where the protocol has none, or in a fragment other than the first.
    pub src_port: u16,
    /// Destination port; as `src_port`.
    pub dst_port: u16,
}

impl FlowKey {
    /// The packets of one sender of one session.
    pub fn of(session: &Session, sender: &SenderTemplate) -> FlowKey {
        FlowKey {
            src: sender.src,
            dst: session.dst,
            protocol: session.protocol,
            src_port: sender.src_port,
            dst_port: session.dst_port,
        }
    }
}

/// A packet as meters, queues and schedulers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketMeta {
    /// Who talks to whom.
    pub flow: FlowKey,
    /// Length in bytes, IP header included.
    pub len: u32,
    /// Code point.
    pub dscp: Dscp,
    /// When it came.
    pub arrival: Time,
    /// The driver's own number for it (a buffer index, a packet number).
    pub id: u64,
}
