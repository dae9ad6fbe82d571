//! IPv4: RFC 791; Router Alert: RFC 2113.

use super::Header;
use crate::build::TooLong;
use crate::{MalformedMessage, checksum};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// An IPv4 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4<'a> {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// Flags (3 bits) and fragment offset (13 bits, in units of 8 bytes).
    pub fragment: u16,
    /// True if the header checksum is right (captures of outgoing packets often lack it).
    pub checksum_ok: bool,
    /// Options, checked.
    pub options: &'a [u8],
    /// The bytes after the header, up to Total Length.
    pub payload: &'a [u8],
}

const ROUTER_ALERT: u8 = 148;

impl<'a> Ipv4<'a> {
    /// Checks header, options and lengths.
    ///
    /// # Errors
    /// [`MalformedMessage`].
    pub fn parse(bytes: &'a [u8]) -> Result<Ipv4<'a>, MalformedMessage> {
        let Some((head, rest)) = bytes.split_first_chunk::<20>() else {
            return Err(MalformedMessage::silent("shorter than an IPv4 header", 0));
        };
        let &[first, tos, len_hi, len_lo, id_hi, id_lo, f_hi, f_lo, ttl, protocol, _, _, s0, s1, s2, s3, d @ ..] = head;
        if first >> 4 != 4 {
            return Err(MalformedMessage::silent("IP version is not 4", 0));
        }
        let header = usize::from(first & 0x0f).saturating_mul(4);
        let total = usize::from(u16::from_be_bytes([len_hi, len_lo]));
        let Some(options_len) = header.checked_sub(20) else {
            return Err(MalformedMessage::silent("IPv4 header length is below 20", 0));
        };
        let Some(payload_len) = total.checked_sub(header) else {
            return Err(MalformedMessage::silent("IPv4 total length is below its header", 2));
        };
        let Some((options, rest)) = rest.split_at_checked(options_len) else {
            return Err(MalformedMessage::silent("IPv4 header is cut off", 0));
        };
        let Some(payload) = rest.get(..payload_len) else {
            return Err(MalformedMessage::silent("IPv4 total length is above what arrived", 2));
        };
        let packet = Ipv4 {
            src: Ipv4Addr::new(s0, s1, s2, s3),
            dst: Ipv4Addr::from(d),
            protocol,
            ttl,
            tos,
            id: u16::from_be_bytes([id_hi, id_lo]),
            fragment: u16::from_be_bytes([f_hi, f_lo]),
            checksum_ok: checksum::internet(bytes.get(..header).unwrap_or_default()) == 0,
            options,
            payload,
        };
        packet.walk_options().map(|_| packet)
    }

    /// True if this is a fragment.
    pub fn is_fragment(&self) -> bool {
        self.fragment & 0x3fff != 0
    }

    /// The value of the Router Alert option, if there is one; RFC 2113 defines 0.
    pub fn router_alert(&self) -> Option<u16> {
        self.walk_options().ok().flatten()
    }

    fn walk_options(&self) -> Result<Option<u16>, MalformedMessage> {
        let mut alert = None;
        let mut rest = self.options;
        while let Some((&kind, after)) = rest.split_first() {
            let at = 20usize.saturating_add(self.options.len().saturating_sub(rest.len()));
            match kind {
                0 => break,
                1 => rest = after,
                _ => {
                    let length = usize::from(after.first().copied().unwrap_or_default());
                    let Some((option, after)) = rest.split_at_checked(length).filter(|_| length >= 2) else {
                        return Err(MalformedMessage::silent("IPv4 option length is wrong", at));
                    };
                    if let &[ROUTER_ALERT, 4, hi, lo] = option {
                        alert = alert.or(Some(u16::from_be_bytes([hi, lo])));
                    }
                    rest = after;
                }
            }
        }
        Ok(alert)
    }
}

pub(super) fn append(
    bytes: &mut Vec<u8>,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    header: &Header,
    payload: &[u8],
) -> Result<(), TooLong> {
    let option: &[u8] = if header.router_alert { &[ROUTER_ALERT, 4, 0, 0] } else { &[] };
    let length = option.len().saturating_add(20).saturating_add(payload.len());
    let Ok(total) = u16::try_from(length) else {
        return Err(TooLong { limit: 65_535 });
    };
    let [hi, lo] = total.to_be_bytes();
    let first = if header.router_alert { 0x46 } else { 0x45 };
    let start = bytes.len();
    bytes.reserve(length);
    bytes.extend_from_slice(&[first, header.tos, hi, lo, 0, 0, 0, 0, header.ttl, header.protocol, 0, 0]);
    bytes.extend_from_slice(&src.octets());
    bytes.extend_from_slice(&dst.octets());
    bytes.extend_from_slice(option);
    let sum = checksum::internet(bytes.get(start..).unwrap_or_default());
    if let Some(field) = bytes.get_mut(start..).and_then(|packet| packet.get_mut(10..12)) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    bytes.extend_from_slice(payload);
    Ok(())
}
