//! The confirmed state of the data plane: the node's model of it.
//!
//! For flows only the difference is kept: a flow is as wanted, or the plane's entry for it is noted. So a
//! million settled reservations need no second copy, and the next changes are at hand without a search.
//!
//! One batch per interface is in progress at a time, and each brings *all* that is due in line, except during
//! the search for the guilty after a failure (`tc/apart.rs`). So a batch is
//! computed from the plane's confirmed state to the state that is wanted now, its classes sum to the link at
//! its end, and a failed one leaves nothing to take back: the order of operations that keeps the sums right
//! on the way would be worthless if it were based on a failed batch.

use crate::held::{Place, Reservations};
use crate::io::PlanId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{Bytes, FlowKey, IfIndex, Span, Time};
use traffic::classifier::{Classifier, TableFull};
use traffic::plan::{ClassId, ClassSpec, FlowSpecEntry, LinkPlan, LinkSpec, Plan, PlanOp, QueueSpec};
use traffic::shapes::Shapes;

/// The most flows of an interface.
pub const MOST_FLOWS: usize = 1 << 22;

/// The changes that are due on an interface, besides the root, the classes that every interface has, and the
/// flows that differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Due {
    /// Own classes; one may be named more than once.
    pub(crate) classes: Vec<ClassId>,
    /// True if everything that exists or is wanted is due.
    pub(crate) all: bool,
    /// The reservations that wait for it; one that was changed twice is here twice.
    pub(crate) waits: Vec<RHandle>,
}

impl Due {
    fn and(&mut self, other: Due) {
        self.classes.extend(other.classes);
        self.all |= other.all;
        self.waits.extend(other.waits);
    }
}

/// The model of one interface: the plane's state, and the wanted flows.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// The root; `None`: not ours yet.
    pub(crate) root: Option<LinkSpec>,
    /// Every class in the plane except the root.
    pub(crate) classes: BTreeMap<ClassId, ClassSpec>,
    flows: Classifier<Flow>,
    /// The shapes of the prefix flows among them.
    shapes: Shapes,
    /// All flows that differ, and some that no longer do.
    differ: Vec<FlowKey>,
    /// The plane's entries for flows that differ.
    others: Vec<FlowSpecEntry>,
    vacant: Vec<u32>,
}

/// The reservation of a flow, and its state in the plane.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The place of its reservation; [`NOBODY`]: the flow is not wanted.
    whose: Place,
    /// [`AS_WANTED`], [`ABSENT`], or the index in `others`.
    has: u32,
}

/// The most differences whose memory is kept.
const SCRATCH: usize = 256;
const NOBODY: Place = Place::MAX;
const AS_WANTED: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

impl Shadow {
    pub(crate) fn new(key: [u64; 2]) -> Shadow {
        Shadow {
            root: None,
            classes: BTreeMap::new(),
            flows: Classifier::new(key, MOST_FLOWS),
            shapes: Shapes::default(),
            differ: Vec::new(),
            others: Vec::new(),
            vacant: Vec::new(),
        }
    }

    /// True if the plane has anything of ours here.
    pub(crate) fn is_there(&self) -> bool {
        self.root.is_some() || self.flows.iter().any(|(_, flow)| flow.has != ABSENT)
    }

    /// The place of the reservation with this flow.
    pub(crate) fn whose(&self, flow: &FlowKey) -> Option<Place> {
        self.flows.get(flow).map(|flow| flow.whose).filter(|&whose| whose != NOBODY)
    }

    /// True if `more` flows fit.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.flows.len() + more <= MOST_FLOWS
    }

    /// True if a flow of this shape fits.
    pub(crate) fn has_room_for_shape(&self, flow: &FlowKey) -> bool {
        self.shapes.has_room_for(flow)
    }

    /// Assigns the flow to this reservation.
    pub(crate) fn give(&mut self, key: FlowKey, whose: Place) {
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.whose = whose;
            return;
        }
        let full = self.flows.insert(key, Flow { whose, has: ABSENT });
        debug_assert!(!matches!(full, Err(TableFull)), "there was room");
        self.shapes.count(&key, true);
        self.differ.push(key);
    }

    /// Records that the flow's entry changes from `old`, or that the flow goes (`gone`) if it still is `whose`.
    pub(crate) fn differs(&mut self, key: &FlowKey, old: &FlowSpecEntry, gone: Option<Place>) {
        let Some(flow) = self.flows.get(key).copied() else { return };
        if gone.is_some_and(|whose| whose != flow.whose) {
            return;
        }
        let mut now = flow;
        if flow.has == AS_WANTED {
            now.has = self.put_other(old);
            self.differ.push(*key);
        }
        if gone.is_some() {
            now.whose = NOBODY;
        }
        if let Some(flow) = self.flows.get_mut(key) {
            *flow = now;
        }
    }

    /// Records that the plane was found to hold this flow.
    fn found(&mut self, key: FlowKey, entry: &FlowSpecEntry) {
        let whose = self.flows.get(&key).map_or(NOBODY, |flow| flow.whose);
        let has = self.put_other(entry);
        if let Ok(before) = self.flows.insert(key, Flow { whose, has }) {
            if before.is_none() {
                self.shapes.count(&key, true);
            }
            self.differ.push(key);
        }
    }

    /// Records the plane's confirmed entry of a flow.
    fn confirmed(&mut self, key: &FlowKey, now: Option<&FlowSpecEntry>, held: &Reservations) {
        let Some(flow) = self.flows.get(key).copied() else { return };
        self.drop_other(flow.has);
        let has = match (now, held.at(flow.whose)) {
            (Some(now), Some((_, wanted))) if wanted.entry() == *now => AS_WANTED,
            (Some(now), _) => self.put_other(now),
            (None, Some(_)) => ABSENT,
            (None, None) => {
                self.take_away(key);
                return;
            }
        };
        if let Some(flow) = self.flows.get_mut(key) {
            flow.has = has;
        }
    }

    /// The plane's entry for a flow.
    pub(crate) fn entry_of(&self, flow: &FlowKey, held: &Reservations) -> Option<FlowSpecEntry> {
        self.entry(self.flows.get(flow)?, held)
    }

    fn entry(&self, flow: &Flow, held: &Reservations) -> Option<FlowSpecEntry> {
        match flow.has {
            AS_WANTED => held.at(flow.whose).map(|(_, held)| held.entry()),
            other => self.others.get(other as usize).copied(),
        }
    }

    /// The flows that differ, in order: what the plane has, and what is wanted. Those of the reservations
    /// that stand `apart` are left as they are.
    pub(crate) fn differing(&mut self, held: &Reservations, apart: &BTreeSet<RHandle>, all: &mut Vec<Difference>) {
        let mut differ = core::mem::take(&mut self.differ);
        differ.sort_unstable();
        differ.dedup();
        differ.retain(|key| self.look(key, held, apart, all));
        self.differ = differ;
        // What many at once needed is given back when it is not needed any more.
        if self.vacant.len() == self.others.len() && self.others.capacity() > SCRATCH {
            (self.others, self.vacant) = (Vec::new(), Vec::new());
            self.differ.shrink_to(SCRATCH);
        }
    }

    /// Notes the difference of a flow; false if there is none.
    fn look(
        &mut self,
        key: &FlowKey,
        held: &Reservations,
        apart: &BTreeSet<RHandle>,
        all: &mut Vec<Difference>,
    ) -> bool {
        let Some(flow) = self.flows.get(key).copied().filter(|flow| flow.has != AS_WANTED) else { return false };
        if held.at(flow.whose).is_some_and(|(handle, _)| apart.contains(&handle)) {
            return true;
        }
        let has = self.others.get(flow.has as usize);
        let wanted = held.at(flow.whose).map(|(_, held)| held.entry());
        match (has, wanted) {
            (None, None) => {
                self.take_away(key);
                false
            }
            (Some(has), Some(wanted)) if *has == wanted => {
                self.drop_other(flow.has);
                if let Some(flow) = self.flows.get_mut(key) {
                    flow.has = AS_WANTED;
                }
                false
            }
            (has, wanted) => {
                all.push(Difference { flow: *key, had: has.map(|has| has.class), wanted });
                true
            }
        }
    }

    /// The plane's state of the interface, with each flow.
    pub(crate) fn plan(&self, held: &Reservations) -> Option<LinkPlan> {
        let flows = self.flows.iter().filter_map(|(key, flow)| Some((*key, self.entry(flow, held)?)));
        let classes = self.classes.clone();
        Some(LinkPlan { classes, flows: flows.collect(), ..LinkPlan::new(self.root?) })
    }

    /// The number of wanted flows, and true if the plane has exactly those, as wanted.
    pub(crate) fn census(&self) -> (usize, bool) {
        let wanted = self.flows.iter().filter(|(_, flow)| flow.whose != NOBODY).count();
        (wanted, self.flows.iter().all(|(_, flow)| flow.has == AS_WANTED))
    }

    /// The flows that were found and have no reservation yet.
    pub(crate) fn orphans(&self) -> Vec<(FlowKey, FlowSpecEntry)> {
        let orphan = |(key, flow): (&FlowKey, &Flow)| {
            let entry = self.others.get(flow.has as usize).filter(|_| flow.whose == NOBODY)?;
            Some((*key, *entry))
        };
        let mut all: Vec<_> = self.flows.iter().filter_map(orphan).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }

    fn put_other(&mut self, entry: &FlowSpecEntry) -> u32 {
        if let Some(at) = self.vacant.pop() {
            self.others[at as usize] = *entry;
            return at;
        }
        self.others.push(*entry);
        self.others.len() as u32 - 1
    }

    fn take_away(&mut self, key: &FlowKey) {
        self.flows.remove(key);
        self.shapes.count(key, false);
    }

    fn drop_other(&mut self, has: u32) {
        if (has as usize) < self.others.len() {
            self.vacant.push(has);
        }
    }
}

/// A flow whose entry in the plane differs from the wanted one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    flow: FlowKey,
    /// Its class in the plane; `None`: the flow is absent.
    had: Option<ClassId>,
    wanted: Option<FlowSpecEntry>,
}

impl Difference {
    /// The flow, if the plane shall no longer have it.
    pub(crate) fn gone(&self) -> Option<FlowKey> {
        self.wanted.is_none().then_some(self.flow)
    }

    /// The flow, and the entry that the plane shall have.
    pub(crate) fn set(&self) -> Option<(FlowKey, FlowSpecEntry)> {
        self.wanted.map(|entry| (self.flow, entry))
    }

    /// True if the flow goes from this class to another one.
    pub(crate) fn moves_from(&self, class: ClassId) -> bool {
        self.had == Some(class) && self.wanted.is_some()
    }
}

#[derive(Clone, Debug)]
struct Batch {
    oif: IfIndex,
    ops: Vec<PlanOp>,
    due: Due,
}

/// The model of the plane.
#[derive(Debug, Default)]
pub struct Plane {
    links: BTreeMap<IfIndex, Shadow>,
    /// The batches in progress; at most one for each interface.
    under_way: Vec<(PlanId, Batch)>,
    busy: Vec<IfIndex>,
    due: Vec<(IfIndex, Due)>,
    /// Interfaces that pause after a failed batch without waiting reservations; the pause doubles each time. A new
    /// request does not wait for its end.
    resting: BTreeMap<IfIndex, Rest>,
    key: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Option<Time>,
    next: Span,
}

/// The first and the longest pause of an interface.
pub const REST: (Span, Span) = (Span::from_secs(1), Span::from_secs(64));

impl Plane {
    /// A plane that holds nothing; its tables are keyed with `key`.
    pub(crate) fn new(key: [u64; 2]) -> Plane {
        Plane { key, ..Plane::default() }
    }

    /// The whole confirmed state of the plane.
    pub(crate) fn confirmed(&self, held: &Reservations) -> Plan {
        let links = self.links.iter().filter_map(|(oif, shadow)| Some((*oif, shadow.plan(held)?)));
        Plan { links: links.collect(), ..Plan::default() }
    }

    /// The model of one interface.
    pub(crate) fn link(&self, oif: IfIndex) -> Option<&Shadow> {
        self.links.get(&oif)
    }

    /// The model of one interface, to change it.
    pub(crate) fn link_mut(&mut self, oif: IfIndex) -> &mut Shadow {
        let key = self.key;
        self.links.entry(oif).or_insert_with(|| Shadow::new(key))
    }

    /// True if no batch is in progress and no change is due.
    pub fn is_idle(&self) -> bool {
        self.busy.is_empty() && self.due.is_empty()
    }

    /// True if no batch is in progress on an interface and no change is due there.
    pub fn is_idle_on(&self, oif: IfIndex) -> bool {
        !self.busy.contains(&oif) && !self.due.iter().any(|due| due.0 == oif)
    }

    /// Records a flow of an earlier run that was found in the plane.
    pub(crate) fn found(&mut self, oif: IfIndex, flow: FlowKey, entry: &FlowSpecEntry) {
        self.link_mut(oif).found(flow, entry);
    }

    /// Records a class of an earlier run that was found in the plane. Only its guarantee is believed, so that
    /// it is set again or dropped in any case.
    pub(crate) fn found_class(&mut self, oif: IfIndex, class: ClassId, spec: &ClassSpec) {
        let queue = QueueSpec { packets: 0, bytes: Bytes::ZERO };
        self.link_mut(oif).classes.insert(class, ClassSpec { queue, ..*spec });
    }

    /// Adds changes that are due.
    pub(crate) fn put(&mut self, oif: IfIndex, due: Due) {
        match self.due.iter_mut().find(|there| there.0 == oif) {
            Some((_, there)) => there.and(due),
            None => self.due.push((oif, due)),
        }
    }

    /// The interfaces on which a change is due, in the order in which it became due.
    pub(crate) fn due(&self) -> Vec<IfIndex> {
        self.due.iter().map(|due| due.0).collect()
    }

    /// All that is due on an interface, unless a batch is in progress there, or it pauses and no reservation
    /// waits (`searched`: some wait for their own batch): a new request must get its answer at once, and not
    /// after a minute.
    pub(crate) fn take(&mut self, oif: IfIndex, searched: bool) -> Option<Due> {
        if self.busy.contains(&oif) {
            return None;
        }
        let at = self.due.iter().position(|due| due.0 == oif)?;
        let resting = self.resting.get(&oif).is_some_and(|rest| rest.until.is_some());
        if resting && !searched && self.due[at].1.waits.is_empty() {
            return None;
        }
        Some(self.due.remove(at).1)
    }

    /// Starts a pause of this interface.
    pub(crate) fn rest(&mut self, now: Time, oif: IfIndex) {
        let rest = self.resting.entry(oif).or_insert(Rest { until: None, next: REST.0 });
        rest.until = Some(now + rest.next);
        rest.next = rest.next.mul_div_ceil(2, 1).min(REST.1);
    }

    /// The time at which the next pause ends.
    pub(crate) fn rested_at(&self) -> Option<Time> {
        self.resting.values().filter_map(|rest| rest.until).min()
    }

    /// Ends the pauses that are over by now.
    pub(crate) fn rested(&mut self, now: Time) {
        let over = self.resting.values_mut().filter(|rest| rest.until.is_some_and(|until| until <= now));
        over.for_each(|rest| rest.until = None);
    }

    /// The state of a class (`None`: gone) after the batch that is in progress, if that changes it.
    pub(crate) fn coming(&self, oif: IfIndex, wanted: ClassId) -> Option<Option<ClassSpec>> {
        let batches = self.under_way.iter().filter(|(_, batch)| batch.oif == oif);
        batches.flat_map(|(_, batch)| &batch.ops).rev().find_map(|op| match *op {
            PlanOp::Class { class, spec, .. } if class == wanted => Some(Some(spec)),
            PlanOp::DropClass { class, .. } if class == wanted => Some(None),
            _ => None,
        })
    }

    /// True if an interface pauses after a fault.
    pub(crate) fn is_resting(&self, oif: IfIndex) -> bool {
        self.resting.get(&oif).is_some_and(|rest| rest.until.is_some())
    }

    /// Records a batch that is sent out. Its operations are not empty, and no other is in progress on the interface.
    pub(crate) fn tell(&mut self, id: PlanId, oif: IfIndex, ops: &[PlanOp], due: Due) {
        self.under_way.push((id, Batch { oif, ops: ops.to_vec(), due }));
        self.busy.push(oif);
    }

    /// Records that the plane carried a batch out, or (`ok` false) none of it. Returns the interface and the
    /// due changes. `None`: no such batch is in progress.
    pub(crate) fn done(&mut self, id: PlanId, ok: bool, held: &Reservations) -> Option<(IfIndex, Due)> {
        let at = self.under_way.iter().position(|batch| batch.0 == id)?;
        let (_, batch) = self.under_way.swap_remove(at);
        self.busy.retain(|oif| *oif != batch.oif);
        if ok {
            self.resting.remove(&batch.oif);
            batch.ops.iter().for_each(|op| self.apply(op, held));
        }
        Some((batch.oif, batch.due))
    }

    fn apply(&mut self, op: &PlanOp, held: &Reservations) {
        let shadow = self.link_mut(op.oif());
        match *op {
            PlanOp::Link { spec, .. } => shadow.root = Some(spec),
            PlanOp::Class { class, spec, .. } => {
                shadow.classes.insert(class, spec);
            }
            PlanOp::DropClass { class, .. } => {
                shadow.classes.remove(&class);
            }
            PlanOp::Flow { flow, ref entry, .. } => shadow.confirmed(&flow, Some(entry), held),
            PlanOp::DropFlow { flow, .. } => shadow.confirmed(&flow, None, held),
            PlanOp::DropLink { oif } => self.dropped(oif, held),
            // No reservation asks for a conditioner.
            PlanOp::Condition { .. } | PlanOp::DropCondition { .. } => {}
            // Edges have batches of their own.
            PlanOp::Edge { .. } | PlanOp::DropEdge { .. } | PlanOp::Rule { .. } | PlanOp::DropRule { .. } => {}
        }
    }

    /// Records that the interface was released: the plane has nothing there, and the wanted flows are yet to come.
    fn dropped(&mut self, oif: IfIndex, held: &Reservations) {
        let Some(old) = self.links.remove(&oif) else { return };
        let wanted = old.flows.iter().filter(|(_, flow)| held.at(flow.whose).is_some());
        let wanted: Vec<_> = wanted.map(|(key, flow)| (*key, flow.whose)).collect();
        if !wanted.is_empty() {
            let shadow = self.link_mut(oif);
            wanted.into_iter().for_each(|(key, whose)| shadow.give(key, whose));
        }
    }
}
