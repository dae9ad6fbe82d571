//! A Boomerang message in its IP packet.

use super::message::{BoomerangMessage, Family, TravelDirection};
use super::{MAGIC, icmp};
use crate::MalformedMessage;
use crate::ip::Packet;
use core::net::IpAddr;

/// A packet that carries a Boomerang message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbePacket<'a> {
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The IP packet's own length, in octets: bytes after it are not part of it.
    pub total: usize,
    /// The offset of the ICMP message in the packet.
    pub at: usize,
    /// The message.
    pub message: BoomerangMessage<'a>,
}

impl<'a> ProbePacket<'a> {
    /// Reads a packet: a whole one, not a fragment, with right checksums.
    ///
    /// # Errors
    /// [`MalformedMessage`]: not a Boomerang message, or one with errors. Such a packet is an ordinary ping
    /// and is forwarded untouched.
    pub fn parse(bytes: &'a [u8]) -> Result<ProbePacket<'a>, MalformedMessage> {
        let packet = Packet::parse(bytes)?;
        let family = Family::of(packet.dst());
        if packet.protocol() != family.protocol() {
            return Err(MalformedMessage::silent("not ICMP", 0));
        }
        if packet.is_fragment() {
            return Err(MalformedMessage::silent("a fragment is not a whole message", 0));
        }
        if let Packet::V4(header) = &packet
            && !header.checksum_ok
        {
            return Err(MalformedMessage::silent("IPv4 header checksum is wrong", 10));
        }
        let payload = packet.payload();
        let (src, dst) = (packet.src(), packet.dst());
        let message = BoomerangMessage::parse(payload, Some((src, dst)))?;
        if message.family != family {
            return Err(MalformedMessage::silent("ICMP type of the other family", 0));
        }
        let total = length(bytes).unwrap_or(bytes.len());
        Ok(ProbePacket { src, dst, ttl: packet.ttl(), total, at: total.saturating_sub(payload.len()), message })
    }

    /// The initiating node's address: the source of a request, the destination of a reply.
    pub fn initiator(&self) -> IpAddr {
        match self.message.leg {
            TravelDirection::Request => self.src,
            TravelDirection::Reply => self.dst,
        }
    }

    /// The far end's address; for a message to a group, the group's.
    pub fn far_end(&self) -> IpAddr {
        match self.message.leg {
            TravelDirection::Request => self.dst,
            TravelDirection::Reply => self.src,
        }
    }
}

/// True for an ICMP echo with the magic, as a node's packet filter tests it before any check.
pub fn is_boomerang(bytes: &[u8]) -> bool {
    let Ok(packet) = Packet::parse(bytes) else { return false };
    let payload = packet.payload();
    let echo = match (packet.protocol(), payload.first()) {
        (icmp::IPPROTO_ICMP, Some(&kind)) => matches!(kind, icmp::REQUEST_V4 | icmp::REPLY_V4),
        (icmp::IPPROTO_ICMPV6, Some(&kind)) => matches!(kind, icmp::REQUEST_V6 | icmp::REPLY_V6),
        _ => false,
    };
    echo && !packet.is_fragment() && payload.get(8..12) == Some(&MAGIC.to_be_bytes())
}

/// The total length from the IP header.
fn length(bytes: &[u8]) -> Option<usize> {
    let field = |at: usize| bytes.get(at..)?.first_chunk::<2>().map(|b| usize::from(u16::from_be_bytes(*b)));
    match bytes.first()? >> 4 {
        4 => field(2),
        _ => field(4).map(|payload| payload.saturating_add(40)),
    }
}
