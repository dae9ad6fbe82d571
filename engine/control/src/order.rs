//! The safe order of changes in a plane.
//!
//! No data plane has transactions (a kernel accepts classes above their parent's rate without an error), so
//! the order is the guarantee: at no instant between two operations does the sum of the classes exceed the
//! link, and no flow names a missing class. Decreases come before increases, flows leave a class before it
//! goes, and a class exists before its flows come.

use crate::classes::guaranteed;
use crate::plane::{Difference, Shadow};
use alloc::vec::Vec;
use terms::IfIndex;
use traffic::plan::{ClassId, ClassSpec, LinkSpec, PlanOp};

/// The wanted state of some classes and flows of one interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Want {
    /// The root; `None`: unchanged.
    pub(crate) link: Option<LinkSpec>,
    /// Classes in order, each once; others stay unchanged; `None`: the class must go.
    pub(crate) classes: Vec<(ClassId, Option<ClassSpec>)>,
    /// The flows that differ.
    pub(crate) flows: Vec<Difference>,
}

/// The operations that lead from the plane's state (`None`: empty) to the wanted one; none if they are equal.
pub(crate) fn steps(oif: IfIndex, has: Option<&Shadow>, want: &Want) -> Vec<PlanOp> {
    let root = has.and_then(|has| has.root);
    let mut ops = Steps { oif, ops: Vec::with_capacity(want.flows.len() + 3), late: Vec::new() };
    let new_root = want.link.filter(|_| root != want.link).map(|spec| PlanOp::Link { oif, spec });
    // A root of an earlier life is not known, only the classes that were found below it.
    let found = root.is_none() && has.is_some_and(|has| !has.classes.is_empty());
    let slower = found || root.zip(want.link).is_some_and(|(root, link)| link.rate < root.rate);
    if !slower {
        ops.ops.extend(new_root);
    }
    ops.drop_flows(want);
    if let Some(has) = has {
        ops.shrink_classes(has, want);
    }
    if slower {
        ops.ops.extend(new_root);
    }
    ops.grow_classes(has, want);
    ops.set_flows(want);
    ops.ops.append(&mut ops.late);
    ops.ops
}

struct Steps {
    oif: IfIndex,
    ops: Vec<PlanOp>,
    /// Classes that their flows leave only by moving to another one.
    late: Vec<PlanOp>,
}

impl Steps {
    fn drop_flows(&mut self, want: &Want) {
        let oif = self.oif;
        let gone = want.flows.iter().filter_map(Difference::gone);
        self.ops.extend(gone.map(|flow| PlanOp::DropFlow { oif, flow }));
    }

    fn shrink_classes(&mut self, has: &Shadow, want: &Want) {
        let oif = self.oif;
        for &(class, spec) in &want.classes {
            let Some(old) = has.classes.get(&class) else { continue };
            match spec {
                Some(spec) if guaranteed(&spec) < guaranteed(old) => {
                    self.ops.push(PlanOp::Class { oif, class, spec });
                }
                Some(_) => {}
                None if leaves_late(want, class) => {
                    self.ops.push(PlanOp::Class { oif, class, spec: ClassSpec { real_time: None, ..*old } });
                    self.late.push(PlanOp::DropClass { oif, class });
                }
                None => self.ops.push(PlanOp::DropClass { oif, class }),
            }
        }
    }

    fn grow_classes(&mut self, has: Option<&Shadow>, want: &Want) {
        for &(class, spec) in &want.classes {
            let Some(spec) = spec else { continue };
            let old = has.and_then(|has| has.classes.get(&class));
            let due = old.is_none_or(|old| *old != spec && guaranteed(&spec) >= guaranteed(old));
            if due {
                self.ops.push(PlanOp::Class { oif: self.oif, class, spec });
            }
        }
    }

    fn set_flows(&mut self, want: &Want) {
        let oif = self.oif;
        let set = want.flows.iter().filter_map(Difference::set);
        self.ops.extend(set.map(|(flow, entry)| PlanOp::Flow { oif, flow, entry }));
    }
}

/// True if a flow uses this class until it gets another in the same batch.
fn leaves_late(want: &Want, class: ClassId) -> bool {
    want.flows.iter().any(|difference| difference.moves_from(class))
}
