//! Sources and their sinks.

use crate::net::Net;
use crate::packet::{PacketKind, SimPacket};
use crate::promise::Promises;
use crate::run::{Due, Run};
use crate::scenario::Scenario;
use crate::sink::{FlowReport, Sink};
use crate::source::Source;

/// All sources, each with its sink.
pub(crate) struct Flows {
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    /// Destinations of the sources, by number.
    targets: Vec<u16>,
}

impl Flows {
    /// The sources of a scenario.
    pub(crate) fn new(scenario: &Scenario, net: &Net) -> Flows {
        let sources = scenario.sources.iter().enumerate();
        Flows {
            sources: sources.map(|(n, spec)| Source::new(*spec, n as u32, scenario)).collect(),
            sinks: scenario.sources.iter().map(|spec| Sink::new(spec, scenario.measured)).collect(),
            targets: scenario.sources.iter().map(|spec| net.owner(spec.flow.dst)).collect(),
        }
    }

    /// Puts in the first event of every source.
    pub(crate) fn arm_all(&mut self, run: &mut Run) {
        for n in 0..self.sources.len() {
            self.arm(run, n);
        }
    }

    /// Puts in the event of a source's next packet.
    pub(crate) fn arm(&mut self, run: &mut Run, n: usize) {
        if let Some(at) = self.sources[n].next_at() {
            run.put(at, Due::Source(n as u32));
        }
    }

    /// Makes the packet that a source sends now. Returns its node and the packet.
    pub(crate) fn send(&mut self, run: &mut Run, promises: &mut Promises, n: usize) -> (usize, SimPacket) {
        let now = run.now();
        let data = self.sources[n].send(now);
        self.sinks[n].sent(&data);
        run.mark([1, n as u64, data.sequence]);
        let mut packet = SimPacket::new(PacketKind::Data, n as u32, data.len, self.targets[n], now);
        (packet.words[0], packet.words[1]) = (data.sequence as u32, (data.sequence >> 32) as u32);
        promises.mark(n, now, &mut packet);
        (self.sources[n].spec().node.0, packet)
    }

    /// Counts a packet that arrives at its sink.
    pub(crate) fn arrived(&mut self, run: &Run, packet: &SimPacket) {
        let data = packet.data();
        self.sinks[data.source as usize].arrived(run.now(), &data);
    }

    /// The sink's report on a source.
    pub(crate) fn report(&self, n: usize) -> FlowReport {
        self.sinks[n].report()
    }
}
