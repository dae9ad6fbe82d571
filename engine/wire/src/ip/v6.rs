//! IPv6: RFC 8200; Router Alert: RFC 2711. Jumbograms (RFC 2675) are refused: no RSVP message is that long.

use super::Header;
use crate::MalformedMessage;
use crate::build::TooLong;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// An IPv6 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6<'a> {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Protocol of the payload, after the extension headers.
    pub protocol: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Value of the Router Alert option in the hop-by-hop header.
    pub router_alert: Option<u16>,
    /// True if a fragment header is present.
    pub fragment: bool,
    /// The bytes after the last extension header.
    pub payload: &'a [u8],
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// The most extension headers in one packet.
const MAX_EXTENSIONS: usize = 8;

impl<'a> Ipv6<'a> {
    /// Checks the header, the extension headers and the lengths.
    ///
    /// # Errors
    /// [`MalformedMessage`].
    pub fn parse(bytes: &'a [u8]) -> Result<Ipv6<'a>, MalformedMessage> {
        let Some((head, rest)) = bytes.split_first_chunk::<40>() else {
            return Err(MalformedMessage::silent("shorter than an IPv6 header", 0));
        };
        let (&[v, t, l1, l0, hi, lo, next, hop_limit, ..], Some((src, dst))) = (head, addresses(head)) else {
            return Err(MalformedMessage::silent("shorter than an IPv6 header", 0));
        };
        if v >> 4 != 6 {
            return Err(MalformedMessage::silent("IP version is not 6", 0));
        }
        let Some(body) = rest.get(..usize::from(u16::from_be_bytes([hi, lo]))) else {
            return Err(MalformedMessage::silent("IPv6 payload length is above what arrived", 4));
        };
        let mut packet = Ipv6 {
            src,
            dst,
            protocol: next,
            hop_limit,
            traffic_class: v << 4 | t >> 4,
            flow_label: u32::from_be_bytes([0, t & 0x0f, l1, l0]),
            router_alert: None,
            fragment: false,
            payload: body,
        };
        for _ in 0..MAX_EXTENSIONS {
            let at = bytes.len().min(40usize.saturating_add(body.len())).saturating_sub(packet.payload.len());
            if !packet.step(at)? {
                return Ok(packet);
            }
        }
        Err(MalformedMessage::silent("too many IPv6 extension headers", 40))
    }

    /// Removes one extension header; false if there is none.
    fn step(&mut self, at: usize) -> Result<bool, MalformedMessage> {
        if !matches!(self.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) {
            return Ok(false);
        }
        let Some(&[next, length, f_hi, f_lo]) = self.payload.first_chunk::<4>() else {
            return Err(MalformedMessage::silent("IPv6 extension header is cut off", at));
        };
        let units = if self.protocol == FRAGMENT { 0 } else { usize::from(length) };
        let size = units.saturating_mul(8).saturating_add(8);
        let Some((header, rest)) = self.payload.split_at_checked(size) else {
            return Err(MalformedMessage::silent("IPv6 extension header passes the end", at));
        };
        match self.protocol {
            FRAGMENT => self.fragment |= u16::from_be_bytes([f_hi, f_lo]) & 0xfff9 != 0,
            HOP_BY_HOP => self.router_alert = options(header.get(2..).unwrap_or_default(), at)?,
            _ => {}
        }
        self.protocol = next;
        self.payload = rest;
        Ok(true)
    }
}

fn addresses(head: &[u8; 40]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let src: [u8; 16] = head.get(8..24)?.try_into().ok()?;
    let dst: [u8; 16] = head.get(24..40)?.try_into().ok()?;
    Some((src.into(), dst.into()))
}

/// Searches the options of a hop-by-hop header for Router Alert.
fn options(mut rest: &[u8], at: usize) -> Result<Option<u16>, MalformedMessage> {
    let mut alert = None;
    while let Some((&kind, after)) = rest.split_first() {
        if kind == 0 {
            rest = after;
            continue;
        }
        let length = usize::from(after.first().copied().unwrap_or_default()).saturating_add(2);
        let Some((option, after)) = rest.split_at_checked(length) else {
            return Err(MalformedMessage::silent("IPv6 option passes its header", at));
        };
        if let &[5, 2, hi, lo] = option {
            alert = alert.or(Some(u16::from_be_bytes([hi, lo])));
        }
        rest = after;
    }
    Ok(alert)
}

pub(super) fn append(
    bytes: &mut Vec<u8>,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    header: &Header,
    payload: &[u8],
) -> Result<(), TooLong> {
    let alert = [header.protocol, 0, 5, 2, 0, super::ALERT_RSVP as u8, 1, 0];
    let extension: &[u8] = if header.router_alert { &alert } else { &[] };
    let length = extension.len().saturating_add(payload.len());
    let Ok(length) = u16::try_from(length) else {
        return Err(TooLong { limit: 65_535 });
    };
    let [hi, lo] = length.to_be_bytes();
    let next = if header.router_alert { HOP_BY_HOP } else { header.protocol };
    bytes.reserve(usize::from(length).saturating_add(40));
    bytes.extend_from_slice(&[0x60 | header.tos >> 4, header.tos << 4, 0, 0, hi, lo, next, header.ttl]);
    bytes.extend_from_slice(&src.octets());
    bytes.extend_from_slice(&dst.octets());
    bytes.extend_from_slice(extension);
    bytes.extend_from_slice(payload);
    Ok(())
}
