//! The packets of a capture: their fields for the tree, and a new code point in their header.

use crate::capture::{CapturedPacket, frame};
use std::net::IpAddr;
use terms::{Dscp, FlowKey, PacketMeta, Time};
use wire::ip::Packet;

/// Protocols whose payload begins with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// A frame with an IP packet in it.
#[derive(Clone, Copy, Debug)]
pub struct Framed<'a> {
    /// The frame.
    pub frame: &'a [u8],
    /// The offset of the IP packet, bytes.
    pub at: usize,
}

/// Reads a record; `None` if it holds no complete IP packet.
pub fn of_record<'a>(record: &CapturedPacket<'a>, arrival: Time, id: u64) -> Option<(Framed<'a>, PacketMeta)> {
    let bytes = frame::ip_packet(record.link, record.bytes)?;
    let packet = Packet::parse(bytes).ok()?;
    let at = bytes.as_ptr() as usize - record.bytes.as_ptr() as usize;
    let field = |i: usize| Some(u32::from(u16::from_be_bytes([*bytes.get(i)?, *bytes.get(i + 1)?])));
    let (class, len, ports) = match &packet {
        Packet::V4(v4) => (v4.tos, field(2)?, v4.fragment & 0x1fff == 0),
        Packet::V6(v6) => (v6.traffic_class, 40 + field(4)?, !v6.fragment),
    };
    let protocol = packet.protocol();
    let port = |i: usize| match packet.payload().get(i..i + 2) {
        Some(&[high, low]) if ports && WITH_PORTS.contains(&protocol) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    let (src, dst): (IpAddr, IpAddr) = (packet.src(), packet.dst());
    let flow = FlowKey { src, dst, protocol, src_port: port(0), dst_port: port(2), wild: terms::Wild::NONE };
    Some((
        Framed { frame: record.bytes, at },
        PacketMeta { flow, len, dscp: Dscp(class >> 2), arrival, group: None, id },
    ))
}

impl Framed<'_> {
    /// Returns the frame with another code point. ECN stays. The IPv4 checksum is updated as in RFC 1624, so
    /// a wrong one (of a capture on its way out) stays wrong.
    pub fn marked(&self, dscp: Dscp) -> Vec<u8> {
        let mut frame = self.frame.to_vec();
        let Some(ip) = frame.get_mut(self.at..).filter(|ip| ip.len() >= 20) else { return frame };
        let before = u16::from_be_bytes([ip[0], ip[1]]);
        if ip[0] >> 4 == 4 {
            ip[1] = dscp.0 << 2 | ip[1] & 3;
            let after = u16::from_be_bytes([ip[0], ip[1]]);
            let checksum = updated(u16::from_be_bytes([ip[10], ip[11]]), before, after);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            // Version, then 6 bits of code point and 2 of ECN across the nibbles.
            let after = before & 0xf03f | u16::from(dscp.0 & 63) << 6;
            ip[..2].copy_from_slice(&after.to_be_bytes());
        }
        frame
    }
}

/// RFC 1624 equation 3: `HC' = ~(~HC + ~m + m')`.
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    if before == after {
        return checksum;
    }
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) as u16 + (sum >> 16) as u16)
}
