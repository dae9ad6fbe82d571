//! Reading the kernel's state: at start, after a failure, and from time to time.

use super::port::{ClassReadback, KernelPort};
use super::write::{Kernel, ROOT, Undo, Write, as_told, handle, told_parent};
use crate::bpf::entry::{RawFlow, RawKey, RawKinds};
use crate::netlink::link::LinkState;
use crate::netlink::tc::TcHandle;
use std::collections::{BTreeMap, BTreeSet};
use terms::{Fault, IfIndex};
use traffic::plan::ClassId;

impl Kernel {
    /// Reads every interface, adopts its state, and removes the remains that no restart can use: flows and
    /// records of interfaces that are not ours any more, and classes of one flow without that flow.
    pub fn look_at_all(&mut self) -> Result<(), Fault> {
        let links = self.socket.links()?;
        self.ports.clear();
        for link in &links {
            let port = self.look(link)?;
            if port.root.is_some() || port.attached {
                self.ports.insert(link.index, port);
            }
        }
        self.read_maps()?;
        self.read_edges(&links)?;
        let strays: Vec<(IfIndex, ClassId)> = self.ports.iter().flat_map(|(oif, port)| strays(*oif, port)).collect();
        for (oif, class) in strays {
            self.carry_out(oif, Write::RemoveClass(class), &mut Undo::new())?;
            self.carry_out(oif, Write::Record(class, None), &mut Undo::new())?;
        }
        Ok(())
    }

    /// Reads one interface again; its flows are taken from memory, because no other program changes them.
    pub fn look_again(&mut self, oif: IfIndex) -> Result<KernelPort, Fault> {
        let mut port = match self.socket.link_by_index(oif) {
            Ok(link) => self.look(&link)?,
            Err(error) if error.is_absent() => KernelPort::default(),
            Err(error) => return Err(error.into()),
        };
        if let Some(old) = self.ports.get(&oif) {
            port.flows = old.flows.clone();
            port.users = old.users.clone();
            port.shared = old.shared.clone();
            port.shapes = old.shapes.clone();
            port.records = old.records.clone();
            port.edges = old.edges.clone();
        }
        self.look_at_edges(oif, &mut port);
        Ok(port)
    }

    /// The root, classes and queues of one interface.
    fn look(&mut self, link: &LinkState) -> Result<KernelPort, Fault> {
        let attached = self.table.is_attached(&mut self.socket, link.index);
        let masks = self.table.masks().is_attached(&mut self.socket, link.index);
        let mut port =
            KernelPort { header: link.header_len(), mtu: link.mtu, attached, masks, ..KernelPort::default() };
        let root = self.socket.root_qdisc(link.index)?.filter(|root| root.handle == ROOT);
        port.root = root.map(|root| root.discipline);
        if port.root.is_none() {
            return Ok(port);
        }
        for class in self.socket.classes(link.index)? {
            let id = ClassId(class.handle.minor());
            let kind = class.kind.filter(|kind| class.parent == told_parent(id, kind)).map(|kind| as_told(id, kind));
            port.classes.insert(id, ClassReadback { kind, queue: None });
        }
        for qdisc in self.socket.qdiscs(link.index)? {
            let id = ClassId(qdisc.parent.minor());
            let ours = qdisc.parent == handle(id) && qdisc.handle == TcHandle::new(id.0, 0);
            if let Some(seen) = port.classes.get_mut(&id).filter(|_| ours) {
                seen.queue = Some(qdisc.discipline);
            }
        }
        Ok(port)
    }

    /// Reads the flows and records of our interfaces; removes those of other interfaces.
    fn read_maps(&mut self) -> Result<(), Fault> {
        let mut used = BTreeSet::new();
        let mut kinds = RawKinds::default();
        for (raw_key, flow) in self.table.flows()? {
            let (oif, key) = raw_key.read();
            let known = flow.read().is_some() && raw_key == RawKey::new(oif, &key);
            match self.ports.get_mut(&oif) {
                Some(port) if port.root.is_some() && known && has_slot(port, &flow, &mut used) => {
                    port.put_flow(key, flow);
                    kinds.count(&key, true);
                }
                _ => self.table.remove_flow(&raw_key)?,
            }
        }
        self.table.put_kinds(&kinds)?;
        self.kinds = kinds;
        self.adopt_shapes()?;
        for (oif, class, record) in self.table.class_records()? {
            match self.ports.get_mut(&oif) {
                Some(port) if port.root.is_some() && port.classes.contains_key(&class) => {
                    port.records.insert(class, record);
                }
                _ => self.table.remove_class(oif, class)?,
            }
        }
        self.slots = super::slots::Slots::new(self.table.limit(), &used);
        Ok(())
    }

    /// Installs the list of shapes, and the program that reads it, exactly on the interfaces that have flows
    /// of prefixes.
    fn adopt_shapes(&mut self) -> Result<(), Fault> {
        let ports = &self.ports;
        let masked = |oif| ports.get(&oif).is_some_and(|port: &KernelPort| !port.shapes.is_empty());
        self.table.masks_mut().keep_only(&mut self.socket, masked)?;
        for (&oif, port) in &mut self.ports {
            let masks = self.table.masks_mut();
            if !port.shapes.is_empty() {
                masks.put(oif, &port.shapes)?;
            }
            match (port.masks, !port.shapes.is_empty()) {
                (false, true) => masks.attach(&mut self.socket, oif)?,
                (true, false) => masks.detach(&mut self.socket, oif)?,
                _ => {}
            }
            port.masks = !port.shapes.is_empty();
        }
        Ok(())
    }

    /// Checks that the root of an interface is still ours; if not, marks it as not ours.
    pub fn check_root(&mut self, oif: IfIndex) -> Result<(), Fault> {
        let root = match self.socket.root_qdisc(oif) {
            Ok(root) => root.is_some_and(|root| root.handle == ROOT),
            Err(error) if error.is_absent() => false,
            Err(error) => return Err(error.into()),
        };
        if let Some(port) = self.ports.get_mut(&oif).filter(|port| port.root.is_some() && !root) {
            port.root = None;
            port.classes.clear();
        }
        if root {
            self.roots.found_ours(oif);
        }
        Ok(())
    }
}

/// True if the flow's slot is free, or is that of its shared bucket.
fn has_slot(port: &KernelPort, flow: &RawFlow, used: &mut BTreeSet<u32>) -> bool {
    match flow.shared().and_then(|id| port.shared.get(&id)) {
        Some((slot, _)) => *slot == flow.slot,
        None => used.insert(flow.slot),
    }
}

/// Classes of one flow without that flow: a stop between two writes left them.
fn strays(oif: IfIndex, port: &KernelPort) -> Vec<(IfIndex, ClassId)> {
    let own: BTreeMap<_, _> = port.classes.range(ClassId::FIRST_OWN..).collect();
    own.into_keys().filter(|id| !port.users.contains_key(id)).map(|id| (oif, *id)).collect()
}
