//! PATH MESSAGE ARRIVES: RFC 2209 section 2.1. Path state is made or refreshed, and a change is sent on.

use crate::engine::{Env, Rsvp};
use crate::heard::{State, UNHEARD};
use crate::io::{Event, Upcall};
use crate::path_err::Faulty;
use crate::psb::{Forwarded, Origin, OtherHop, OutgoingInterfaces, Phop, Psb};
use crate::receive::{Arrival, carried};
use crate::refusal::Refusal;
use crate::short_list::Few;
use crate::table::BlockId;
use crate::timers::Alarm;
use crate::{lifetime, resv_refresh::Push};
use alloc::boxed::Box;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{Adspec, SenderTemplate, Session, Span, Time, Tspec};
use wire::Path;
use wire::iana::error;

/// The contents of a Path message besides its session and sender.
pub(crate) struct News {
    pub phop: Phop,
    pub tspec: Tspec,
    pub adspec: Option<Adspec>,
    pub fragments: Few<u8>,
    pub ttl: u8,
    pub forward: Few<Forwarded>,
    pub refresh: Span,
    /// The `E_Police` flag.
    pub entry: bool,
}

/// The reason why a new sender is dropped.
const CROWDED: &str = "more senders without a reservation than are kept";

/// The flag of the SESSION object (RFC 2205 section A.1).
const E_POLICE: u8 = 0x01;

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn path_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, path: &Path<'_>) {
        let Some(template) = path.sender.ports() else {
            return self.drop_message(from, "senders by flow label are not handled");
        };
        let session = path.session;
        let faulty = Faulty { session, hop: path.hop, template, tspec: path.tspec };
        if self.is_ours(template.src) {
            return self.drop_message(from, "a Path of our own sender came back: a loop");
        }
        if self.is_crowded(&session) && self.find_path(&session, &template).is_none() {
            return self.drop_message(from, CROWDED);
        }
        let forward = match carried(&path.envelope) {
            Ok(forward) => forward,
            Err(refusal) => return self.path_refused(from, &faulty, &refusal),
        };
        let news = News {
            phop: Phop { iif: from.iif, addr: path.hop.addr, lih: path.hop.lih, non_rsvp: !from.direct },
            tspec: path.tspec,
            adspec: path.adspec.map(|a| a.terms),
            fragments: path.adspec.map(|a| a.unknown_onward()).unwrap_or_default().into(),
            ttl: from.ttl.saturating_sub(1),
            forward: forward.into(),
            refresh: path.refresh.min(self.config.longest_refresh),
            entry: path.session_flags & E_POLICE != 0,
        };
        if session.dst.is_multicast() {
            if let Err(refusal) = self.multicast_path(now, env, from, &session, &template, news) {
                self.path_refused(from, &faulty, &refusal);
            }
            return;
        }
        let out = self.step(ProbePoint::Route, |rsvp| rsvp.way_out(env, &session, template.src, Some(from.iif)));
        if out.takes(from.iif) {
            return self.drop_message(from, "the Path came in where it would go out: a loop");
        }
        match self.find_path(&session, &template) {
            Some(id) if self.local_sender(id).is_some() => {
                self.drop_message(from, "a Path for a sender of our own");
            }
            Some(id) => self.path_known(now, env, id, out, news),
            None => {
                if let Err(refusal) = self.path_new(now, env, &session, &template, out, news) {
                    self.path_refused(from, &faulty, &refusal);
                }
            }
        }
    }

    /// True if there are as many senders without a reservation as allowed, and this session has no
    /// reservation either: a flood of senders must not make us send more refreshes than the links bear, nor
    /// take all memory.
    fn is_crowded(&self, session: &Session) -> bool {
        let unreserved = self.psbs.len().saturating_sub(self.rsbs.len());
        unreserved >= self.config.max_unreserved && !self.is_reserved(session)
    }

    /// The path state that a Path or PathTear is about: the session block first, then the sender's.
    pub(crate) fn find_path(&mut self, session: &Session, template: &SenderTemplate) -> Option<BlockId<Psb>> {
        let sid = self.step(ProbePoint::FindSession, |rsvp| rsvp.sessions.find(session))?;
        self.step(ProbePoint::FindPsb, |rsvp| rsvp.psb_of(sid, template))
    }

    pub(crate) fn path_new<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        session: &Session,
        template: &SenderTemplate,
        out: OutgoingInterfaces,
        news: News,
    ) -> Result<(), Refusal> {
        let phop = news.phop;
        let psb = self.block_of(now, news, out);
        let id = self.step(ProbePoint::CreatePsb, |rsvp| rsvp.add_path_state(session, template, psb))?;
        self.spoke_of(State::Path(id));
        if phop.non_rsvp {
            self.say(Event::NonRsvpHop { session: *session, phop: phop.addr });
        }
        self.path_came(now, env, id);
        Ok(())
    }

    /// The path state that a Path message makes.
    pub(crate) fn block_of(&self, now: Time, news: News, out: OutgoingInterfaces) -> Psb {
        Psb {
            origin: Origin::Hop(news.phop),
            tspec: news.tspec,
            adspec: news.adspec,
            fragments: news.fragments,
            ttl: news.ttl,
            out,
            forward: news.forward,
            refresh: news.refresh,
            expires: now + lifetime::lifetime(news.refresh, self.config.keep),
            heard: UNHEARD,
            path_refresh_at: Time::FOREVER,
            credit: 0,
            phop_since: now,
            other: None,
            confirm: None,
            blockade: None,
            entry: news.entry,
            request: None,
            alarm: Alarm::OFF,
        }
    }

    /// Announces a new path state to applications, sends it on, and asks for the reservations that they
    /// requested before it came.
    pub(crate) fn path_came<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>) {
        self.path_event(id);
        self.path_refresh(now, env, id);
        // Whoever sends shares a wildcard reservation that is there already.
        self.sender_joins(now, env, id);
        self.resv_refresh(now, id, Push::IfNew);
        self.arm_path(id);
    }

    /// Keeps a path state that is new, within the limits and the port rules of RFC 2205 section 3.2.
    pub(crate) fn add_path_state(
        &mut self,
        session: &Session,
        template: &SenderTemplate,
        psb: Psb,
    ) -> Result<BlockId<Psb>, Refusal> {
        if self.psbs.len() >= self.config.max_paths {
            return Err(Refusal::table_full("path states", self.config.max_paths));
        }
        let sid = self.session_for(session)?;
        let refused = match self.mixed_sender_ports(sid, template) {
            true => Err(Refusal::code(error::BAD_SNDPORT, 0)),
            false => self.room_for_sender(sid),
        };
        if let Err(refusal) = refused {
            self.drop_if_idle(sid);
            return Err(refusal);
        }
        let phop = psb.phop().map(|p| p.addr);
        let id = self.psbs.insert(&mut self.sessions[sid].psbs, (sid, *template, None), psb);
        self.sender_came(id);
        self.say(Event::PathCreated { session: *session, template: *template, phop });
        Ok(id)
    }

    pub(crate) fn path_known<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        id: BlockId<Psb>,
        out: OutgoingInterfaces,
        news: News,
    ) {
        self.spoke_of(State::Path(id));
        let (_, session, template) = self.sender_of(id);
        let psb = &mut self.psbs[id];
        let (before, deadline) = (psb.phop().copied(), psb.next_deadline());
        let moved = before.is_none_or(|p| (p.iif, p.addr, p.lih) != (news.phop.iif, news.phop.addr, news.phop.lih));
        let said = (psb.tspec, psb.adspec, psb.ttl, before.map(|p| p.non_rsvp));
        let new_terms = (psb.tspec, psb.entry) != (news.tspec, news.entry);
        let changed = said != (news.tspec, news.adspec, news.ttl, Some(news.phop.non_rsvp))
            || (&psb.forward, &psb.fragments) != (&news.forward, &news.fragments);
        if let Some(old) = before.filter(|p| !p.is_same(&news.phop) && !session.dst.is_multicast()) {
            psb.other = Some(Box::new(OtherHop { phop: old, expires: psb.expires }));
        }
        psb.origin = Origin::Hop(news.phop);
        let entered = psb.is_policed();
        psb.tspec = news.tspec;
        psb.adspec = news.adspec;
        psb.fragments = news.fragments;
        psb.ttl = news.ttl;
        psb.forward = news.forward;
        psb.entry = news.entry;
        psb.refresh = news.refresh;
        psb.expires = now + lifetime::lifetime(news.refresh, self.config.keep);
        let flapping = moved && now.since(psb.phop_since) < self.config.repair_wait;
        if moved {
            psb.phop_since = now;
        }
        if news.phop.non_rsvp && before.is_none_or(|p| !p.non_rsvp) {
            self.say(Event::NonRsvpHop { session, phop: news.phop.addr });
        }
        if let Some(from) = before.filter(|p| p.addr != news.phop.addr) {
            self.say(Event::PhopChanged { session, template, from: from.addr, to: news.phop.addr });
        }
        if moved {
            self.hop_changed(id);
        }
        if new_terms || entered != self.psbs[id].is_policed() {
            let (sid, ..) = self.sender_of(id);
            self.forget_sums(sid);
        }
        if self.psbs[id].out != out {
            self.reroute(now, env, id, out);
        }
        if new_terms {
            self.sender_changed(now, env, id);
        }
        if changed {
            self.path_event(id);
            self.path_refresh(now, env, id);
        }
        // A new previous hop is asked at once, so that the reservation follows the path (RFC 2205 section 3.6); one
        // that takes turns with another is asked at the next refresh.
        if moved && !flapping {
            self.resv_refresh(now, id, Push::Now);
        }
        // A refresh only moves deadlines later: the alarm may ring early and look.
        if self.psbs[id].next_deadline() < deadline {
            self.arm_path(id);
        }
    }

    /// Called when the present previous hop is gone: goes back to the other one, if one was heard and has not
    /// expired. False if there is none.
    pub(crate) fn fall_back(&mut self, now: Time, id: BlockId<Psb>) -> bool {
        self.unheard_path(id);
        let (_, session, template) = self.sender_of(id);
        let psb = &mut self.psbs[id];
        let Some(other) = psb.other.take().filter(|o| o.expires > now) else { return false };
        let Origin::Hop(from) = core::mem::replace(&mut psb.origin, Origin::Hop(other.phop)) else { return false };
        psb.expires = other.expires;
        psb.phop_since = now;
        self.hop_changed(id);
        self.say(Event::PhopChanged { session, template, from: from.addr, to: other.phop.addr });
        self.resv_refresh(now, id, Push::Now);
        self.arm_path(id);
        true
    }

    /// PATH_EVENT for the local applications that receive the session.
    pub(crate) fn path_event(&mut self, id: BlockId<Psb>) {
        let (sid, session, template) = self.sender_of(id);
        let receivers = self.sessions[sid].receivers.clone();
        for app in receivers.iter().copied() {
            if !self.is_heard_by(app, id) {
                continue;
            }
            let upcall = self.path_upcall(id, session, template);
            self.tell(app, upcall);
        }
    }

    /// The upcall that announces a sender to an application.
    pub(crate) fn path_upcall(&self, id: BlockId<Psb>, session: Session, template: SenderTemplate) -> Upcall {
        let psb = &self.psbs[id];
        let broken = psb.phop().is_some_and(|p| p.non_rsvp);
        let adspec = psb.adspec.map(|a| Adspec { break_bit: a.break_bit || broken, ..a });
        let own_mtu = psb.phop().and_then(|p| self.interfaces.get(&p.iif)).map(|at| at.mtu);
        Upcall::Path { session, template, tspec: psb.tspec, adspec, own_mtu }
    }
}
