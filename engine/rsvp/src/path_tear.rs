//! PATH TEAR MESSAGE ARRIVES: RFC 2209 section 2.2; and the end of path state for other reasons.

use crate::engine::{Env, Rsvp};
use crate::io::{Event, Gone, Upcall};
use crate::psb::{Origin, OutgoingInterfaces, Phop, Psb};
use crate::receive::{Arrival, carried};
use crate::table::BlockId;
use terms::Time;
use terms::probe::{ProbeObserver, ProbePoint};
use wire::PathTear;

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn path_tear_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, tear: &PathTear<'_>) {
        let known = tear.sender.ports().and_then(|template| self.find_path(&tear.session, &template));
        let Some(id) = known else {
            return self.drop_message(from, "PathTear for a sender that we do not know");
        };
        let is_from = |p: &Phop| p.addr == tear.hop.addr && p.iif == from.iif;
        if self.psbs[id].other.as_ref().is_some_and(|o| is_from(&o.phop)) {
            self.psbs[id].other = None;
            return;
        }
        if !self.psbs[id].phop().is_some_and(is_from) {
            // Multicast: a path that was only remembered (RFC 2205 section 3.1.5).
            let (sid, template, _) = self.psbs.key(id);
            let aside = self.psbs.find(&(sid, template, Some(from.iif)));
            if let Some(aside) = aside.filter(|a| self.psbs[*a].phop().is_some_and(is_from)) {
                return self.drop_aside(aside);
            }
            return self.drop_message(from, "PathTear from a node that is not the previous hop");
        }
        if self.fall_back(now, id) {
            return;
        }
        let Ok(forward) = carried(&tear.envelope) else {
            return self.drop_message(from, "PathTear with too much to be passed on");
        };
        self.step(ProbePoint::TearPsb, |rsvp| {
            rsvp.path_tear_on(id, &forward);
            rsvp.forget_path(now, env, id, Gone::Torn);
        });
    }

    /// Ends a path state: sends PathTear downstream, releases the reservations under it, tells applications.
    ///
    /// A previous hop that sent a tear has no reservation for us any more; one whose refreshes failed to come
    /// still holds one, so it gets a ResvTear.
    pub(crate) fn end_path<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>, why: Gone) {
        if self.psbs.key(id).2.is_some() {
            return self.drop_aside(id);
        }
        self.path_tear_on(id, &[]);
        self.forget_path(now, env, id, why);
    }

    fn forget_path<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>, why: Gone) {
        let (sid, session, template) = self.sender_of(id);
        self.sum_follows(id, false);
        let out = core::mem::replace(&mut self.psbs[id].out, OutgoingInterfaces::Nowhere);
        self.drop_reservations_of(now, env, sid, &template, Gone::PathGone);
        match self.psbs[id].origin {
            Origin::Hop(_) if why != Gone::Torn => self.resv_tear_upstream(id),
            _ => {}
        }
        let receivers = self.sessions[sid].receivers.clone();
        for app in receivers.iter().copied() {
            if out.is_heard_here() || self.is_proxy(app) {
                self.tell(app, Upcall::PathGone { session, template });
            }
        }
        self.unheard_path(id);
        self.sender_goes(id);
        let mut gone = self.psbs.remove(&mut self.sessions[sid].psbs, id);
        self.timers.clear(&mut gone.alarm);
        self.say(Event::PathRemoved { session, template, why });
        self.take_up_aside(now, sid, &template);
        self.drop_if_idle(sid);
    }
}
