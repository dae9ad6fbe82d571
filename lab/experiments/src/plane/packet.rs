//! The packets of a capture: their fields for the tree, and a new code point in their header.

use crate::capture::{CapturedPacket, frame};
use terms::{Dscp, PacketMeta, Time};
use user_plane::packet;

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
    let at = bytes.as_ptr() as usize - record.bytes.as_ptr() as usize;
    Some((Framed { frame: record.bytes, at }, packet::meta(bytes, arrival, id)?))
}

impl Framed<'_> {
    /// Returns the frame with another code point: [`packet::mark`].
    pub fn marked(&self, dscp: Dscp) -> Vec<u8> {
        let mut frame = self.frame.to_vec();
        if let Some(ip) = frame.get_mut(self.at..) {
            packet::mark(ip, dscp);
        }
        frame
    }
}
