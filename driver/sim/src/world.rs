//! The simulated world: takes events in exact order and dispatches them.

use crate::agenda::Agenda;
use crate::capture::Capture;
use crate::connections::Connections;
use crate::hop::HopPort;
use crate::link::SimLink;
use crate::map::RouteMap;
use crate::packet::{MessagesInFlight, PacketKind, Packets, SimPacket};
use crate::run_trace::RunTrace;
use crate::scenario::{EgressReport, LinkId, NodeId, Scenario, ScenarioAction, SourceId, TcpId, TcpReport};
use crate::sink::{FlowReport, Sink};
use crate::source::Source;
use crate::station::Station;
use node::Node;
use node::io::{AppId, Input};
use std::collections::BTreeMap;
use std::rc::Rc;
use terms::{IfIndex, Session, Time};

/// A running simulation.
pub struct World {
    pub(crate) agenda: Agenda<Due>,
    pub(crate) map: Rc<RouteMap>,
    pub(crate) stations: Vec<Station>,
    pub(crate) links: Vec<SimLink>,
    /// Directions of links: `2 * link + side`.
    pub(crate) hops: Vec<HopPort>,
    /// By node and destination node: the direction of a link by which packets leave.
    pub(crate) ways: Vec<u32>,
    pub(crate) sources: Vec<Source>,
    pub(crate) sinks: Vec<Sink>,
    /// Destinations of the sources, by number.
    pub(crate) targets: Vec<u16>,
    pub(crate) tcp: Connections,
    pub(crate) packets: Packets,
    pub(crate) messages: MessagesInFlight,
    /// Packets that a tree has just dropped.
    pub(crate) dropped: Vec<u32>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) asks: BTreeMap<(NodeId, AppId, Session), crate::scenario::SimReservation>,
    pub(crate) story: RunTrace,
    pub(crate) lost: Lost,
    pub(crate) watch: WatchLevel,
    pub(crate) script: Vec<ScenarioAction>,
    pub(crate) heard: Option<Vec<HeardMessage>>,
    /// The last echo that an agent was told, as the agent left it.
    pub(crate) echoed: Vec<u8>,
    /// Delay bounds promised to sources, by number.
    pub(crate) promises: Vec<Option<crate::promise::Promise>>,
    /// The number of actions that changed the net. Bounds promised before no longer hold.
    pub(crate) faults: u32,
    /// The number of packets that arrived with a valid bound, and the first that came later than its bound.
    pub(crate) bounded: u64,
    pub(crate) overdue: Option<Broken>,
    pub(crate) seed: u64,
}

/// A message that an agent received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeardMessage {
    /// The time of arrival.
    pub at: Time,
    /// The agent's node.
    pub node: NodeId,
    /// The incoming interface.
    pub iif: IfIndex,
    /// The RSVP message.
    pub bytes: Rc<[u8]>,
}

/// The time of the checks in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WatchLevel {
    /// Only on request ([`World::check`]).
    #[default]
    AtEnd,
    /// After every step of every agent. The first failure is kept ([`World::broken`]).
    EveryStep(Option<Broken>),
}

/// An invariant that did not hold. To reproduce it, play the scenario with that seed for that number of
/// events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The simulated time.
    pub at: Time,
    /// The node, if it concerns one.
    pub node: Option<NodeId>,
    /// The invariant.
    pub law: &'static str,
    /// The scenario's seed.
    pub seed: u64,
    /// The number of events played until then.
    pub step: u64,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Broken { at, node, law, seed, step } = self;
        write!(f, "{law}, at {at:?} of simulated time")?;
        if let Some(node) = node {
            write!(f, " at node {}", node.0)?;
        }
        write!(f, " (seed {seed}, step {step})")
    }
}

/// Counters of packets that ended outside of links and sinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// No route to the destination, or a link that is down.
    pub no_way: u64,
    /// Time to live reached zero.
    pub ttl: u64,
    /// Dropped by a port's queue.
    pub queue: u64,
    /// Lost in a node that lost its power.
    pub power: u64,
    /// Arrived at a node that had no use for them.
    pub unclaimed: u64,
}

/// A pending event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// The first packet on a wire comes out.
    Wire { hop: u32, age: u32 },
    /// A packet that travels by itself comes out.
    Stray { hop: u32, age: u32, packet: u32 },
    /// A shaper releases a packet.
    Release { hop: u32 },
    /// A connection begins.
    Open(u32),
    /// A connection ends its new data.
    Stop(u32),
    /// A sender's timer.
    Sender(u32),
    /// A receiver's timer.
    Receiver(u32),
    /// An edge of the measured window.
    Edge(u8),
    /// A port's link is free again.
    Free { node: u32, interface: u32 },
    /// A port wants to be asked again.
    Look { node: u32, interface: u32 },
    /// A source sends.
    Source(u32),
    /// An agent's alarm.
    Alarm { node: u32, life: u32 },
    /// A data plane has carried out its oldest batch.
    PlaneDone { node: u32, life: u32 },
    /// A disk has written its oldest batch.
    Written { node: u32, life: u32 },
    /// A data plane has carried out the oldest order of the bookings.
    Enforced { node: u32, life: u32 },
    /// The alarm of the bookings.
    BookAlarm { node: u32, life: u32 },
    /// An action of the script.
    Script(u32),
}

/// The error of a scenario that cannot be played.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplayable {
    /// The invalid part and its fault, as a text.
    pub what: String,
}

impl World {
    /// The world of a scenario at time zero. Its agents have started.
    ///
    /// # Errors
    /// [`Unplayable`] names the first invalid part of the scenario.
    pub fn new(scenario: &Scenario) -> Result<World, Unplayable> {
        crate::playable::playable(scenario)?;
        let map = Rc::new(RouteMap::new(scenario));
        let nodes = (0..scenario.nodes.len()).map(NodeId);
        let links = scenario.links.iter().enumerate().map(|(n, spec)| SimLink::new(*spec, n, scenario.seed));
        let sources = scenario.sources.iter().enumerate();
        let mut world = World {
            agenda: Agenda::default(),
            stations: nodes.clone().map(|id| Station::new(scenario, id, &map)).collect(),
            hops: crate::build::hops(scenario, &map)?,
            ways: Vec::new(),
            tcp: Connections::new(scenario, &map),
            targets: Vec::new(),
            map,
            links: links.collect(),
            sources: sources.map(|(n, spec)| Source::new(*spec, n as u32, scenario)).collect(),
            sinks: scenario.sources.iter().map(|spec| Sink::new(spec, scenario.measured)).collect(),
            packets: Packets::default(),
            messages: MessagesInFlight::default(),
            dropped: Vec::new(),
            captures: scenario.captures.iter().map(Capture::new).collect(),
            asks: BTreeMap::new(),
            story: RunTrace::default(),
            lost: Lost::default(),
            watch: WatchLevel::default(),
            script: scenario.script.iter().map(|(_, action)| action.clone()).collect(),
            heard: None,
            echoed: Vec::new(),
            promises: vec![None; scenario.sources.len()],
            faults: 0,
            bounded: 0,
            overdue: None,
            seed: scenario.seed,
        };
        world.find_ways();
        world.find_feeders(scenario);
        world.put_first_events(scenario);
        nodes.for_each(|id| world.start_agent(id));
        Ok(world)
    }

    /// Checks ledger, plan and ports after every step of every agent from now on.
    pub fn watch_every_step(&mut self) {
        self.watch = WatchLevel::EveryStep(None);
    }

    /// Keeps every message that reaches an agent from now on.
    pub fn listen(&mut self) {
        self.heard.get_or_insert_default();
    }

    /// The messages kept since [`World::listen`].
    pub fn heard(&self) -> &[HeardMessage] {
        self.heard.as_deref().unwrap_or_default()
    }

    /// The first invariant that did not hold, if the run is watched.
    pub fn broken(&self) -> Option<Broken> {
        match self.watch {
            WatchLevel::EveryStep(broken) => broken,
            WatchLevel::AtEnd => None,
        }
    }

    /// Plays all events until `until`, included.
    pub fn run_until(&mut self, until: Time) {
        while let Some(due) = self.agenda.take(until) {
            self.happen(due);
        }
        self.agenda.pass(until);
    }

    /// Plays until that number of events since the beginning ([`Broken::step`]). Returns false if there are
    /// fewer.
    pub fn run_to_step(&mut self, step: u64) -> bool {
        while self.agenda.taken() < step {
            let Some(due) = self.agenda.take(Time::FOREVER) else { return false };
            self.happen(due);
        }
        true
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        self.agenda.now()
    }

    /// The number of events played so far.
    pub fn events(&self) -> u64 {
        self.agenda.taken()
    }

    /// The error for an invariant that does not hold now.
    pub(crate) fn broke(&self, node: Option<NodeId>, law: &'static str) -> Broken {
        Broken { at: self.now(), node, law, seed: self.seed, step: self.agenda.taken() }
    }

    /// The record of the run.
    pub fn story(&self) -> &RunTrace {
        &self.story
    }

    /// A node's agent, while it lives.
    pub fn agent(&self, node: NodeId) -> Option<&Node<crate::map::Routes>> {
        self.stations[node.0].agent.as_ref()
    }

    /// A node's data plane and interfaces.
    pub fn station(&self, node: NodeId) -> &Station {
        &self.stations[node.0]
    }

    /// The sink's report on a source.
    pub fn flow(&self, source: SourceId) -> FlowReport {
        self.sinks[source.0].report()
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
        self.hops[2 * link.0 + side].report()
    }

    /// Counters of a direction of a link from the beginning.
    pub fn egress_so_far(&self, link: LinkId, side: usize) -> EgressReport {
        self.hops[2 * link.0 + side].tally()
    }

    /// All links.
    pub fn links(&self) -> &[SimLink] {
        &self.links
    }

    /// Directions of links, two each, with their counters.
    pub fn hops(&self) -> &[HopPort] {
        &self.hops
    }

    /// The pcap file of a capture.
    pub fn pcap(&self, capture: usize) -> &[u8] {
        self.captures[capture].bytes()
    }

    /// The number of packets made so far, of all kinds.
    pub fn packets(&self) -> u64 {
        self.packets.born
    }

    /// Memory of packets and connections, bytes.
    pub fn memory(&self) -> usize {
        self.packets.memory() + self.tcp.senders.len() * Connections::memory()
    }

    /// Counters of packets that ended outside of links and sinks.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Carries out an action now.
    pub fn act(&mut self, action: &ScenarioAction) {
        self.story.mark(&[self.now().as_nanos(), 6]);
        self.carry(action);
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Wire { hop, age } => self.wire(hop as usize, age),
            Due::Stray { hop, age, packet } => self.stray_arrives(hop as usize, age, packet),
            Due::Release { hop } => self.shaper_due(hop as usize),
            Due::Sender(flow) => self.sender_due(flow),
            Due::Receiver(flow) => self.receiver_due(flow),
            Due::Open(flow) => self.open(flow),
            Due::Stop(flow) => self.stop(flow),
            Due::Edge(edge) => self.edge(usize::from(edge)),
            Due::Free { node, interface } => {
                self.stations[node as usize].interfaces[interface as usize].busy = false;
                self.send_next(node as usize, interface as usize);
            }
            Due::Look { node, interface } => {
                self.stations[node as usize].interfaces[interface as usize].alarm = None;
                self.send_next(node as usize, interface as usize);
            }
            Due::Source(n) => self.source_sends(n as usize),
            Due::Alarm { node, life } => self.alarm(NodeId(node as usize), life),
            Due::PlaneDone { node, life } => self.plane_done(NodeId(node as usize), life),
            Due::Written { node, life } => self.book_written(NodeId(node as usize), life),
            Due::Enforced { node, life } => self.book_enforced(NodeId(node as usize), life),
            Due::BookAlarm { node, life } => self.book_alarm(NodeId(node as usize), life),
            Due::Script(n) => {
                if let Some(action) = self.script.get(n as usize).cloned() {
                    self.act(&action);
                }
            }
        }
    }

    fn source_sends(&mut self, n: usize) {
        let now = self.now();
        let data = self.sources[n].send(now);
        let spec = *self.sources[n].spec();
        self.sinks[n].sent(&data);
        self.story.mark(&[now.as_nanos(), 1, n as u64, data.sequence]);
        let mut packet = SimPacket::new(PacketKind::Data, n as u32, data.len, self.targets[n], now);
        (packet.words[0], packet.words[1]) = (data.sequence as u32, (data.sequence >> 32) as u32);
        self.mark_promise(n, now, &mut packet);
        let number = self.packets.keep(packet);
        self.forward(spec.node.0, number);
        self.arm_source(n);
    }

    pub(crate) fn arm_source(&mut self, n: usize) {
        if let Some(at) = self.sources[n].next_at() {
            self.agenda.put(at, Due::Source(n as u32));
        }
    }

    pub(crate) fn start_agent(&mut self, id: NodeId) {
        if !self.stations[id.0].powered || !self.stations[id.0].spec.agent || self.stations[id.0].agent.is_some() {
            return;
        }
        self.stations[id.0].start(self.seed, id, &self.map);
        let found: Vec<_> = self.stations[id.0].plan.links.iter().map(|(oif, link)| (*oif, link.clone())).collect();
        for (oif, link) in found {
            for (class, spec) in link.classes {
                self.tell(id, Input::FoundClass { oif, class, spec });
            }
            for (flow, entry) in link.flows {
                self.tell(id, Input::Adopt { oif, flow, entry });
            }
        }
        self.premium_found(id);
        for n in 0..self.stations[id.0].interfaces.len() {
            self.tell_interface(id, n);
        }
        self.open_book(id);
    }

    /// Tells an agent the present state of its interface.
    pub(crate) fn tell_interface(&mut self, id: NodeId, n: usize) {
        let link = self.map.attachments(id)[n].link;
        let state = self.stations[id.0].interfaces[n].state.clone();
        let input = if self.map.is_up(link) { Input::Interface(state) } else { Input::InterfaceGone(state.index) };
        self.tell(id, input);
    }
}
