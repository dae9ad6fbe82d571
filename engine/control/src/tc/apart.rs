//! The search for the reservations that make a batch fail.
//!
//! A batch brings every reservation of a turn, and the plane carries all of it out or nothing. So a failed
//! batch is split: one half of its reservations is tried while the others stand *apart*, which means that the
//! plane keeps what it has for them, and then the other half. Only a reservation that fails alone is lost.

use super::Tc;
use crate::classes::{self, ReservedLoad};
use crate::link::Link;
use crate::plane::{Due, Shadow};
use crate::record::FlowRecord;
use crate::search::Search;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{Fault, IfIndex, Rate, Time};
use traffic::plan::ClassId;

/// The reservations that stand apart from a batch, and the classes that must stay for them.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// The reservations.
    handles: BTreeSet<RHandle>,
    /// Their classes for one flow each, and those that the plane has for their flows: they stay as they are.
    classes: BTreeSet<ClassId>,
}

impl Apart {
    /// The reservations.
    pub(crate) fn handles(&self) -> &BTreeSet<RHandle> {
        &self.handles
    }

    /// True if this class stays as it is.
    pub(crate) fn keeps(&self, class: ClassId) -> bool {
        self.classes.contains(&class)
    }
}

impl Tc {
    /// Limits what is due to the next group of a search, if there is one. Returns those that stand apart.
    pub(crate) fn next_group(&mut self, oif: IfIndex, due: &mut Due) -> BTreeSet<RHandle> {
        let next = self.searches.get_mut(&oif).and_then(Search::next);
        let Some((group, mut apart)) = next else { return BTreeSet::new() };
        // Those that came later wait until the search is over, so that no blame falls on the wrong one.
        let (mine, later): (Vec<_>, Vec<_>) =
            core::mem::take(&mut due.waits).into_iter().partition(|handle| group.contains(handle));
        apart.extend(later.iter().copied());
        due.waits = [group, mine].concat();
        due.all = true;
        self.plane.put(oif, Due { all: true, waits: later, ..Due::default() });
        apart
    }

    /// The classes that must stay for the reservations that stand apart, and the load of the batch: theirs is
    /// what the plane has for them, and not what they want.
    pub(crate) fn load_beside(
        &self,
        link: &Link,
        told: Option<&Shadow>,
        handles: BTreeSet<RHandle>,
    ) -> (Apart, ReservedLoad) {
        let spec = &link.terms.spec;
        let (mut apart, mut load) = (Apart { handles, ..Apart::default() }, link.load);
        for held in apart.handles.iter().filter_map(|handle| self.held.get(*handle)) {
            if held.class == ClassId::MEASURED {
                continue; // its class has a grant of its own, whoever is in it
            }
            load = load.minus(&held.charged(), held.admitted, spec);
            apart.classes.insert(held.class);
            let mut buckets = BTreeSet::new();
            for entry in held.flows.as_slice().iter().filter_map(|flow| told?.entry_of(flow, &self.held)) {
                apart.classes.insert(entry.class);
                let counts = entry.shared.is_none_or(|shared| buckets.insert(shared));
                let shared = FlowRecord::decode(&entry.record)
                    .filter(|_| counts && entry.class < ClassId::FIRST_OWN && entry.class != ClassId::MEASURED);
                if let Some(record) = shared {
                    load = load.plus(&classes::charged(&record.session, &record.flowspec), record.admitted, spec);
                }
            }
        }
        apart.classes.retain(|class| *class >= ClassId::FIRST_OWN);
        let stay = apart.classes.iter().filter_map(|class| told?.classes.get(class)).map(classes::guaranteed);
        load.own = stay.fold(load.own, Rate::saturating_add);
        (apart, link.carried_beside(load))
    }

    /// Handles a failed batch: searches among the reservations that waited for it, or drops the one that
    /// failed alone. The rest is retried: at once if a reservation may have caused the fault, else later.
    pub(crate) fn failed(&mut self, now: Time, oif: IfIndex, mut due: Due, fault: Fault) {
        let mut waits = core::mem::take(&mut due.waits);
        waits.retain(|handle| self.held.get(*handle).is_some());
        let mut search = self.searches.remove(&oif).unwrap_or_default();
        // Those that shrink come first: what they give back may be what the others need.
        waits.sort_by_cached_key(|handle| (self.grows(*handle), *handle));
        if waits.is_empty() && !search.goes_on() {
            self.plane.rest(now, oif);
        }
        let refused = search.failed(waits);
        self.drop_refused(now, &refused, fault);
        due.all |= search.goes_on();
        self.plane.put(oif, due);
        if search.goes_on() {
            self.searches.insert(oif, search);
        }
    }

    /// Notes that a batch was carried out: its reservations are innocent, and a search goes on with the next.
    pub(crate) fn batch_succeeded(&mut self, oif: IfIndex) {
        let Some(search) = self.searches.get_mut(&oif) else { return };
        search.succeeded();
        if search.goes_on() {
            self.plane.put(oif, Due { all: true, ..Due::default() });
        } else {
            self.searches.remove(&oif);
        }
    }

    fn drop_refused(&mut self, now: Time, handles: &[RHandle], fault: Fault) {
        for &handle in handles {
            if let Some(held) = self.close(now, handle) {
                self.out.say(super::measured::installed(handle, &held, Err(fault)));
            }
        }
    }

    /// True if a reservation needs more of the link than the plane has for it.
    fn grows(&self, handle: RHandle) -> bool {
        let Some(held) = self.held.get(handle) else { return false };
        let told = self.plane.link(held.oif);
        let has = held
            .flows
            .as_slice()
            .iter()
            .filter_map(|flow| told?.entry_of(flow, &self.held))
            .filter_map(|entry| FlowRecord::decode(&entry.record))
            .map(|record| record.admitted);
        has.max().is_none_or(|has| has < held.admitted)
    }
}
