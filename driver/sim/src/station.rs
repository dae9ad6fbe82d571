//! A host or router: the node engine that every driver runs, and a data plane with one port for each
//! interface.

use crate::book::BookingHost;
use crate::map::{RouteMap, Routes, address, index, position};
use crate::scenario::{NodeId, Scenario, SimNodeSpec};
use node::io::{InterfaceState, PlanId, Reservable};
use node::{Config, Node};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use terms::{Fault, IfIndex, Span, Time};
use traffic::plan::{LinkSpec, Plan, PlanOp};
use traffic::port::{Limits, Port, SchedulerKind};

/// A node and its state.
pub struct Station {
    /// The node's description.
    pub spec: SimNodeSpec,
    /// Its agent, while it lives.
    pub agent: Option<Node<Routes>>,
    /// The number of its agents that have ended. Events for an earlier agent are dropped.
    pub life: u32,
    /// The time of the agent's alarm, if one is set.
    pub alarm: Option<Time>,
    /// Its interfaces, by position.
    pub interfaces: Vec<StationPort>,
    /// The content of its data plane, with or without a living agent.
    pub plan: Plan,
    /// Batches that the plane has not carried out yet.
    pub batches: VecDeque<(PlanId, Vec<PlanOp>)>,
    /// True if the node has power.
    pub powered: bool,
    /// Offset of its calendar clock from simulated time, ns. Nothing in the simulation reads it.
    pub calendar: i64,
    /// The number of next batches that will fail.
    pub failing: u32,
    /// Its bookings, after the first call of them.
    pub booking_host: Option<Box<BookingHost>>,
    /// Interfaces for which the present agent has not had a batch carried out yet.
    adopting: BTreeSet<IfIndex>,
}

/// An interface and its state.
pub struct StationPort {
    /// Its data plane.
    pub port: Port,
    /// The interface as the agent is told it.
    pub state: InterfaceState,
    /// The scheduler of the port.
    pub kind: SchedulerKind,
    /// The direction of a link behind it.
    pub hop: usize,
    /// True if a packet is in transmission.
    pub busy: bool,
    /// The time at which the port wants to be asked again.
    pub alarm: Option<Time>,
}

impl Station {
    /// A node of the scenario without an agent.
    pub fn new(scenario: &Scenario, id: NodeId, map: &RouteMap) -> Station {
        let spec = scenario.nodes[id.0].clone();
        let interfaces = map.attachments(id).iter().enumerate().map(|(n, a)| {
            let link = &scenario.links[a.link.0];
            let oif = index(n);
            let link_spec = LinkSpec { rate: link.rate, overhead: link.overhead, mtu: link.mtu };
            let peer = scenario.links[a.link.0].ends[1 - a.side];
            StationPort {
                port: Port::new(oif, link.scheduler, Limits::default(), [scenario.seed, id.0 as u64]),
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
                    }),
                },
                kind: link.scheduler,
                hop: 2 * a.link.0 + a.side,
                busy: false,
                alarm: None,
            }
        });
        Station {
            interfaces: interfaces.collect(),
            spec,
            agent: None,
            life: 0,
            alarm: None,
            plan: Plan::default(),
            batches: VecDeque::new(),
            powered: true,
            calendar: 0,
            failing: 0,
            booking_host: None,
            adopting: BTreeSet::new(),
        }
    }

    /// Starts a new agent without any state.
    pub fn start(&mut self, seed: u64, id: NodeId, map: &Rc<RouteMap>) {
        let rsvp = node_config(&self.spec);
        let seed = seed ^ (id.0 as u64 + 1) << 32 ^ u64::from(self.life);
        self.agent =
            Some(Node::new(Config { rsvp, seed, ..Config::default() }, Routes { node: id, map: Rc::clone(map) }));
        self.adopting = self.plan.links.keys().copied().collect();
    }

    /// Ends the agent and drops its pending work.
    pub fn end(&mut self) {
        self.agent = None;
        self.life += 1;
        self.alarm = None;
        self.batches.clear();
        if let Some(booking_host) = &mut self.booking_host {
            booking_host.die();
        }
    }

    /// Clears the data plane after a power loss. Returns the numbers of the packets in its ports.
    pub fn forget(&mut self, id: NodeId, seed: u64, now: Time) -> Vec<u32> {
        let mut gone = Vec::new();
        for interface in &mut self.interfaces {
            // A limited class gives its packets later; long from now it has given all.
            let mut later = now;
            while interface.port.queued() > 0 {
                match interface.port.dequeue(later) {
                    Some(meta) => gone.push(meta.id as u32),
                    None => later = later + Span::from_secs(1),
                }
            }
            interface.port = Port::new(interface.state.index, interface.kind, Limits::default(), [seed, id.0 as u64]);
        }
        self.plan = Plan::default();
        self.batches.clear();
        if let Some(booking_host) = &mut self.booking_host {
            booking_host.forget();
        }
        gone
    }

    /// Carries out the oldest batch in the data plane, all or nothing.
    pub fn carry_out(&mut self, now: Time) -> Option<(PlanId, Result<(), Fault>)> {
        let (id, ops) = self.batches.pop_front()?;
        if self.failing > 0 {
            self.failing -= 1;
            return Some((id, Err(Fault { what: "the plane failed, as it was told to", code: 5 })));
        }
        let mut done = Ok(());
        for op in &ops {
            if let Err(refused) = self.apply(now, op) {
                done = Err(refused);
                break;
            }
        }
        if let Some(op) = ops.first().filter(|_| done.is_ok()) {
            self.adopting.remove(&op.oif());
        }
        Some((id, done))
    }

    fn apply(&mut self, now: Time, op: &PlanOp) -> Result<(), Fault> {
        let interface =
            self.interfaces.get_mut(position(op.oif())).ok_or(Fault { what: "no such interface", code: 19 })?;
        interface.port.apply(now, op)?;
        self.plan.apply(op);
        Ok(())
    }

    /// True if the present agent has not yet brought all adopted interfaces in line.
    pub fn is_adopting(&self) -> bool {
        !self.adopting.is_empty()
    }

    /// True if the plane's ports hold exactly the recorded plan.
    pub fn plane_agrees(&self) -> bool {
        self.interfaces.iter().all(|interface| {
            let port = &interface.port;
            match self.plan.links.get(&interface.state.index) {
                None => port.link().is_none(),
                Some(link) => {
                    let classes = port.classes().map(|(class, spec)| (class, *spec));
                    let flows = port.flows().map(|(flow, entry)| (*flow, *entry));
                    port.link() == Some(&link.link)
                        && classes.collect::<std::collections::BTreeMap<_, _>>() == link.classes
                        && flows.collect::<std::collections::BTreeMap<_, _>>() == link.flows
                }
            }
        })
    }
}

fn node_config(spec: &SimNodeSpec) -> rsvp::io::Config {
    rsvp::io::Config {
        node_name: spec.name.clone(),
        refresh: spec.refresh,
        keep: spec.keep,
        ..rsvp::io::Config::default()
    }
}
