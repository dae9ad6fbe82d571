//! When a traffic source sends its next packet. Times are computed from the start, never from the last packet, so
//! that rounding does not add up.

use crate::packet::Data;
use crate::rng::Rng;
use crate::scenario::{Pattern, SourceSpec};
use terms::{Bytes, Rate, Span, Time};

/// A source at work.
#[derive(Clone, Debug)]
pub struct Source {
    spec: SourceSpec,
    number: u32,
    rng: Rng,
    sent: u64,
    /// On/off: start of the present on time, packets sent in it, its end.
    on: (Time, u64, Time),
}

impl Source {
    /// The source of that number; its chance is a stream of its own.
    pub fn new(spec: SourceSpec, number: u32, seed: u64) -> Source {
        let rng = Rng::new(seed, u64::from(number) + 1_000);
        Source { spec, number, rng, sent: 0, on: (spec.from, 0, spec.from) }
    }

    /// What it is.
    pub fn spec(&self) -> &SourceSpec {
        &self.spec
    }

    /// When the next packet goes; `None`: never.
    pub fn next(&mut self) -> Option<Time> {
        let n = self.sent;
        if matches!(self.spec.pattern, Pattern::Cbr { rate: Rate::ZERO, .. }) {
            return None;
        }
        let at = match self.spec.pattern {
            Pattern::Cbr { rate, jitter_percent } => {
                let slot = self.times(rate.span_for(self.bytes(n)));
                let interval = rate.span_for(self.bytes(1)).as_nanos();
                let most = u128::from(interval) * u128::from(jitter_percent) / 100;
                slot + Span::from_nanos(self.rng.below(u64::try_from(most).unwrap_or(0)))
            }
            Pattern::OnOff { rate, on, off } => {
                let mut at = self.on.0 + rate.span_for(self.bytes(self.on.1));
                if at >= self.on.2 {
                    let start = if n == 0 { self.spec.from } else { self.on.2 + self.about(off) };
                    self.on = (start, 0, start + self.about(on));
                    at = start;
                }
                self.on.1 += 1;
                at
            }
            Pattern::Video { interval, packets, spread_percent } => {
                let (frame, part) = (n / u64::from(packets.max(1)), n % u64::from(packets.max(1)));
                let start = self.times(interval.mul_div_ceil(frame, 1));
                start + interval.mul_div_ceil(part * u64::from(spread_percent), u64::from(packets.max(1)) * 100)
            }
            Pattern::Greedy { rate, burst } => {
                self.times(rate.span_for(self.bytes(n.saturating_sub(u64::from(burst.max(1)) - 1))))
            }
        };
        (at < self.spec.until).then_some(at)
    }

    /// It sends: the mark for the packet.
    pub fn send(&mut self, now: Time) -> Data {
        let sequence = self.sent;
        self.sent += 1;
        Data {
            source: self.number,
            sequence,
            frame: sequence / u64::from(frame_packets(&self.spec.pattern)),
            sent: now,
        }
    }

    /// Packets sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    fn times(&self, after: Span) -> Time {
        self.spec.from + after
    }

    fn bytes(&self, packets: u64) -> Bytes {
        Bytes::new(packets.saturating_mul(u64::from(self.spec.packet)))
    }

    fn about(&mut self, mean: Span) -> Span {
        Span::from_nanos((mean.as_nanos() / 2).saturating_add(self.rng.below(mean.as_nanos())))
    }
}

/// Packets of one frame.
pub fn frame_packets(pattern: &Pattern) -> u32 {
    match pattern {
        Pattern::Video { packets, .. } => (*packets).max(1),
        _ => 1,
    }
}
