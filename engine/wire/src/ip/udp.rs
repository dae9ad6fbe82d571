//! UDP: RFC 768.

use crate::build::TooLong;
use crate::{MalformedMessage, checksum, ip};
use alloc::vec::Vec;
use core::net::IpAddr;

/// A UDP datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Udp<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Checksum as sent; 0: none.
    pub checksum: u16,
    /// The bytes after the header, up to Length.
    pub payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Checks the lengths. The checksum is not checked, because it needs the IP header's addresses.
    ///
    /// # Errors
    /// [`MalformedMessage`].
    pub fn parse(bytes: &'a [u8]) -> Result<Udp<'a>, MalformedMessage> {
        let Some((&[s1, s0, d1, d0, l1, l0, c1, c0], rest)) = bytes.split_first_chunk::<8>() else {
            return Err(MalformedMessage::silent("shorter than a UDP header", 0));
        };
        let length = usize::from(u16::from_be_bytes([l1, l0]));
        let Some(payload) = length.checked_sub(8).and_then(|n| rest.get(..n)) else {
            return Err(MalformedMessage::silent("UDP length does not fit", 4));
        };
        Ok(Udp {
            src_port: u16::from_be_bytes([s1, s0]),
            dst_port: u16::from_be_bytes([d1, d0]),
            checksum: u16::from_be_bytes([c1, c0]),
            payload,
        })
    }

    /// The datagram with its checksum, for a packet between these addresses.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn emit(&self, src: IpAddr, dst: IpAddr) -> Result<Vec<u8>, TooLong> {
        let Ok(length) = u16::try_from(self.payload.len().saturating_add(8)) else {
            return Err(TooLong { limit: 65_535 });
        };
        let mut bytes = Vec::with_capacity(usize::from(length));
        for field in [self.src_port, self.dst_port, length, 0] {
            bytes.extend_from_slice(&field.to_be_bytes());
        }
        bytes.extend_from_slice(self.payload);
        let pseudo = ip::pseudo_header(src, dst, ip::IPPROTO_UDP, bytes.len());
        let sum = match !checksum::fold(pseudo.wrapping_add(checksum::sum(&bytes))) {
            0 => 0xffff,
            sum => sum,
        };
        if let Some(field) = bytes.get_mut(6..8) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
        Ok(bytes)
    }
}
