//! What happens to reservations when the world under them changes: an interface comes, changes or goes, a flow from
//! an earlier life is found, the plane answers, time passes, the agent stops.

use crate::classes::{self, Premium};
use crate::held::{Flows, Held, place};
use crate::io::{Event, InterfaceState, PlanId, Reservable};
use crate::link::Link;
use crate::plane::Due;
use crate::tc::{ControlOutput, Tc};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{Fault, FlowKey, IfIndex, Time};
use traffic::plan::{BucketId, ClassId, ClassSpec, FlowSpecEntry};

/// Why a reservation went that had been admitted.
const LINK_SHRANK: Fault = Fault { what: "the link no longer holds this reservation", code: 0 };

impl Tc {
    /// An interface came or changed. Its first notice with a link makes the plane its own, together with all flows
    /// that were found there.
    pub fn interface(&mut self, now: Time, state: &InterfaceState) {
        let oif = state.index;
        match (self.links.get_mut(&oif), state.link) {
            (None, None) => {}
            (Some(_), None) => {
                self.handles_on(oif).into_iter().for_each(|handle| self.give_up(now, handle));
                self.interface_gone(now, oif);
            }
            (None, Some(terms)) => {
                let premium = self.premium.get(&oif).copied().unwrap_or_default();
                let mut link = Link::new(oif, terms);
                link.premium = premium;
                self.links.insert(oif, link);
                self.adopt_found(now, oif);
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

    /// An interface went, or takes no reservations any more: so did everything that was reserved on it.
    pub fn interface_gone(&mut self, now: Time, oif: IfIndex) {
        for handle in self.handles_on(oif) {
            self.close(now, handle);
        }
        if self.links.remove(&oif).is_some() {
            self.plane.put(oif, Due::default());
            self.proceed(oif);
        }
    }

    /// A class of an earlier life was found in the plane.
    pub fn found_class(&mut self, oif: IfIndex, class: ClassId, spec: &ClassSpec) {
        if !self.links.contains_key(&oif) && class != ClassId::LINK {
            self.plane.found_class(oif, class, spec);
        }
    }

    /// What the premium classes of an interface serve from now on.
    pub fn premium(&mut self, oif: IfIndex, premium: Premium) {
        if premium == Premium::default() {
            self.premium.remove(&oif);
        } else {
            self.premium.insert(oif, premium);
        }
        let Some(link) = self.links.get_mut(&oif) else {
            return;
        };
        if link.premium != premium {
            link.premium = premium;
            self.sync(oif, &[], None);
        }
    }

    /// A flow of an earlier life was found in the plane. Returns until when it is kept, if it is.
    pub fn adopt(&mut self, now: Time, oif: IfIndex, flow: FlowKey, entry: FlowSpecEntry) {
        self.plane.found(oif, flow, &entry);
        if self.links.contains_key(&oif) {
            self.adopt_found(now, oif);
            self.sync_all(now, oif);
        }
    }

    /// The plane answered. On a fault whoever waited for the batch loses its reservation.
    pub fn plan_done(&mut self, now: Time, id: PlanId, result: Result<(), Fault>) {
        let Some((oif, due)) = self.plane.done(id, result.is_ok(), &self.held) else { return };
        match result {
            Ok(()) => self.tell_installed(&due.waits),
            Err(fault) => {
                self.say(ControlOutput::Event(Event::PlaneFault { id, fault }));
                self.failed(now, oif, due, fault);
            }
        }
        self.proceed(oif);
    }

    /// Whoever waited is undone, and the rest is tried again: at once if the fault may have been theirs, else later.
    fn failed(&mut self, now: Time, oif: IfIndex, mut due: Due, fault: Fault) {
        let mut guilty = false;
        for handle in core::mem::take(&mut due.waits) {
            if self.close(now, handle).is_some() {
                self.say(ControlOutput::Installed(handle, Err(fault)));
                guilty = true;
            }
        }
        if !guilty {
            self.plane.rest(now, oif);
        }
        self.plane.put(oif, due);
    }

    /// Lifetimes of adopted flows, windows of bookings and repairs that are due.
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
        for oif in self.plane.rested(now) {
            self.proceed(oif);
        }
    }

    /// Nobody asked again for an adopted reservation, or for some of its flows, within its lifetime.
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
        self.say(ControlOutput::Event(Event::AdoptedExpired { oif, flow }));
    }

    /// When [`Tc::wake`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        let deadline = self.deadlines.first().map(|&(until, _)| until);
        let ledgers = self.links.values().filter_map(|link| link.ledger.wake_at());
        deadline.into_iter().chain(ledgers).chain(self.plane.rested_at()).min()
    }

    /// Gives every interface back.
    pub fn stop(&mut self, now: Time) {
        let all: Vec<IfIndex> = self.links.keys().copied().collect();
        all.into_iter().for_each(|oif| self.interface_gone(now, oif));
    }

    /// Found flows become open slots before anything else can take their place, those that share a bucket one slot
    /// together; what no longer fits is let go.
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
                    self.say(ControlOutput::Event(Event::Adopted { oif, flow, rate }));
                }
                None => flows.as_slice().iter().for_each(|flow| self.say_expired(oif, *flow)),
            }
        }
    }

    /// A found reservation with an open slot, if the link has room for it. Whether open slots are over their share
    /// does not matter: it was promised once.
    fn held_again(&mut self, now: Time, oif: IfIndex, flows: Flows, entry: &FlowSpecEntry) -> Option<Held> {
        let link = self.links.get_mut(&oif)?;
        let record = entry.record;
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
            slot,
            class,
            bucket: entry.bucket,
            priority: record.priority,
            rank: 0,
            adopted_until: Some(now + record.lifetime),
            pending: 0,
        })
    }

    /// The link has another rate, overhead or share: every reservation is counted anew, oldest first, and what no
    /// longer fits is given up, newest first, with word to whoever reserved it.
    fn change_link(&mut self, now: Time, oif: IfIndex, terms: Reservable) {
        let handles = self.handles_on(oif);
        handles.iter().for_each(|&handle| self.uncount(handle));
        let Some(link) = self.links.get_mut(&oif) else { return };
        link.terms = terms;
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
        }
        self.heed_ledger(now, oif);
        for &handle in handles.iter().rev() {
            let short = self.links.get(&oif).is_some_and(|link| link.ledger.table().shortfall().is_some());
            if short && self.held.get(handle).is_some() {
                self.give_up(now, handle);
            }
        }
        self.sync_all(now, oif);
    }

    /// Counts a reservation under the link's new terms; whether that was possible.
    fn count_again(&mut self, now: Time, handle: RHandle) -> bool {
        let Some(held) = self.held.get_mut(handle) else { return true };
        let Some(link) = self.links.get_mut(&held.oif) else { return true };
        let admitted = classes::demand(&link.terms.spec, &held.charged());
        let fits = admitted == held.admitted || link.ledger.modify(now, held.slot, admitted).is_ok();
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
            None => self.say(ControlOutput::Installed(handle, Err(LINK_SHRANK))),
        }
    }

    /// The reservations of an interface, oldest first.
    fn handles_on(&self, oif: IfIndex) -> Vec<RHandle> {
        self.held.by_age().filter(|(_, held)| held.oif == oif).map(|(handle, _)| handle).collect()
    }
}
