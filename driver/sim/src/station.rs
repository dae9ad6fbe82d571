//! The data plane of a host or router, with one port for each interface. It outlives the agents that work on
//! it.

use crate::map::{RouteMap, address, index};
use crate::scenario::{NodeId, Scenario};
use node::io::{InterfaceState, PlanId, Reservable};
use std::collections::{BTreeSet, VecDeque};
use terms::signalling::SIGNALLING;
use terms::{Fault, IfIndex, Rate, Time};
use traffic::edge::Side;
use traffic::plan::{LinkSpec, Plan, PlanOp};
use traffic::plane::DataPlane;
use traffic::port::{Limits, Port, PortPlane};

/// The data plane of a node, and its interfaces.
pub struct Station {
    /// Its interfaces, by position.
    interfaces: Vec<StationPort>,
    /// A port for each interface.
    plane: PortPlane,
    /// The content of the data plane, with or without a living agent.
    plan: Plan,
    /// Batches that the plane has not carried out yet.
    batches: VecDeque<(PlanId, Vec<PlanOp>)>,
    /// The number of next batches that will fail.
    failing: u32,
    /// True once an edge has been made where packets come in: from then on each of them is conditioned there.
    has_ways_in: bool,
    /// Interfaces for which the present agent has not had a batch carried out yet.
    adopting: BTreeSet<IfIndex>,
}

/// An interface and its state.
struct StationPort {
    /// The interface as the agent is told it.
    state: InterfaceState,
    /// The direction of a link behind it.
    hop: usize,
    /// True if a packet is in transmission.
    busy: bool,
    /// The time at which the port wants to be asked again.
    alarm: Option<Time>,
}

impl Station {
    /// The empty data plane of a node of the scenario.
    pub fn new(scenario: &Scenario, id: NodeId, map: &RouteMap) -> Station {
        let spec = &scenario.nodes[id.0];
        let interfaces = map.attachments(id).iter().enumerate().map(|(n, a)| {
            let link = &scenario.links[a.link.0];
            let oif = index(n);
            let link_spec =
                LinkSpec { rate: link.rate, overhead: link.overhead, mtu: link.mtu, scheduler: link.scheduler };
            let peer = scenario.links[a.link.0].ends[1 - a.side];
            StationPort {
                state: InterfaceState {
                    index: oif,
                    name: format!("{}-{}", spec.name, scenario.nodes[peer.0].name),
                    addresses: vec![address(a.link, a.side)],
                    mtu: link.mtu,
                    rsvp: spec.agent,
                    link: Some(Reservable {
                        spec: link_spec,
                        assumed_holding: None,
                        signalled_share: link.rate,
                        kept_back: link.kept_back,
                        guaranteed: link.error_terms(),
                        measured: Rate::ZERO,
                    }),
                },
                hop: 2 * a.link.0 + a.side,
                busy: false,
                alarm: None,
            }
        });
        let interfaces: Vec<StationPort> = interfaces.collect();
        Station {
            plane: plane(&interfaces, [scenario.seed, id.0 as u64]),
            interfaces,
            plan: Plan::default(),
            batches: VecDeque::new(),
            failing: 0,
            has_ways_in: false,
            adopting: BTreeSet::new(),
        }
    }

    /// The data plane.
    pub fn plane(&self) -> &PortPlane {
        &self.plane
    }

    /// The content of the data plane.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of interfaces.
    pub fn interfaces(&self) -> usize {
        self.interfaces.len()
    }

    /// An interface, by position, as the agent is told it.
    pub fn interface(&self, n: usize) -> &InterfaceState {
        &self.interfaces[n].state
    }

    /// True once an edge has been made where packets come in.
    #[inline]
    pub(crate) fn has_ways_in(&self) -> bool {
        self.has_ways_in
    }

    /// The ports, by position of their interfaces.
    pub(crate) fn ports_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.plane.iter_mut()
    }

    /// The port of an interface by position.
    #[inline]
    pub(crate) fn port_mut(&mut self, n: usize) -> &mut Port {
        self.plane.at_mut(n)
    }

    /// The direction of a link behind an interface.
    #[inline]
    pub(crate) fn hop(&self, n: usize) -> usize {
        self.interfaces[n].hop
    }

    /// True if an interface has a packet in transmission.
    #[inline]
    pub(crate) fn is_busy(&self, n: usize) -> bool {
        self.interfaces[n].busy
    }

    /// Notes that an interface has a packet in transmission.
    #[inline]
    pub(crate) fn is_sending(&mut self, n: usize) {
        self.interfaces[n].busy = true;
    }

    /// Notes the end of a transmission.
    #[inline]
    pub(crate) fn has_sent(&mut self, n: usize) {
        self.interfaces[n].busy = false;
    }

    /// Notes that a port wants to be asked again at `due`. Returns false if it is asked before.
    #[inline]
    pub(crate) fn will_look(&mut self, n: usize, due: Time) -> bool {
        let alarm = &mut self.interfaces[n].alarm;
        let earlier = alarm.is_none_or(|set| due < set);
        if earlier {
            *alarm = Some(due);
        }
        earlier
    }

    /// Notes that a port is asked again now.
    #[inline]
    pub(crate) fn looks(&mut self, n: usize) {
        self.interfaces[n].alarm = None;
    }

    /// Prepares for a new agent, which adopts the content of the data plane.
    pub(crate) fn agent_starts(&mut self) {
        self.adopting = self.plan.links.keys().copied().collect();
    }

    /// Drops the pending work of an agent that has ended.
    pub(crate) fn agent_ends(&mut self) {
        self.batches.clear();
    }

    /// Takes a batch of the agent, to be carried out later.
    pub(crate) fn hand(&mut self, id: PlanId, ops: Vec<PlanOp>) {
        self.batches.push_back((id, ops));
    }

    /// Makes that many of the next batches fail.
    pub(crate) fn fail(&mut self, batches: u32) {
        self.failing += batches;
    }

    /// Clears the data plane after a power loss. Returns the numbers of the packets in its ports.
    pub(crate) fn forget(&mut self, id: NodeId, seed: u64, now: Time) -> Vec<u32> {
        let mut gone = Vec::new();
        for port in self.plane.iter_mut() {
            port.clear(now);
            gone.extend(core::iter::from_fn(|| port.poll_loss()).map(|loss| loss.packet.id as u32));
        }
        self.plane = plane(&self.interfaces, [seed, id.0 as u64]);
        self.plan = Plan::default();
        self.batches.clear();
        gone
    }

    /// Carries out the oldest batch in the data plane, all or nothing.
    pub(crate) fn carry_out(&mut self, now: Time) -> Option<(PlanId, Result<(), Fault>)> {
        let (id, ops) = self.batches.pop_front()?;
        if self.failing > 0 {
            self.failing -= 1;
            return Some((id, Err(Fault { what: "the plane failed, as it was told to", code: 5 })));
        }
        let done = self.plane.apply(now, &ops);
        if done.is_ok() {
            self.has_ways_in |= ops.iter().any(|op| matches!(op, PlanOp::Edge { at } if at.side == Side::Ingress));
            ops.iter().for_each(|op| self.plan.apply(op));
        }
        let at_edge = |op: &PlanOp| {
            matches!(op, PlanOp::Edge { .. } | PlanOp::DropEdge { .. } | PlanOp::Rule { .. } | PlanOp::DropRule { .. })
        };
        if let Some(op) = ops.first().filter(|op| done.is_ok() && !at_edge(op)) {
            self.adopting.remove(&op.oif());
        }
        Some((id, done))
    }

    /// True if all batches are carried out, and the present agent has brought all adopted interfaces in line.
    pub fn is_settled(&self) -> bool {
        self.batches.is_empty() && self.adopting.is_empty()
    }

    /// True if the plane's ports hold exactly the recorded plan.
    pub fn plane_agrees(&self) -> bool {
        self.plane.plan() == self.plan
    }
}

/// A data plane of these interfaces, none of them ours yet.
fn plane(interfaces: &[StationPort], key: [u64; 2]) -> PortPlane {
    let port = |interface: &StationPort| Port::new(interface.state.index, Limits::default(), SIGNALLING, key);
    PortPlane::new(interfaces.iter().map(port).collect())
}
