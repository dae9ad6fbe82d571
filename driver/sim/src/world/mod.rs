//! The simulated world: takes events in exact order and gives each to its part.
//!
//! Each part keeps its own invariant: the run (clock, record), the net (packets), the agents, the connections,
//! the flows (sources and sinks) and the promises. `script` has the actions, which concern several parts.

mod script;

pub use crate::agents::{HeardMessage, WatchLevel};
pub use crate::net::Lost;
pub use crate::playable::Unplayable;
pub use crate::run::Broken;

use crate::agents::{Agents, SimAgent, Turn};
use crate::book::BookingHost;
use crate::connections::Connections;
use crate::flows::Flows;
use crate::hop::{HopPort, HopQueue, MaceQueue};
use crate::labels::Labels;
use crate::link::SimLink;
use crate::mace::pool::{PoolReport, PoolStep, PooledFlows};
use crate::map::RouteMap;
use crate::net::{Arrival, Net};
use crate::packet::PacketKind;
use crate::playable::playable;
use crate::promise::Promises;
use crate::run::{Due, Run};
use crate::run_trace::{RunTrace, TraceLine};
use crate::scenario::{EgressReport, LinkId, MaceReport, NodeId, Scenario, ScenarioAction, SourceId, TcpId, TcpReport};
use crate::sink::FlowReport;
use crate::station::Station;
use std::hint::black_box;
use std::rc::Rc;
use terms::{Rate, Time};

/// A running simulation.
pub struct World {
    run: Run,
    net: Net,
    tcp: Connections,
    flows: Flows,
    pool: Option<Box<PooledFlows>>,
    promises: Promises,
    agents: Agents,
    script: Vec<ScenarioAction>,
}

impl World {
    /// The world of a scenario at time zero. Its agents have started.
    ///
    /// # Errors
    /// [`Unplayable`] names the first invalid part of the scenario.
    pub fn new(scenario: &Scenario) -> Result<World, Unplayable> {
        playable(scenario)?;
        let map = RouteMap::new(scenario);
        let labels = Rc::new(Labels::new(scenario, &map));
        let net = Net::new(scenario, Rc::clone(&labels), map)?;
        let mut world = World {
            run: Run::new(scenario.seed),
            tcp: Connections::new(scenario, labels),
            flows: Flows::new(scenario, &net),
            pool: scenario.pool.as_ref().map(|spec| Box::new(PooledFlows::new(spec, scenario.measured))),
            promises: Promises::new(scenario),
            agents: Agents::new(scenario),
            script: scenario.script.iter().map(|(_, action)| action.clone()).collect(),
            net,
        };
        world.find_ways();
        world.put_first_events(scenario);
        (0..scenario.nodes.len()).for_each(|n| world.turn().start_agent(NodeId(n)));
        Ok(world)
    }

    fn put_first_events(&mut self, scenario: &Scenario) {
        let run = &mut self.run;
        run.put(scenario.measured.0, Due::Edge(0));
        run.put(scenario.measured.1, Due::Edge(1));
        for (n, (at, _)) in scenario.script.iter().enumerate() {
            run.put(*at, Due::Script(n as u32));
        }
        self.flows.arm_all(run);
        if let Some(at) = self.pool.as_ref().and_then(|pool| pool.next_at()) {
            run.put(at, Due::Pool);
        }
        for (n, spec) in scenario.connections.iter().enumerate() {
            run.put(spec.start, Due::Open(n as u32));
            if spec.stop != Time::FOREVER {
                run.put(spec.stop, Due::Stop(n as u32));
            }
        }
    }

    /// Checks ledger, plan and ports after every step of every agent from now on.
    pub fn watch_every_step(&mut self) {
        self.agents.watch_every_step();
    }

    /// Keeps every message that reaches an agent from now on.
    pub fn listen(&mut self) {
        self.agents.listen();
    }

    /// The messages kept since [`World::listen`].
    pub fn heard(&self) -> &[HeardMessage] {
        self.agents.heard()
    }

    /// Takes the messages kept, and the entries of the record, since the last call.
    pub(crate) fn take_past(&mut self) -> (Vec<HeardMessage>, Vec<TraceLine>) {
        (self.agents.take_heard(), self.run.take_lines())
    }

    /// The first invariant that did not hold, if the run is watched.
    pub fn broken(&self) -> Option<Broken> {
        self.agents.broken()
    }

    /// Checks everything: agents against ledgers, plans and ports; packets against links and ports.
    ///
    /// # Errors
    /// [`Broken`] names the first law that does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        if let Some(broken) = self.broken().or(self.promises.overdue()) {
            return Err(broken);
        }
        for id in (0..self.net.nodes()).map(NodeId) {
            let at_node = |law| self.run.broke(Some(id), law);
            self.agents.laws(&self.net, id).map_err(at_node)?;
            self.net.port_conservation(id).map_err(at_node)?;
        }
        self.net.conservation().map_err(|law| self.run.broke(None, law))
    }

    /// Sum of the open slots on all interfaces of all living agents; zero once everything is released.
    pub fn reserved(&self) -> Rate {
        self.agents.reserved()
    }

    /// The number of RSVP states in all living agents: sessions, paths, reservations.
    pub fn states(&self) -> usize {
        self.agents.states()
    }

    /// The number of packets that arrived with a valid bound of guaranteed service.
    pub fn bounded(&self) -> u64 {
        self.promises.bounded()
    }

    /// Removes every flow from every port behind the agents' backs, as a broken plane would. Tests check that
    /// the invariant fails then.
    pub fn corrupt_planes(&mut self) {
        self.net.corrupt_planes(self.run.now());
    }

    /// Plays all events until `until`, included.
    pub fn run_until(&mut self, until: Time) {
        while let Some(due) = self.run.take(until) {
            self.happen(due);
        }
        self.run.pass(until);
    }

    /// Plays until that number of events since the beginning ([`Broken::step`]). Returns false if there are
    /// fewer.
    pub fn run_to_step(&mut self, step: u64) -> bool {
        while self.run.taken() < step {
            let Some(due) = self.run.take(Time::FOREVER) else { return false };
            self.happen(due);
        }
        true
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        self.run.now()
    }

    /// The number of events played so far.
    pub fn events(&self) -> u64 {
        self.run.taken()
    }

    /// The record of the run.
    pub fn story(&self) -> &RunTrace {
        self.run.story()
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.net.nodes()
    }

    /// A node's agent, while it lives.
    pub fn agent(&self, node: NodeId) -> Option<&SimAgent> {
        self.agents.agent(node)
    }

    /// A node's bookings, after the first call of them.
    pub fn booking_host(&self, node: NodeId) -> Option<&BookingHost> {
        self.agents.booking_host(node)
    }

    /// Offset of a node's calendar clock from simulated time, ns.
    pub fn calendar(&self, node: NodeId) -> i64 {
        self.agents.calendar(node)
    }

    /// A node's data plane and interfaces.
    pub fn station(&self, node: NodeId) -> &Station {
        self.net.station(node)
    }

    /// The sink's report on a source.
    pub fn flow(&self, source: SourceId) -> FlowReport {
        self.flows.report(source.0)
    }

    /// The report of a TCP connection.
    pub fn tcp(&self, connection: TcpId) -> TcpReport {
        self.tcp.report(connection.0)
    }

    /// All connections, by number.
    pub fn connections(&self) -> &Connections {
        &self.tcp
    }

    /// Counters of a direction of a link within the measured window, so far.
    pub fn egress(&self, link: LinkId, side: usize) -> EgressReport {
        self.hops()[2 * link.0 + side].report()
    }

    /// Counters of a direction of a link from the beginning.
    pub fn egress_so_far(&self, link: LinkId, side: usize) -> EgressReport {
        self.hops()[2 * link.0 + side].tally()
    }

    /// Results of a direction of a link that recognises flows, within the measured window so far.
    pub fn mace(&self, link: LinkId, side: usize) -> Option<MaceReport> {
        self.mace_queue(link, side).map(|mace| mace.report(self.now()))
    }

    /// A direction of a link that recognises flows.
    pub fn mace_queue(&self, link: LinkId, side: usize) -> Option<&MaceQueue> {
        match &self.hops().get(2 * link.0 + side)?.egress {
            HopQueue::Mace(mace) => Some(mace),
            _ => None,
        }
    }

    /// The pool's packets within the measured window, so far.
    pub fn pool(&self) -> Option<&PoolReport> {
        self.pool.as_ref().map(|pool| pool.report())
    }

    /// All links.
    pub fn links(&self) -> &[SimLink] {
        self.net.links()
    }

    /// Directions of links, two each, with their counters.
    pub fn hops(&self) -> &[HopPort] {
        self.net.hops()
    }

    /// The pcap file of a capture.
    pub fn pcap(&self, capture: usize) -> &[u8] {
        self.net.pcap(capture)
    }

    /// The number of packets made so far, of all kinds.
    pub fn packets(&self) -> u64 {
        self.net.born()
    }

    /// Memory of packets and connections, bytes.
    pub fn memory(&self) -> usize {
        self.net.memory() + self.tcp.memory()
    }

    /// Counters of packets that ended outside of links and sinks.
    pub fn lost(&self) -> Lost {
        self.net.lost()
    }

    /// The agents, with the parts that they act on.
    fn turn(&mut self) -> Turn<'_> {
        Turn::new(&mut self.agents, &mut self.run, &mut self.net, &mut self.promises)
    }

    /// Finds the first direction of every connection.
    fn find_ways(&mut self) {
        let net = &self.net;
        self.tcp.find_ways(|at, dst| net.way(at, dst));
    }

    fn happen(&mut self, due: Due) {
        let World { run, net, tcp, .. } = self;
        match due {
            Due::Wire { hop, age } => {
                let expect = |flow, sender| _ = black_box(tcp.expect(flow, sender));
                let arrival = net.wire(run, hop as usize, age, expect);
                self.arrive(arrival);
            }
            Due::Stray { hop, age, packet } => {
                let arrival = net.stray_arrives(run, hop as usize, age, packet);
                self.arrive(arrival);
            }
            Due::Release { hop } => net.shaper_due(run, hop as usize),
            Due::Sender(flow) => tcp.sender_due(run, net, flow),
            Due::Receiver(flow) => tcp.receiver_due(run, net, flow),
            Due::Open(flow) => tcp.open(run, net, flow),
            Due::Stop(flow) => tcp.stop(flow),
            Due::Edge(edge) => {
                net.edge(run.now(), usize::from(edge));
                tcp.edge(usize::from(edge));
            }
            Due::Free { node, interface } => net.free(run, node as usize, interface as usize),
            Due::Look { node, interface } => net.look(run, node as usize, interface as usize),
            Due::Source(n) => self.source_sends(n as usize),
            Due::Pool => self.pool_steps(),
            Due::Alarm { node, life } => self.turn().alarm(NodeId(node as usize), life),
            Due::PlaneDone { node, life } => self.turn().plane_done(NodeId(node as usize), life),
            Due::Written { node, life } => self.turn().book_written(NodeId(node as usize), life),
            Due::Enforced { node, life } => self.turn().book_enforced(NodeId(node as usize), life),
            Due::Script(n) => {
                if let Some(action) = self.script.get(n as usize).cloned() {
                    self.act(&action);
                }
            }
        }
    }

    fn source_sends(&mut self, n: usize) {
        let (at, packet) = self.flows.send(&mut self.run, &mut self.promises, n);
        let number = self.net.keep(packet);
        if self.net.forward(&mut self.run, at, number) {
            self.take(at, number);
        }
        self.flows.arm(&mut self.run, n);
    }

    fn pool_steps(&mut self) {
        let World { run, net, pool: Some(pool), .. } = self else { return };
        let (from, step) = (pool.node().0, pool.step());
        if let Some(at) = pool.next_at() {
            run.put(at, Due::Pool);
        }
        match step {
            Some(PoolStep::Sends(packet)) => {
                run.mark_word(u64::from(packet.flow) << 32 ^ packet.sent);
                let number = net.keep(packet);
                if net.forward(run, from, number) {
                    self.take(from, number);
                }
            }
            Some(PoolStep::Ends(flow)) => net.flow_ended(run.now(), &flow),
            None => {}
        }
    }

    /// Hands a packet that has come to a node to its receiver.
    #[inline]
    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Under => {}
            Arrival::Here { at, number } => self.take(at as usize, number),
            Arrival::Message { hop, number } => {
                if let Arrival::Here { at, number } = self.turn().comes_off(hop, number) {
                    self.take(at as usize, number);
                }
            }
        }
    }

    /// Delivers a packet at its destination.
    #[inline]
    fn take(&mut self, at: usize, number: u32) {
        let World { run, net, tcp, .. } = self;
        let packet = net.packet(number);
        match packet.kind {
            PacketKind::Segment => tcp.segment(run, net, number),
            PacketKind::Ack => tcp.acknowledgement(run, net, number),
            PacketKind::Syn | PacketKind::SynAck => tcp.handshake(run, net, number),
            PacketKind::Data => {
                self.flows.arrived(run, packet);
                self.promises.check(run, at, packet);
                net.let_go(number);
            }
            PacketKind::Pooled => {
                if let Some(pool) = &mut self.pool {
                    pool.arrived(run.now(), packet);
                }
                net.let_go(number);
            }
            PacketKind::Signal => self.turn().take(NodeId(at), number),
        }
    }
}
