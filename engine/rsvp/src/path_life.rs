//! The life of a path state: it is made, changed, moved to other interfaces, told to applications. A child each: what
//! is only remembered, and the end.

mod aside;
mod end;

use crate::io::{AppId, Event, Gone, Upcall};
use crate::links::Env;
use crate::path_refresh::PathRefresh;
use crate::procedure::procedure;
use crate::refusal::Refusal;
use crate::resv_refresh::{Push, ResvRefresh};
use crate::resv_tear::ResvTearing;
use crate::state::heard::BlockRef;
use crate::state::psb::{News, Origin, OtherHop, OutgoingInterfaces, Psb};
use crate::state::session::SessionState;
use crate::state::table::BlockId;
use crate::update_traffic_control::UpdateTrafficControl;
use alloc::boxed::Box;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{Adspec, SenderTemplate, Session};

procedure! {
    /// The path states, and what follows from their changes.
    PathLife, measured
}

impl<P: ProbeObserver, E: Env> PathLife<'_, P, E> {
    /// The state of a session; a new one if the session is unknown and allowed.
    pub(crate) fn session_for(&mut self, session: &Session) -> Result<BlockId<SessionState>, Refusal> {
        match self.state.session(session) {
            Some(id) => Ok(id),
            None => self.step(ProbePoint::CreateSession, |rsvp| rsvp.state.add_session(session)),
        }
    }

    /// The path state that a Path or PathTear is about: the session block first, then the sender's.
    pub(crate) fn find_path(&mut self, session: &Session, template: &SenderTemplate) -> Option<BlockId<Psb>> {
        let sid = self.step(ProbePoint::FindSession, |rsvp| rsvp.state.session(session))?;
        self.step(ProbePoint::FindPsb, |rsvp| rsvp.state.psb_of(sid, template))
    }

    pub(crate) fn path_new(
        &mut self,
        session: &Session,
        template: &SenderTemplate,
        out: OutgoingInterfaces,
        news: News,
    ) -> Result<(), Refusal> {
        let psb = self.block_of(news, out);
        let id = self.step(ProbePoint::CreatePsb, |rsvp| rsvp.add_path_state(session, template, psb))?;
        self.state.spoke_of(BlockRef::Path(id));
        if let Some(phop) = self.state[id].phop().filter(|phop| phop.non_rsvp) {
            let phop = phop.addr;
            self.signalling.say(Event::NonRsvpHop { session: *session, phop });
        }
        self.path_came(id);
        Ok(())
    }

    /// The path state that a Path message makes.
    pub(crate) fn block_of(&self, news: News, out: OutgoingInterfaces) -> Psb {
        let expires = self.signalling.now() + self.state.lifetime(news.refresh);
        Psb::new(self.signalling.now(), news, out, expires)
    }

    /// Announces a new path state to applications, sends it on, and asks for the reservations that they
    /// requested before it came.
    pub(crate) fn path_came(&mut self, id: BlockId<Psb>) {
        self.path_event(id);
        self.onward().path_refresh(id);
        // Whoever sends shares a wildcard reservation that is there already.
        self.control().sender_joins(id);
        self.upstream().resv_refresh(id, Push::IfNew);
        self.state.arm_path(id);
    }

    /// Keeps a path state that is new, within the limits and the port rules of RFC 2205 section 3.2.
    pub(crate) fn add_path_state(
        &mut self,
        session: &Session,
        template: &SenderTemplate,
        psb: Psb,
    ) -> Result<BlockId<Psb>, Refusal> {
        self.state.room_for_path()?;
        let sid = self.session_for(session)?;
        let phop = psb.phop().map(|p| p.addr);
        let id = match self.state.add_path(sid, template, psb) {
            Ok(id) => id,
            Err(refusal) => {
                self.state.drop_if_idle(sid);
                return Err(refusal);
            }
        };
        self.signalling.say(Event::PathCreated { session: *session, template: *template, phop });
        Ok(id)
    }

    pub(crate) fn path_known(&mut self, id: BlockId<Psb>, out: OutgoingInterfaces, news: News) {
        self.state.spoke_of(BlockRef::Path(id));
        let Origin::Hop(phop) = news.origin else { return };
        let (_, session, template) = self.state.sender_of(id);
        let expires = self.signalling.now() + self.state.lifetime(news.refresh);
        let settles = self.state.config().repair_wait;
        let psb = &mut self.state[id];
        let (before, deadline) = (psb.phop().copied(), psb.next_deadline());
        let moved = before.is_none_or(|p| (p.iif, p.addr, p.lih) != (phop.iif, phop.addr, phop.lih));
        let said = (psb.tspec, psb.adspec, psb.ttl, before.map(|p| p.non_rsvp));
        let new_terms = (psb.tspec, psb.entry) != (news.tspec, news.entry);
        let changed = said != (news.tspec, news.adspec, news.ttl, Some(phop.non_rsvp))
            || (&psb.forward, &psb.fragments) != (&news.forward, &news.fragments);
        if let Some(old) = before.filter(|p| !p.is_same(&phop) && !session.dst.is_multicast()) {
            psb.other = Some(Box::new(OtherHop { phop: old, expires: psb.expires }));
        }
        psb.origin = Origin::Hop(phop);
        let entered = psb.is_policed();
        psb.tspec = news.tspec;
        psb.adspec = news.adspec;
        psb.fragments = news.fragments;
        psb.ttl = news.ttl;
        psb.forward = news.forward;
        psb.entry = news.entry;
        psb.refresh = news.refresh;
        psb.expires = expires;
        let flapping = moved && self.signalling.now().since(psb.phop_since) < settles;
        if moved {
            psb.phop_since = self.signalling.now();
        }
        if phop.non_rsvp && before.is_none_or(|p| !p.non_rsvp) {
            self.signalling.say(Event::NonRsvpHop { session, phop: phop.addr });
        }
        if let Some(from) = before.filter(|p| p.addr != phop.addr) {
            self.signalling.say(Event::PhopChanged { session, template, from: from.addr, to: phop.addr });
        }
        if moved {
            self.state.hop_changed(id);
        }
        if new_terms || entered != self.state[id].is_policed() {
            let (sid, ..) = self.state.sender_of(id);
            self.state.forget_sums(sid);
        }
        if self.state[id].out != out {
            self.reroute(id, out);
        }
        if new_terms {
            self.control().sender_changed(id);
        }
        if changed {
            self.path_event(id);
            self.onward().path_refresh(id);
        }
        // A new previous hop is asked at once, so that the reservation follows the path (RFC 2205 section 3.6); one
        // that takes turns with another is asked at the next refresh.
        if moved && !flapping {
            self.upstream().resv_refresh(id, Push::Now);
        }
        // A refresh only moves deadlines later: the alarm may ring early and look.
        if self.state[id].next_deadline() < deadline {
            self.state.arm_path(id);
        }
    }

    /// Called when the present previous hop is gone: goes back to the other one, if one was heard and has not
    /// expired. False if there is none.
    pub(crate) fn fall_back(&mut self, id: BlockId<Psb>) -> bool {
        self.state.unheard_path(id);
        let (_, session, template) = self.state.sender_of(id);
        let psb = &mut self.state[id];
        let Some(other) = psb.other.take().filter(|o| o.expires > self.signalling.now()) else { return false };
        let Origin::Hop(from) = core::mem::replace(&mut psb.origin, Origin::Hop(other.phop)) else { return false };
        psb.expires = other.expires;
        psb.phop_since = self.signalling.now();
        self.state.hop_changed(id);
        self.signalling.say(Event::PhopChanged { session, template, from: from.addr, to: other.phop.addr });
        self.upstream().resv_refresh(id, Push::Now);
        self.state.arm_path(id);
        true
    }

    /// PATH_EVENT for the local applications that receive the session.
    pub(crate) fn path_event(&mut self, id: BlockId<Psb>) {
        let (sid, ..) = self.state.sender_of(id);
        let receivers = self.state[sid].receivers.clone();
        for app in receivers.iter().copied() {
            if !self.is_heard_by(app, id) {
                continue;
            }
            let upcall = self.path_upcall(id);
            self.signalling.tell(app, upcall);
        }
    }

    /// The upcall that announces a sender to an application.
    pub(crate) fn path_upcall(&self, id: BlockId<Psb>) -> Upcall {
        let (_, session, template) = self.state.sender_of(id);
        let psb = &self.state[id];
        let broken = psb.phop().is_some_and(|p| p.non_rsvp);
        let adspec = psb.adspec.map(|a| Adspec { break_bit: a.break_bit || broken, ..a });
        let own_mtu = psb.phop().and_then(|p| self.signalling.links().mtu(p.iif));
        Upcall::Path { session, template, tspec: psb.tspec, adspec, own_mtu }
    }

    /// True if an application is told of a sender: it, or the host it acts for, may receive the packets.
    pub(crate) fn is_heard_by(&self, app: AppId, id: BlockId<Psb>) -> bool {
        self.state[id].out.is_heard_here() || self.signalling.applications().is_proxy(app)
    }

    /// Moves a sender to other outgoing interfaces.
    pub(crate) fn reroute(&mut self, id: BlockId<Psb>, out: OutgoingInterfaces) {
        let (sid, session, template) = self.state.sender_of(id);
        self.state.forget_sums(sid);
        let old = core::mem::replace(&mut self.state[id].out, out.clone());
        self.state.unheard_path(id);
        self.signalling.say(Event::Rerouted { session, template, oif: out.oifs().first().copied() });
        if old.oifs().iter().any(|oif| !out.takes(*oif)) {
            self.ending().drop_reservations_of(sid, &template, Gone::RouteGone);
        }
        if out.oifs().iter().any(|oif| !old.takes(*oif)) {
            // Whoever sends shares a wildcard reservation that is there already.
            self.control().sender_changed(id);
        }
        // What was asked upstream stays for as long as the new way needs to ask anew: the next refresh finds out.
        let grace = self.signalling.now() + self.state.config().repair_wait + self.state.config().refresh;
        if let Some(request) = &mut self.state[id].request {
            request.refresh_at = grace;
        }
        if out.is_heard_here() && !old.is_heard_here() {
            self.path_event(id);
        }
        self.path_soon(id);
    }

    /// Schedules a Path after W, which is at once if W is zero.
    pub(crate) fn path_soon(&mut self, id: BlockId<Psb>) {
        let settled = self.signalling.now() + self.state.config().repair_wait;
        let psb = &mut self.state[id];
        psb.path_refresh_at = psb.path_refresh_at.min(settled);
        self.state.arm_path(id);
    }

    pub(crate) fn rerouted(&mut self, id: BlockId<Psb>, out: OutgoingInterfaces) {
        if self.state[id].out != out {
            self.reroute(id, out);
        }
    }

    fn onward(&mut self) -> PathRefresh<'_, P, E> {
        PathRefresh::new(self.env, self.state, self.signalling, self.probe)
    }

    fn ending(&mut self) -> ResvTearing<'_, P, E> {
        ResvTearing::new(self.env, self.state, self.signalling, self.probe)
    }

    fn upstream(&mut self) -> ResvRefresh<'_, P> {
        ResvRefresh::new(self.state, self.signalling, self.probe)
    }

    fn control(&mut self) -> UpdateTrafficControl<'_, E> {
        UpdateTrafficControl::new(self.signalling.now(), self.env, self.state)
    }
}
