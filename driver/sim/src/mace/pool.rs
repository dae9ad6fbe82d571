//! The pool in a world: its packets, and what arrives of them.

use super::spacing::{GapHistogram, SourceTally};
use super::traffic::{PooledTraffic, TrafficEvent, TrafficPart};
use crate::packet::{PacketKind, SimPacket, UDP};
use crate::scenario::{NodeId, PoolSpec};
use std::net::{IpAddr, Ipv4Addr};
use terms::{FlowKey, Time, Wild};
use traffic::meter::Color;

/// The model of a packet of the background.
const CROWD: u32 = u32::MAX;
/// The port of the background's sources; no application has it.
const CROWD_PORT: u16 = 20_000;

/// A step of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PoolStep {
    /// It sends a packet.
    Sends(SimPacket),
    /// A flow ends.
    Ends(FlowKey),
}

/// The packets that were sent within the measured window, and those of them that arrived.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolReport {
    /// The packets of the flows of each model, in the order of the parameters.
    pub models: Vec<SourceTally>,
    /// The gaps between the packets of each model's flows that arrived as controlled load.
    pub controlled: Vec<GapHistogram>,
    /// Packets of the background: sent and arrived.
    pub background: (u64, u64),
}

/// The flow at a place of the pool.
#[derive(Clone, Copy, Default)]
struct PoolPlace {
    /// The number of flows that were there before.
    generation: u32,
    /// The times of its last packet where they are generated, where they arrive, and where they arrive as controlled load, ns.
    last: [Option<u64>; 3],
}

/// The pool, its traffic, and what is counted of it.
pub(crate) struct PooledFlows {
    spec: PoolSpec,
    traffic: PooledTraffic,
    next: Option<(u64, TrafficEvent)>,
    places: Vec<PoolPlace>,
    /// The measured window, ns.
    window: (u64, u64),
    report: PoolReport,
}

impl PooledFlows {
    /// The pool at time zero.
    pub(crate) fn new(spec: &PoolSpec, window: (Time, Time)) -> PooledFlows {
        let params = &spec.traffic;
        let mut traffic = PooledTraffic::new(params, TrafficPart::All);
        let models: Vec<SourceTally> = params.models.iter().map(|(model, _)| SourceTally::of(model.interval)).collect();
        let controlled = models.iter().map(|tally| tally.arrived.clone()).collect();
        PooledFlows {
            next: traffic.next_event(),
            traffic,
            places: vec![PoolPlace::default(); params.pool],
            window: (window.0.as_nanos(), window.1.as_nanos()),
            report: PoolReport { models, controlled, background: (0, 0) },
            spec: spec.clone(),
        }
    }

    /// The node that sends.
    pub(crate) fn node(&self) -> NodeId {
        self.spec.from
    }

    /// The time of the next step; `None`: the pool has ended.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let end = self.spec.traffic.duration.as_nanos();
        self.next.map(|(at, _)| at).filter(|at| *at < end).map(Time::from_nanos)
    }

    /// Takes the next step.
    pub(crate) fn step(&mut self) -> Option<PoolStep> {
        let (now, event) = std::mem::replace(&mut self.next, self.traffic.next_event())?;
        Some(match event {
            TrafficEvent::Packet { place, bytes } => {
                let model = self.spec.traffic.model_of(place);
                let at = &mut self.places[place];
                if counts(self.window, now) {
                    let tally = &mut self.report.models[model];
                    tally.sent += 1;
                    tally.sent_bytes += u64::from(bytes);
                    if let Some(last) = at.last[0] {
                        tally.generated.add(now - last);
                    }
                }
                at.last[0] = Some(now);
                let of = [at.generation, model as u32];
                PoolStep::Sends(self.packet(now, bytes, place as u32, of))
            }
            TrafficEvent::Ended { place } => {
                let ended = key(place as u32, self.places[place].generation, self.spec.traffic.model_of(place) as u32);
                let generation = self.places[place].generation + 1;
                self.places[place] = PoolPlace { generation, ..PoolPlace::default() };
                PoolStep::Ends(ended)
            }
            TrafficEvent::Background { source, bytes } => {
                self.report.background.0 += u64::from(counts(self.window, now));
                PoolStep::Sends(self.packet(now, bytes, source as u32, [0, CROWD]))
            }
        })
    }

    fn packet(&self, now: u64, bytes: u32, flow: u32, [generation, model]: [u32; 2]) -> SimPacket {
        let to = self.spec.to.0 as u16;
        let mut packet = SimPacket::new(PacketKind::Pooled, flow, bytes, to, Time::from_nanos(now));
        (packet.words[0], packet.words[1]) = (generation, model);
        packet
    }

    /// Counts a packet that arrives.
    pub(crate) fn arrived(&mut self, now: Time, packet: &SimPacket) {
        if !counts(self.window, packet.sent) {
            return;
        }
        let [generation, model, ..] = packet.words;
        if model == CROWD {
            self.report.background.1 += 1;
            return;
        }
        let (n, now) = (model as usize, now.as_nanos());
        self.report.models[n].came += 1;
        let place = &mut self.places[packet.flow as usize];
        if place.generation != generation {
            return;
        }
        if let Some(last) = place.last[1].replace(now) {
            self.report.models[n].arrived.add(now - last);
        }
        if packet.color == Color::Green
            && let Some(last) = place.last[2].replace(now)
        {
            self.report.controlled[n].add(now - last);
        }
    }

    /// The counters so far.
    pub(crate) fn report(&self) -> &PoolReport {
        &self.report
    }
}

fn counts((from, until): (u64, u64), at: u64) -> bool {
    from <= at && at < until
}

/// The five-tuple of a packet of the pool or its background.
pub(crate) fn flow_of(packet: &SimPacket) -> FlowKey {
    let [generation, model, ..] = packet.words;
    if model != CROWD {
        return key(packet.flow, generation, model);
    }
    let (src, dst) = (Ipv4Addr::from(0x0a01_0000 + packet.flow), Ipv4Addr::from(0xc000_0200_u32));
    let (src, dst) = (IpAddr::V4(src), IpAddr::V4(dst));
    FlowKey { src, dst, protocol: UDP, src_port: CROWD_PORT, dst_port: CROWD_PORT, wild: Wild::NONE }
}

/// The five-tuple of a flow: by its place in the pool, how many were there before it, and its model.
fn key(place: u32, generation: u32, model: u32) -> FlowKey {
    FlowKey {
        src: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + place)),
        dst: IpAddr::V4(Ipv4Addr::from(0xc000_0200 + (generation >> 15))),
        protocol: UDP,
        src_port: 0x8000 | (generation & 0x7fff) as u16,
        dst_port: port_of(model),
        wild: Wild::NONE,
    }
}

/// The destination port of a model's flows, by which its application is known.
pub(super) fn port_of(model: u32) -> u16 {
    model as u16 + 1
}
