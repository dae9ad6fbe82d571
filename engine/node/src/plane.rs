//! What the data plane has been told, and what it has confirmed: the node's memory of a thing it cannot see.
//!
//! A batch counts from the moment it is said ([`Plane::told`]), because the next one builds on it. When the plane
//! answers that it could not, nothing of the batch is left there, and the model goes back to what was confirmed plus
//! what is still under way.

use crate::io::PlanId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{FlowKey, IfIndex, Rate};
use traffic::plan::{FlowSpecEntry, LinkPlan, LinkSpec, Plan, PlanOp};

/// A batch under way.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What it does.
    pub ops: Vec<PlanOp>,
    /// The reservation that waits for it.
    pub handle: Option<RHandle>,
}

/// The model of the plane.
#[derive(Debug, Default)]
pub struct Plane {
    told: Plan,
    confirmed: Plan,
    under_way: BTreeMap<PlanId, Batch>,
    last: u64,
}

/// A root unlike any real one: an interface where flows were found before it was told its own, so that the first
/// batch sets the root.
const UNKNOWN_ROOT: LinkSpec = LinkSpec { rate: Rate::ZERO, overhead: 0, mtu: 0 };

impl Plane {
    /// Everything that was said, as if all of it succeeds.
    pub fn told(&self) -> &Plan {
        &self.told
    }

    /// One interface of it.
    pub fn link(&self, oif: IfIndex) -> Option<&LinkPlan> {
        self.told.links.get(&oif)
    }

    /// Whether the plane still works on something.
    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether the plane still works on something of this interface.
    pub fn is_busy_on(&self, oif: IfIndex) -> bool {
        self.under_way.values().any(|batch| batch.ops.iter().any(|op| interface(op) == oif))
    }

    /// The plane was found to hold this flow, from an earlier life.
    pub fn found(&mut self, oif: IfIndex, flow: FlowKey, entry: FlowSpecEntry) {
        for plan in [&mut self.told, &mut self.confirmed] {
            let fresh = LinkPlan { link: UNKNOWN_ROOT, classes: BTreeMap::new(), flows: BTreeMap::new() };
            plan.links.entry(oif).or_insert(fresh).flows.insert(flow, entry);
        }
    }

    /// Says a batch. Its operations must not be empty.
    pub fn tell(&mut self, ops: &[PlanOp], handle: Option<RHandle>) -> PlanId {
        self.last += 1;
        let id = PlanId(self.last);
        ops.iter().for_each(|op| self.told.apply(op));
        self.under_way.insert(id, Batch { ops: ops.to_vec(), handle });
        id
    }

    /// The plane carried a batch out, or (`ok` false) did nothing of it. `None`: no such batch is under way.
    pub fn done(&mut self, id: PlanId, ok: bool) -> Option<Batch> {
        let batch = self.under_way.remove(&id)?;
        if ok {
            batch.ops.iter().for_each(|op| self.confirmed.apply(op));
            return Some(batch);
        }
        let touched: BTreeSet<IfIndex> = batch.ops.iter().map(interface).collect();
        touched.into_iter().for_each(|oif| self.restore(oif));
        Some(batch)
    }

    /// Back to what is confirmed and what is still under way.
    fn restore(&mut self, oif: IfIndex) {
        match self.confirmed.links.get(&oif) {
            Some(link) => self.told.links.insert(oif, link.clone()),
            None => self.told.links.remove(&oif),
        };
        for op in self.under_way.values().flat_map(|batch| &batch.ops) {
            if interface(op) == oif {
                self.told.apply(op);
            }
        }
    }
}

/// Where an operation acts.
pub fn interface(op: &PlanOp) -> IfIndex {
    match *op {
        PlanOp::Link { oif, .. }
        | PlanOp::DropLink { oif }
        | PlanOp::Class { oif, .. }
        | PlanOp::DropClass { oif, .. }
        | PlanOp::Flow { oif, .. }
        | PlanOp::DropFlow { oif, .. } => oif,
    }
}
