//! What the data plane holds, as far as it has said so: the node's memory of a thing it cannot see.
//!
//! One batch per interface is under way at a time, and each brings *all* that is due in line. So a batch is worked
//! out from what the plane has confirmed to what is wanted now, its classes sum to the link at its end, and one that
//! fails leaves nothing to take back: the order of operations that keeps the sums right on the way would be worth
//! nothing if it were built on a batch that failed.

use crate::io::PlanId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{FlowKey, IfIndex, Rate, Span, Time};
use traffic::plan::{ClassId, FlowSpecEntry, LinkPlan, LinkSpec, Plan, PlanOp};

/// What is to be brought in line on an interface, besides the root and the classes that every interface has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Due {
    pub(crate) classes: BTreeSet<ClassId>,
    pub(crate) flows: BTreeSet<FlowKey>,
    /// Everything that is there or wanted.
    pub(crate) all: bool,
    /// Reservations that wait for it; one that was changed twice is here twice.
    pub(crate) waits: Vec<RHandle>,
}

impl Due {
    fn and(&mut self, other: Due) {
        self.classes.extend(other.classes);
        self.flows.extend(other.flows);
        self.all |= other.all;
        self.waits.extend(other.waits);
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
    confirmed: Plan,
    under_way: BTreeMap<PlanId, Batch>,
    busy: BTreeSet<IfIndex>,
    due: BTreeMap<IfIndex, Due>,
    /// Interfaces on which a batch failed that nobody waited for: left alone until then, each time twice as long.
    resting: BTreeMap<IfIndex, Rest>,
    last: u64,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Option<Time>,
    next: Span,
}

/// How long an interface rests at first, and at most.
const REST: (Span, Span) = (Span::from_secs(1), Span::from_secs(64));

/// A root unlike any real one: an interface where flows were found before it was told its own, so that the first
/// batch sets the root.
const UNKNOWN_ROOT: LinkSpec = LinkSpec { rate: Rate::ZERO, overhead: 0, mtu: 0 };

impl Plane {
    /// Everything that the plane has said it did.
    pub fn confirmed(&self) -> &Plan {
        &self.confirmed
    }

    /// One interface of it.
    pub fn link(&self, oif: IfIndex) -> Option<&LinkPlan> {
        self.confirmed.links.get(&oif)
    }

    /// Whether nothing is under way and nothing is due.
    pub fn is_idle(&self) -> bool {
        self.busy.is_empty() && self.due.is_empty()
    }

    /// The same for one interface.
    pub fn is_idle_on(&self, oif: IfIndex) -> bool {
        !self.busy.contains(&oif) && !self.due.contains_key(&oif)
    }

    /// The plane was found to hold this flow, from an earlier life.
    pub(crate) fn found(&mut self, oif: IfIndex, flow: FlowKey, entry: FlowSpecEntry) {
        let fresh = LinkPlan { link: UNKNOWN_ROOT, classes: BTreeMap::new(), flows: BTreeMap::new() };
        self.confirmed.links.entry(oif).or_insert(fresh).flows.insert(flow, entry);
    }

    /// Something is due.
    pub(crate) fn put(&mut self, oif: IfIndex, due: Due) {
        self.due.entry(oif).or_default().and(due);
    }

    /// All that is due on an interface, unless something is under way there.
    pub(crate) fn take(&mut self, oif: IfIndex) -> Option<Due> {
        let resting = self.resting.get(&oif).is_some_and(|rest| rest.until.is_some());
        if resting || self.busy.contains(&oif) { None } else { self.due.remove(&oif) }
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
        self.under_way.insert(id, Batch { oif, ops: ops.to_vec(), due });
        self.busy.insert(oif);
        id
    }

    /// The plane carried a batch out, or (`ok` false) did nothing of it. Returns where, and what was due.
    /// `None`: no such batch is under way.
    pub(crate) fn done(&mut self, id: PlanId, ok: bool) -> Option<(IfIndex, Due)> {
        let batch = self.under_way.remove(&id)?;
        self.busy.remove(&batch.oif);
        if ok {
            self.resting.remove(&batch.oif);
            batch.ops.iter().for_each(|op| self.confirmed.apply(op));
        }
        Some((batch.oif, batch.due))
    }
}
