//! All that the sources send, and when: a pool of flows that are replaced as they end, and the background.
//!
//! The same parameters give the same packets at the same times, on either side: the simulator's queue is offered
//! them, and the laboratory sends them by real sockets. That is how a session is played again with and without
//! recognition (the paper's second scenario).

use super::flow::MaceFlow;
use super::model::WIRE;
use super::params::Params;
use crate::draw::exponential;
use crate::rng::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use terms::{Bytes, Span};

/// The number of background sources (section 4.2, first scenario).
pub const BACKGROUND: usize = 20;
/// Wire bytes of a background packet: 700 bytes of payload, UDP, IP, Ethernet. An exponential rest of 100
/// bytes on average is added (section 5.2).
const BACKGROUND_WIRE: u32 = 700 + 8 + 20 + 26;
const BACKGROUND_REST: Span = Span::from_nanos(100);
/// Wire bytes of the longest Ethernet frame.
pub(crate) const LONGEST: u32 = 1500 + 26;

/// A part of the sources: several hosts may send them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrafficPart {
    /// The pool and the background.
    All,
    /// The pool.
    Pool,
    /// The background.
    Background,
}

/// An event of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrafficEvent {
    /// A flow of the pool sends a packet.
    Packet {
        /// Its place in the pool.
        place: usize,
        /// Wire bytes.
        bytes: u32,
    },
    /// A flow ends, and another one of the same model begins in its place.
    Ended {
        /// Its place in the pool.
        place: usize,
    },
    /// The background sends a packet.
    Background {
        /// The number of the source.
        source: usize,
        /// Wire bytes.
        bytes: u32,
    },
}

/// The traffic of a run, event by event. It never ends.
#[derive(Debug)]
pub struct PooledTraffic {
    pool: usize,
    lifetime: Span,
    flows: Vec<MaceFlow>,
    rngs: Vec<Rng>,
    /// The time between two packets of a background source, ns.
    interval: u64,
    /// True if all packets of the background have the mean length.
    fixed: bool,
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
}

impl PooledTraffic {
    /// The traffic of these parameters, or a part of it.
    pub fn new(params: &Params, part: TrafficPart) -> PooledTraffic {
        let pool = params.pool;
        let mut rngs: Vec<Rng> = (0..pool + BACKGROUND).map(|n| Rng::new(params.seed, n as u64)).collect();
        let flow = |n: usize| {
            let (model, _) = params.models[params.model_of(n)];
            MaceFlow::begin(model, 0, params.lifetime, &mut rngs[n])
        };
        let flows: Vec<MaceFlow> = (0..pool).map(flow).collect();
        let mean = u64::from(BACKGROUND_WIRE) + BACKGROUND_REST.as_nanos();
        let load = params.link.share(u64::from(params.background_percent), 100 * BACKGROUND as u64);
        let interval = load.span_for(Bytes::new(mean)).as_nanos().max(1);
        let mut agenda = BinaryHeap::with_capacity(pool + BACKGROUND);
        if part != TrafficPart::Background {
            agenda.extend(flows.iter().enumerate().map(|(n, flow)| Reverse((flow.due(), n as u32))));
        }
        if part != TrafficPart::Pool && params.background_percent > 0 {
            agenda.extend((pool..pool + BACKGROUND).map(|n| Reverse((rngs[n].below(interval), n as u32))));
        }
        PooledTraffic { pool, lifetime: params.lifetime, flows, rngs, interval, fixed: params.fixed_sizes, agenda }
    }

    /// The next event and its time, ns from the beginning; `None` if there is no source.
    pub fn next_event(&mut self) -> Option<(u64, TrafficEvent)> {
        // Changing the top in place costs one sift where a pop and a push cost two.
        let mut top = self.agenda.peek_mut()?;
        let Reverse((now, number)) = *top;
        let n = number as usize;
        let (event, next) = if n >= self.pool {
            let rest = match self.fixed {
                true => BACKGROUND_REST.as_nanos(),
                false => exponential(&mut self.rngs[n], BACKGROUND_REST).as_nanos(),
            };
            let rest = rest.min(u64::from(LONGEST - BACKGROUND_WIRE));
            let event = TrafficEvent::Background { source: n - self.pool, bytes: BACKGROUND_WIRE + rest as u32 };
            (event, now + self.interval)
        } else if self.flows[n].ends <= now {
            self.flows[n] = MaceFlow::begin(self.flows[n].model, now, self.lifetime, &mut self.rngs[n]);
            (TrafficEvent::Ended { place: n }, self.flows[n].due())
        } else {
            self.flows[n].sent(&mut self.rngs[n]);
            (TrafficEvent::Packet { place: n, bytes: WIRE }, self.flows[n].due())
        };
        *top = Reverse((next, number));
        Some((now, event))
    }
}

#[cfg(test)]
mod tests {
    use super::super::RuleTerms;
    use super::super::model::{CBR, EXP1};
    use super::*;
    use terms::Rate;

    #[test]
    fn the_parts_are_the_whole() {
        let models = vec![(CBR, Rate::from_bps(77_200)), (EXP1, Rate::from_bps(77_200))];
        let params = Params::scenario_three(models, Rate::from_mbps(3), RuleTerms::SimpleSum, 9);
        let params = Params { lifetime: Span::from_secs(5), ..params };
        let mut all = PooledTraffic::new(&params, TrafficPart::All);
        let mut parts = [TrafficPart::Pool, TrafficPart::Background].map(|part| PooledTraffic::new(&params, part));
        let (mut packets, mut ends) = (0, 0);
        for _ in 0..100_000 {
            let (at, event) = all.next_event().unwrap();
            let part = usize::from(matches!(event, TrafficEvent::Background { .. }));
            assert_eq!(parts[part].next_event(), Some((at, event)));
            packets += usize::from(matches!(event, TrafficEvent::Packet { .. }));
            ends += usize::from(matches!(event, TrafficEvent::Ended { .. }));
        }
        assert!(packets > 10_000 && ends > 100, "{packets} {ends}");
    }
}
