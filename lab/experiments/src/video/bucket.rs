//! The Tspec of a stream from its measured packets (RFC 2215 section 3.6: r, b, p, m, M in IP bytes).
//!
//! The rate is the measured mean plus [`RATE_MARGIN`]. The depth is twice what the stream needed at that
//! rate, and room for a sender that was stopped for [`STALL`] and catches up at once, as a program on a busy
//! machine does.

use super::rtp::RtpPacket;
use terms::{Bytes, Rate, Span, Time, Tspec};

/// The margin above the measured mean, percent.
pub const RATE_MARGIN: u64 = 8;
/// The longest stop of the sender that the bucket allows.
pub const STALL: Span = Span::from_millis(150);
/// The smallest charged packet, bytes. The last piece of a frame may be a few bytes; a minimum that low would
/// make every node reserve for link headers on packets that hardly ever come.
pub const LEAST_UNIT: u32 = 512;

/// The measurements of a stream.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Burstiness {
    /// Mean rate.
    pub sent: Rate,
    /// Mean rate, short packets charged as [`LEAST_UNIT`].
    pub mean: Rate,
    /// The largest packet.
    pub largest: u32,
    /// The longest burst (gaps below 2 ms), bytes: a frame.
    pub burst: Bytes,
    /// The bucket depth that lets the whole stream through at the mean rate and its margin.
    pub depth: Bytes,
}

/// Measures a stream; `None` if it is shorter than half a second.
pub fn measure(packets: &[RtpPacket]) -> Option<Burstiness> {
    let (first, last) = (packets.first()?, packets.last()?);
    let span = last.at.since(first.at);
    if span < Span::from_millis(500) {
        return None;
    }
    let charge = |packet: &RtpPacket| u64::from(packet.len.max(LEAST_UNIT));
    // The last packet's bytes belong to the time after it.
    let over = |bytes: u64| {
        let bps = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(span.as_nanos()));
        u64::try_from(bps).ok().map(Rate::from_bps)
    };
    let sent = over(packets.iter().map(|packet| u64::from(packet.len)).sum::<u64>() - u64::from(last.len))?;
    let mean = over(packets.iter().map(charge).sum::<u64>() - charge(last))?;
    let rate = mean.share(100 + RATE_MARGIN, 100);
    let (mut owed, mut depth, mut burst, mut together, mut before) = (0, 0, 0, 0, first.at);
    for packet in packets {
        let gap = packet.at.since(before);
        owed = u64::saturating_sub(owed, rate.supplies(gap).get()) + charge(packet);
        together = if gap < Span::from_millis(2) { together + charge(packet) } else { charge(packet) };
        (depth, burst, before) = (depth.max(owed), burst.max(together), packet.at);
    }
    let largest = packets.iter().map(|packet| packet.len).max().unwrap_or(0);
    Some(Burstiness { sent, mean, largest, burst: Bytes::new(burst), depth: Bytes::new(depth) })
}

impl Burstiness {
    /// Returns the Tspec to announce, for a sender whose first link has rate `link`.
    pub fn tspec(&self, link: Rate) -> Tspec {
        let round = |value: u64, to: u64| value.div_ceil(to) * to;
        let rate = self.mean.share(100 + RATE_MARGIN, 100);
        let depth = self.depth.get() * 2 + rate.demands(STALL).get();
        Tspec {
            r: Rate::from_bps(round(rate.as_bps(), 10_000)),
            b: Bytes::new(round(depth, 1 << 10)),
            p: link,
            m: LEAST_UNIT,
            M: self.largest.max(LEAST_UNIT),
        }
    }
}

/// Returns the bytes of a stream that exceed a Tspec's bucket.
pub fn excess(packets: &[RtpPacket], tspec: &Tspec) -> Bytes {
    let (mut level, mut before, mut over) = (tspec.b.get(), Time::default(), 0);
    for packet in packets {
        let charge = u64::from(packet.len.max(tspec.m));
        level = (level + tspec.r.supplies(packet.at.since(before)).get()).min(tspec.b.get());
        before = packet.at;
        match level.checked_sub(charge) {
            Some(left) => level = left,
            None => over += u64::from(packet.len),
        }
    }
    Bytes::new(over)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 25 frames a second of `count` packets of 1,400 bytes, 0.1 ms apart, one tail of 100 bytes.
    fn stream(count: u64) -> Vec<RtpPacket> {
        let packet = |frame: u64, i: u64, len| RtpPacket {
            at: Time::from_nanos(1_000_000_000 + frame * 40_000_000 + i * 100_000),
            len,
            sequence: 0,
        };
        (0..100).flat_map(|f| (0..count).map(move |i| packet(f, i, 1_400)).chain([packet(f, count, 100)])).collect()
    }

    #[test]
    fn a_frame_at_a_time_needs_a_bucket_of_a_frame() {
        let found = measure(&stream(10)).unwrap();
        let frame = 10 * 1_400 + u64::from(LEAST_UNIT);
        assert_eq!((found.largest, found.burst), (1_400, Bytes::new(frame)));
        assert!(found.mean.as_bps().abs_diff(frame * 8 * 25) < frame * 8 / 3, "{}", found.mean);
        assert!(found.depth.get() <= frame && found.depth.get() > frame * 95 / 100, "{:?}", found.depth);
    }

    #[test]
    fn the_stream_keeps_to_its_tspec_and_a_doubled_one_does_not() {
        let tspec = measure(&stream(10)).unwrap().tspec(Rate::from_mbps(100));
        assert_eq!(excess(&stream(10), &tspec), Bytes::new(0));
        assert!(excess(&stream(20), &tspec).get() > 0);
        assert_eq!((tspec.M, tspec.m, tspec.p), (1_400, LEAST_UNIT, Rate::from_mbps(100)));
    }

    #[test]
    fn a_moment_is_not_enough() {
        assert_eq!(measure(&[]), None);
        assert_eq!(measure(&stream(10)[..20]), None);
    }
}
