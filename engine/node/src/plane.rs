//! What the data plane holds, as far as it has said so: the node's memory of a thing it cannot see.
//!
//! Of flows only the difference is kept: a flow is as it is wanted, or it is noted what the plane has instead. So a
//! million settled reservations cost no second copy, and what is to be told next is at hand without looking for it.
//!
//! One batch per interface is under way at a time, and each brings *all* that is due in line. So a batch is worked
//! out from what the plane has confirmed to what is wanted now, its classes sum to the link at its end, and one that
//! fails leaves nothing to take back: the order of operations that keeps the sums right on the way would be worth
//! nothing if it were built on a batch that failed.

use crate::held::{Place, Reservations};
use crate::io::PlanId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{Bytes, FlowKey, IfIndex, Span, Time};
use traffic::classifier::{Classifier, TableFull};
use traffic::plan::{ClassId, ClassSpec, FlowSpecEntry, LinkPlan, LinkSpec, Plan, PlanOp, QueueSpec};
use traffic::shapes::Shapes;

/// The most flows of an interface.
pub const MOST_FLOWS: usize = 1 << 22;

/// What is to be brought in line on an interface, besides the root, the classes that every interface has, and the flows
/// that differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Due {
    /// May name a class more than once.
    pub(crate) classes: Vec<ClassId>,
    /// Everything that is there or wanted.
    pub(crate) all: bool,
    /// Reservations that wait for it; one that was changed twice is here twice.
    pub(crate) waits: Vec<RHandle>,
}

impl Due {
    fn and(&mut self, other: Due) {
        self.classes.extend(other.classes);
        self.all |= other.all;
        self.waits.extend(other.waits);
    }
}

/// One interface: what the plane has of it, and which flows are wanted there.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// `None`: not ours yet.
    pub(crate) root: Option<LinkSpec>,
    /// Every class that is there but the root.
    pub(crate) classes: BTreeMap<ClassId, ClassSpec>,
    flows: Classifier<Flow>,
    /// Of the flows of prefixes among them.
    shapes: Shapes,
    /// All flows that differ, and some that did.
    differ: Vec<FlowKey>,
    /// What the plane has of flows that it has otherwise than wanted.
    others: Vec<FlowSpecEntry>,
    vacant: Vec<u32>,
}

/// Whose a flow is, and what the plane has of it.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// [`NOBODY`]: it is not wanted.
    whose: Place,
    /// [`AS_WANTED`], [`ABSENT`], or where in `others` it is.
    has: u32,
}

/// The most differences that memory is kept for.
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

    /// Whether the plane has anything of ours here.
    pub(crate) fn is_there(&self) -> bool {
        self.root.is_some() || self.flows.iter().any(|(_, flow)| flow.has != ABSENT)
    }

    /// Whose reservation has this flow.
    pub(crate) fn whose(&self, flow: &FlowKey) -> Option<Place> {
        self.flows.get(flow).map(|flow| flow.whose).filter(|&whose| whose != NOBODY)
    }

    /// Whether so many flows more have room.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.flows.len() + more <= MOST_FLOWS
    }

    /// Whether a flow of this shape may come.
    pub(crate) fn has_room_for_shape(&self, flow: &FlowKey) -> bool {
        self.shapes.has_room_for(flow)
    }

    /// The flow is this reservation's from now on.
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

    /// The flow's entry changes from `old`, or the flow goes (`gone`) if it still is `whose`.
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

    /// The plane was found to hold this flow.
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

    /// The plane has confirmed this of a flow; `wanted` is what it should have.
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

    /// The flows that differ, in order: what the plane has, and what is wanted.
    pub(crate) fn differing(&mut self, held: &Reservations, all: &mut Vec<Difference>) {
        let mut differ = core::mem::take(&mut self.differ);
        differ.sort_unstable();
        differ.dedup();
        differ.retain(|key| self.look(key, held, all));
        self.differ = differ;
        // What many at once needed is given back when it is not needed any more.
        if self.vacant.len() == self.others.len() && self.others.capacity() > SCRATCH {
            (self.others, self.vacant) = (Vec::new(), Vec::new());
            self.differ.shrink_to(SCRATCH);
        }
    }

    /// Notes how a flow differs; whether it does.
    fn look(&mut self, key: &FlowKey, held: &Reservations, all: &mut Vec<Difference>) -> bool {
        let Some(flow) = self.flows.get(key).copied().filter(|flow| flow.has != AS_WANTED) else { return false };
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

    /// What the plane has of each flow.
    pub(crate) fn plan(&self, held: &Reservations) -> Option<LinkPlan> {
        let of = |flow: &Flow| match flow.has {
            AS_WANTED => held.at(flow.whose).map(|(_, held)| held.entry()),
            other => self.others.get(other as usize).copied(),
        };
        let flows = self.flows.iter().filter_map(|(key, flow)| Some((*key, of(flow)?)));
        Some(LinkPlan { link: self.root?, classes: self.classes.clone(), flows: flows.collect() })
    }

    /// How many flows are wanted, and whether the plane has exactly those, as they are wanted.
    pub(crate) fn census(&self) -> (usize, bool) {
        let wanted = self.flows.iter().filter(|(_, flow)| flow.whose != NOBODY).count();
        (wanted, self.flows.iter().all(|(_, flow)| flow.has == AS_WANTED))
    }

    /// The flows that were found and belong to nobody yet.
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

/// A flow that the plane has otherwise than wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    pub(crate) flow: FlowKey,
    /// The class that it has there; `None`: it is not there.
    pub(crate) had: Option<ClassId>,
    pub(crate) wanted: Option<FlowSpecEntry>,
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
    /// A few: one an interface.
    under_way: Vec<(PlanId, Batch)>,
    busy: Vec<IfIndex>,
    due: Vec<(IfIndex, Due)>,
    /// Interfaces on which a batch failed that nobody waited for: left alone until then, each time twice as long, unless
    /// somebody asks.
    resting: BTreeMap<IfIndex, Rest>,
    last: u64,
    key: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Option<Time>,
    next: Span,
}

/// How long an interface rests at first, and at most.
pub const REST: (Span, Span) = (Span::from_secs(1), Span::from_secs(64));

impl Plane {
    /// A plane that holds nothing; its tables are keyed with `key`.
    pub(crate) fn new(key: [u64; 2]) -> Plane {
        Plane { key, ..Plane::default() }
    }

    /// Everything that the plane has said it did.
    pub(crate) fn confirmed(&self, held: &Reservations) -> Plan {
        let links = self.links.iter().filter_map(|(oif, shadow)| Some((*oif, shadow.plan(held)?)));
        Plan { links: links.collect(), ..Plan::default() }
    }

    /// One interface of it.
    pub(crate) fn link(&self, oif: IfIndex) -> Option<&Shadow> {
        self.links.get(&oif)
    }

    /// The same, to change it.
    pub(crate) fn link_mut(&mut self, oif: IfIndex) -> &mut Shadow {
        let key = self.key;
        self.links.entry(oif).or_insert_with(|| Shadow::new(key))
    }

    /// Whether nothing is under way and nothing is due.
    pub fn is_idle(&self) -> bool {
        self.busy.is_empty() && self.due.is_empty()
    }

    /// The same for one interface.
    pub fn is_idle_on(&self, oif: IfIndex) -> bool {
        !self.busy.contains(&oif) && !self.due.iter().any(|due| due.0 == oif)
    }

    /// The plane was found to hold this flow, from an earlier life.
    pub(crate) fn found(&mut self, oif: IfIndex, flow: FlowKey, entry: &FlowSpecEntry) {
        self.link_mut(oif).found(flow, entry);
    }

    /// The plane holds this class from an earlier life. What it is beside its guarantee is not believed, so that it is
    /// told again or dropped in any case.
    pub(crate) fn found_class(&mut self, oif: IfIndex, class: ClassId, spec: &ClassSpec) {
        let queue = QueueSpec { packets: 0, bytes: Bytes::ZERO };
        self.link_mut(oif).classes.insert(class, ClassSpec { queue, ..*spec });
    }

    /// Something is due.
    pub(crate) fn put(&mut self, oif: IfIndex, due: Due) {
        match self.due.iter_mut().find(|there| there.0 == oif) {
            Some((_, there)) => there.and(due),
            None => self.due.push((oif, due)),
        }
    }

    /// All that is due on an interface, unless something is under way there, or it rests and nobody waits: whoever asks
    /// for something now hears at once how it went, and not after a minute.
    pub(crate) fn take(&mut self, oif: IfIndex) -> Option<Due> {
        if self.busy.contains(&oif) {
            return None;
        }
        let at = self.due.iter().position(|due| due.0 == oif)?;
        let resting = self.resting.get(&oif).is_some_and(|rest| rest.until.is_some());
        if resting && self.due[at].1.waits.is_empty() {
            return None;
        }
        Some(self.due.swap_remove(at).1)
    }

    /// Nothing is said about this interface for a while.
    pub(crate) fn rest(&mut self, now: Time, oif: IfIndex) {
        let rest = self.resting.entry(oif).or_insert(Rest { until: None, next: REST.0 });
        rest.until = Some(now + rest.next);
        rest.next = rest.next.mul_div_ceil(2, 1).min(REST.1);
    }

    /// When the next interface has rested.
    pub(crate) fn rested_at(&self) -> Option<Time> {
        self.resting.values().filter_map(|rest| rest.until).min()
    }

    /// The interfaces that have rested by now.
    pub(crate) fn rested(&mut self, now: Time) -> Vec<IfIndex> {
        let due = self.resting.iter_mut().filter(|(_, rest)| rest.until.is_some_and(|until| until <= now));
        due.map(|(&oif, rest)| {
            rest.until = None;
            oif
        })
        .collect()
    }

    /// A batch is said. Its operations are not empty, and nothing else is under way on the interface.
    pub(crate) fn tell(&mut self, oif: IfIndex, ops: &[PlanOp], due: Due) -> PlanId {
        self.last += 1;
        let id = PlanId(self.last);
        self.under_way.push((id, Batch { oif, ops: ops.to_vec(), due }));
        self.busy.push(oif);
        id
    }

    /// The plane carried a batch out, or (`ok` false) did nothing of it. Returns where, and what was due.
    /// `None`: no such batch is under way.
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
            // Edges are not the node's: whoever books premium flows tells the plane of them.
            PlanOp::Edge { .. } | PlanOp::DropEdge { .. } | PlanOp::Rule { .. } | PlanOp::DropRule { .. } => {}
        }
    }

    /// The interface was given back: nothing is there, and what is wanted by now is yet to come.
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
