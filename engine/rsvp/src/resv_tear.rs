//! RESV TEAR MESSAGE ARRIVES: RFC 2209 section 2.5; the end of a reservation for other reasons; our own ResvTear.

use crate::engine::{Env, Rsvp};
use crate::io::{Event, Gone, Upcall};
use crate::neighbour::About;
use crate::path_err::HOP_TTL;
use crate::psb::{Origin, Phop, Psb, UpstreamRequest};
use crate::receive::{Arrival, carried};
use crate::resv_refresh::Push;
use crate::rsb::{ListedSender, NextHop, Rsb};
use crate::session::SessionState;
use crate::table::BlockId;
use alloc::vec::Vec;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{FilterSpec, IfIndex, Style, Time};
use wire::{Builder, MessageType, ResvTear, RsvpHop};

const UNKNOWN: &str = "ResvTear for a reservation that its sender does not have here";

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn resv_tear_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, tear: &ResvTear<'_>) {
        let nhop = NextHop::Hop { oif: IfIndex(tear.hop.lih), addr: tear.hop.addr };
        let known = self.step(ProbePoint::FindSession, |rsvp| rsvp.sessions.find(&tear.session));
        let Some(sid) = known else { return self.drop_message(from, UNKNOWN) };
        let Ok(goes_on) = carried(&tear.envelope) else {
            return self.drop_message(from, "ResvTear with too much to be passed on");
        };
        self.tear_carries = goes_on;
        self.torn(now, env, from, (sid, nhop), tear);
        self.tear_carries = Vec::new();
    }

    fn torn<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        from: &Arrival,
        (sid, nhop): (BlockId<SessionState>, NextHop),
        tear: &ResvTear<'_>,
    ) {
        let filters: Vec<_> = tear.flows().filter_map(|flow| flow.filter.and_then(|f| f.ports())).collect();
        if tear.style == Style::Ff {
            for filter in filters {
                match self.step(ProbePoint::FindRsb, |rsvp| rsvp.rsbs.find(&(sid, nhop, Some(filter)))) {
                    Some(id) => self.tear_reservation(now, env, id),
                    None => self.drop_message(from, UNKNOWN),
                }
            }
            return;
        }
        let known = self.step(ProbePoint::FindRsb, |rsvp| rsvp.rsbs.find(&(sid, nhop, None)));
        match known.filter(|id| self.rsbs[*id].style == tear.style) {
            Some(id) if tear.style == Style::Wf => self.tear_reservation(now, env, id),
            Some(id) if filters.iter().any(|f| self.rsbs[id].shares(f)) => {
                self.step(ProbePoint::TearReservation, |rsvp| {
                    let _stays = rsvp.end_senders(now, env, id, |l| filters.contains(&l.filter), Gone::Torn);
                });
            }
            _ => self.drop_message(from, UNKNOWN),
        }
    }

    fn tear_reservation<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Rsb>) {
        self.step(ProbePoint::TearReservation, |rsvp| rsvp.end_reservation(now, env, id, Gone::Torn));
    }

    /// Ends one reservation state: the other requests on the interface are merged anew, and the result goes
    /// upstream, as a tear if none is left.
    pub(crate) fn end_reservation<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Rsb>, why: Gone) {
        let (sid, nhop, of) = self.rsbs.key(id);
        let senders = self.senders_of(id);
        self.remove_reservation(id, why);
        if let Some(oif) = nhop.oif() {
            self.settle(now, env, &(sid, oif, of));
        }
        self.refresh_upstream(now, senders, Push::IfNew);
        self.drop_if_idle(sid);
    }

    /// Ends a shared-explicit request for some of its senders; the others keep theirs. `false`: none is left.
    pub(crate) fn end_senders<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        id: BlockId<Rsb>,
        gone: impl Fn(&ListedSender) -> bool,
        why: Gone,
    ) -> bool {
        let (sid, nhop, of) = self.rsbs.key(id);
        let senders = self.senders_of(id);
        self.strike(id, gone);
        let stays = self.rsbs[id].listed().next().is_some();
        if stays {
            self.say_created(id);
        } else {
            self.remove_reservation(id, why);
        }
        if let Some(oif) = nhop.oif() {
            self.settle(now, env, &(sid, oif, of));
        }
        self.refresh_upstream(now, senders, Push::IfNew);
        self.drop_if_idle(sid);
        stays
    }

    pub(crate) fn remove_reservation(&mut self, id: BlockId<Rsb>, why: Gone) {
        let (sid, nhop, template) = self.rsbs.key(id);
        self.unheard_resv(id);
        let mut gone = self.rsbs.remove(&mut self.sessions[sid].rsbs, id);
        self.timers.clear(&mut gone.alarm);
        let session = self.sessions.key(sid);
        self.say(Event::ResvRemoved { session, template, style: gone.style, oif: nhop.oif(), why });
    }

    /// Ends the neighbours' reservations for a sender on interfaces that its packets do not leave by (any
    /// more); upstream is not told. A wildcard request ends with the last sender that routes to its
    /// interface. Requests of local applications stay: they wait for the sender to come back.
    pub(crate) fn drop_reservations_of<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        sid: BlockId<SessionState>,
        filter: &FilterSpec,
        why: Gone,
    ) {
        let psb = self.psb_of(sid, filter);
        for id in self.reservations_of(sid, filter) {
            let (_, nhop, of) = self.rsbs.key(id);
            let Some(oif) = nhop.oif() else { continue };
            if psb.is_some_and(|psb| self.psbs[psb].out.takes(oif)) {
                continue;
            }
            match self.rsbs[id].style {
                Style::Ff => self.remove_reservation(id, why),
                Style::Se => {
                    self.strike(id, |l| l.filter == *filter);
                    if self.rsbs[id].listed().next().is_none() {
                        self.remove_reservation(id, why);
                    }
                }
                Style::Wf if self.is_taken_by_another(sid, oif, filter) => {}
                Style::Wf => self.remove_reservation(id, why),
            }
            self.settle(now, env, &(sid, oif, of));
        }
    }

    /// Withdraws the request to the previous hop, or tells a local sender that its reservation is gone.
    pub(crate) fn unreserve(&mut self, id: BlockId<Psb>) {
        let (sid, session, template) = self.sender_of(id);
        let Some(request) = self.psbs[id].request else { return };
        match self.psbs[id].origin {
            Origin::Local(app) => {
                self.psbs[id].request = None;
                self.tell(app, Upcall::ResvGone { session, template });
            }
            Origin::Hop(_) if request.style == Style::Ff => self.resv_tear_upstream(id),
            Origin::Hop(phop) => {
                let asked = |id: &BlockId<Psb>| self.psbs[*id].request.is_some_and(|r| r.style == request.style);
                let all: Vec<_> = self.senders_by(sid, &phop).into_iter().filter(asked).collect();
                self.shared_tear(&all, request.style);
            }
        }
    }

    /// Sends a ResvTear to the previous hop for one sender, if there was a request for it. A request that
    /// others share with it stays.
    pub(crate) fn resv_tear_upstream(&mut self, id: BlockId<Psb>) {
        let (sid, ..) = self.sender_of(id);
        let Some(phop) = self.psbs[id].phop().copied() else { return };
        let Some(request) = self.psbs[id].request else { return };
        if request.style == Style::Wf {
            let shared = self.senders(sid).filter(|other| *other != id).any(|other| {
                let other = &self.psbs[other];
                other.request.is_some() && other.phop().is_some_and(|hop| hop.is_same(&phop))
            });
            if shared {
                self.psbs[id].request = None;
                return;
            }
        }
        if request.style != Style::Ff {
            return self.shared_tear(&[id], request.style);
        }
        self.psbs[id].request = None;
        self.psbs[id].confirm = None;
        let other = self.psbs[id].other.as_ref().map(|o| o.phop);
        for phop in [Some(phop), other].into_iter().flatten() {
            self.send_resv_tear(id, &phop, &request);
        }
    }

    fn send_resv_tear(&mut self, id: BlockId<Psb>, phop: &Phop, request: &UpstreamRequest) {
        let (_, session, template) = self.sender_of(id);
        let Some(src) = self.address_on(phop.iif, phop.addr) else { return };
        let build =
            Builder::new(MessageType::ResvTear, HOP_TTL).session(&session).hop(&RsvpHop { addr: src, lih: phop.lih });
        let build = self
            .with_what_the_tear_carries(build)
            .style(Style::Ff)
            .flowspec(&request.flowspec)
            .filter_spec(&template.into());
        let out = (phop.by(), src, phop.addr);
        self.send_to_hop_about(MessageType::ResvTear, out, build, Some(About::Resv(id)));
    }

    /// Adds the objects of the ResvTear that set this one off that must be passed on (RFC 2205 section 3.10).
    pub(crate) fn with_what_the_tear_carries(&self, build: Builder) -> Builder {
        self.tear_carries.iter().fold(build, |build, object| build.raw(object.class, object.ctype, &object.body))
    }
}
