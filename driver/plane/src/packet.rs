//! The packet in a frame: its fields for the classifier, and a new code point in its header.

use std::net::IpAddr;
use terms::{Dscp, FlowKey, PacketMeta, Time, Wild};
use wire::ip::Packet;

/// Protocols whose payload begins with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 2] = [0x8100, 0x88a8];

/// The offset of the IP packet in an Ethernet frame, behind at most two VLAN tags; `None`: it carries something else.
pub fn ip_at(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    for _ in 0..3 {
        match u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]) {
            IPV4 | IPV6 => return Some(at + 2),
            kind if VLAN.contains(&kind) => at += 4,
            _ => return None,
        }
    }
    None
}

/// The fields of an IP packet; bytes after it do not matter. `None`: it is not whole, or no IP packet.
pub fn meta(bytes: &[u8], arrival: Time, id: u64) -> Option<PacketMeta> {
    let packet = Packet::parse(bytes).ok()?;
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
    let flow = FlowKey { src, dst, protocol, src_port: port(0), dst_port: port(2), wild: Wild::NONE };
    Some(PacketMeta { flow, len, dscp: Dscp(class >> 2), arrival, group: None, id })
}

/// True for an ARP frame.
pub fn is_arp(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x08, 0x06])
}

/// True for a neighbour discovery packet (RFC 4861 section 4: ICMPv6 types 133 to 137 with a hop limit of 255).
pub fn is_neighbour_discovery(ip: &[u8]) -> bool {
    let fixed = matches!((ip.first(), ip.get(6), ip.get(7)), (Some(first), Some(58), Some(255)) if first >> 4 == 6);
    fixed && ip.get(40).is_some_and(|kind| (133..=137).contains(kind))
}

/// Writes another code point into the IP packet of a frame, if it carries one.
pub(crate) fn mark_frame(frame: &mut [u8], dscp: Dscp) {
    if let Some(ip) = ip_at(frame) {
        mark(&mut frame[ip..], dscp);
    }
}

/// Writes another code point into an IP header. ECN stays. The IPv4 checksum is updated as in RFC 1624, so a wrong one
/// stays wrong.
pub fn mark(ip: &mut [u8], dscp: Dscp) {
    if ip.len() < 20
        || Dscp((u16::from_be_bytes([ip[0], ip[1]]) >> if ip[0] >> 4 == 4 { 2 } else { 6 }) as u8 & 63) == dscp
    {
        return;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_skipped_and_other_frames_left() {
        let frame = |kinds: &[u16]| {
            let kinds = kinds.iter().flat_map(|kind| kind.to_be_bytes());
            [0; 12].into_iter().chain(kinds).chain([0; 60]).collect::<Vec<u8>>()
        };
        assert_eq!(ip_at(&frame(&[0x0800])), Some(14));
        assert_eq!(ip_at(&frame(&[0x8100, 7, 0x86dd])), Some(18));
        assert_eq!(ip_at(&frame(&[0x88a8, 7, 0x8100, 8, 0x0800])), Some(22));
        assert_eq!(ip_at(&frame(&[0x8100, 7, 0x8100, 8, 0x8100, 9, 0x0800])), None);
        assert_eq!((ip_at(&frame(&[0x0806])), ip_at(&[0; 13])), (None, None));
    }

    #[test]
    fn a_new_code_point_keeps_ecn_and_the_checksum() {
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|a| a.parse().unwrap());
        let mut ip = wire::ip::packet(a, b, 17, 64, false, &[0, 7, 0, 9, 0, 8, 0, 0]).unwrap();
        ip[1] = 1;
        ip[10..12].fill(0);
        let checksum = wire::checksum::internet(&ip[..20]);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        mark(&mut ip, Dscp(46));
        assert_eq!((ip[1], wire::checksum::internet(&ip[..20])), (46 << 2 | 1, 0));
        let meta = meta(&ip, Time::ZERO, 5).unwrap();
        assert_eq!((meta.dscp, meta.len, meta.flow.src_port, meta.flow.dst_port), (Dscp(46), 28, 7, 9));
    }
}
