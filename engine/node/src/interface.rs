//! What happens to reservations when the world under them changes: an interface comes, changes or goes, a flow from
//! an earlier life is found, the plane answers, time passes, the agent stops.

use crate::classes;
use crate::io::{Event, InterfaceState, PlanId, Reservable};
use crate::order;
use crate::plane::interface;
use crate::tc::{Link, Said, Tc};
use alloc::vec::Vec;
use terms::ports::{RHandle, TcRequest};
use terms::{Fault, FilterSpec, FlowKey, IfIndex, Span, Time};
use traffic::plan::{ClassId, FlowSpecEntry, PlanOp};

/// How long a plane that failed is left alone before it is brought in line again.
const REPAIR_WAIT: Span = Span::from_secs(1);

/// Why a reservation went that had been admitted.
const LINK_SHRANK: Fault = Fault { what: "the link no longer holds this reservation", code: 0 };

impl Tc {
    /// An interface came or changed. Its first notice with a link makes the plane its own, together with all flows
    /// that were found there.
    pub fn interface(&mut self, now: Time, state: &InterfaceState) {
        let oif = state.index;
        match (self.links.get_mut(&oif), state.link) {
            (None, None) => {}
            (Some(_), None) => self.interface_gone(now, oif),
            (None, Some(terms)) => {
                self.links.insert(oif, Link::new(oif, state, terms));
                self.adopt_found(now, oif);
                self.sync_all(oif);
            }
            (Some(link), Some(terms)) => {
                link.name.clone_from(&state.name);
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
            self.tell(alloc::vec![PlanOp::DropLink { oif }], None);
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
        let Some(batch) = self.plane.done(id, result.is_ok()) else { return };
        let held = batch.handle.and_then(|handle| self.held.get_mut(&handle));
        let waits = held.map(|held| held.pending = held.pending.saturating_sub(1)).and(batch.handle);
        let Err(fault) = result else {
            self.tell_installed(waits);
            return;
        };
        self.say(Said::Event(Event::PlaneFault { id, fault }));
        match waits {
            Some(handle) => {
                self.close(now, handle);
                self.say(Said::Installed(handle, Err(fault)));
                self.undo(&batch.ops);
            }
            None => {
                for link in batch.ops.iter().map(interface).collect::<Vec<_>>() {
                    if let Some(link) = self.links.get_mut(&link) {
                        link.repair_at = Some(now + REPAIR_WAIT);
                    }
                }
            }
        }
    }

    /// Lifetimes of adopted flows and repairs that are due.
    pub fn wake(&mut self, now: Time) {
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
        let due = |link: &Link| link.repair_at.is_some_and(|at| at <= now);
        let broken: Vec<IfIndex> = self.links.iter().filter(|(_, link)| due(link)).map(|(&oif, _)| oif).collect();
        for oif in broken {
            if let Some(link) = self.links.get_mut(&oif) {
                link.repair_at = None;
            }
            self.sync_all(oif);
        }
    }

    /// When [`Tc::wake`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        let deadline = self.deadlines.first().map(|&(until, _)| until);
        self.links.values().filter_map(|link| link.repair_at).chain(deadline).min()
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
            let record = entry.record;
            let request = TcRequest {
                oif,
                session: record.session,
                filters: &[FilterSpec { src: flow.src, src_port: flow.src_port }],
                flowspec: record.flowspec,
                path_te: record.sender_tspec,
                lifetime: record.lifetime,
            };
            match self.open(now, flow, &request, Some(entry.class)) {
                Ok(handle) => self.keep_until(oif, handle, now + record.lifetime),
                Err(_) => self.say(Said::Event(Event::AdoptedExpired { oif, flow })),
            }
        }
    }

    fn keep_until(&mut self, oif: IfIndex, handle: RHandle, until: Time) {
        let Some(held) = self.held.get_mut(&handle) else { return };
        held.adopted_until = Some(until);
        let (flow, rate) = (held.flow, held.admitted);
        self.deadlines.insert((until, handle));
        self.say(Said::Event(Event::Adopted { oif, flow, rate }));
    }

    /// The link has another rate, overhead or share: every reservation is counted anew, oldest first, and what no
    /// longer fits is given up with word to whoever reserved it.
    fn change_link(&mut self, now: Time, oif: IfIndex, terms: Reservable) {
        let Some(link) = self.links.get_mut(&oif) else { return };
        link.terms = terms;
        link.load = classes::Load::default();
        link.ledger = admit::Link::new(oif, Link::ledger_terms(&terms));
        for handle in self.handles_on(oif) {
            if self.count_again(now, handle) {
                continue;
            }
            let adopted = self.held.get(&handle).is_some_and(|held| held.adopted_until.is_some());
            if let Some(held) = self.forget(handle) {
                self.say(Said::Event(Event::Released { oif, flow: held.flow, rate: held.admitted }));
            }
            if !adopted {
                self.say(Said::Installed(handle, Err(LINK_SHRANK)));
            }
        }
        self.sync_all(oif);
    }

    /// After a failed batch: whatever later batches built on it.
    fn undo(&mut self, ops: &[PlanOp]) {
        for op in ops {
            match *op {
                PlanOp::Flow { oif, flow, .. } | PlanOp::DropFlow { oif, flow } => self.sync(oif, &[], &[flow], None),
                PlanOp::Class { oif, class, .. } | PlanOp::DropClass { oif, class } => {
                    self.sync(oif, &[class], &[], None);
                }
                PlanOp::Link { .. } | PlanOp::DropLink { .. } => {}
            }
        }
    }

    /// Brings all of an interface in line.
    fn sync_all(&mut self, oif: IfIndex) {
        let Some(want) = self.want_all(oif) else { return };
        let ops = order::steps(oif, self.plane.link(oif), &want);
        self.tell(ops, None);
    }

    fn handles_on(&self, oif: IfIndex) -> Vec<RHandle> {
        self.held.iter().filter(|(_, held)| held.oif == oif).map(|(&handle, _)| handle).collect()
    }
}

impl Link {
    fn new(oif: IfIndex, state: &InterfaceState, terms: Reservable) -> Link {
        Link {
            name: state.name.clone(),
            terms,
            ledger: admit::Link::new(oif, Link::ledger_terms(&terms)),
            load: classes::Load::default(),
            own: Default::default(),
            next_own: ClassId::FIRST_OWN.0,
            repair_at: None,
        }
    }
}
