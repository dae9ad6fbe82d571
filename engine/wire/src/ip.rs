//! The parts of IPv4 (RFC 791), IPv6 (RFC 8200) and UDP (RFC 768) that are needed to find an RSVP message in a
//! packet, to distinguish flows, and to make packets for tests and raw sockets. Router Alert: RFC 2113 and RFC 2711.

mod udp;
mod v4;
mod v6;

pub use udp::Udp;
pub use v4::Ipv4;
pub use v6::Ipv6;

use crate::build::TooLong;
use crate::{MalformedMessage, checksum};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Router Alert's value for RSVP in IPv6 (RFC 2711 section 2.1).
pub const ALERT_RSVP: u16 = 1;

/// IP protocol number of UDP.
pub const IPPROTO_UDP: u8 = 17;

/// An IP packet of either version, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Packet<'a> {
    V4(Ipv4<'a>),
    V6(Ipv6<'a>),
}

impl<'a> Packet<'a> {
    /// Reads the version and checks the headers; bytes after the packet's own length are ignored.
    ///
    /// # Errors
    /// [`MalformedMessage`]: header lengths that contradict each other or the bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, MalformedMessage> {
        match bytes.first().map(|b| b >> 4) {
            Some(4) => Ipv4::parse(bytes).map(Packet::V4),
            Some(6) => Ipv6::parse(bytes).map(Packet::V6),
            Some(_) => Err(MalformedMessage::silent("IP version is neither 4 nor 6", 0)),
            None => Err(MalformedMessage::silent("empty packet", 0)),
        }
    }

    /// Source address.
    pub fn src(&self) -> IpAddr {
        match self {
            Packet::V4(p) => IpAddr::V4(p.src),
            Packet::V6(p) => IpAddr::V6(p.src),
        }
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        match self {
            Packet::V4(p) => IpAddr::V4(p.dst),
            Packet::V6(p) => IpAddr::V6(p.dst),
        }
    }

    /// Protocol of the payload (IPv6: after the extension headers).
    pub fn protocol(&self) -> u8 {
        match self {
            Packet::V4(p) => p.protocol,
            Packet::V6(p) => p.protocol,
        }
    }

    /// TTL or hop limit.
    pub fn ttl(&self) -> u8 {
        match self {
            Packet::V4(p) => p.ttl,
            Packet::V6(p) => p.hop_limit,
        }
    }

    /// Value of the Router Alert option, if there is one.
    pub fn router_alert(&self) -> Option<u16> {
        match self {
            Packet::V4(p) => p.router_alert(),
            Packet::V6(p) => p.router_alert,
        }
    }

    /// True if this is a fragment: the payload is then not a whole message.
    pub fn is_fragment(&self) -> bool {
        match self {
            Packet::V4(p) => p.is_fragment(),
            Packet::V6(p) => p.fragment,
        }
    }

    /// The payload of the packet.
    pub fn payload(&self) -> &'a [u8] {
        match self {
            Packet::V4(p) => p.payload,
            Packet::V6(p) => p.payload,
        }
    }
}

/// The packet that carries `payload` from `src` to `dst`: an IPv4 or IPv6 header by the family of `src`, with
/// Router Alert if asked for, and a right checksum.
///
/// # Errors
/// [`TooLong`], and also for addresses of two families (there is no room for one in the other's header).
pub fn packet(
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    ttl: u8,
    router_alert: bool,
    payload: &[u8],
) -> Result<Vec<u8>, TooLong> {
    let mut bytes = Vec::new();
    append(&mut bytes, &Header { src, dst, protocol, ttl, tos: 0, router_alert }, payload).map(|()| bytes)
}

/// The header that [`append`] writes before a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class: DSCP and ECN.
    pub tos: u8,
    /// True if every router on the way must look at the packet.
    pub router_alert: bool,
}

/// Appends a packet to `bytes`, as [`packet`] makes it: a reused buffer needs no allocation.
///
/// # Errors
/// As [`packet`]; `bytes` is then unchanged.
pub fn append(bytes: &mut Vec<u8>, header: &Header, payload: &[u8]) -> Result<(), TooLong> {
    match (header.src, header.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => v4::append(bytes, src, dst, header, payload),
        (IpAddr::V6(src), IpAddr::V6(dst)) => v6::append(bytes, src, dst, header, payload),
        _ => Err(TooLong { limit: 0 }),
    }
}

/// The sum over the pseudo header that UDP's and ICMPv6's checksums begin with (RFC 768, RFC 8200 section 8.1).
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, length: usize) -> u64 {
    let ends = match (src, dst) {
        (IpAddr::V4(a), IpAddr::V4(b)) => both(&Ipv4Addr::octets(&a), &Ipv4Addr::octets(&b)),
        (IpAddr::V6(a), IpAddr::V6(b)) => both(&Ipv6Addr::octets(&a), &Ipv6Addr::octets(&b)),
        _ => 0,
    };
    ends.wrapping_add(u64::from(protocol)).wrapping_add(length as u64)
}

fn both(a: &[u8], b: &[u8]) -> u64 {
    checksum::sum(a).wrapping_add(checksum::sum(b))
}
