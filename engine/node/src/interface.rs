//! What happens to reservations when the world under them changes: an interface comes, changes or goes, a flow from
//! an earlier life is found, the plane answers, time passes, the agent stops.

use crate::classes;
use crate::io::{Event, InterfaceState, PlanId, Reservable};
use crate::order::Want;
use crate::plane::Due;
use crate::tc::{Held, Link, Said, Tc};
use admit::{Limits, LinkTerms};
use alloc::vec::Vec;
use terms::ports::RHandle;
use terms::{Fault, FlowKey, IfIndex, Rate, Time};
use traffic::plan::{ClassId, FlowSpecEntry};

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
                self.links.insert(oif, Link::new(oif, terms));
                self.adopt_found(now, oif);
                self.sync_all(oif);
            }
            (Some(link), Some(terms)) => {
                if link.terms != terms {
                    self.change_link(now, oif, terms);
                }
            }
        }
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

    /// A flow of an earlier life was found in the plane. Returns until when it is kept, if it is.
    pub fn adopt(&mut self, now: Time, oif: IfIndex, flow: FlowKey, entry: FlowSpecEntry) {
        self.plane.found(oif, flow, entry);
        if self.links.contains_key(&oif) {
            self.adopt_found(now, oif);
            self.sync_all(oif);
        }
    }

    /// The plane answered. On a fault whoever waited for the batch loses its reservation.
    pub fn plan_done(&mut self, now: Time, id: PlanId, result: Result<(), Fault>) {
        let Some((oif, due)) = self.plane.done(id, result.is_ok()) else { return };
        match result {
            Ok(()) => self.tell_installed(&due.waits),
            Err(fault) => {
                self.say(Said::Event(Event::PlaneFault { id, fault }));
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
                self.say(Said::Installed(handle, Err(fault)));
                guilty = true;
            }
        }
        if !guilty {
            self.plane.rest(now, oif);
        }
        self.plane.put(oif, due);
    }

    /// Lifetimes of adopted flows and repairs that are due.
    pub fn wake(&mut self, now: Time) {
        self.links.values_mut().for_each(|link| link.ledger.expire(now));
        while let Some(&(until, handle)) = self.deadlines.first() {
            if until > now {
                break;
            }
            self.deadlines.pop_first();
            if let Some(held) = self.close(now, handle) {
                self.say(Said::Event(Event::AdoptedExpired { oif: held.oif, flow: held.flow }));
                self.sync(held.oif, &[held.class], &[held.flow], None);
            }
        }
        for oif in self.plane.rested(now) {
            self.proceed(oif);
        }
    }

    /// When [`Tc::wake`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        let deadline = self.deadlines.first().map(|&(until, _)| until);
        deadline.into_iter().chain(self.plane.rested_at()).min()
    }

    /// Gives every interface back.
    pub fn stop(&mut self, now: Time) {
        let all: Vec<IfIndex> = self.links.keys().copied().collect();
        all.into_iter().for_each(|oif| self.interface_gone(now, oif));
    }

    /// Found flows become open slots before anything else can take their place; what no longer fits is let go.
    fn adopt_found(&mut self, now: Time, oif: IfIndex) {
        let Some(told) = self.plane.link(oif) else { return };
        let found: Vec<(FlowKey, FlowSpecEntry)> = told.flows.iter().map(|(&flow, &entry)| (flow, entry)).collect();
        for (flow, entry) in found {
            if self.by_flow.contains_key(&(oif, flow)) {
                continue;
            }
            match self.held_again(now, oif, flow, &entry) {
                Some(held) => {
                    let rate = held.admitted;
                    let until = now + held.lifetime;
                    let handle = self.hold(held);
                    self.deadlines.insert((until, handle));
                    self.say(Said::Event(Event::Adopted { oif, flow, rate }));
                }
                None => self.say(Said::Event(Event::AdoptedExpired { oif, flow })),
            }
        }
    }

    /// A found flow with an open slot, if the link has room for it. Whether open slots are over their share does not
    /// matter: it was promised once.
    fn held_again(&mut self, now: Time, oif: IfIndex, flow: FlowKey, entry: &FlowSpecEntry) -> Option<Held> {
        let link = self.links.get_mut(&oif)?;
        let record = entry.record;
        let keep = Some(entry.class).filter(|class| !link.own.contains_key(class));
        let class = link.class_for(&record.flowspec, keep, self.plane.link(oif)).ok()?;
        let admitted = classes::demand(&link.terms.spec, &record.flowspec);
        let (slot, shortfall) = link.ledger.adopt(now, admitted).ok()?;
        if shortfall.is_some() {
            let released = link.ledger.release(now, slot);
            debug_assert!(released.is_ok(), "just opened");
            return None;
        }
        Some(Held {
            oif,
            flow,
            session: record.session,
            flowspec: record.flowspec,
            sender_tspec: record.sender_tspec,
            lifetime: record.lifetime,
            admitted,
            slot,
            class,
            bucket: entry.bucket,
            adopted_until: Some(now + record.lifetime),
            pending: 0,
        })
    }

    /// The link has another rate, overhead or share: every reservation is counted anew, oldest first, and what no
    /// longer fits is given up, newest first, with word to whoever reserved it.
    fn change_link(&mut self, now: Time, oif: IfIndex, terms: Reservable) {
        let Some(link) = self.links.get_mut(&oif) else { return };
        link.terms = terms;
        link.load = classes::Load::default();
        // One step of capacity always has room: the old one, at the same instant, makes way.
        let changed = link.ledger.change(now, Link::ledger_terms(&terms));
        debug_assert!(changed.is_ok(), "a capacity that never has more than one step");
        let handles = self.handles_on(oif);
        for &handle in &handles {
            if !self.count_again(now, handle) {
                self.give_up(now, handle);
            }
        }
        for &handle in handles.iter().rev() {
            let short = self.links.get(&oif).is_some_and(|link| link.ledger.table().shortfall().is_some());
            if short && self.held.contains_key(&handle) {
                self.give_up(now, handle);
            }
        }
        self.sync_all(oif);
    }

    /// Counts a reservation under the link's new terms; whether that was possible. Its load is then counted anew.
    fn count_again(&mut self, now: Time, handle: RHandle) -> bool {
        let Some(held) = self.held.get_mut(&handle) else { return true };
        let Some(link) = self.links.get_mut(&held.oif) else { return true };
        let admitted = classes::demand(&link.terms.spec, &held.flowspec);
        let fits = admitted == held.admitted || link.ledger.modify(now, held.slot, admitted).is_ok();
        if fits {
            held.admitted = admitted;
        }
        link.load = link.load.plus(&held.flowspec, held.admitted, &link.terms.spec);
        fits
    }

    fn give_up(&mut self, now: Time, handle: RHandle) {
        let Some(held) = self.close(now, handle) else { return };
        match held.adopted_until {
            Some(_) => self.say(Said::Event(Event::AdoptedExpired { oif: held.oif, flow: held.flow })),
            None => self.say(Said::Installed(handle, Err(LINK_SHRANK))),
        }
    }

    /// Brings all of an interface in line.
    fn sync_all(&mut self, oif: IfIndex) {
        self.plane.put(oif, Due { all: true, ..Due::default() });
        self.proceed(oif);
    }

    /// The whole of what an interface should be, and that nothing else should be there.
    pub(crate) fn want_all(&self, oif: IfIndex, link: &Link) -> Want {
        let mut want = link.base();
        if let Some(told) = self.plane.link(oif) {
            want.flows.extend(told.flows.keys().map(|&flow| (flow, None)));
            let own = told.classes.keys().filter(|&&class| class >= ClassId::FIRST_OWN);
            want.classes.extend(own.map(|&class| (class, None)));
        }
        for held in self.held.values().filter(|held| held.oif == oif) {
            want.flows.insert(held.flow, Some(held.entry()));
            if held.class >= ClassId::FIRST_OWN {
                want.classes.insert(held.class, Some(link.own_class(held)));
            }
        }
        want
    }

    fn handles_on(&self, oif: IfIndex) -> Vec<RHandle> {
        self.held.iter().filter(|(_, held)| held.oif == oif).map(|(&handle, _)| handle).collect()
    }
}

impl Link {
    fn new(oif: IfIndex, terms: Reservable) -> Link {
        Link {
            terms,
            ledger: admit::Link::new(oif, Link::ledger_terms(&terms), Limits::default()),
            load: classes::Load::default(),
            own: Default::default(),
            next_own: ClassId::FIRST_OWN.0,
        }
    }

    fn ledger_terms(terms: &Reservable) -> LinkTerms {
        LinkTerms {
            rate: terms.spec.rate,
            kept_back: classes::kept_back(terms),
            signalled_share: terms.signalled_share,
            assumed_holding: None,
        }
    }

    /// The most that reservations can hold together.
    pub(crate) fn reservable(&self) -> Rate {
        let for_sale = self.terms.spec.rate.saturating_sub(classes::kept_back(&self.terms));
        for_sale.min(self.terms.signalled_share)
    }
}
