//! Captures: pcap files, readable by Wireshark, of every packet that leaves by a direction. Packets have real
//! IPv4, TCP, UDP and RSVP headers with options and checksums and a payload of zeros, cut to a snap length.
//! Times are simulated, from 1970.

use crate::packet::{IPV4_HEADER, MessageInFlight, PacketKind, SimPacket, TCP, UDP};
use crate::scenario::CaptureSpec;
use crate::tcp::SYN_LEN;
use std::net::{IpAddr, Ipv4Addr};
use terms::{FlowKey, Span};

/// Raw IP, by pcap's number.
const LINKTYPE_RAW: u32 = 101;
/// Nanoseconds, little endian.
const MAGIC: u32 = 0xa1b2_3c4d;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A capture and its file so far.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    spec: CaptureSpec,
    file: Vec<u8>,
    packets: usize,
}

/// Values of the headers that are not in the packet itself.
pub(crate) struct Headers<'a> {
    flow: FlowKey,
    message: Option<&'a MessageInFlight>,
    mss: u32,
    /// The receiver's window, bytes.
    window: u32,
}

impl<'a> Headers<'a> {
    /// The headers of a packet of this flow. `sizes` are its connection's segment and window in bytes.
    pub(crate) fn new(flow: FlowKey, message: Option<&'a MessageInFlight>, sizes: (u32, u32)) -> Headers<'a> {
        Headers { flow, message, mss: sizes.0, window: sizes.1 }
    }

    fn bytes(&self, packet: &SimPacket) -> Option<Vec<u8>> {
        let Headers { flow, message, .. } = *self;
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (flow.src, flow.dst) else { return None };
        let alert = message.is_some_and(|message| message.alert);
        let mut bytes = ipv4(packet, flow.protocol, alert, src, dst);
        let ip = bytes.len();
        match packet.kind {
            PacketKind::Signal => bytes.extend(message.iter().flat_map(|message| message.bytes.iter())),
            PacketKind::Data | PacketKind::Pooled if flow.protocol == UDP => udp(&mut bytes, packet, &flow),
            PacketKind::Data | PacketKind::Pooled => {}
            PacketKind::Syn | PacketKind::SynAck | PacketKind::Segment | PacketKind::Ack => {
                tcp(&mut bytes, packet, self)
            }
        }
        if let (Some(at), true) = (checksum_at(flow.protocol), bytes.len() > ip) {
            let length = u32::from(packet.len) - ip as u32;
            let sum = pseudo(src, dst, flow.protocol, length) + sum(&bytes[ip..]);
            let check = match fold(sum) {
                // Zero in UDP would say that there is none (RFC 768).
                0 if flow.protocol == UDP => 0xffff,
                check => check,
            };
            bytes[ip + at..ip + at + 2].copy_from_slice(&check.to_be_bytes());
        }
        Some(bytes)
    }
}

impl Capture {
    pub(crate) fn new(spec: &CaptureSpec) -> Capture {
        let mut file = MAGIC.to_le_bytes().to_vec();
        file.extend([2, 0, 4, 0]);
        file.extend([0; 8]);
        file.extend(spec.snap.max(1).to_le_bytes());
        file.extend(LINKTYPE_RAW.to_le_bytes());
        Capture { spec: *spec, file, packets: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.file
    }

    /// Captures a packet that leaves its node at `left`, ns.
    pub(crate) fn take(&mut self, left: u64, packet: &SimPacket, headers: &Headers<'_>) {
        if let Some(bytes) = headers.bytes(packet) {
            self.record(left, u32::from(packet.len), &bytes);
        }
    }

    fn record(&mut self, nanos: u64, len: u32, headers: &[u8]) {
        if self.packets >= self.spec.packets {
            return;
        }
        let Ok(seconds) = u32::try_from(nanos / Span::NANOS_PER_SEC) else { return };
        self.packets += 1;
        let kept = len.min(self.spec.snap.max(1));
        for word in [seconds, (nanos % Span::NANOS_PER_SEC) as u32, kept, len] {
            self.file.extend(word.to_le_bytes());
        }
        let end = self.file.len() + kept as usize;
        self.file.extend(headers.iter().take(kept as usize));
        self.file.resize(end, 0);
    }
}

fn ipv4(packet: &SimPacket, protocol: u8, alert: bool, src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    let mut bytes = vec![if alert { 0x46 } else { 0x45 }, packet.dscp << 2];
    bytes.extend(packet.len.to_be_bytes());
    // Not to be fragmented, so the identification may be anything (RFC 6864).
    bytes.extend([0, 0, 0x40, 0, packet.ttl, protocol, 0, 0]);
    bytes.extend(src.octets());
    bytes.extend(dst.octets());
    if alert {
        bytes.extend([0x94, 4, 0, 0]);
    }
    debug_assert!(bytes.len() as u32 >= IPV4_HEADER);
    let check = fold(sum(&bytes));
    bytes[10..12].copy_from_slice(&check.to_be_bytes());
    bytes
}

fn udp(bytes: &mut Vec<u8>, packet: &SimPacket, flow: &FlowKey) {
    for word in [flow.src_port, flow.dst_port, packet.len.saturating_sub(IPV4_HEADER as u16), 0] {
        bytes.extend(word.to_be_bytes());
    }
}

/// Appends the TCP header. Both initial sequence numbers are zero; a SYN takes one.
fn tcp(bytes: &mut Vec<u8>, packet: &SimPacket, headers: &Headers<'_>) {
    let Headers { flow, mss, window, .. } = *headers;
    let place = |segment: u32| 1u32.wrapping_add(segment.wrapping_mul(mss));
    let (seq, ack, flags) = match packet.kind {
        PacketKind::Syn => (0, 0, SYN),
        PacketKind::SynAck => (0, 1, SYN | ACK),
        PacketKind::Segment => (place(packet.words[0]), 1, ACK),
        _ => (1, place(packet.words[0]), ACK),
    };
    let shift = (u32::BITS - window.leading_zeros()).saturating_sub(16);
    let opening = flags & SYN != 0;
    let announced = if opening { window.min(0xffff) } else { window >> shift };
    let mut options = Vec::new();
    if opening {
        options.extend([2, 4]);
        options.extend((mss as u16).to_be_bytes());
        // SACK permitted (RFC 2018), window scale (RFC 7323).
        options.extend([4, 2, 1, 1, 1, 3, 3, shift as u8]);
        debug_assert_eq!(options.len() as u32 + 40, SYN_LEN);
    }
    let blocks: Vec<_> = packet.words[1..].chunks_exact(2).filter(|block| block[1] != 0).collect();
    if packet.kind == PacketKind::Ack && !blocks.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        options.extend(blocks.iter().flat_map(|block| [place(block[0]), place(block[1])]).flat_map(u32::to_be_bytes));
    }
    bytes.extend(flow.src_port.to_be_bytes());
    bytes.extend(flow.dst_port.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([((5 + options.len() / 4) << 4) as u8, flags]);
    bytes.extend((announced as u16).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
}

/// The offset of the checksum in a header of that protocol; `None` if the message has its own (RSVP, ICMP).
fn checksum_at(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        _ => None,
    }
}

fn pseudo(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, length: u32) -> u64 {
    sum(&src.octets()) + sum(&dst.octets()) + u64::from(protocol) + u64::from(length)
}

/// The sum of RFC 1071; a payload of zeros adds nothing.
fn sum(bytes: &[u8]) -> u64 {
    let pair = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(pair).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
