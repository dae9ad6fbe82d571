//! The data plane of a node whose interfaces are ports.

use super::Port;
use crate::edge::{EdgeAt, Side};
use crate::plan::{Plan, PlanOp};
use crate::plane::{DataPlane, PlaneCounters};
use alloc::vec::Vec;
use terms::{Fault, IfIndex, Time};

/// The fault of an operation for an interface that the plane does not have.
const NO_INTERFACE: Fault = Fault { what: "no such interface", code: 19 };

/// Ports that batches are for.
pub trait PortSet {
    /// The port of an interface.
    fn port_of(&mut self, oif: IfIndex) -> Option<&mut Port>;

    /// Carries out a batch in its order, as a whole or not at all.
    ///
    /// # Errors
    /// The first fault; every port is as it was before.
    fn apply_batch(&mut self, now: Time, ops: &[PlanOp]) -> Result<(), Fault> {
        let mut undo: Vec<PlanOp> = Vec::new();
        for op in ops {
            let done = self.port_of(op.oif()).ok_or(NO_INTERFACE).and_then(|port| {
                let before = port.undo(op);
                port.apply(now, op)?;
                Ok(before)
            });
            match done {
                // In reverse at the end, so each operation's own steps are in reverse here.
                Ok(before) => undo.extend(before.into_iter().rev()),
                Err(fault) => {
                    for op in undo.iter().rev() {
                        let undone = self.port_of(op.oif()).map(|port| port.apply(now, op));
                        debug_assert!(matches!(undone, Some(Ok(()))), "what was there has room: {op:?} {undone:?}");
                    }
                    return Err(fault);
                }
            }
        }
        Ok(())
    }
}

impl PortSet for PortPlane {
    fn port_of(&mut self, oif: IfIndex) -> Option<&mut Port> {
        self.ports.iter_mut().find(|port| port.interface() == oif)
    }
}

/// The plan that is installed in these ports.
pub fn plan_of<'a>(ports: impl Iterator<Item = &'a Port>) -> Plan {
    let mut plan = Plan::default();
    for port in ports {
        let interface = port.interface();
        plan.links.extend(port.plan().map(|link| (interface, link)));
        for side in [Side::Ingress, Side::Egress] {
            let at = EdgeAt { interface, side };
            plan.edges.extend(port.edge_plan(side).map(|rules| (at, rules)));
        }
    }
    plan
}

/// All counters of these ports.
pub fn counters_of<'a>(ports: impl Iterator<Item = &'a Port>) -> PlaneCounters {
    let mut all = PlaneCounters::default();
    for port in ports {
        let oif = port.interface();
        for (class, _) in port.classes() {
            all.classes.extend(port.class_counters(class).map(|counted| ((oif, class), counted)));
        }
        for (flow, _) in port.flows() {
            all.flows.extend(port.flow_counters(flow).map(|counted| ((oif, *flow), counted)));
        }
        for side in [Side::Ingress, Side::Egress] {
            let (at, Some(edge)) = (EdgeAt { interface: oif, side }, port.edge(side)) else { continue };
            all.stripped.insert(at, edge.stripped());
            for (fields, _) in edge.iter() {
                all.rules.extend(edge.counters(&fields).map(|counted| ((at, fields), counted)));
            }
        }
    }
    all
}

/// The ports of a node, in the order in which they were given.
#[derive(Clone, Debug, Default)]
pub struct PortPlane {
    ports: Vec<Port>,
}

impl PortPlane {
    /// A plane of these ports, each of another interface.
    pub fn new(ports: Vec<Port>) -> PortPlane {
        PortPlane { ports }
    }

    /// The port at a place in that order.
    ///
    /// # Panics
    /// There are fewer ports.
    pub fn at(&self, place: usize) -> &Port {
        &self.ports[place]
    }

    /// The port at a place in that order, for packets.
    ///
    /// # Panics
    /// There are fewer ports.
    pub fn at_mut(&mut self, place: usize) -> &mut Port {
        &mut self.ports[place]
    }

    /// The plan that is installed in all ports.
    pub fn plan(&self) -> Plan {
        plan_of(self.ports.iter())
    }

    /// All ports, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter()
    }

    /// All ports, in order, for packets.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port> {
        self.ports.iter_mut()
    }
}

impl DataPlane for PortPlane {
    fn apply(&mut self, now: Time, ops: &[PlanOp]) -> Result<(), Fault> {
        self.apply_batch(now, ops)
    }

    fn read(&mut self) -> Result<Plan, Fault> {
        Ok(self.plan())
    }

    fn counters(&mut self) -> Result<PlaneCounters, Fault> {
        Ok(counters_of(self.ports.iter()))
    }
}

impl Port {
    /// The operations that lead back to the present state from the one after `op`.
    fn undo(&self, op: &PlanOp) -> Vec<PlanOp> {
        let oif = op.oif();
        let class_again = |class| {
            let member = self.member(class);
            let spec = member.map(|member| PlanOp::Class { oif, class, spec: member.spec });
            let conditioner = member.and_then(|member| member.conditioner);
            spec.into_iter().chain(conditioner.map(|spec| PlanOp::Condition { oif, class, spec }))
        };
        match *op {
            PlanOp::Link { .. } => match self.link() {
                Some(&spec) => alloc::vec![PlanOp::Link { oif, spec }],
                None => alloc::vec![PlanOp::DropLink { oif }],
            },
            PlanOp::DropLink { .. } => self.plan().map_or(Vec::new(), |link| {
                let links = [(oif, link)].into_iter().collect();
                Plan { links, ..Plan::default() }.ops()
            }),
            PlanOp::Class { class, .. } => match self.member(class) {
                Some(member) => alloc::vec![PlanOp::Class { oif, class, spec: member.spec }],
                None => alloc::vec![PlanOp::DropClass { oif, class }],
            },
            PlanOp::DropClass { class, .. } => class_again(class).collect(),
            PlanOp::Condition { class, .. } | PlanOp::DropCondition { class, .. } => {
                match self.member(class).and_then(|member| member.conditioner) {
                    Some(spec) => alloc::vec![PlanOp::Condition { oif, class, spec }],
                    None => alloc::vec![PlanOp::DropCondition { oif, class }],
                }
            }
            PlanOp::Flow { flow, .. } | PlanOp::DropFlow { flow, .. } => match self.flow(&flow) {
                Some(&entry) => alloc::vec![PlanOp::Flow { oif, flow, entry }],
                None => alloc::vec![PlanOp::DropFlow { oif, flow }],
            },
            PlanOp::Edge { at } if self.edge(at.side).is_none() => alloc::vec![PlanOp::DropEdge { at }],
            PlanOp::Edge { .. } => Vec::new(),
            PlanOp::DropEdge { at } => self.edge_plan(at.side).map_or(Vec::new(), |rules| {
                let edges = [(at, rules)].into_iter().collect();
                Plan { edges, ..Plan::default() }.ops()
            }),
            PlanOp::Rule { at, fields, .. } | PlanOp::DropRule { at, fields } => {
                let had = self.edge(at.side).and_then(|edge| edge.rule(&fields));
                match had {
                    Some(rule) => alloc::vec![PlanOp::Rule { at, fields, rule }],
                    None => alloc::vec![PlanOp::DropRule { at, fields }],
                }
            }
        }
    }
}
