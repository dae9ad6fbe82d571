//! Route and interface changes: local repair, RFC 2205 section 3.6. The Path follows a changed route after W, during
//! which the route settles; the reservation on the old way is given back at once, so that nothing is held twice here.

use crate::engine::{Env, Rsvp, Timer};
use crate::io::{Event, Gone, Interface};
use crate::psb::{Out, Psb};
use crate::table::Id;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{IfIndex, Session, Time};

impl Rsvp {
    pub(crate) fn route_changed<E: Env>(&mut self, now: Time, env: &mut E, dst: Option<IpAddr>) {
        self.repair(now, env, |_, session| dst.is_none_or(|d| d == session.dst));
    }

    pub(crate) fn interface_changed<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        interface: IfIndex,
        state: Option<Interface>,
    ) {
        if self.interfaces.get(&interface) == state.as_ref() {
            return;
        }
        self.set_interfaces(|all| match state {
            Some(state) => drop(all.insert(interface, state)),
            None => drop(all.remove(&interface)),
        });
        self.repair(now, env, |_, _| true);
        // What this hop exports may have changed (its MTU): the Paths through it say so after W.
        let through: Vec<_> =
            self.psbs.iter().filter(|(_, _, p)| p.out.takes(interface)).map(|(id, _, _)| id).collect();
        for id in through {
            self.path_soon(now, id);
        }
    }

    fn repair<E: Env>(&mut self, now: Time, env: &mut E, of: impl Fn(&Psb, &Session) -> bool) {
        let chosen = self.psbs.iter().filter(|(_, key, psb)| key.2.is_none() && of(psb, &self.sessions.key(key.0)));
        let chosen: Vec<_> = chosen.map(|(id, _, _)| id).collect();
        for id in chosen {
            let (_, session, template) = self.sender_of(id);
            if session.dst.is_multicast() {
                self.tree_changed(now, env, id);
                continue;
            }
            let iif = self.psbs[id].phop().map(|p| p.iif);
            let mut out = self.way_out(env, &session, template.src, iif);
            if iif.is_some_and(|iif| out.takes(iif)) {
                out = Out::Nowhere;
            }
            if out != self.psbs[id].out {
                self.reroute(now, env, id, out);
            }
        }
    }

    /// The packets of a sender leave another way now.
    pub(crate) fn reroute<E: Env>(&mut self, now: Time, env: &mut E, id: Id<Psb>, out: Out) {
        let (sid, session, template) = self.sender_of(id);
        let old = core::mem::replace(&mut self.psbs[id].out, out.clone());
        self.unheard_path(id);
        self.say(Event::Rerouted { session, template, oif: out.oifs().first().copied() });
        if old.oifs().iter().any(|oif| !out.takes(*oif)) {
            self.drop_reservations_of(now, env, sid, &template, Gone::RouteGone);
        }
        if out.oifs().iter().any(|oif| !old.takes(*oif)) {
            // Whoever sends shares a wildcard reservation that is there already.
            self.sender_changed(now, env, id);
        }
        // What was asked upstream stays for as long as the new way needs to ask anew: the next refresh finds out.
        let grace = now + self.config.repair_wait + self.config.refresh;
        if let Some(request) = &mut self.psbs[id].request {
            request.refresh_at = grace;
        }
        if out.is_heard_here() && !old.is_heard_here() {
            self.path_event(id);
        }
        self.path_soon(now, id);
    }

    /// A Path after W, or at once where W is zero.
    fn path_soon(&mut self, now: Time, id: Id<Psb>) {
        let psb = &mut self.psbs[id];
        psb.path_refresh_at = psb.path_refresh_at.min(now + self.config.repair_wait);
        let (at, alarm) = (psb.next_deadline(), &mut psb.alarm);
        self.timers.set_by(alarm, at, Timer::Path(id));
    }
}
