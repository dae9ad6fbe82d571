//! A host or router: the node engine that every driver runs, and its data plane, one port per interface.

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

/// A node at work.
pub struct Station {
    /// What it is.
    pub spec: SimNodeSpec,
    /// Its agent, while it lives.
    pub agent: Option<Node<Routes>>,
    /// Grows with each agent that dies: what was meant for it reaches nobody.
    pub life: u32,
    /// When the agent's alarm is set.
    pub alarm: Option<Time>,
    /// Its interfaces, by position.
    pub interfaces: Vec<StationPort>,
    /// What its data plane holds, whether or not an agent lives.
    pub plan: Plan,
    /// Batches that the plane is working on.
    pub batches: VecDeque<(PlanId, Vec<PlanOp>)>,
    /// Whether the node has power.
    pub powered: bool,
    /// How far its calendar clock is from simulated time, ns. Nothing that is simulated reads it, which is the point.
    pub calendar: i64,
    /// So many batches will fail.
    pub failing: u32,
    /// Its book, once somebody has called it.
    pub booking_host: Option<Box<BookingHost>>,
    /// Interfaces whose present agent has not had a batch carried out yet.
    adopting: BTreeSet<IfIndex>,
}

/// An interface at work.
pub struct StationPort {
    /// Its data plane.
    pub port: Port,
    /// What the agent is told of it.
    pub state: InterfaceState,
    /// Which scheduler the port runs.
    pub kind: SchedulerKind,
    /// The direction of a link that it leads into.
    pub hop: usize,
    /// Whether a packet is being sent.
    pub busy: bool,
    /// When the port asked to be looked at again.
    pub alarm: Option<Time>,
}

impl Station {
    /// A node of the scenario, its agent not started.
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

    /// A new agent, that knows nothing yet.
    pub fn start(&mut self, seed: u64, id: NodeId, map: &Rc<RouteMap>) {
        let rsvp = node_config(&self.spec);
        let seed = seed ^ (id.0 as u64 + 1) << 32 ^ u64::from(self.life);
        self.agent =
            Some(Node::new(Config { rsvp, seed, ..Config::default() }, Routes { node: id, map: Rc::clone(map) }));
        self.adopting = self.plan.links.keys().copied().collect();
    }

    /// The agent is gone, and with it all that it was doing.
    pub fn end(&mut self) {
        self.agent = None;
        self.life += 1;
        self.alarm = None;
        self.batches.clear();
        if let Some(booking_host) = &mut self.booking_host {
            booking_host.die();
        }
    }

    /// Without power the data plane holds nothing: the numbers of the packets that waited in its ports.
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

    /// The data plane carries its oldest batch out, all or nothing.
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

    /// Whether the present agent has not brought all that it found in line yet.
    pub fn is_adopting(&self) -> bool {
        !self.adopting.is_empty()
    }

    /// Whether the plane's ports hold exactly what its record says.
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
