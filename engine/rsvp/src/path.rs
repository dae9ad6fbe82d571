//! PATH MESSAGE ARRIVES: RFC 2209 section 2.1. Path state is made or refreshed, and sent on if it says something new.

use crate::engine::{Env, Rsvp};
use crate::heard::{State, UNHEARD};
use crate::io::{Event, Upcall};
use crate::path_err::Faulty;
use crate::psb::{Forwarded, Origin, OtherHop, Out, Phop, Psb};
use crate::receive::{Arrival, carried};
use crate::refusal::{Refusal, system};
use crate::session::SessionState;
use crate::table::Id;
use crate::timers::Alarm;
use crate::{lifetime, resv_refresh::Push};
use alloc::boxed::Box;
use alloc::vec::Vec;
use terms::{Adspec, SenderTemplate, Session, Span, Time, Tspec};
use wire::Path;
use wire::iana::error;

/// What a Path message says, beyond whose it is.
pub(crate) struct News {
    phop: Phop,
    tspec: Tspec,
    adspec: Option<Adspec>,
    ttl: u8,
    forward: Vec<Forwarded>,
    refresh: Span,
}

impl Rsvp {
    pub(crate) fn path_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, path: &Path<'_>) {
        let Some(template) = path.sender.ports() else {
            return self.drop_message(from, "senders by flow label are not handled");
        };
        let session = path.session;
        let faulty = Faulty { session, hop: path.hop, template, tspec: path.tspec };
        if session.dst.is_multicast() {
            self.drop_message(from, "multicast sessions are not handled yet");
            return self.path_refused(from, &faulty, &Refusal::code(error::RSVP_SYSTEM, system::MULTICAST));
        }
        if self.is_ours(template.src) {
            return self.drop_message(from, "a Path of our own sender came back: a loop");
        }
        let out = self.way_out(env, &session, template.src, Some(from.iif));
        if out.oif() == Some(from.iif) {
            return self.drop_message(from, "the Path came in where it would go out: a loop");
        }
        let forward = match carried(&path.envelope) {
            Ok(forward) => forward,
            Err(refusal) => return self.path_refused(from, &faulty, &refusal),
        };
        let news = News {
            phop: Phop { iif: from.iif, addr: path.hop.addr, lih: path.hop.lih, non_rsvp: !from.direct },
            tspec: path.tspec,
            adspec: path.adspec.map(|a| a.terms),
            ttl: from.ttl.saturating_sub(1),
            forward,
            refresh: path.refresh,
        };
        let known = self.sessions.find(&session).and_then(|sid| self.psb_of(sid, &template));
        match known {
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

    fn path_new<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        session: &Session,
        template: &SenderTemplate,
        out: Out,
        news: News,
    ) -> Result<(), Refusal> {
        let psb = Psb {
            origin: Origin::Hop(news.phop),
            tspec: news.tspec,
            adspec: news.adspec,
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
            request: None,
            alarm: Alarm::OFF,
        };
        let id = self.add_path_state(session, template, psb)?;
        self.spoke_of(State::Path(id));
        if news.phop.non_rsvp {
            self.say(Event::NonRsvpHop { session: *session, phop: news.phop.addr });
        }
        self.path_came(now, env, id);
        Ok(())
    }

    /// A path state is new: applications hear of it, it goes on, and what they asked for before it came is asked now.
    pub(crate) fn path_came<E: Env>(&mut self, now: Time, env: &mut E, id: Id<Psb>) {
        self.path_event(id);
        self.path_refresh(now, env, id);
        self.resv_refresh(now, id, Push::IfNew);
        self.arm_path(id);
    }

    /// Keeps a path state that is new, within the limits and the port rules of RFC 2205 section 3.2.
    pub(crate) fn add_path_state(
        &mut self,
        session: &Session,
        template: &SenderTemplate,
        psb: Psb,
    ) -> Result<Id<Psb>, Refusal> {
        if self.psbs.len() >= self.config.max_paths {
            return Err(Refusal::table_full("path states", self.config.max_paths));
        }
        let sid = self.session_for(session)?;
        if self.mixed_sender_ports(sid, template) {
            self.drop_if_idle(sid);
            return Err(Refusal::code(error::BAD_SNDPORT, 0));
        }
        let phop = psb.phop().map(|p| p.addr);
        let id = self.psbs.insert(&mut self.sessions[sid].psbs, (sid, *template), psb);
        self.say(Event::PathCreated { session: *session, template: *template, phop });
        Ok(id)
    }

    /// Whether a sender's address appears with a source port of zero and with others.
    fn mixed_sender_ports(&self, sid: Id<SessionState>, template: &SenderTemplate) -> bool {
        if template.src_port != 0 {
            return self.psb_of(sid, &SenderTemplate { src_port: 0, ..*template }).is_some();
        }
        self.psbs.chain(&self.sessions[sid].psbs).any(|id| {
            let (_, other) = self.psbs.key(id);
            other.src == template.src && other.src_port != 0
        })
    }

    fn path_known<E: Env>(&mut self, now: Time, env: &mut E, id: Id<Psb>, out: Out, news: News) {
        self.spoke_of(State::Path(id));
        let (sid, session, template) = self.sender_of(id);
        let psb = &mut self.psbs[id];
        let (before, deadline) = (psb.phop().copied(), psb.next_deadline());
        let moved = before.is_none_or(|p| (p.iif, p.addr, p.lih) != (news.phop.iif, news.phop.addr, news.phop.lih));
        let said = (psb.tspec, psb.adspec, psb.ttl, before.map(|p| p.non_rsvp));
        let new_tspec = psb.tspec != news.tspec;
        let changed =
            said != (news.tspec, news.adspec, news.ttl, Some(news.phop.non_rsvp)) || psb.forward != news.forward;
        if let Some(old) = before.filter(|p| !p.is_same(&news.phop)) {
            psb.other = Some(Box::new(OtherHop { phop: old, expires: psb.expires }));
        }
        psb.origin = Origin::Hop(news.phop);
        psb.tspec = news.tspec;
        psb.adspec = news.adspec;
        psb.ttl = news.ttl;
        psb.forward = news.forward;
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
        if self.psbs[id].out != out {
            self.reroute(now, env, id, out);
        }
        if new_tspec {
            self.sender_changed(now, env, sid, &template, id);
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

    /// The present previous hop is gone. If another was heard and is not dead, the path goes through that one again.
    pub(crate) fn fall_back(&mut self, now: Time, id: Id<Psb>) -> bool {
        self.unheard_path(id);
        let (_, session, template) = self.sender_of(id);
        let psb = &mut self.psbs[id];
        let Some(other) = psb.other.take().filter(|o| o.expires > now) else { return false };
        let Origin::Hop(from) = core::mem::replace(&mut psb.origin, Origin::Hop(other.phop)) else { return false };
        psb.expires = other.expires;
        psb.phop_since = now;
        self.say(Event::PhopChanged { session, template, from: from.addr, to: other.phop.addr });
        self.resv_refresh(now, id, Push::Now);
        self.arm_path(id);
        true
    }

    /// PATH_EVENT for the local applications that receive the session.
    pub(crate) fn path_event(&mut self, id: Id<Psb>) {
        let (sid, session, template) = self.sender_of(id);
        if self.psbs[id].out != Out::Local {
            return;
        }
        for app in self.sessions[sid].receivers.clone() {
            let upcall = self.path_upcall(id, session, template);
            self.tell(app, upcall);
        }
    }

    /// What an application hears of a sender.
    pub(crate) fn path_upcall(&self, id: Id<Psb>, session: Session, template: SenderTemplate) -> Upcall {
        let psb = &self.psbs[id];
        let broken = psb.phop().is_some_and(|p| p.non_rsvp);
        let adspec = psb.adspec.map(|a| Adspec { break_bit: a.break_bit || broken, ..a });
        Upcall::Path { session, template, tspec: psb.tspec, adspec }
    }
}
