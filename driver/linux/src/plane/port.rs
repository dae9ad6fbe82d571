//! The state of an interface in the kernel: root, classes, queues, records, flows.

use super::compile::{self, Compiled};
use crate::bpf::edge::RawRule;
use crate::bpf::entry::{self, ClassRecord, RawFlow};
use crate::netlink::tc::class::ClassKind;
use crate::netlink::tc::qdisc::Discipline;
use std::collections::BTreeMap;
use terms::{Fault, FlowKey};
use traffic::edge::{MultiField, Side};
use traffic::plan::{BucketId, ClassId, ClassSpec, LinkPlan, LinkSpec};
use traffic::shapes::Shapes;

/// A class as read from the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassReadback {
    /// Its parameters; `None`: it has the wrong parent and must be removed and added again.
    pub kind: Option<ClassKind>,
    /// Its queue; `None`: the kernel's default, or it has children.
    pub queue: Option<Discipline>,
}

/// The state of an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelPort {
    /// Bytes of link header that the kernel counts with each packet.
    pub header: u32,
    /// MTU of the interface.
    pub mtu: u32,
    /// The root, if it is ours.
    pub root: Option<Discipline>,
    /// True if the flow program is attached to the egress.
    pub attached: bool,
    /// Every class, including that of the link.
    pub classes: BTreeMap<ClassId, ClassReadback>,
    /// The records of their specifications.
    pub records: BTreeMap<ClassId, ClassRecord>,
    /// Every flow.
    pub flows: BTreeMap<FlowKey, RawFlow>,
    /// The number of flows of each class.
    pub users: BTreeMap<ClassId, u32>,
    /// The shared buckets: slot, and number of flows.
    pub shared: BTreeMap<BucketId, (u32, u32)>,
    /// The shapes of the flows of prefixes.
    pub shapes: Shapes,
    /// True if the program for prefixes is attached to the egress.
    pub masks: bool,
    /// The sides that are edges.
    pub edges: BTreeMap<Side, EdgePort>,
}

/// A side of an interface that is an edge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EdgePort {
    /// True if the edge program is attached.
    pub attached: bool,
    /// Every rule.
    pub rules: BTreeMap<MultiField, RawRule>,
}

impl KernelPort {
    /// Adds a flow.
    pub fn put_flow(&mut self, key: FlowKey, flow: RawFlow) {
        self.remove_flow(&key);
        *self.users.entry(flow.class()).or_insert(0) += 1;
        if let Some(id) = flow.shared() {
            self.shared.entry(id).or_insert((flow.slot, 0)).1 += 1;
        }
        self.shapes.count(&key, true);
        self.flows.insert(key, flow);
    }

    /// Removes a flow.
    pub fn remove_flow(&mut self, key: &FlowKey) {
        let Some(flow) = self.flows.remove(key) else { return };
        self.shapes.count(key, false);
        if let Some(users) = self.users.get_mut(&flow.class()) {
            *users -= 1;
            if *users == 0 {
                self.users.remove(&flow.class());
            }
        }
        let shared = flow.shared().and_then(|id| Some((id, self.shared.get_mut(&id)?)));
        if let Some((id, (_, users))) = shared {
            *users -= 1;
            if *users == 0 {
                self.shared.remove(&id);
            }
        }
    }

    /// True if the slot of a removed flow with this entry is now free.
    pub fn leaves_slot(&self, old: &RawFlow) -> bool {
        old.shared().is_none_or(|id| self.shared.get(&id).is_none_or(|(slot, _)| *slot != old.slot))
    }

    /// The slot for an entry of this flow, if it has one: its own, or that of its shared bucket.
    pub fn slot_for(&self, key: &FlowKey, shared: Option<BucketId>) -> Option<u32> {
        match shared {
            Some(id) => self.shared.get(&id).map(|(slot, _)| *slot),
            None => self.flows.get(key).filter(|old| old.shared().is_none()).map(|old| old.slot),
        }
    }

    /// The link's specification: as recorded if the kernel's state is exactly its result, otherwise derived
    /// from that state.
    pub fn link(&self) -> Option<LinkSpec> {
        let seen = self.classes.get(&ClassId::LINK)?.kind?;
        let told = self.records.get(&ClassId::LINK).and_then(entry::read_link);
        let root = self.root.as_ref();
        let same = |spec: &LinkSpec| {
            compile::link(spec, self.header).is_ok_and(|c| c.kind == seen)
                && compile::root(spec, self.header).is_ok_and(|wanted| root == Some(&wanted))
        };
        Some(told.filter(same).unwrap_or_else(|| compile::link_from(&seen, root, self.header, self.mtu)))
    }

    /// A class's specification: as recorded if the kernel's state is exactly its result, otherwise derived
    /// from that state.
    pub fn class(&self, id: ClassId, on: &LinkSpec) -> Option<ClassSpec> {
        let seen = self.classes.get(&id)?;
        let seen = Compiled { kind: seen.kind?, queue: seen.queue.clone() };
        let told = self.records.get(&id).and_then(entry::read_class);
        let same = |spec: &ClassSpec| compile::class(spec, on, self.header).is_ok_and(|c| c == seen);
        Some(told.filter(same).unwrap_or_else(|| compile::class_from(&seen, on)))
    }

    /// The plan in force on this interface; `None` without a root of ours.
    pub fn plan(&self) -> Option<LinkPlan> {
        let link = self.link().filter(|_| self.root.is_some())?;
        let own = self.classes.keys().filter(|id| **id != ClassId::LINK);
        Some(LinkPlan {
            classes: own.filter_map(|id| Some((*id, self.class(*id, &link)?))).collect(),
            flows: self.flows.iter().filter_map(|(key, flow)| Some((*key, flow.read()?))).collect(),
            ..LinkPlan::new(link)
        })
    }

    /// Checks that the classes fit a link of `link` bytes/s if class `id` has the guarantee `rate` bytes/s
    /// (`None`: its present one). The kernel would accept any sum. A class may always shrink.
    pub fn check_sum(&self, link: u64, id: ClassId, rate: Option<u64>) -> Result<(), Fault> {
        let of = |seen: &ClassReadback| seen.kind.as_ref().map(compile::guaranteed);
        let now = self.classes.get(&id).and_then(of);
        if now.zip(rate).is_some_and(|(now, rate)| rate <= now) {
            return Ok(());
        }
        let counts = |(key, seen): (&ClassId, &ClassReadback)| match (*key == id, rate) {
            (true, Some(rate)) => rate,
            _ if *key != ClassId::LINK => of(seen).unwrap_or(0),
            _ => 0,
        };
        let there = self.classes.contains_key(&id);
        let new = rate.filter(|_| !there).unwrap_or(0);
        let all = self.classes.iter().map(counts).chain([new]).filter(|rate| *rate > compile::NOTHING);
        if all.map(u128::from).sum::<u128>() > u128::from(link) {
            return Err(Fault { what: "the classes of the interface would sum over its link", code: 0 });
        }
        Ok(())
    }
}
