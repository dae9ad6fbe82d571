//! Rewriting a message in place: a few fields, and the checksum by difference (RFC 1624, equation 3).
//!
//! A rewrite never makes a message longer, and it touches no other bytes.

use super::option::{HOP_DIGEST, ORIGIN_DIGEST};
use super::{Family, Opt, ProbePacket, Rates, TravelDirection, at, flag, icmp};

/// A packet that is rewritten, with the offsets of its parts.
#[derive(Debug)]
pub struct Rewrite<'a> {
    packet: &'a mut [u8],
    at: usize,
    rates: usize,
    leg: TravelDirection,
    hops: Option<usize>,
    digest: Option<usize>,
}

impl<'a> Rewrite<'a> {
    /// Wraps a packet that [`ProbePacket::parse`] accepts; `None` for any other.
    pub fn new(packet: &'a mut [u8]) -> Option<Rewrite<'a>> {
        let probe = ProbePacket::parse(packet).ok()?;
        let places = Places::of(&probe);
        Some(places.within(packet))
    }

    /// Sets NACK.
    pub fn nack(&mut self) {
        let flags = self.word(at::FLAGS) | flag::NACK;
        self.put(at::FLAGS, flags);
    }

    /// Shortens the refresh interval; a longer one is not written.
    pub fn refresh(&mut self, seconds: u8) {
        let [now, version] = self.word(at::REFRESH).to_be_bytes();
        self.put(at::REFRESH, u16::from_be_bytes([now.min(seconds), version]));
    }

    /// Sets KEY.
    pub fn key(&mut self, key: u64) {
        let octets = key.to_be_bytes();
        self.put_all(at::KEY, &octets);
    }

    /// Sets the pair at `index`.
    pub fn rates(&mut self, index: usize, rates: Rates) {
        let octets = rates.octets();
        self.put_all(self.rates.saturating_add(index.saturating_mul(8)), &octets);
    }

    /// Adds one to this direction's count in the HOPS option, if there is one; the count stops at its largest value.
    pub fn count(&mut self) {
        let Some(hops) = self.hops else { return };
        let place = match self.leg {
            TravelDirection::Request => hops,
            TravelDirection::Reply => hops.saturating_add(2),
        };
        let counted = self.word(place).saturating_add(1);
        self.put(place, counted);
    }

    /// Writes AUTH's hop digest, if the message has that option.
    pub fn hop_digest(&mut self, digest: &[u8; 16]) {
        if let Some(place) = self.digest {
            self.put_all(place, digest);
        }
    }

    /// Writes AUTH's origin digest, if the message has that option. Only the initiating node does so.
    pub fn origin_digest(&mut self, digest: &[u8; 32]) {
        if let Some(place) = self.digest {
            self.put_all(place.saturating_sub(ORIGIN_DIGEST), digest);
        }
    }

    /// The ICMP message as it is now.
    pub fn message(&self) -> &[u8] {
        self.packet.get(self.at..).unwrap_or_default()
    }

    fn word(&self, place: usize) -> u16 {
        let word = self.packet.get(self.at.saturating_add(place)..).and_then(|rest| rest.first_chunk::<2>());
        word.map_or(0, |word| u16::from_be_bytes(*word))
    }

    fn put_all(&mut self, place: usize, octets: &[u8]) {
        for (i, pair) in octets.as_chunks::<2>().0.iter().enumerate() {
            self.put(place.saturating_add(i.saturating_mul(2)), u16::from_be_bytes(*pair));
        }
    }

    /// Writes a word of the ICMP message at an even offset, and updates the checksum.
    fn put(&mut self, place: usize, new: u16) {
        let old = self.word(place);
        if old == new {
            return;
        }
        let sum = changed(self.word(at::CHECKSUM), old, new);
        for (place, word) in [(place, new), (at::CHECKSUM, sum)] {
            let from = self.at.saturating_add(place);
            if let Some(field) = self.packet.get_mut(from..from.saturating_add(2)) {
                field.copy_from_slice(&word.to_be_bytes());
            }
        }
    }
}

/// The offsets of a parsed message's parts, kept while its packet is rewritten.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    at: usize,
    total: usize,
    rates: usize,
    leg: TravelDirection,
    hops: Option<usize>,
    digest: Option<usize>,
}

impl Places {
    /// The offsets of a message's parts.
    pub fn of(probe: &ProbePacket<'_>) -> Places {
        let message = &probe.message;
        let (mut hops, mut digest) = (None, None);
        for (place, option) in message.options() {
            match option {
                Opt::Hops(_) => hops = hops.or(Some(place)),
                Opt::Auth(_) => digest = digest.or(Some(place.saturating_add(HOP_DIGEST))),
                _ => {}
            }
        }
        // An option of an odd length puts those after it where no 16-bit sum can follow; nobody writes one.
        let even = |place: &usize| place.is_multiple_of(2);
        let (hops, digest) = (hops.filter(even), digest.filter(even));
        Places { at: probe.at, total: probe.total, rates: message.rates_at(), leg: message.leg, hops, digest }
    }

    /// The offset of AUTH's hop digest from the first byte of the ICMP message.
    pub fn digest(&self) -> Option<usize> {
        self.digest
    }

    /// Pairs the offsets with the packet that they belong to.
    pub fn within(self, packet: &mut [u8]) -> Rewrite<'_> {
        let Places { at, total, rates, leg, hops, digest } = self;
        let end = total.min(packet.len());
        Rewrite { packet: packet.get_mut(..end).unwrap_or_default(), at, rates, leg, hops, digest }
    }
}

/// Forwards by one hop: lowers TTL or hop limit by one and updates IPv4's checksum. `false`, and the packet
/// is unchanged, if it must not be forwarded.
#[must_use]
pub fn forwarded(packet: &mut [u8]) -> bool {
    match packet {
        [0x60..=0x6f, _, _, _, _, _, _, ttl, ..] if *ttl > 1 => {
            *ttl = ttl.saturating_sub(1);
            true
        }
        [0x40..=0x4f, _, _, _, _, _, _, _, ttl, protocol, c1, c0, ..] if *ttl > 1 => {
            let old = u16::from_be_bytes([*ttl, *protocol]);
            *ttl = ttl.saturating_sub(1);
            let new = u16::from_be_bytes([*ttl, *protocol]);
            [*c1, *c0] = changed(u16::from_be_bytes([*c1, *c0]), old, new).to_be_bytes();
            true
        }
        _ => false,
    }
}

/// Turns a request into its reply, as a host that answers ping does: exchanged ends, reply type, a new TTL of
/// 64. `false`, and the packet is unchanged, if it is not a request.
#[must_use]
pub fn answered(packet: &mut [u8]) -> bool {
    let Ok(probe) = ProbePacket::parse(packet) else { return false };
    if probe.message.leg == TravelDirection::Reply {
        return false;
    }
    let (family, places) = (probe.message.family, Places::of(&probe));
    let (ends, length, reply) = match family {
        Family::V4 => (12, 4, icmp::REPLY_V4),
        Family::V6 => (8, 16, icmp::REPLY_V6),
    };
    // Sums do not mind the order of their words, so neither header checksum nor pseudo header changes.
    let ends = packet.get_mut(ends..).and_then(|rest| rest.split_at_mut_checked(length));
    if let Some((src, rest)) = ends
        && let Some(dst) = rest.get_mut(..length)
    {
        src.swap_with_slice(dst);
    }
    places.within(packet).put(0, u16::from_be_bytes([reply, 0]));
    match packet {
        [0x60..=0x6f, _, _, _, _, _, _, ttl, ..] => *ttl = TTL,
        [_, _, _, _, _, _, _, _, ttl, protocol, c1, c0, ..] => {
            let old = u16::from_be_bytes([*ttl, *protocol]);
            *ttl = TTL;
            let new = u16::from_be_bytes([*ttl, *protocol]);
            [*c1, *c0] = changed(u16::from_be_bytes([*c1, *c0]), old, new).to_be_bytes();
        }
        _ => {}
    }
    true
}

/// The TTL of a new packet.
const TTL: u8 = 64;

/// The checksum after one word changed: `~(~sum + ~old + new)`, RFC 1624 equation 3, which never makes the wrong zero.
fn changed(sum: u16, old: u16, new: u16) -> u16 {
    let total = u64::from(!sum).wrapping_add(u64::from(!old)).wrapping_add(u64::from(new));
    !crate::checksum::fold(total)
}
