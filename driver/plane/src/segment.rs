//! Cuts a packet of up to 64 KB, which a sender left to its device to cut, into the packets that belong on a wire.
//!
//! Meters, queues and schedulers count packets and their bytes as a wire carries them. TCP as RFC 9293 numbers its bytes;
//! UDP as Linux cuts it (`UDP_SEGMENT`). The checksum of each part is left to the next device, over a pseudo header that
//! is right for the part.

use linux::frames::{FrameBuffer, Offload};
use wire::checksum::{fold, internet, sum};

const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;
/// The bit for TCP with ECN.
const WITH_ECN: u8 = 0x80;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// A frame that is to be cut, and how.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    frame: &'a [u8],
    offload: Offload,
    ip: usize,
    transport: usize,
    /// The length of all headers.
    headers: usize,
    size: usize,
}

impl<'a> Segments<'a> {
    /// Reads the frame's headers; `None`: they contradict what is to be done, or it is of a kind that is not known.
    pub fn new(frame: &'a [u8], offload: Offload, ip: usize) -> Option<Segments<'a>> {
        let transport = usize::from(offload.checksum_from);
        let kind = offload.segmentation & !WITH_ECN;
        let is_v4 = frame.get(ip)? >> 4 == 4;
        let headers = match kind {
            TCP4 | TCP6 => transport + usize::from(frame.get(transport + 12)? >> 4) * 4,
            UDP => transport + 8,
            _ => return None,
        };
        let least = ip + if is_v4 { 20 } else { 40 };
        let wants = if kind == UDP { 6 } else { 16 };
        let fits = transport >= least && headers >= transport + 8 && headers < frame.len();
        let stated = offload.flags & Offload::NEEDS_CHECKSUM != 0 && usize::from(offload.checksum_at) == wants;
        let whole = kind == UDP || (headers >= transport + 20 && (kind == TCP4) == is_v4);
        let size = usize::from(offload.segment);
        let right = fits && stated && whole && size > 0;
        right.then_some(Segments { frame, offload, ip, transport, headers, size })
    }

    /// The number of parts.
    pub fn count(&self) -> usize {
        (self.frame.len() - self.headers).div_ceil(self.size)
    }

    /// Writes the `nth` part into a buffer; false: it has no room.
    pub fn write(&self, nth: usize, into: &mut FrameBuffer) -> bool {
        let payload = &self.frame[self.headers..];
        let from = (nth * self.size).min(payload.len());
        let part = &payload[from..(from + self.size).min(payload.len())];
        let offload = Offload { segmentation: 0, segment: 0, ..self.offload };
        if !into.put(&[&self.frame[..self.headers], part], offload) {
            return false;
        }
        let length = into.bytes().len();
        self.lengths(nth, into.bytes_mut(), length);
        self.transport(nth, into.bytes_mut(), from as u32, length);
        true
    }

    /// The IP header of a part.
    fn lengths(&self, nth: usize, bytes: &mut [u8], length: usize) {
        let ip = &mut bytes[self.ip..];
        let long = length - self.ip;
        if ip[0] >> 4 == 4 {
            ip[2..4].copy_from_slice(&(long as u16).to_be_bytes());
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(nth as u16);
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].fill(0);
            let header = (usize::from(ip[0] & 15) * 4).clamp(20, self.transport - self.ip);
            let checksum = internet(&ip[..header]);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            ip[4..6].copy_from_slice(&((long - 40) as u16).to_be_bytes());
        }
    }

    /// The TCP or UDP header of a part.
    fn transport(&self, nth: usize, bytes: &mut [u8], from: u32, length: usize) {
        let (ip, rest) = bytes[self.ip..].split_at_mut(self.transport - self.ip);
        let long = (length - self.transport) as u32;
        let protocol: u32 = if self.offload.segmentation & !WITH_ECN == UDP {
            rest[4..6].copy_from_slice(&(long as u16).to_be_bytes());
            17
        } else {
            let number = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]).wrapping_add(from);
            rest[4..8].copy_from_slice(&number.to_be_bytes());
            if nth + 1 < self.count() {
                rest[13] &= !FIN_PSH;
            }
            if nth > 0 {
                rest[13] &= !CWR;
            }
            6
        };
        let addresses = if ip[0] >> 4 == 4 { &ip[12..20] } else { &ip[8..40] };
        let pseudo = fold(sum(addresses) + u64::from(protocol) + u64::from(long));
        let at = usize::from(self.offload.checksum_at);
        rest[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP packet of 3,000 bytes becomes three, whose bytes, numbers, flags and checksums are those of a sender.
    #[test]
    fn tcp_is_cut_as_a_sender_would() {
        let payload: Vec<u8> = (0..3_000u32).map(|n| n as u8).collect();
        let mut tcp = [0u8; 20];
        tcp[4..8].copy_from_slice(&0xffff_fe00u32.to_be_bytes());
        (tcp[12], tcp[13]) = (5 << 4, 0x10 | FIN_PSH | CWR);
        for [a, b] in [["10.0.0.1", "10.0.0.2"], ["2001:db8::1", "2001:db8::2"]] {
            let (src, dst) = (a.parse().unwrap(), b.parse().unwrap());
            let ip = wire::ip::packet(src, dst, 6, 64, false, &[&tcp[..], &payload].concat()).unwrap();
            let four = ip[0] >> 4 == 4;
            let frame = [&[0u8; 12][..], &[8, 0], &ip].concat();
            let transport = if four { 34 } else { 54 };
            let offload = Offload {
                flags: 1,
                segmentation: if four { TCP4 } else { TCP6 } | WITH_ECN,
                headers: 0,
                segment: 1_400,
                checksum_from: transport,
                checksum_at: 16,
            };
            let segments = Segments::new(&frame, offload, 14).unwrap();
            assert_eq!(segments.count(), 3);
            let mut all = Vec::new();
            let mut buffer = FrameBuffer::new(1_514);
            for nth in 0..3 {
                assert!(segments.write(nth, &mut buffer));
                let bytes = buffer.bytes();
                let packet = wire::ip::Packet::parse(&bytes[14..]).expect("lengths and header checksum are right");
                let segment = packet.payload();
                assert_eq!(segment[4..8], 0xffff_fe00u32.wrapping_add(1_400 * nth as u32).to_be_bytes());
                assert_eq!(segment[13] & (FIN_PSH | CWR), [CWR, 0, FIN_PSH][nth]);
                // As the next device does: the sum from the transport header on, over the pseudo header that lies there.
                let filled = internet(&bytes[usize::from(transport)..]);
                let mut sent = segment.to_vec();
                sent[16..18].copy_from_slice(&filled.to_be_bytes());
                let addresses = if four { &bytes[26..34] } else { &bytes[22..54] };
                assert_eq!(fold(sum(addresses) + 6 + sent.len() as u64 + sum(&sent)), 0xffff, "a right checksum");
                all.extend_from_slice(&segment[20..]);
            }
            assert_eq!(all, payload);
            let wrong = |change: Offload| Segments::new(&frame, change, 14).is_none();
            assert!(wrong(Offload { segment: 0, ..offload }) && wrong(Offload { checksum_from: 9_000, ..offload }));
            assert!(wrong(Offload { segmentation: 3, ..offload }) && wrong(Offload { checksum_at: 60, ..offload }));
        }
    }
}
