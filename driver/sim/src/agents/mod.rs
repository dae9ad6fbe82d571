//! The agents of the nodes, and all that is told to them.
//!
//! An agent takes its turn with the parts of the world that its outputs change: a [`Turn`]. Reading order:
//! `host` (an agent and what outlives it), `turn` (inputs and outputs), `messages` (what comes off the net),
//! `bookings`, `echoes`.

mod bookings;
mod echoes;
mod host;
mod messages;
mod turn;

pub use host::SimAgent;
pub(crate) use turn::Turn;

use crate::book::BookingHost;
use crate::map::RouteMap;
use crate::net::Net;
use crate::run::Broken;
use crate::scenario::{NodeId, Scenario, SimReservation};
use host::AgentHost;
use node::io::AppId;
use std::collections::BTreeMap;
use std::rc::Rc;
use terms::{IfIndex, Rate, Session, Time};

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
    /// Only on request ([`crate::World::check`]).
    #[default]
    AtEnd,
    /// After every step of every agent. The first failure is kept ([`crate::World::broken`]).
    EveryStep(Option<Broken>),
}

/// All agents.
pub(crate) struct Agents {
    /// By node.
    hosts: Vec<AgentHost>,
    /// The requests that the scenario states for its receivers.
    asks: BTreeMap<(NodeId, AppId, Session), SimReservation>,
    watch: WatchLevel,
    heard: Option<Vec<HeardMessage>>,
    /// The last echo that an agent was told, as the agent left it.
    echoed: Vec<u8>,
}

impl Agents {
    /// The nodes of a scenario. No agent has started.
    pub(crate) fn new(scenario: &Scenario) -> Agents {
        Agents {
            hosts: scenario.nodes.iter().map(AgentHost::new).collect(),
            asks: BTreeMap::new(),
            watch: WatchLevel::default(),
            heard: None,
            echoed: Vec::new(),
        }
    }

    /// A node's agent, while it lives.
    pub(crate) fn agent(&self, id: NodeId) -> Option<&SimAgent> {
        self.hosts[id.0].agent()
    }

    /// A node's bookings, after the first call of them.
    pub(crate) fn booking_host(&self, id: NodeId) -> Option<&BookingHost> {
        self.hosts[id.0].booking_host()
    }

    /// Offset of a node's calendar clock from simulated time, ns.
    pub(crate) fn calendar(&self, id: NodeId) -> i64 {
        self.hosts[id.0].calendar()
    }

    /// Steps a node's calendar clock.
    pub(crate) fn step_clock(&mut self, id: NodeId, by_nanos: i64) {
        self.hosts[id.0].step_clock(by_nanos);
    }

    /// Notes that a node's power is gone or is back. Returns false if it was so before.
    pub(crate) fn set_power(&mut self, id: NodeId, down: bool) -> bool {
        self.hosts[id.0].set_power(down)
    }

    /// Ends a node's agent and drops its pending work and its applications' requests.
    pub(crate) fn end(&mut self, net: &mut Net, id: NodeId) {
        self.hosts[id.0].end();
        net.station_mut(id).agent_ends();
        self.asks.retain(|(node, _, _), _| *node != id);
    }

    /// Gives all agents new routes.
    pub(crate) fn route(&mut self, map: &Rc<RouteMap>) {
        self.hosts.iter_mut().for_each(|host| host.route(map));
    }

    /// Checks after every step of every agent from now on.
    pub(crate) fn watch_every_step(&mut self) {
        self.watch = WatchLevel::EveryStep(None);
    }

    /// The first invariant that did not hold, if the run is watched.
    pub(crate) fn broken(&self) -> Option<Broken> {
        match self.watch {
            WatchLevel::EveryStep(broken) => broken,
            WatchLevel::AtEnd => None,
        }
    }

    /// Keeps every message that reaches an agent from now on.
    pub(crate) fn listen(&mut self) {
        self.heard.get_or_insert_default();
    }

    /// The messages kept.
    pub(crate) fn heard(&self) -> &[HeardMessage] {
        self.heard.as_deref().unwrap_or_default()
    }

    /// Takes the messages kept since the last call.
    pub(crate) fn take_heard(&mut self) -> Vec<HeardMessage> {
        self.heard.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Checks that ledger, reservations and plan agree, and once the plane is idle, also the ports.
    pub(crate) fn laws(&self, net: &Net, id: NodeId) -> Result<(), &'static str> {
        let station = net.station(id);
        let Some(agent) = self.agent(id) else { return Ok(()) };
        agent.tc().audit().map_err(|drift| drift.what)?;
        if !agent.tc().plane().is_idle() || !station.is_settled() {
            return Ok(());
        }
        if agent.tc().plan() != *station.plan() {
            return Err("the agent's plan is not what its plane holds");
        }
        if station.plane_agrees() { Ok(()) } else { Err("the plane's ports do not hold its plan") }
    }

    /// Sum of the open slots on all interfaces of all living agents.
    pub(crate) fn reserved(&self) -> Rate {
        let links = self.hosts.iter().filter_map(AgentHost::agent).flat_map(|agent| agent.links());
        links.map(|link| link.reserved).fold(Rate::ZERO, Rate::saturating_add)
    }

    /// The number of RSVP states in all living agents: sessions, paths, reservations.
    pub(crate) fn states(&self) -> usize {
        let agents = self.hosts.iter().filter_map(AgentHost::agent);
        agents.map(|a| a.rsvp().sessions().count() + a.rsvp().paths().count() + a.rsvp().reservations().count()).sum()
    }
}
