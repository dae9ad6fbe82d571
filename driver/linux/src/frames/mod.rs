//! Whole link frames in bursts, for a data plane in user space: one trait, [`FrameIo`], behind which sockets differ.
//!
//! A frame comes with what the sender's device left undone ([`Offload`]): a checksum that is not filled in, or a packet of
//! up to 64 KB that is not yet cut into segments. Nothing here allocates once it is open.

mod packet;

pub use packet::PacketFrames;

use crate::error::SystemError;
use terms::Span;

/// The most frames of one call.
pub const BURST: usize = 64;

/// Bytes before a frame that are kept free, for the VLAN tag that the kernel hands over beside it.
const HEADROOM: usize = 4;

/// The work on a frame that was left to a device: `struct virtio_net_hdr` of linux/virtio_net.h, in the machine's byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Offload {
    /// Bit 0: the checksum is still to be computed.
    pub flags: u8,
    /// The kind of segmentation: 0 none, 1 TCP over IPv4, 4 TCP over IPv6, 5 UDP; bit 7: with ECN.
    pub segmentation: u8,
    /// Bytes of all headers, as a hint.
    pub headers: u16,
    /// Payload bytes of each segment.
    pub segment: u16,
    /// The offset from which the checksum is computed.
    pub checksum_from: u16,
    /// The offset of the checksum after that.
    pub checksum_at: u16,
}

impl Offload {
    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
    pub const NEEDS_CHECKSUM: u8 = 1;

    /// True if the frame is to be cut into segments.
    pub fn is_segmented(&self) -> bool {
        self.segmentation != 0
    }
}

/// A buffer with one frame.
#[derive(Clone, Debug)]
pub struct FrameBuffer {
    room: Box<[u8]>,
    start: usize,
    len: usize,
    /// The work that is left to a device.
    pub offload: Offload,
    /// The time for which it had waited when it was asked for; zero where it is not measured.
    pub age: Span,
}

impl FrameBuffer {
    /// An empty buffer for frames of up to `room` bytes.
    pub fn new(room: usize) -> FrameBuffer {
        let bytes = vec![0; HEADROOM + room].into_boxed_slice();
        FrameBuffer { room: bytes, start: HEADROOM, len: 0, offload: Offload::default(), age: Span::ZERO }
    }

    /// The frame, from its destination address on.
    pub fn bytes(&self) -> &[u8] {
        self.room.get(self.start..self.start + self.len).unwrap_or(&[])
    }

    /// The same, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.room.get_mut(self.start..self.start + self.len).unwrap_or(&mut [])
    }

    /// Puts a frame of several parts in; false, and the buffer is empty: it has no room.
    pub fn put(&mut self, parts: &[&[u8]], offload: Offload) -> bool {
        (self.start, self.len, self.offload) = (HEADROOM, 0, offload);
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > self.room.len() - HEADROOM {
            return false;
        }
        let mut rest = &mut self.room[HEADROOM..];
        for part in parts {
            let (place, after) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = after;
        }
        self.len = len;
        true
    }

    /// Puts a VLAN tag of 4 bytes behind the two addresses, if the frame has both and none was put.
    fn tag(&mut self, tag: [u8; 4]) {
        if self.len < 12 || self.start != HEADROOM {
            return;
        }
        self.room.copy_within(HEADROOM..HEADROOM + 12, 0);
        self.room[12..16].copy_from_slice(&tag);
        (self.start, self.len) = (0, self.len + HEADROOM);
        if self.offload.flags & Offload::NEEDS_CHECKSUM != 0 {
            self.offload.checksum_from += HEADROOM as u16;
        }
        self.offload.headers = self.offload.headers.saturating_add(HEADROOM as u16);
    }
}

/// How a burst was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BurstSent {
    /// So many of the first frames went.
    Went(usize),
    /// None went, because the socket is full: try again a little later.
    Full,
    /// The interface dropped the first frame: its queue is full, it is down, or the frame is longer than its MTU.
    Dropped,
}

/// Frames of one interface, in bursts. Neither call waits.
pub trait FrameIo {
    /// Puts frames that came in into `into`, at most [`BURST`]; returns how many.
    ///
    /// # Errors
    /// The interface is gone.
    fn receive(&mut self, into: &mut [FrameBuffer]) -> Result<usize, SystemError>;

    /// The end of the `nth` frame of the last [`FrameIo::receive`], if it was longer than its buffer.
    fn rest(&self, nth: usize) -> &[u8];

    /// Sends frames, at most [`BURST`], in their order.
    ///
    /// # Errors
    /// The interface is gone.
    fn send(&mut self, frames: &[FrameBuffer]) -> Result<BurstSent, SystemError>;

    /// Frames that came in and that the kernel dropped, because they were not read in time, since the last call.
    fn missed(&mut self) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let mut frame = FrameBuffer::new(64);
        let offload = Offload { flags: 1, checksum_from: 34, checksum_at: 6, ..Offload::default() };
        assert!(frame.put(&[&[1; 6], &[2; 6], &[8, 0], &[9; 20]], offload));
        frame.tag([0x81, 0, 0, 7]);
        assert_eq!(frame.bytes(), [&[1u8; 6][..], &[2; 6], &[0x81, 0, 0, 7], &[8, 0], &[9; 20]].concat());
        assert_eq!((frame.offload.checksum_from, frame.offload.checksum_at), (38, 6));
        assert!(!frame.put(&[&[0; 65]], offload) && frame.bytes().is_empty(), "no room");
    }
}
