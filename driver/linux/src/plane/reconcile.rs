//! Restoring the plan after other programs changed the kernel: read, compare, repair the difference; never
//! fight.

use super::KernelPlane;
use super::compile;
use super::port::KernelPort;
use crate::netlink::tc::TcHandle;
use terms::{Fault, IfIndex};
use traffic::edge::EdgeAt;
use traffic::plan::{ClassId, ClassSpec, LinkPlan, PlanOp};

/// A change by another program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaneDrift {
    /// Our root, classes or queues were changed or removed; they are restored. The counters of removed
    /// objects restart at zero.
    Mended(IfIndex),
    /// Another program installed its own root: reservations on this interface are void until it is removed.
    Foreign(IfIndex),
    /// The interface is gone.
    Gone(IfIndex),
}

impl KernelPlane {
    /// Compares every interface with the plan and repairs the differences.
    ///
    /// # Errors
    /// The kernel does not answer, or refuses the repair.
    pub fn reconcile(&mut self) -> Result<Vec<PlaneDrift>, Fault> {
        let mut all = Vec::new();
        for oif in self.told.links.keys().copied().collect::<Vec<_>>() {
            all.extend(self.reconcile_one(oif)?);
        }
        for at in self.told.edges.keys().copied().collect::<Vec<_>>() {
            all.extend(self.reconcile_edge(at)?);
        }
        Ok(all)
    }

    fn reconcile_edge(&mut self, at: EdgeAt) -> Result<Option<PlaneDrift>, Fault> {
        let oif = at.interface;
        match self.kernel.socket.link_by_index(oif) {
            Ok(_) => {}
            Err(error) if error.is_absent() => return Ok(Some(PlaneDrift::Gone(oif))),
            Err(error) => return Err(error.into()),
        }
        let port = self.kernel.look_again(oif)?;
        let attached = port.edges.get(&at.side).is_some_and(|edge| edge.attached);
        self.kernel.ports.insert(oif, port);
        if attached {
            return Ok(None);
        }
        let rules = self.told.edges.get(&at).into_iter().flatten();
        let mut ops = vec![PlanOp::Edge { at }];
        ops.extend(rules.map(|(&fields, &rule)| PlanOp::Rule { at, fields, rule }));
        self.apply(&ops)?;
        Ok(Some(PlaneDrift::Mended(oif)))
    }

    fn reconcile_one(&mut self, oif: IfIndex) -> Result<Option<PlaneDrift>, Fault> {
        let Some(told) = self.told.links.get(&oif).cloned() else { return Ok(None) };
        let root = match self.kernel.socket.root_qdisc(oif) {
            Ok(root) => root,
            Err(error) if error.is_absent() => return Ok(Some(PlaneDrift::Gone(oif))),
            Err(error) => return Err(error.into()),
        };
        if root.is_some_and(|root| root.handle != TcHandle::NONE && root.handle != super::write::ROOT) {
            return Ok(Some(PlaneDrift::Foreign(oif)));
        }
        let seen = self.kernel.look_again(oif)?;
        self.kernel.ports.insert(oif, seen.clone());
        let extra = seen.classes.keys().filter(|id| **id > ClassId::BEST_EFFORT && !told.classes.contains_key(id));
        let mut ops: Vec<PlanOp> = extra.map(|class| PlanOp::DropClass { oif, class: *class }).collect();
        let hanging = seen.attached && seen.masks != seen.shapes.is_empty();
        if ops.is_empty() && hanging && seen.plan().is_some_and(|plan| same(&plan, &told)) {
            return Ok(None);
        }
        ops.extend(shrinking_first(oif, &told, &seen));
        self.apply(&ops)?;
        Ok(Some(PlaneDrift::Mended(oif)))
    }
}

/// True if both are equal, except for a best-effort class that the plan does not have.
fn same(seen: &LinkPlan, told: &LinkPlan) -> bool {
    let mut classes = seen.classes.clone();
    if !told.classes.contains_key(&ClassId::BEST_EFFORT) {
        classes.remove(&ClassId::BEST_EFFORT);
    }
    seen.link == told.link && seen.flows == told.flows && classes == told.classes
}

/// The operations that restore all of `told`, starting with those that lower a class's rate.
fn shrinking_first(oif: IfIndex, told: &LinkPlan, seen: &KernelPort) -> Vec<PlanOp> {
    let lowers = |id: &ClassId, spec: &ClassSpec| {
        let there = seen.classes.get(id).and_then(|seen| seen.kind.as_ref()).map(compile::guaranteed);
        let wanted =
            compile::class(spec, &told.link, seen.header).map_or(0, |wanted| compile::guaranteed(&wanted.kind));
        there.is_some_and(|there| wanted < there)
    };
    let class = |(id, spec): (&ClassId, &ClassSpec)| PlanOp::Class { oif, class: *id, spec: *spec };
    let link = seen.link().is_some();
    let lowered = told.classes.iter().filter(|(id, spec)| link && lowers(id, spec));
    let mut ops: Vec<PlanOp> = lowered.map(class).collect();
    ops.push(PlanOp::Link { oif, spec: told.link });
    ops.extend(told.classes.iter().map(class));
    ops.extend(told.flows.iter().map(|(flow, entry)| PlanOp::Flow { oif, flow: *flow, entry: *entry }));
    ops
}
