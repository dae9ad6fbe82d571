//! One write to the kernel: it is made, read back, and recorded with its undo.
//!
//! The kernel acknowledges requests that it does not carry out (an absent parent becomes the root, a change
//! of parent is ignored), so every write is read back before it counts.

use super::compile;
use super::edge::Edges;
use super::fault_injection::FaultInjection;
use super::port::{ClassReadback, KernelPort};
use super::slots::Slots;
use super::watch::RootWatch;
use crate::bpf::FlowTable;
use crate::bpf::edge::RawRule;
use crate::bpf::entry::{ClassRecord, MAJOR, RawFlow, RawKey, RawKinds, RawState};
use crate::netlink::Socket;
use crate::netlink::tc::TcHandle;
use crate::netlink::tc::class::ClassKind;
use crate::netlink::tc::qdisc::Discipline;
use std::collections::BTreeMap;
use terms::{Fault, FlowKey, IfIndex};
use traffic::edge::{EdgeRule, MultiField, Side};
use traffic::plan::{ClassId, FlowSpecEntry};

/// Our root qdisc, on every interface.
pub const ROOT: TcHandle = TcHandle::new(MAJOR, 0);

/// One write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Replace the kernel's default by our root qdisc.
    AddRoot(Discipline),
    /// Change the parameters of our root qdisc in place.
    ChangeRoot(Discipline),
    /// Remove our root qdisc with all classes; the kernel restores its default.
    RemoveRoot,
    /// Add a class below that of the link (that of the link: below the root).
    AddClass(ClassId, ClassKind),
    /// Change a class in place.
    ChangeClass(ClassId, ClassKind),
    /// Remove a class.
    RemoveClass(ClassId),
    /// Give a class its queue.
    AddQueue(ClassId, Discipline),
    /// Change the limit of a queue in place.
    ChangeQueue(ClassId, Discipline),
    /// Remove a queue; the kernel restores its default.
    RemoveQueue(ClassId),
    /// Record the specification of a class, or remove the record.
    Record(ClassId, Option<ClassRecord>),
    /// Install a flow with a full bucket in a free slot, in place of its previous entry.
    NewFlow(FlowKey, FlowSpecEntry),
    /// Write a flow's entry, including its slot; or remove it.
    Flow(FlowKey, Option<RawFlow>),
    /// Attach the flow program to the egress.
    Attach,
    /// Detach the flow program.
    Detach,
    /// Attach the program for prefixes after it, or detach it, as the present flows require.
    Masks,
    /// Make this side an edge.
    MakeEdge(Side),
    /// Remove this edge; its rules are already removed.
    DropEdge(Side),
    /// Install a rule with a full bucket in a free slot.
    NewRule(Side, MultiField, EdgeRule),
    /// Write a rule's entry, or remove it.
    Rule(Side, MultiField, Option<RawRule>),
}

/// The writes that undo earlier ones: last in, first out.
pub type Undo = Vec<(IfIndex, Write)>;

/// The kernel, our view of its state, and the only code that writes to it.
pub struct Kernel {
    /// Route netlink in the plane's namespace.
    pub socket: Socket,
    /// The roots of interfaces, watched.
    pub roots: RootWatch,
    /// Program and maps.
    pub table: FlowTable,
    /// Every interface that is ours or was looked up.
    pub ports: BTreeMap<IfIndex, KernelPort>,
    /// The free buckets.
    pub slots: Slots,
    /// The numbers of flows that are no whole five-tuples.
    pub kinds: RawKinds,
    /// The state of edges.
    pub edges: Edges,
    /// The fault drill.
    pub fault_injection: FaultInjection,
}

/// A class's handle.
pub fn handle(class: ClassId) -> TcHandle {
    TcHandle::new(MAJOR, class.0)
}

/// A class's parent, as the kernel is told.
fn parent(class: ClassId) -> TcHandle {
    if class == ClassId::LINK { ROOT } else { handle(ClassId::LINK) }
}

/// A class's parent, as the kernel tells it.
pub fn told_parent(class: ClassId, kind: &ClassKind) -> TcHandle {
    match kind {
        ClassKind::Htb(_) if class == ClassId::LINK => TcHandle::ROOT,
        _ => parent(class),
    }
}

/// A class as the kernel tells it, without what it keeps of an earlier life for nothing.
pub fn as_told(class: ClassId, kind: ClassKind) -> ClassKind {
    if class == ClassId::LINK { compile::link_told(kind) } else { kind }
}

/// The handle of a class's queue: the class's number as major. Our root has no other qdiscs.
fn leaf(class: ClassId) -> TcHandle {
    TcHandle::new(class.0, 0)
}

impl Kernel {
    /// Makes a write, records its undo, and reads it back.
    ///
    /// # Errors
    /// The kernel refused it (no undo is recorded), or has another state (recorded: it must be undone).
    pub fn carry_out(&mut self, oif: IfIndex, write: Write, undo: &mut Undo) -> Result<(), Fault> {
        match write {
            Write::AddRoot(root) => self.add_root(oif, root, undo),
            Write::ChangeRoot(root) => self.change_root(oif, root, undo),
            Write::RemoveRoot => self.remove_root(oif, undo),
            Write::AddClass(class, kind) => self.add_class(oif, class, kind, undo),
            Write::ChangeClass(class, kind) => self.change_class(oif, class, kind, undo),
            Write::RemoveClass(class) => self.remove_class(oif, class, undo),
            Write::AddQueue(class, queue) => self.add_queue(oif, class, queue, undo),
            Write::ChangeQueue(class, queue) => self.change_queue(oif, class, queue, undo),
            Write::RemoveQueue(class) => self.remove_queue(oif, class, undo),
            Write::Record(class, record) => self.record(oif, class, record, undo),
            Write::NewFlow(key, entry) => self.new_flow(oif, key, &entry, undo),
            Write::Flow(key, flow) => {
                let has = self.port(oif).flows.get(&key).map(|flow| flow.slot);
                if let Some(back) = flow.filter(|flow| has != Some(flow.slot)) {
                    self.slots.keep(back.slot);
                }
                self.flow(oif, key, flow, undo)
            }
            Write::Attach => {
                self.fault_injection.spend()?;
                self.table.attach(&mut self.socket, oif)?;
                undo.push((oif, Write::Detach));
                self.port(oif).attached = true;
                confirmed(self.table.is_attached(&mut self.socket, oif))
            }
            Write::Detach => {
                self.fault_injection.spend()?;
                self.table.detach(&mut self.socket, oif)?;
                undo.push((oif, Write::Attach));
                self.port(oif).attached = false;
                Ok(())
            }
            Write::Masks => {
                self.fault_injection.spend()?;
                self.mask(oif)
            }
            Write::MakeEdge(_) | Write::DropEdge(_) | Write::NewRule(..) | Write::Rule(..) => {
                self.carry_out_at_edge(oif, write, undo)
            }
        }
    }

    /// Our view of an interface.
    pub fn port(&mut self, oif: IfIndex) -> &mut KernelPort {
        self.ports.entry(oif).or_default()
    }

    fn seen(&mut self, oif: IfIndex, class: ClassId) -> Result<&mut ClassReadback, Fault> {
        let absent = Fault { what: "the class is not there", code: libc::ENOENT };
        self.port(oif).classes.get_mut(&class).ok_or(absent)
    }

    fn add_root(&mut self, oif: IfIndex, root: Discipline, undo: &mut Undo) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        self.socket.add_qdisc(oif, ROOT, TcHandle::ROOT, &root)?;
        undo.push((oif, Write::RemoveRoot));
        self.port(oif).root = Some(root);
        self.confirm_root(oif)
    }

    fn change_root(&mut self, oif: IfIndex, root: Discipline, undo: &mut Undo) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        self.socket.replace_qdisc(oif, ROOT, TcHandle::ROOT, &root)?;
        let old = self.port(oif).root.replace(root);
        undo.extend(old.map(|old| (oif, Write::ChangeRoot(old))));
        self.confirm_root(oif)
    }

    fn confirm_root(&mut self, oif: IfIndex) -> Result<(), Fault> {
        let found = self.socket.root_qdisc(oif)?.filter(|q| (q.handle, q.parent) == (ROOT, TcHandle::ROOT));
        confirmed(found.map(|q| q.discipline) == self.port(oif).root)
    }

    fn remove_root(&mut self, oif: IfIndex, undo: &mut Undo) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        self.socket.delete_qdisc(oif, ROOT, TcHandle::ROOT)?;
        let port = self.port(oif);
        let root = port.root.take();
        // To be undone in this order: the root, the link, then class and queue by turns.
        let mut back: Undo = root.map(|root| (oif, Write::AddRoot(root))).into_iter().collect();
        for (class, seen) in std::mem::take(&mut port.classes) {
            back.extend(seen.kind.map(|kind| (oif, Write::AddClass(class, kind))));
            back.extend(seen.queue.map(|queue| (oif, Write::AddQueue(class, queue))));
        }
        undo.extend(back.into_iter().rev());
        let found = self.socket.root_qdisc(oif)?;
        confirmed(found.is_none_or(|q| q.handle != ROOT))
    }

    fn add_class(&mut self, oif: IfIndex, class: ClassId, kind: ClassKind, undo: &mut Undo) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        self.socket.add_class(oif, handle(class), parent(class), &kind)?;
        undo.push((oif, Write::RemoveClass(class)));
        self.port(oif).classes.insert(class, ClassReadback { kind: Some(kind), queue: None });
        self.confirm_class(oif, class, &kind)
    }

    fn change_class(&mut self, oif: IfIndex, class: ClassId, kind: ClassKind, undo: &mut Undo) -> Result<(), Fault> {
        let old = self.seen(oif, class)?.kind;
        self.fault_injection.spend()?;
        self.socket.change_class(oif, handle(class), parent(class), &kind)?;
        undo.extend(old.map(|old| (oif, Write::ChangeClass(class, old))));
        self.seen(oif, class)?.kind = Some(kind);
        self.confirm_class(oif, class, &kind)
    }

    fn confirm_class(&mut self, oif: IfIndex, class: ClassId, kind: &ClassKind) -> Result<(), Fault> {
        let found = self.socket.class(oif, handle(class))?;
        let there = found.filter(|found| found.parent == told_parent(class, kind)).and_then(|found| found.kind);
        confirmed(there.map(|there| as_told(class, there)) == Some(*kind))
    }

    fn remove_class(&mut self, oif: IfIndex, class: ClassId, undo: &mut Undo) -> Result<(), Fault> {
        let old = self.seen(oif, class)?.clone();
        self.fault_injection.spend()?;
        self.socket.delete_class(oif, handle(class))?;
        // Its queue went with it, so it comes back after it.
        undo.extend(old.queue.map(|queue| (oif, Write::AddQueue(class, queue))));
        undo.extend(old.kind.map(|kind| (oif, Write::AddClass(class, kind))));
        self.port(oif).classes.remove(&class);
        confirmed(self.socket.class(oif, handle(class))?.is_none())
    }

    fn add_queue(&mut self, oif: IfIndex, class: ClassId, queue: Discipline, undo: &mut Undo) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        self.socket.add_qdisc(oif, leaf(class), handle(class), &queue)?;
        undo.push((oif, Write::RemoveQueue(class)));
        self.seen(oif, class)?.queue = Some(queue);
        self.confirm_queue(oif, class)
    }

    fn change_queue(&mut self, oif: IfIndex, class: ClassId, queue: Discipline, undo: &mut Undo) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        self.socket.replace_qdisc(oif, leaf(class), handle(class), &queue)?;
        let old = self.seen(oif, class)?.queue.replace(queue);
        undo.extend(old.map(|old| (oif, Write::ChangeQueue(class, old))));
        self.confirm_queue(oif, class)
    }

    fn remove_queue(&mut self, oif: IfIndex, class: ClassId, undo: &mut Undo) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        self.socket.delete_qdisc(oif, leaf(class), handle(class))?;
        let old = self.seen(oif, class)?.queue.take();
        undo.extend(old.map(|old| (oif, Write::AddQueue(class, old))));
        Ok(())
    }

    fn confirm_queue(&mut self, oif: IfIndex, class: ClassId) -> Result<(), Fault> {
        let wanted = self.seen(oif, class)?.queue.clone();
        let found = self.socket.leaf_qdisc(oif, handle(class))?;
        confirmed(found.is_some_and(|q| q.parent == handle(class) && Some(&q.discipline) == wanted.as_ref()))
    }

    fn record(
        &mut self,
        oif: IfIndex,
        class: ClassId,
        record: Option<ClassRecord>,
        undo: &mut Undo,
    ) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        let old = match &record {
            Some(record) => {
                self.table.put_class(oif, class, record)?;
                self.port(oif).records.insert(class, *record)
            }
            None => {
                self.table.remove_class(oif, class)?;
                self.port(oif).records.remove(&class)
            }
        };
        undo.push((oif, Write::Record(class, old)));
        Ok(())
    }

    fn new_flow(&mut self, oif: IfIndex, key: FlowKey, entry: &FlowSpecEntry, undo: &mut Undo) -> Result<(), Fault> {
        let slot = self.slots.take()?;
        let raw = RawFlow::new(slot, entry);
        let bucket = self.fault_injection.spend().and_then(|()| self.table.put_state(slot, &RawState::full(&raw)));
        let done = bucket.and_then(|()| self.flow(oif, key, Some(raw), undo));
        if done.is_err() && self.port(oif).flows.get(&key).is_none_or(|flow| flow.slot != slot) {
            self.slots.give(slot);
        }
        done
    }

    fn flow(&mut self, oif: IfIndex, key: FlowKey, flow: Option<RawFlow>, undo: &mut Undo) -> Result<(), Fault> {
        self.fault_injection.spend()?;
        let raw_key = RawKey::new(oif, &key);
        let old = self.port(oif).flows.get(&key).copied();
        match &flow {
            Some(flow) => {
                if old.is_none() {
                    self.count_kind(&key, true)?;
                    self.expect_shape(oif, &key)?;
                }
                self.table.put_flow(&raw_key, flow)?;
                self.port(oif).put_flow(key, *flow);
            }
            None => {
                self.table.remove_flow(&raw_key)?;
                self.port(oif).remove_flow(&key);
                if old.is_some() {
                    self.count_kind(&key, false)?;
                    self.forget_shape(oif, &key)?;
                }
            }
        }
        let left = old.filter(|old| flow.is_none_or(|flow| flow.slot != old.slot));
        if let Some(old) = left.filter(|old| self.port(oif).leaves_slot(old)) {
            self.slots.give(old.slot);
        }
        undo.push((oif, Write::Flow(key, old)));
        confirmed(self.table.flow(oif, &key)? == flow)
    }
}

impl Kernel {
    /// Counts one more flow of its kind, or one less: the program looks up wider keys only while there are
    /// such flows.
    fn count_kind(&mut self, key: &FlowKey, comes: bool) -> Result<(), Fault> {
        let mut kinds = self.kinds;
        kinds.count(key, comes);
        if kinds != self.kinds {
            self.table.put_kinds(&kinds)?;
            self.kinds = kinds;
        }
        Ok(())
    }

    /// Prepares for a flow of prefixes: lists its shape and attaches the program that looks it up, before the
    /// flow is added.
    fn expect_shape(&mut self, oif: IfIndex, key: &FlowKey) -> Result<(), Fault> {
        let mut shapes = self.port(oif).shapes.clone();
        if !shapes.count(key, true) {
            return Ok(());
        }
        self.table.masks_mut().put(oif, &shapes)?;
        if !self.port(oif).masks {
            self.table.masks().attach(&mut self.socket, oif)?;
            self.port(oif).masks = true;
        }
        Ok(())
    }

    /// Removes the shape of a flow of prefixes that was removed, if it was the last.
    fn forget_shape(&mut self, oif: IfIndex, key: &FlowKey) -> Result<(), Fault> {
        if !key.is_masked() {
            return Ok(());
        }
        let shapes = self.port(oif).shapes.clone();
        if shapes.is_empty() {
            self.mask(oif)?;
        }
        self.table.masks_mut().put(oif, &shapes)
    }

    /// Attaches the program for prefixes after the flow program if there are flows for it, else detaches it.
    fn mask(&mut self, oif: IfIndex) -> Result<(), Fault> {
        let wanted = !self.port(oif).shapes.is_empty();
        if wanted {
            self.table.masks().attach(&mut self.socket, oif)?;
        } else {
            self.table.masks().detach(&mut self.socket, oif)?;
        }
        self.port(oif).masks = wanted;
        confirmed(self.table.masks().is_attached(&mut self.socket, oif) == wanted)
    }
}

pub(super) fn confirmed(same: bool) -> Result<(), Fault> {
    if same { Ok(()) } else { Err(Fault { what: "the kernel has something else than it was told", code: 0 }) }
}
