//! RTP packets in a capture, and the gaps in their sequence (RFC 3550 sections 5.1 and A.1).

use linux::capture::CapturedFrame;
use std::collections::BTreeSet;
use terms::{Bytes, Time};

/// A captured RTP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtpPacket {
    /// The time of capture.
    pub at: Time,
    /// Length of the IP packet, bytes.
    pub len: u32,
    /// Its sequence number, extended beyond 16 bits in the order of the first capture.
    pub sequence: i64,
}

/// Extends sequence numbers beyond 16 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwrap {
    highest: Option<i64>,
}

impl Unwrap {
    /// Returns the extended number nearest to the highest so far (RFC 3550 section A.1, without its
    /// probation).
    pub fn next(&mut self, sequence: u16) -> i64 {
        let Some(highest) = self.highest else {
            self.highest = Some(i64::from(sequence));
            return i64::from(sequence);
        };
        let step = sequence.wrapping_sub(highest as u16) as i16;
        let continued = highest + i64::from(step);
        self.highest = Some(highest.max(continued));
        continued
    }
}

/// Returns the sequence number, if this is RTP of version 2 and not RTCP sent to the same port.
pub fn sequence(seen: &CapturedFrame) -> Option<u16> {
    match *seen.payload() {
        [first, second, high, low, _, _, _, _, _, _, _, _, ..] if first >> 6 == 2 && !(200..=207).contains(&second) => {
            Some(u16::from_be_bytes([high, low]))
        }
        _ => None,
    }
}

/// The packet counts of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LossCounts {
    /// Packets expected by the interval's sequence numbers.
    pub expected: u64,
    /// The number of these packets that never arrived.
    pub lost: u64,
    /// Packets of the interval that later ones overtook.
    pub overtaken: u64,
    /// IP bytes that arrived in the interval.
    pub bytes: Bytes,
}

impl LossCounts {
    /// Returns the fraction of expected packets that were lost.
    pub fn loss(&self) -> f64 {
        if self.expected == 0 { 0.0 } else { self.lost as f64 / self.expected as f64 }
    }
}

/// Counts `[from, until)`: the sequence numbers above the highest seen before it, up to the highest seen in
/// it. One is lost if it is nowhere in the capture, so an overtaken packet does not count as lost. `packets`
/// is in order of arrival.
pub fn tally(packets: &[RtpPacket], from: Time, until: Time) -> LossCounts {
    let begin = packets.partition_point(|packet| packet.at < from);
    let end = packets.partition_point(|packet| packet.at < until);
    let within = &packets[begin..end];
    let bytes = Bytes::new(within.iter().map(|packet| u64::from(packet.len)).sum());
    let mut highest = packets[..begin].iter().map(|packet| packet.sequence).max().unwrap_or(i64::MIN);
    let mut overtaken = 0;
    for packet in within {
        overtaken += u64::from(packet.sequence < highest);
        highest = highest.max(packet.sequence);
    }
    let Some(last) = within.iter().map(|packet| packet.sequence).max() else {
        return LossCounts { bytes, ..LossCounts::default() };
    };
    let before = packets[..begin].iter().map(|packet| packet.sequence).max();
    let first = within.iter().map(|packet| packet.sequence).min().unwrap_or(last);
    let after = before.unwrap_or(first - 1);
    let expected = u64::try_from(last - after).unwrap_or(0);
    let range = |packet: &&RtpPacket| packet.sequence > after && packet.sequence <= last;
    let came = packets.iter().filter(range).map(|packet| packet.sequence).collect::<BTreeSet<_>>().len() as u64;
    LossCounts { expected, lost: expected.saturating_sub(came), overtaken, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(list: &[(u64, i64)]) -> Vec<RtpPacket> {
        list.iter()
            .map(|&(ms, sequence)| RtpPacket { at: Time::from_nanos(ms * 1_000_000), len: 100, sequence })
            .collect()
    }

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn gaps_are_losses_and_overtaking_is_not() {
        let seen = packets(&[(0, 7), (1, 8), (2, 10), (3, 9), (4, 13), (5, 14), (6, 12), (7, 15)]);
        assert_eq!(
            tally(&seen, ms(0), ms(9)),
            LossCounts { expected: 9, lost: 1, overtaken: 2, bytes: Bytes::new(800) }
        ); // 11
        assert_eq!(
            tally(&seen, ms(0), ms(4)),
            LossCounts { expected: 4, lost: 0, overtaken: 1, bytes: Bytes::new(400) }
        );
        assert_eq!(
            tally(&seen, ms(4), ms(6)),
            LossCounts { expected: 4, lost: 1, overtaken: 0, bytes: Bytes::new(200) }
        ); // 12 comes late
        assert_eq!(
            tally(&seen, ms(7), ms(9)),
            LossCounts { expected: 1, lost: 0, overtaken: 0, bytes: Bytes::new(100) }
        );
        assert_eq!(tally(&seen, ms(20), ms(30)), LossCounts::default());
        assert_eq!(tally(&[], ms(0), ms(9)).loss(), 0.0);
    }

    #[test]
    fn sequence_numbers_go_on_after_16_bits() {
        let mut unwrap = Unwrap::default();
        let seen: Vec<i64> = [65_534, 65_535, 1, 0, 2, 40_000].iter().map(|&s| unwrap.next(s)).collect();
        assert_eq!(seen, [65_534, 65_535, 65_537, 65_536, 65_538, 40_000]);
    }
}
