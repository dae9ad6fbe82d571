//! In which order a plane may safely be changed.
//!
//! No data plane has transactions (a kernel accepts classes that sum over their parent and says nothing), so the order
//! is the guarantee: at no instant between two operations do the classes of an interface sum over its link, and no
//! flow names a class that is not there. Decreases come before increases, flows leave a class before it goes and find
//! their class before they come.

use crate::classes::guaranteed;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::{FlowKey, IfIndex};
use traffic::plan::{ClassId, ClassSpec, FlowSpecEntry, LinkPlan, LinkSpec, PlanOp};

/// What is wanted of some classes and flows of one interface; `None`: that it is not there.
#[derive(Clone, Debug)]
pub struct Want {
    /// The root.
    pub link: LinkSpec,
    /// Classes; those not named stay as they are.
    pub classes: BTreeMap<ClassId, Option<ClassSpec>>,
    /// Flows; those not named stay as they are.
    pub flows: BTreeMap<FlowKey, Option<FlowSpecEntry>>,
}

/// The operations that lead from what the plane was told (`None`: nothing yet) to what is wanted; none if it is there.
pub fn steps(oif: IfIndex, told: Option<&LinkPlan>, want: &Want) -> Vec<PlanOp> {
    let mut ops = Steps { oif, ops: Vec::new(), late: Vec::new() };
    let slower = told.is_some_and(|t| want.link.rate < t.link.rate);
    let root = PlanOp::Link { oif, spec: want.link };
    let new_root = told.is_none_or(|t| t.link != want.link);
    if new_root && !slower {
        ops.ops.push(root);
    }
    ops.drop_flows(told, want);
    ops.shrink_classes(told, want);
    if new_root && slower {
        ops.ops.push(root);
    }
    ops.grow_classes(told, want);
    ops.set_flows(told, want);
    ops.ops.extend(ops.late);
    ops.ops
}

struct Steps {
    oif: IfIndex,
    ops: Vec<PlanOp>,
    /// Classes that flows leave only by being given another one.
    late: Vec<PlanOp>,
}

impl Steps {
    fn drop_flows(&mut self, told: Option<&LinkPlan>, want: &Want) {
        let Some(told) = told else { return };
        for (&flow, entry) in &want.flows {
            if entry.is_none() && told.flows.contains_key(&flow) {
                self.ops.push(PlanOp::DropFlow { oif: self.oif, flow });
            }
        }
    }

    fn shrink_classes(&mut self, told: Option<&LinkPlan>, want: &Want) {
        let Some(told) = told else { return };
        let oif = self.oif;
        for (&class, spec) in &want.classes {
            let Some(old) = told.classes.get(&class) else { continue };
            match *spec {
                Some(spec) if guaranteed(&spec) < guaranteed(old) => {
                    self.ops.push(PlanOp::Class { oif, class, spec });
                }
                Some(_) => {}
                None if leaves_late(told, want, class) => {
                    self.ops.push(PlanOp::Class { oif, class, spec: ClassSpec { real_time: None, ..*old } });
                    self.late.push(PlanOp::DropClass { oif, class });
                }
                None => self.ops.push(PlanOp::DropClass { oif, class }),
            }
        }
    }

    fn grow_classes(&mut self, told: Option<&LinkPlan>, want: &Want) {
        for (&class, spec) in &want.classes {
            let Some(spec) = *spec else { continue };
            let old = told.and_then(|t| t.classes.get(&class));
            let due = old.is_none_or(|old| *old != spec && guaranteed(&spec) >= guaranteed(old));
            if due {
                self.ops.push(PlanOp::Class { oif: self.oif, class, spec });
            }
        }
    }

    fn set_flows(&mut self, told: Option<&LinkPlan>, want: &Want) {
        for (&flow, entry) in &want.flows {
            let Some(entry) = *entry else { continue };
            if told.and_then(|t| t.flows.get(&flow)) != Some(&entry) {
                self.ops.push(PlanOp::Flow { oif: self.oif, flow, entry });
            }
        }
    }
}

/// Whether a flow still uses this class until it is given another in the same batch.
fn leaves_late(told: &LinkPlan, want: &Want, class: ClassId) -> bool {
    want.flows.iter().any(|(flow, entry)| entry.is_some() && told.flows.get(flow).is_some_and(|old| old.class == class))
}
