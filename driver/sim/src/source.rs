//! The sending times of a traffic source. They are computed from the start, never from the last packet, so
//! rounding errors do not add up.

use crate::draw::{exponential, pareto};
use crate::packet::Data;
use crate::rng::Rng;
use crate::scenario::{Scenario, SendPattern, SourceSpec, Trace};
use std::rc::Rc;
use terms::{Bytes, Rate, Span, Time};

/// A source and its state.
#[derive(Clone, Debug)]
pub struct Source {
    spec: SourceSpec,
    number: u32,
    rng: Rng,
    sent: u64,
    /// On/off: the start of the present on time, the packets sent in it, its end.
    on: (Time, u64, Time),
    trace: Option<Rc<Trace>>,
    /// Length of the next packet, IP bytes.
    len: u32,
}

impl Source {
    /// The source of that number. It has a random stream of its own.
    pub fn new(spec: SourceSpec, number: u32, scenario: &Scenario) -> Source {
        let rng = Rng::new(scenario.seed, u64::from(number) + 1_000);
        let trace = match spec.pattern {
            SendPattern::Trace(trace) => scenario.traces.get(trace.0).cloned().map(Rc::new),
            _ => None,
        };
        Source { spec, number, rng, sent: 0, on: (spec.from, 0, spec.from), trace, len: spec.packet }
    }

    /// The source's description.
    pub fn spec(&self) -> &SourceSpec {
        &self.spec
    }

    /// The time of the next packet; `None` if there is none.
    pub fn next_at(&mut self) -> Option<Time> {
        let n = self.sent;
        if self.is_silent() {
            return None;
        }
        let at = match self.spec.pattern {
            SendPattern::Cbr { rate, jitter_percent } => {
                let slot = self.times(rate.span_for(self.bytes(n)));
                let interval = rate.span_for(self.bytes(1)).as_nanos();
                let most = u128::from(interval) * u128::from(jitter_percent) / 100;
                slot + Span::from_nanos(self.rng.below(u64::try_from(most).unwrap_or(0)))
            }
            SendPattern::OnOff { rate, on, off } => self.burst(rate, |rng| about(rng, on), |rng| about(rng, off)),
            SendPattern::Video { interval, packets, spread_percent } => {
                let (frame, part) = (n / u64::from(packets.max(1)), n % u64::from(packets.max(1)));
                let start = self.times(interval.mul_div_ceil(frame, 1));
                start + interval.mul_div_ceil(part * u64::from(spread_percent), u64::from(packets.max(1)) * 100)
            }
            SendPattern::Greedy { rate, burst } => {
                self.times(rate.span_for(self.bytes(n.saturating_sub(u64::from(burst.max(1)) - 1))))
            }
            SendPattern::Exponential { rate, on, off } => {
                self.burst(rate, |rng| exponential(rng, on), |rng| exponential(rng, off))
            }
            SendPattern::Pareto { rate, on, off, shape_milli } => {
                self.burst(rate, |rng| pareto(rng, on, shape_milli), |rng| pareto(rng, off, shape_milli))
            }
            SendPattern::Poisson { rate } => {
                let mean = rate.span_for(self.bytes(1));
                self.on.0 = self.on.0 + exponential(&mut self.rng, mean);
                self.on.0
            }
            SendPattern::Trace(_) => {
                let (after, len) = *self.trace.as_ref()?.packets.get(usize::try_from(n).ok()?)?;
                self.len = len;
                self.times(after)
            }
        };
        (at < self.spec.until).then_some(at)
    }

    /// Sends a packet. Returns the data for the packet.
    pub fn send(&mut self, now: Time) -> Data {
        let sequence = self.sent;
        self.sent += 1;
        Data { source: self.number, sequence, len: self.spec.packet, sent: now }
    }

    /// The number of packets sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// True if its rate is zero.
    fn is_silent(&self) -> bool {
        match self.spec.pattern {
            SendPattern::Cbr { rate, .. }
            | SendPattern::Exponential { rate, .. }
            | SendPattern::Pareto { rate, .. }
            | SendPattern::Poisson { rate } => rate == Rate::ZERO,
            _ => false,
        }
    }

    fn times(&self, after: Span) -> Time {
        self.spec.from + after
    }

    fn bytes(&self, packets: u64) -> Bytes {
        Bytes::new(packets.saturating_mul(u64::from(self.spec.packet)))
    }

    /// The time of the next packet in the present on time. After its end, draws an off time and a new on time
    /// and returns the start of that.
    fn burst(&mut self, rate: Rate, on: impl FnOnce(&mut Rng) -> Span, off: impl FnOnce(&mut Rng) -> Span) -> Time {
        let mut at = self.on.0 + rate.span_for(self.bytes(self.on.1));
        if at >= self.on.2 {
            let start = if self.sent == 0 { self.spec.from } else { self.on.2 + off(&mut self.rng) };
            self.on = (start, 0, start + on(&mut self.rng));
            at = start;
        }
        self.on.1 += 1;
        at
    }
}

fn about(rng: &mut Rng, mean: Span) -> Span {
    Span::from_nanos((mean.as_nanos() / 2).saturating_add(rng.below(mean.as_nanos())))
}

/// The number of packets in one frame.
pub fn frame_packets(pattern: &SendPattern) -> u32 {
    match pattern {
        SendPattern::Video { packets, .. } => (*packets).max(1),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::address;
    use crate::scenario::{LinkId, NodeId};
    use terms::FlowKey;

    /// The times at which a source sends, nanoseconds, until one second is over.
    fn times(pattern: SendPattern) -> Vec<u64> {
        let (src, dst) = (address(LinkId(0), 0), address(LinkId(0), 1));
        let flow = FlowKey { src, dst, protocol: 17, src_port: 1, dst_port: 1, wild: terms::Wild::NONE };
        let until = Time::from_nanos(Span::NANOS_PER_SEC);
        let spec = SourceSpec { node: NodeId(0), flow, packet: 1_000, pattern, from: Time::ZERO, until };
        let mut source = Source::new(spec, 0, &Scenario { seed: 1, ..Scenario::default() });
        let mut all = Vec::new();
        while let Some(at) = source.next_at() {
            source.send(at);
            all.push(at.as_nanos());
        }
        all
    }

    #[test]
    fn a_constant_rate_is_exact_over_any_time() {
        let times = times(SendPattern::Cbr { rate: Rate::from_kbps(2_400), jitter_percent: 0 });
        assert_eq!(times.len(), 300);
        assert_eq!(times[..4], [0, 3_333_334, 6_666_667, 10_000_000]);
        assert!(super::tests::times(SendPattern::Cbr { rate: Rate::ZERO, jitter_percent: 0 }).is_empty());
    }

    #[test]
    fn jitter_delays_a_packet_but_not_the_next() {
        let times = times(SendPattern::Cbr { rate: Rate::from_kbps(800), jitter_percent: 50 });
        assert_eq!(times.len(), 100);
        for (n, at) in times.iter().enumerate() {
            let slot = n as u64 * 10_000_000;
            assert!((slot..slot + 5_000_000).contains(at), "packet {n} at {at}");
        }
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn frames_are_spread_over_a_part_of_their_interval() {
        let interval = Span::from_millis(250);
        let times = times(SendPattern::Video { interval, packets: 2, spread_percent: 50 });
        let millis: Vec<u64> = times.iter().map(|ns| ns / 1_000_000).collect();
        assert_eq!(millis, [0, 62, 250, 312, 500, 562, 750, 812]);
    }

    #[test]
    fn greed_is_a_bucket_at_once_and_then_its_rate() {
        let times = times(SendPattern::Greedy { rate: Rate::from_kbps(16), burst: 3 });
        assert_eq!(times, [0, 0, 0, 500_000_000]);
    }

    #[test]
    fn on_and_off_alternate() {
        let (on, off) = (Span::from_millis(20), Span::from_millis(30));
        let times = times(SendPattern::OnOff { rate: Rate::from_mbps(8), on, off });
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| *gap == 1_000_000 || (15_000_000..=46_000_000).contains(gap)), "{gaps:?}");
        // 40 % on, of 1,000 packets a second.
        assert!((300..500).contains(&times.len()), "{} packets", times.len());
    }
}
