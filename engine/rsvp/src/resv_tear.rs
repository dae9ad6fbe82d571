//! RESV TEAR MESSAGE ARRIVES: RFC 2209 section 2.5; the end of a reservation for other reasons; our own ResvTear.

use crate::arrival::Arrival;
use crate::io::{Event, Gone};
use crate::links::Env;
use crate::passed_on::carried;
use crate::procedure::procedure;
use crate::resv_refresh::{Push, ResvRefresh};
use crate::state::rsb::{ListedSender, NextHop, Rsb};
use crate::state::session::SessionState;
use crate::state::table::BlockId;
use crate::update_traffic_control::UpdateTrafficControl;
use alloc::vec::Vec;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{FilterSpec, IfIndex, Style};
use wire::ResvTear;

const UNKNOWN: &str = "ResvTear for a reservation that its sender does not have here";

procedure! {
    /// The arrival of a ResvTear, and the end of reservations.
    ResvTearing, measured
}

impl<P: ProbeObserver, E: Env> ResvTearing<'_, P, E> {
    pub(crate) fn resv_tear_arrives(&mut self, from: &Arrival, tear: &ResvTear<'_>) {
        let nhop = NextHop::Hop { oif: IfIndex(tear.hop.lih), addr: tear.hop.addr };
        let known = self.step(ProbePoint::FindSession, |rsvp| rsvp.state.session(&tear.session));
        let Some(sid) = known else { return self.signalling.drop_message(self.state, from, UNKNOWN) };
        let Ok(goes_on) = carried(&tear.envelope) else {
            return self.signalling.drop_message(self.state, from, "ResvTear with too much to be passed on");
        };
        self.signalling.carry(goes_on);
        self.torn(from, (sid, nhop), tear);
        self.signalling.carry(Vec::new());
    }

    fn torn(&mut self, from: &Arrival, (sid, nhop): (BlockId<SessionState>, NextHop), tear: &ResvTear<'_>) {
        let filters: Vec<_> = tear.flows().filter_map(|flow| flow.filter.and_then(|f| f.ports())).collect();
        if tear.style == Style::Ff {
            for filter in filters {
                match self.step(ProbePoint::FindRsb, |rsvp| rsvp.state.rsb(&(sid, nhop, Some(filter)))) {
                    Some(id) => self.tear_reservation(id),
                    None => self.signalling.drop_message(self.state, from, UNKNOWN),
                }
            }
            return;
        }
        let known = self.step(ProbePoint::FindRsb, |rsvp| rsvp.state.rsb(&(sid, nhop, None)));
        match known.filter(|id| self.state[*id].style == tear.style) {
            Some(id) if tear.style == Style::Wf => self.tear_reservation(id),
            Some(id) if filters.iter().any(|f| self.state[id].shares(f)) => {
                self.step(ProbePoint::TearReservation, |rsvp| {
                    let _stays = rsvp.end_senders(id, |l| filters.contains(&l.filter), Gone::Torn);
                });
            }
            _ => self.signalling.drop_message(self.state, from, UNKNOWN),
        }
    }

    fn tear_reservation(&mut self, id: BlockId<Rsb>) {
        self.step(ProbePoint::TearReservation, |rsvp| rsvp.end_reservation(id, Gone::Torn));
    }

    /// Ends one reservation state: the other requests on the interface are merged anew, and the result goes
    /// upstream, as a tear if none is left.
    pub(crate) fn end_reservation(&mut self, id: BlockId<Rsb>, why: Gone) {
        let (sid, nhop, of) = self.state.key(id);
        let senders = self.state.senders_of(id);
        self.remove_reservation(id, why);
        if let Some(oif) = nhop.oif() {
            self.control().settle(&(sid, oif, of));
        }
        self.upstream().refresh_upstream(senders, Push::IfNew);
        self.state.drop_if_idle(sid);
    }

    /// Ends a shared-explicit request for some of its senders; the others keep theirs. `false`: none is left.
    pub(crate) fn end_senders(&mut self, id: BlockId<Rsb>, gone: impl Fn(&ListedSender) -> bool, why: Gone) -> bool {
        let (sid, nhop, of) = self.state.key(id);
        let senders = self.state.senders_of(id);
        self.state[id].strike(gone);
        let stays = self.state[id].listed().next().is_some();
        if stays {
            self.signalling.say_created(self.state, id);
        } else {
            self.remove_reservation(id, why);
        }
        if let Some(oif) = nhop.oif() {
            self.control().settle(&(sid, oif, of));
        }
        self.upstream().refresh_upstream(senders, Push::IfNew);
        self.state.drop_if_idle(sid);
        stays
    }

    pub(crate) fn remove_reservation(&mut self, id: BlockId<Rsb>, why: Gone) {
        let (sid, nhop, template) = self.state.key(id);
        let gone = self.state.remove_resv(id);
        let session = self.state.key(sid);
        self.signalling.say(Event::ResvRemoved { session, template, style: gone.style, oif: nhop.oif(), why });
    }

    /// Ends the neighbours' reservations for a sender on interfaces that its packets do not leave by (any
    /// more); upstream is not told. A wildcard request ends with the last sender that routes to its
    /// interface. Requests of local applications stay: they wait for the sender to come back.
    pub(crate) fn drop_reservations_of(&mut self, sid: BlockId<SessionState>, filter: &FilterSpec, why: Gone) {
        let psb = self.state.psb_of(sid, filter);
        for id in self.state.reservations_of(sid, filter) {
            let (_, nhop, of) = self.state.key(id);
            let Some(oif) = nhop.oif() else { continue };
            if psb.is_some_and(|psb| self.state[psb].out.takes(oif)) {
                continue;
            }
            match self.state[id].style {
                Style::Ff => self.remove_reservation(id, why),
                Style::Se => {
                    self.state[id].strike(|l| l.filter == *filter);
                    if self.state[id].listed().next().is_none() {
                        self.remove_reservation(id, why);
                    }
                }
                Style::Wf if self.state.is_taken_by_another(sid, oif, filter) => {}
                Style::Wf => self.remove_reservation(id, why),
            }
            self.control().settle(&(sid, oif, of));
        }
    }

    fn upstream(&mut self) -> ResvRefresh<'_, P> {
        ResvRefresh::new(self.state, self.signalling, self.probe)
    }

    fn control(&mut self) -> UpdateTrafficControl<'_, E> {
        UpdateTrafficControl::new(self.signalling.now(), self.env, self.state)
    }
}
