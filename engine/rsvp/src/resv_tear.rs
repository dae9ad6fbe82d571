//! RESV TEAR MESSAGE ARRIVES: RFC 2209 section 2.5; the end of a reservation for other reasons; our own ResvTear.

use crate::engine::{Env, Rsvp};
use crate::io::{Event, Gone, Upcall};
use crate::path_err::HOP_TTL;
use crate::psb::{Origin, Phop, Psb, Request};
use crate::receive::Arrival;
use crate::resv_refresh::Push;
use crate::rsb::{NextHop, Rsb};
use crate::session::SessionState;
use crate::table::Id;
use terms::{FilterSpec, IfIndex, Span, Style, Time};
use wire::{Builder, MessageType, ResvTear, RsvpHop};

impl Rsvp {
    pub(crate) fn resv_tear_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, tear: &ResvTear<'_>) {
        let nhop = NextHop::Hop { oif: IfIndex(tear.hop.lih), addr: tear.hop.addr };
        let sid = self.sessions.find(&tear.session);
        for flow in tear.flows() {
            let filter = flow.filter.and_then(|f| f.ports());
            let found = sid.zip(filter).and_then(|(sid, filter)| self.rsbs.find(&(sid, nhop, filter)));
            match found {
                Some(id) => self.end_reservation(now, env, id, Gone::Torn),
                None => self.drop_message(from, "ResvTear for a reservation that its sender does not have here"),
            }
        }
    }

    /// Ends one reservation state: what is left on the interface is merged anew, and what is left of it all goes
    /// upstream, if only as a tear.
    pub(crate) fn end_reservation<E: Env>(&mut self, now: Time, env: &mut E, id: Id<Rsb>, why: Gone) {
        let (sid, nhop, filter) = self.rsbs.key(id);
        self.remove_reservation(id, why);
        if let Some(oif) = nhop.oif() {
            let at = (sid, oif, filter);
            match self.merged(&at, None) {
                Ok(Some(rest)) => self.shrink(now, env, &at, rest),
                _ => self.release_traffic_control(now, env, &at),
            }
        }
        if let Some(psb) = self.psb_of(sid, &filter) {
            self.resv_refresh(now, psb, Push::IfNew);
            self.arm_path(psb);
        }
        self.drop_if_idle(sid);
    }

    fn remove_reservation(&mut self, id: Id<Rsb>, why: Gone) {
        let (sid, nhop, template) = self.rsbs.key(id);
        self.unheard_resv(id);
        let mut gone = self.rsbs.remove(&mut self.sessions[sid].rsbs, id);
        self.timers.clear(&mut gone.alarm);
        let session = self.sessions.key(sid);
        self.say(Event::ResvRemoved { session, template, oif: nhop.oif(), why });
    }

    /// Ends what neighbours reserved for a sender, on one interface or on all, without a word upstream. What local
    /// applications ask for stays: it waits for the sender to come back.
    pub(crate) fn drop_reservations_of<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        sid: Id<SessionState>,
        filter: &FilterSpec,
        on: Option<IfIndex>,
        why: Gone,
    ) {
        for id in self.reservations_of(sid, filter) {
            let Some(oif) = self.rsbs.key(id).1.oif() else { continue };
            if on.is_none_or(|on| on == oif) {
                self.remove_reservation(id, why);
                self.release_traffic_control(now, env, &(sid, oif, *filter));
            }
        }
    }

    /// A smaller merged request for what traffic control holds. A plane that cannot shrink keeps the larger one.
    fn shrink<E: Env>(&mut self, now: Time, env: &mut E, at: &crate::tcsb::TcsbKey, rest: terms::FlowSpec) {
        let Some(id) = self.tcsbs.find(at) else { return };
        let tspec = self.tcsbs[id].path_te;
        let life = self.longest_life(at);
        let _kept = self.update_traffic_control(now, env, at, rest, tspec, life);
    }

    pub(crate) fn longest_life(&self, at: &crate::tcsb::TcsbKey) -> Span {
        let lives = self.reservations_of(at.0, &at.2).into_iter();
        let longest = lives.map(|id| self.rsbs[id].refresh).max().unwrap_or(Span::ZERO);
        crate::lifetime::lifetime(longest, self.config.keep)
    }

    /// Nothing is asked of the previous hop any more (or of a local sender).
    pub(crate) fn unreserve(&mut self, id: Id<Psb>) {
        let (_, session, template) = self.sender_of(id);
        match self.psbs[id].origin {
            Origin::Local(app) => {
                self.psbs[id].request = None;
                self.tell(app, Upcall::ResvGone { session, template });
            }
            Origin::Hop(_) => self.resv_tear_upstream(id),
        }
    }

    /// ResvTear to the previous hop, if anything was asked of it.
    pub(crate) fn resv_tear_upstream(&mut self, id: Id<Psb>) {
        let Some(phop) = self.psbs[id].phop().copied() else { return };
        let Some(request) = self.psbs[id].request.take() else { return };
        self.psbs[id].confirm = None;
        let other = self.psbs[id].other.as_ref().map(|o| o.phop);
        for phop in [Some(phop), other].into_iter().flatten() {
            self.send_resv_tear(id, &phop, &request);
        }
    }

    fn send_resv_tear(&mut self, id: Id<Psb>, phop: &Phop, request: &Request) {
        let (_, session, template) = self.sender_of(id);
        let Some(src) = self.address_on(phop.iif, phop.addr) else { return };
        let build = Builder::new(MessageType::ResvTear, HOP_TTL)
            .session(&session)
            .hop(&RsvpHop { addr: src, lih: phop.lih })
            .style(Style::Ff)
            .flowspec(&request.flowspec)
            .filter_spec(&template.into());
        self.send_to_hop(MessageType::ResvTear, phop.by(), src, phop.addr, build);
    }
}
