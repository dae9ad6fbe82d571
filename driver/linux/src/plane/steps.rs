//! The conversion of a plan's operation to the missing writes, given the present state.

use super::compile::{self, Compiled};
use super::port::{ClassReadback, KernelPort};
use super::write::{Kernel, Write};
use crate::bpf::entry::{self, MAJOR, RawFlow};
use crate::netlink::tc::TcHandle;
use crate::netlink::tc::qdisc::Discipline;
use std::collections::BTreeMap;
use std::mem::discriminant;
use terms::{Bytes, Fault, FlowKey, IfIndex, Rate};
use traffic::plan::{ClassId, ClassSpec, FlowSpecEntry, LinkSpec, PlanOp, QueueSpec};
use traffic::shapes::Shape;

/// The best-effort class until the plan sets one: HTB sends packets without a class past the shaper, so there
/// is always one.
const BEST_EFFORT: ClassSpec = ClassSpec {
    real_time: None,
    link_share: Rate::from_bps(1),
    upper_limit: None,
    priority: 7,
    queue: QueueSpec { packets: 1000, bytes: Bytes::new(1 << 24) },
};

impl Kernel {
    /// The writes for one operation.
    ///
    /// # Errors
    /// The operation is impossible; no write was made.
    pub fn steps(&mut self, op: &PlanOp) -> Result<(IfIndex, Vec<Write>), Fault> {
        match *op {
            PlanOp::Link { oif, spec } => Ok((oif, self.link(oif, &spec)?)),
            PlanOp::DropLink { oif } => Ok((oif, self.drop_link(oif))),
            PlanOp::Class { oif, class, spec } => Ok((oif, set_class(self.port(oif), class, &spec)?)),
            PlanOp::DropClass { oif, class } => Ok((oif, drop_class(self.port(oif), class)?)),
            PlanOp::Condition { .. } => {
                let what = "the kernel plane has no conditioners: shapers, meters, markers and droppers of a class";
                Err(Fault { what, code: libc::EOPNOTSUPP })
            }
            PlanOp::DropCondition { oif, .. } => Ok((oif, vec![])),
            PlanOp::Flow { oif, flow, entry } => Ok((oif, set_flow(self.port(oif), flow, entry)?)),
            PlanOp::DropFlow { oif, flow } => {
                let there = self.port(oif).flows.contains_key(&flow);
                Ok((oif, if there { vec![Write::Flow(flow, None)] } else { vec![] }))
            }
            PlanOp::Edge { at } => Ok((at.interface, self.make_edge(at)?)),
            PlanOp::DropEdge { at } => Ok((at.interface, self.drop_edge(at))),
            PlanOp::Rule { at, fields, rule } => Ok((at.interface, self.set_rule(at, fields, rule)?)),
            PlanOp::DropRule { at, fields } => {
                let there = self.rule(at, &fields).is_some();
                Ok((at.interface, if there { vec![Write::Rule(at.side, fields, None)] } else { vec![] }))
            }
        }
    }

    fn link(&mut self, oif: IfIndex, spec: &LinkSpec) -> Result<Vec<Write>, Fault> {
        let mut writes = Vec::new();
        let about = self.socket.link_by_index(oif)?;
        let header = about.header_len();
        let wanted = compile::root(spec, header)?;
        let mut anew = false;
        if let Some(there) = self.port(oif).root.clone() {
            anew = discriminant(&there) != discriminant(&wanted);
            match anew {
                true => writes.extend([Write::RemoveRoot, Write::AddRoot(wanted)]),
                false if there != wanted => writes.push(Write::ChangeRoot(wanted)),
                false => {}
            }
        } else {
            let there = self.socket.root_qdisc(oif)?;
            if there.is_some_and(|root| root.handle != TcHandle::NONE) {
                let what =
                    "another program's root qdisc is on the interface; remove it first (tc qdisc del dev IF root)";
                return Err(Fault { what, code: libc::EBUSY });
            }
            writes.push(Write::AddRoot(wanted));
        }
        let port = self.port(oif);
        (port.header, port.mtu) = (header, about.mtu);
        let root = compile::link(spec, port.header)?;
        port.check_sum(compile::most(&root.kind), ClassId::LINK, None)?;
        // Below another root there are no classes yet.
        let bare = KernelPort { records: port.records.clone(), ..KernelPort::default() };
        let below = if anew { &bare } else { &*port };
        writes.extend(class_writes(below, ClassId::LINK, &root, entry::link_record(spec)));
        // What a class is depends on its link: limits, quanta, bursts.
        let there = |id: &ClassId| port.classes.contains_key(id) && *id != ClassId::LINK;
        // A stop between a change and its record leaves a record that is not true: as the kernel has it, then.
        let before = port.link();
        let as_it_is = |(id, record): (&ClassId, &_)| {
            let told = || entry::read_class(record);
            Some((*id, before.as_ref().and_then(|link| port.class(*id, link)).or_else(told)?))
        };
        let mut classes: BTreeMap<ClassId, ClassSpec> =
            port.records.iter().filter(|(id, _)| there(id)).filter_map(as_it_is).collect();
        if !there(&ClassId::BEST_EFFORT) {
            classes.insert(ClassId::BEST_EFFORT, BEST_EFFORT);
        }
        for (id, class) in classes {
            let compiled = compile::class(&class, spec, port.header)?;
            writes.extend(class_writes(below, id, &compiled, entry::class_record(&class)));
        }
        if !port.attached {
            writes.push(Write::Attach);
        }
        let expected = !port.shapes.is_empty();
        if port.masks != expected || (expected && !port.attached) {
            writes.push(Write::Masks);
        }
        Ok(writes)
    }

    fn drop_link(&mut self, oif: IfIndex) -> Vec<Write> {
        let port = self.port(oif);
        let flows = port.flows.keys().map(|key| Write::Flow(*key, None));
        let mut writes: Vec<Write> = flows.collect();
        if port.attached {
            writes.push(Write::Detach);
        }
        writes.extend(port.records.keys().map(|class| Write::Record(*class, None)));
        if port.root.is_some() {
            writes.push(Write::RemoveRoot);
        }
        writes
    }
}

fn set_class(port: &KernelPort, class: ClassId, spec: &ClassSpec) -> Result<Vec<Write>, Fault> {
    let link = link_of(port)?;
    if class <= ClassId::LINK || class.0 == MAJOR || class.0 == u16::MAX {
        return Err(Fault { what: "no class can have this number", code: 0 });
    }
    let compiled = compile::class(spec, &link, port.header)?;
    let rate = compile::most(&compile::link(&link, port.header)?.kind);
    port.check_sum(rate, class, Some(compile::guaranteed(&compiled.kind)))?;
    Ok(class_writes(port, class, &compiled, entry::class_record(spec)))
}

fn drop_class(port: &KernelPort, class: ClassId) -> Result<Vec<Write>, Fault> {
    if class <= ClassId::BEST_EFFORT {
        return Err(Fault { what: "the link's and the best-effort class stay as long as the link", code: 0 });
    }
    if port.users.contains_key(&class) {
        return Err(Fault { what: "flows still use the class", code: libc::EBUSY });
    }
    let mut writes = Vec::new();
    if port.classes.contains_key(&class) {
        writes.push(Write::RemoveClass(class));
    }
    if port.records.contains_key(&class) {
        writes.push(Write::Record(class, None));
    }
    Ok(writes)
}

fn set_flow(port: &KernelPort, key: FlowKey, entry: FlowSpecEntry) -> Result<Vec<Write>, Fault> {
    link_of(port)?;
    if !port.classes.contains_key(&entry.class) || entry.class == ClassId::LINK {
        return Err(Fault { what: "the flow's class is not there", code: libc::ENOENT });
    }
    if !Shape::is_proper(&key) {
        return Err(Fault { what: "a flow of prefixes says something in the bits that do not count", code: 0 });
    }
    if !port.shapes.has_room_for(&key) {
        let what = "an interface has flows of at most 8 kinds of prefixes (lengths, with ports or without)";
        return Err(Fault { what, code: libc::ENOSPC });
    }
    let Some(slot) = port.slot_for(&key, entry.shared) else { return Ok(vec![Write::NewFlow(key, entry)]) };
    let new = RawFlow::new(slot, &entry);
    Ok(if port.flows.get(&key) == Some(&new) { vec![] } else { vec![Write::Flow(key, Some(new))] })
}

fn link_of(port: &KernelPort) -> Result<LinkSpec, Fault> {
    let what = "the interface has no root of ours";
    port.link().filter(|_| port.root.is_some()).ok_or(Fault { what, code: libc::ENODEV })
}

/// The writes that turn the present class into the wanted one; none if they are equal.
fn class_writes(port: &KernelPort, class: ClassId, wanted: &Compiled, record: [u8; entry::CLASS_RECORD]) -> Vec<Write> {
    let mut writes = Vec::new();
    let seen = port.classes.get(&class);
    let mut queue = seen.and_then(|seen| seen.queue.as_ref());
    match seen {
        None => writes.push(Write::AddClass(class, wanted.kind)),
        Some(ClassReadback { kind: None, .. }) => {
            queue = None;
            writes.extend([Write::RemoveClass(class), Write::AddClass(class, wanted.kind)]);
        }
        Some(ClassReadback { kind: Some(kind), .. }) if *kind != wanted.kind => {
            writes.push(Write::ChangeClass(class, wanted.kind))
        }
        Some(_) => {}
    }
    if let Some(wanted) = &wanted.queue {
        writes.extend(queue_writes(class, queue, wanted));
    }
    if port.records.get(&class) != Some(&record) {
        writes.push(Write::Record(class, Some(record)));
    }
    writes
}

fn queue_writes(class: ClassId, there: Option<&Discipline>, wanted: &Discipline) -> Vec<Write> {
    let add = Write::AddQueue(class, wanted.clone());
    match there {
        None => vec![add],
        Some(there) if there == wanted => vec![],
        Some(there) if discriminant(there) == discriminant(wanted) => vec![Write::ChangeQueue(class, wanted.clone())],
        Some(_) => vec![Write::RemoveQueue(class), add],
    }
}
