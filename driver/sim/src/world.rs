//! The simulated world: takes what is due, in exact order, and tells whom it concerns.

use crate::agenda::Agenda;
use crate::link::Link;
use crate::map::Map;
use crate::packet::{Body, Packet};
use crate::scenario::{Action, NodeId, Scenario, SourceId};
use crate::sink::{FlowReport, Sink};
use crate::source::Source;
use crate::station::Station;
use crate::story::Story;
use node::Node;
use node::io::{AppId, Input};
use std::collections::BTreeMap;
use std::rc::Rc;
use terms::{IfIndex, Session, Time};

/// A running simulation.
pub struct World {
    pub(crate) agenda: Agenda<Due>,
    pub(crate) map: Rc<Map>,
    pub(crate) stations: Vec<Station>,
    pub(crate) links: Vec<Link>,
    pub(crate) sources: Vec<Source>,
    pub(crate) sinks: Vec<Sink>,
    /// Packets on their way, by number; the numbers of those that are gone are used again.
    pub(crate) packets: Vec<Option<Packet>>,
    pub(crate) vacant: Vec<u32>,
    pub(crate) asks: BTreeMap<(NodeId, AppId, Session), crate::scenario::Ask>,
    pub(crate) story: Story,
    pub(crate) lost: Lost,
    pub(crate) watch: Watch,
    pub(crate) script: Vec<Action>,
    pub(crate) heard: Option<Vec<Heard>>,
    seed: u64,
}

/// A message that reached an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heard {
    /// When.
    pub at: Time,
    /// Who.
    pub node: NodeId,
    /// Where it came in.
    pub iif: IfIndex,
    /// The RSVP message.
    pub bytes: Rc<[u8]>,
}

/// How closely the run is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Watch {
    /// Only when asked ([`World::check`]).
    #[default]
    AtEnd,
    /// After every step of every agent; the first disagreement is kept ([`World::broken`]).
    EveryStep(Option<Broken>),
}

/// A law that did not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// When.
    pub at: Time,
    /// Where.
    pub node: Option<NodeId>,
    /// Which.
    pub law: &'static str,
}

/// Packets that ended outside of links and sinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// No way to the destination, or a link that is down.
    pub no_way: u64,
    /// Time to live over.
    pub ttl: u64,
    /// Dropped by a port's queue.
    pub queue: u64,
    /// Came to a node that had no use for them.
    pub unclaimed: u64,
}

/// What is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// A packet comes out of a link.
    Arrive { link: u32, side: u8, age: u32, packet: u32 },
    /// A port's link is free again.
    Free { node: u32, interface: u32 },
    /// A port wants to be looked at.
    Look { node: u32, interface: u32 },
    /// A source sends.
    Source(u32),
    /// An agent's alarm.
    Alarm { node: u32, life: u32 },
    /// A data plane is done with its oldest batch.
    PlaneDone { node: u32, life: u32 },
    /// A line of the script.
    Script(u32),
}

/// Why a scenario cannot be played.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplayable {
    /// What is wrong, and where.
    pub what: String,
}

impl World {
    /// The world of a scenario at time zero, agents started.
    ///
    /// # Errors
    /// [`Unplayable`] names the first thing in the scenario that means nothing.
    pub fn new(scenario: &Scenario) -> Result<World, Unplayable> {
        crate::check::playable(scenario)?;
        let map = Rc::new(Map::new(scenario));
        let nodes = (0..scenario.nodes.len()).map(NodeId);
        let links = scenario.links.iter().enumerate().map(|(n, spec)| Link::new(*spec, n, scenario.seed));
        let sources = scenario.sources.iter().enumerate().map(|(n, spec)| Source::new(*spec, n as u32, scenario.seed));
        let mut world = World {
            agenda: Agenda::default(),
            stations: nodes.clone().map(|id| Station::new(scenario, id, &map)).collect(),
            map,
            links: links.collect(),
            sources: sources.collect(),
            sinks: scenario.sources.iter().map(|spec| Sink::new(spec, scenario.measured)).collect(),
            packets: Vec::new(),
            vacant: Vec::new(),
            asks: BTreeMap::new(),
            story: Story::default(),
            lost: Lost::default(),
            watch: Watch::default(),
            script: scenario.script.iter().map(|(_, action)| action.clone()).collect(),
            heard: None,
            seed: scenario.seed,
        };
        for (n, (at, _)) in scenario.script.iter().enumerate() {
            world.agenda.put(*at, Due::Script(n as u32));
        }
        for n in 0..world.sources.len() {
            world.arm_source(n);
        }
        nodes.for_each(|id| world.start_agent(id));
        Ok(world)
    }

    /// Watches ledger, plan and ports after every step of every agent from now on.
    pub fn watch_every_step(&mut self) {
        self.watch = Watch::EveryStep(None);
    }

    /// Keeps every message that reaches an agent from now on.
    pub fn listen(&mut self) {
        self.heard.get_or_insert_default();
    }

    /// What was kept.
    pub fn heard(&self) -> &[Heard] {
        self.heard.as_deref().unwrap_or_default()
    }

    /// The first law that did not hold, if the run is watched.
    pub fn broken(&self) -> Option<Broken> {
        match self.watch {
            Watch::EveryStep(broken) => broken,
            Watch::AtEnd => None,
        }
    }

    /// Plays until that instant, which is included.
    pub fn run_until(&mut self, until: Time) {
        while let Some(due) = self.agenda.take(until) {
            self.happen(due);
        }
        self.agenda.pass(until);
    }

    /// Simulated time.
    pub fn now(&self) -> Time {
        self.agenda.now()
    }

    /// Events played so far.
    pub fn events(&self) -> u64 {
        self.agenda.count()
    }

    /// What happened.
    pub fn story(&self) -> &Story {
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

    /// What arrived of a source.
    pub fn flow(&self, source: SourceId) -> FlowReport {
        self.sinks[source.0].report()
    }

    /// Links and what became of the packets on them.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Packets that ended outside of links and sinks.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Something happens now.
    pub fn act(&mut self, action: &Action) {
        self.story.mark(&[self.now().as_nanos(), 6]);
        self.carry(action);
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Arrive { link, side, age, packet } => self.arrive(link as usize, usize::from(side), age, packet),
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
        let packet = Packet { flow: spec.flow, len: spec.packet, ttl: 64, body: Body::Data(data) };
        self.forward(spec.node, packet);
        self.arm_source(n);
    }

    fn arm_source(&mut self, n: usize) {
        if let Some(at) = self.sources[n].next_at() {
            self.agenda.put(at, Due::Source(n as u32));
        }
    }

    pub(crate) fn start_agent(&mut self, id: NodeId) {
        if !self.stations[id.0].spec.agent || self.stations[id.0].agent.is_some() {
            return;
        }
        self.stations[id.0].start(self.seed, id, &self.map);
        let found: Vec<_> =
            self.stations[id.0].plan.links.iter().map(|(oif, link)| (*oif, link.flows.clone())).collect();
        for (oif, flows) in found {
            for (flow, entry) in flows {
                self.tell(id, Input::Adopt { oif, flow, entry });
            }
        }
        for n in 0..self.stations[id.0].interfaces.len() {
            self.tell_interface(id, n);
        }
    }

    /// Tells an agent what its interface is now.
    pub(crate) fn tell_interface(&mut self, id: NodeId, n: usize) {
        let link = self.map.attachments(id)[n].link;
        let state = self.stations[id.0].interfaces[n].state.clone();
        let input = if self.map.is_up(link) { Input::Interface(state) } else { Input::InterfaceGone(state.index) };
        self.tell(id, input);
    }

    /// The first free number for a packet.
    pub(crate) fn keep(&mut self, packet: Packet) -> u32 {
        if let Some(n) = self.vacant.pop() {
            self.packets[n as usize] = Some(packet);
            return n;
        }
        self.packets.push(Some(packet));
        self.packets.len() as u32 - 1
    }

    pub(crate) fn let_go(&mut self, n: u32) -> Option<Packet> {
        let packet = self.packets.get_mut(n as usize)?.take()?;
        self.vacant.push(n);
        Some(packet)
    }

    /// The interface of a node by its index.
    pub(crate) fn interface_of(&mut self, id: NodeId, oif: IfIndex) -> Option<usize> {
        let n = crate::map::position(oif);
        (n < self.stations[id.0].interfaces.len()).then_some(n)
    }
}
