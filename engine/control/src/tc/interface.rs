//! Reservations and changes around them: an interface comes, changes or goes, an installed flow is adopted,
//! the plane answers, time passes, the agent stops.

use super::Tc;
use super::measured::of_record;
use crate::classes;
use crate::core::Core;
use crate::held::{Flows, Held, place};
use crate::io::{Event, InterfaceState, PlanId, Reservable};
use crate::link::Link;
use crate::plane::Due;
use crate::record::FlowRecord;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{Fault, FlowKey, IfIndex, Rate, Time};
use traffic::plan::{BucketId, ClassId, ClassSpec, FlowSpecEntry};

/// The fault for a reservation that was admitted and lost its room.
const LINK_SHRANK: Fault = Fault { what: "the link no longer holds this reservation", code: 0 };

impl Tc {
    /// Handles a new or changed interface. Its first notice with a link makes the plane ours, together with
    /// all flows that were found there.
    pub fn interface(&mut self, now: Time, state: &InterfaceState) {
        let oif = state.index;
        let known = self.links.get(&oif).map(|link| link.terms);
        let name = state.link.is_some().then_some(state.name.as_str());
        self.name_resource(oif, name, known != state.link);
        match (self.links.get_mut(&oif), state.link) {
            (None, None) => {}
            (Some(_), None) => {
                self.handles_on(oif).into_iter().for_each(|handle| self.give_up(now, handle));
                self.interface_gone(now, oif);
            }
            (None, Some(terms)) => {
                let mut link = Link::new(oif, terms);
                link.premium = self.edges.told(oif);
                link.ledger.set_premium(self.resources.terms(oif).share);
                self.links.insert(oif, link);
                self.edge_turn().count_parts_on(oif);
                self.adopt_found(now, oif);
                self.links.get_mut(&oif).into_iter().for_each(|link| link.grant_measured(now));
                self.sync_all(now, oif);
            }
            (Some(link), Some(terms)) => {
                if link.terms != terms {
                    self.change_link(now, oif, terms);
                }
            }
        }
        self.read_ledger(now, oif);
    }

    /// Handles the loss of an interface or of its link: all its reservations are lost too.
    pub fn interface_gone(&mut self, now: Time, oif: IfIndex) {
        self.name_resource(oif, None, true);
        for handle in self.handles_on(oif) {
            self.close(now, handle);
        }
        if self.links.remove(&oif).is_some() {
            self.searches.remove(&oif);
            self.plane.put(oif, Due::default());
            self.edge_turn().count_parts_on(oif);
            self.edge_turn().classes_done(oif, Ok(()));
        }
    }

    /// Records a class that was found in the plane from an earlier run.
    pub fn found_class(&mut self, oif: IfIndex, class: ClassId, spec: &ClassSpec) {
        if !self.links.contains_key(&oif) && class != ClassId::LINK {
            self.plane.found_class(oif, class, spec);
            self.edge_turn().found_premium(oif, class, spec);
        }
    }

    /// Sets the configured guarantees of an interface's premium classes from now on; a new interface needs
    /// the call again.
    pub(crate) fn set_apart(&mut self, now: Time, oif: IfIndex, core: Core) {
        let Some(link) = self.links.get_mut(&oif) else { return };
        let served = core.premium_on(&link.terms.spec);
        if link.set_apart_load() != served {
            link.set_apart(now, served);
            self.sync(oif, &[], None);
            self.read_ledger(now, oif);
        }
    }

    /// Adopts a flow that was found in the plane from an earlier run, if there is room for it.
    pub fn adopt(&mut self, now: Time, oif: IfIndex, flow: FlowKey, entry: FlowSpecEntry) {
        self.plane.found(oif, flow, &entry);
        if self.links.contains_key(&oif) {
            self.adopt_found(now, oif);
            self.sync_all(now, oif);
        }
    }

    /// Handles the plane's answer. On a fault, the reservation that caused it is lost; if several waited for
    /// the batch, smaller batches find it.
    pub fn plan_done(&mut self, now: Time, id: PlanId, result: Result<(), Fault>) {
        if self.edge_turn().edge_done(now, id, result) {
            return;
        }
        let Some((oif, due)) = self.plane.done(id, result.is_ok(), &self.held) else { return };
        match result {
            Ok(()) => {
                self.tell_installed(&due.waits);
                self.batch_succeeded(oif);
            }
            Err(fault) => {
                self.out.event(Event::PlaneFault { id, fault });
                self.failed(now, oif, due, fault);
            }
        }
        self.edge_turn().classes_done(oif, result);
    }

    /// Handles expired lifetimes of adopted flows, windows of bookings and due repairs.
    pub fn wake(&mut self, now: Time) {
        let links: Vec<IfIndex> = self.links.keys().copied().collect();
        links.into_iter().for_each(|oif| self.read_ledger(now, oif));
        while let Some(&(until, handle)) = self.deadlines.first() {
            if until > now {
                break;
            }
            self.deadlines.pop_first();
            self.outlived(now, handle);
        }
        self.plane.rested(now);
        self.edge_turn().wake(now);
    }

    /// Ends an adopted reservation, or some of its flows, that was not requested again within its lifetime.
    fn outlived(&mut self, now: Time, handle: RHandle) {
        let Some((_, unnamed)) = self.lingering.remove(&handle) else {
            if let Some(held) = self.close(now, handle) {
                held.flows.as_slice().iter().for_each(|flow| self.say_expired(held.oif, *flow));
                self.sync(held.oif, &[held.class], None);
            }
            return;
        };
        let Some(held) = self.held.get_mut(handle) else { return };
        let (oif, before) = (held.oif, held.entry());
        let named = held.flows.as_slice().iter().filter(|flow| !unnamed.contains(flow)).copied().collect();
        let had = core::mem::replace(&mut held.flows, Flows::Several(named));
        self.note_flows(handle, &had, &before);
        unnamed.into_iter().for_each(|flow| self.say_expired(oif, flow));
        self.sync(oif, &[], None);
    }

    fn say_expired(&mut self, oif: IfIndex, flow: FlowKey) {
        self.out.event(Event::AdoptedExpired { oif, flow });
    }

    /// The time at which [`Tc::wake`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        let deadline = self.deadlines.first().map(|&(until, _)| until);
        let ledgers = self.links.values().filter_map(|link| link.ledger.wake_at());
        deadline.into_iter().chain(ledgers).chain(self.plane.rested_at()).chain(self.edges.wake_at()).min()
    }

    /// Releases every interface.
    pub fn stop(&mut self, now: Time) {
        self.edge_turn().stop();
        let all: Vec<IfIndex> = self.links.keys().copied().collect();
        all.into_iter().for_each(|oif| self.interface_gone(now, oif));
    }

    /// Opens slots for adopted flows before other requests can take their room, one slot for all flows that
    /// share a bucket. Flows that no longer fit are dropped.
    fn adopt_found(&mut self, now: Time, oif: IfIndex) {
        let orphans = self.plane.link(oif).map(|shadow| shadow.orphans()).unwrap_or_default();
        let mut shared: BTreeMap<BucketId, (Vec<FlowKey>, FlowSpecEntry)> = BTreeMap::new();
        let mut found = Vec::new();
        for (flow, entry) in orphans {
            match entry.shared {
                None => found.push((Flows::One(flow), entry)),
                Some(id) => shared.entry(id).or_insert((Vec::new(), entry)).0.push(flow),
            }
        }
        found.extend(shared.into_values().map(|(flows, entry)| (Flows::Several(flows), entry)));
        found.sort_by_key(|(flows, _)| flows.first());
        for (flows, entry) in found {
            self.last_bucket = self.last_bucket.max(entry.shared.map_or(0, |id| id.0));
            let flow = flows.first();
            match self.held_again(now, oif, flows.clone(), &entry) {
                Some(held) => {
                    let (rate, until) = (held.admitted, now + held.lifetime);
                    let handle = self.hold(held);
                    self.deadlines.insert((until, handle));
                    self.out.event(Event::Adopted { oif, flow, rate });
                }
                None => flows.as_slice().iter().for_each(|flow| self.say_expired(oif, *flow)),
            }
        }
    }

    /// An adopted reservation with an open slot, if the link has room for it. The share of open slots does
    /// not matter, because the reservation was promised before.
    fn held_again(&mut self, now: Time, oif: IfIndex, flows: Flows, entry: &FlowSpecEntry) -> Option<Held> {
        let link = self.links.get_mut(&oif)?;
        let record = FlowRecord::decode(&entry.record)?;
        if entry.class == ClassId::MEASURED {
            let there = link.terms.measured > Rate::ZERO;
            return there.then(|| Held {
                adopted_until: Some(now + record.lifetime),
                ..of_record(oif, flows, &record, entry.bucket)
            });
        }
        let keep = Some(entry.class).filter(|class| !link.own.contains_key(class));
        let class = link.class_for(&record.flowspec, keep, self.plane.link(oif)).ok()?;
        let admitted = classes::demand(&link.terms.spec, &classes::charged(&record.session, &record.flowspec));
        let (slot, shortfall) = link.ledger.adopt(now, admitted).ok()?;
        if shortfall.is_some() {
            let released = link.ledger.release(now, slot);
            debug_assert!(released.is_ok(), "just opened");
            return None;
        }
        Some(Held {
            oif,
            session: record.session,
            flows,
            shared: entry.shared,
            flowspec: record.flowspec,
            sender_tspec: record.sender_tspec,
            lifetime: record.lifetime,
            admitted,
            slot: Some(slot),
            recognised: false,
            class,
            bucket: entry.bucket,
            priority: record.priority,
            rank: 0,
            adopted_until: Some(now + record.lifetime),
            pending: 0,
        })
    }

    /// Applies another rate, overhead or share of the link: every reservation is counted again, oldest first.
    /// Those that no longer fit are dropped, newest first, and their owners are told.
    fn change_link(&mut self, now: Time, oif: IfIndex, terms: Reservable) {
        let handles = self.handles_on(oif);
        handles.iter().for_each(|&handle| self.uncount(handle));
        let Some(link) = self.links.get_mut(&oif) else { return };
        link.terms = terms;
        link.give_measured_back(now);
        debug_assert_eq!(link.load, classes::ReservedLoad::default(), "nothing is counted");
        // One step of capacity always has room: the old one, at the same instant, makes way.
        let changed = link.ledger.change(now, Link::ledger_terms(&terms));
        debug_assert!(changed.is_ok(), "a capacity that never has more than one step");
        for &handle in &handles {
            if !self.count_again(now, handle) {
                self.give_up(now, handle);
            }
        }
        if let Some(link) = self.links.get_mut(&oif) {
            link.grant_again(now);
            link.grant_measured(now);
        }
        self.edge_turn().count_parts_on(oif);
        self.read_ledger(now, oif);
        for &handle in handles.iter().rev() {
            let short = self.links.get(&oif).is_some_and(|link| link.ledger.table().shortfall().is_some());
            if short && self.held.get(handle).is_some_and(|held| held.slot.is_some()) {
                self.give_up(now, handle);
            }
        }
        self.sync_all(now, oif);
    }

    /// Counts a reservation under the link's new terms; false if it does not fit.
    fn count_again(&mut self, now: Time, handle: RHandle) -> bool {
        let Some(held) = self.held.get_mut(handle) else { return true };
        let Some(link) = self.links.get_mut(&held.oif) else { return true };
        let admitted = classes::demand(&link.terms.spec, &held.charged());
        let fits =
            admitted == held.admitted || held.slot.is_none_or(|slot| link.ledger.modify(now, slot, admitted).is_ok());
        if fits && admitted != held.admitted {
            let before = held.entry();
            held.admitted = admitted;
            let shadow = self.plane.link_mut(held.oif);
            held.flows.as_slice().iter().for_each(|flow| shadow.differs(flow, &before, None));
        }
        link.count(held, handle, place(handle));
        fits
    }

    fn give_up(&mut self, now: Time, handle: RHandle) {
        let Some(held) = self.close(now, handle) else { return };
        match held.adopted_until {
            Some(_) => held.flows.as_slice().iter().for_each(|flow| self.say_expired(held.oif, *flow)),
            None => self.out.say(super::measured::installed(handle, &held, Err(LINK_SHRANK))),
        }
    }

    /// The reservations of an interface, oldest first.
    fn handles_on(&self, oif: IfIndex) -> Vec<RHandle> {
        self.held.by_age().filter(|(_, held)| held.oif == oif).map(|(handle, _)| handle).collect()
    }
}
