//! Route and interface changes: local repair, RFC 2205 section 3.6. The Path follows a changed route after W, during
//! which the route settles; the reservation on the old way is given back at once, so that nothing is held twice here.

use crate::engine::{Env, Rsvp, Timer};
use crate::io::{Event, Gone, Interface};
use crate::psb::{Out, Psb};
use crate::table::Id;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::Probe;
use terms::{IfIndex, Time};

/// Most path states that are asked after at once. A notice that may concern all of a million must not stop everything
/// else for as long as a million look-ups take: the rest has its turn at the next wake-ups, which are at once.
const MOST_AT_ONCE: u32 = 1024;

/// A walk over all path states that is under way.
pub(crate) struct Sweep {
    /// The next place in their table.
    next: u32,
    /// Interfaces that changed: what they export may have, and Paths through them say so.
    changed: Vec<IfIndex>,
}

impl<P: Probe> Rsvp<P> {
    pub(crate) fn route_changed<E: Env>(&mut self, now: Time, env: &mut E, dst: Option<IpAddr>) {
        let Some(dst) = dst else { return self.begin_sweep(now, env, None) };
        let chosen = self.psbs.iter().filter(|(_, key, _)| key.2.is_none() && self.sessions.key(key.0).dst == dst);
        let chosen: Vec<_> = chosen.map(|(id, _, _)| id).collect();
        chosen.into_iter().for_each(|id| self.repair(now, env, id));
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
        self.begin_sweep(now, env, Some(interface));
    }

    /// All path states are asked after from the first on, once more where that is under way.
    fn begin_sweep<E: Env>(&mut self, now: Time, env: &mut E, interface: Option<IfIndex>) {
        let mut changed = self.sweep.take().map_or(Vec::new(), |sweep| sweep.changed);
        changed.extend(interface.filter(|interface| !changed.contains(interface)));
        self.sweep = Some(Sweep { next: 0, changed });
        self.sweep_on(now, env);
    }

    /// The next of them.
    pub(crate) fn sweep_on<E: Env>(&mut self, now: Time, env: &mut E) {
        let Some(mut sweep) = self.sweep.take() else { return };
        let end = sweep.next.saturating_add(MOST_AT_ONCE);
        let chosen: Vec<_> = self.psbs.between(sweep.next..end).collect();
        for &id in chosen.iter().filter(|id| self.psbs.key(**id).2.is_none()).collect::<Vec<_>>() {
            // One repair may end another's state.
            if self.psbs.get(id).is_some() {
                self.repair(now, env, id);
            }
        }
        for id in chosen {
            let through = |psb: &Psb| sweep.changed.iter().any(|interface| psb.out.takes(*interface));
            if self.psbs.get(id).is_some_and(through) {
                self.path_soon(now, id);
            }
        }
        if end < self.psbs.places() {
            sweep.next = end;
            self.sweep = Some(sweep);
        }
    }

    fn repair<E: Env>(&mut self, now: Time, env: &mut E, id: Id<Psb>) {
        let (_, session, template) = self.sender_of(id);
        if session.dst.is_multicast() {
            return self.tree_changed(now, env, id);
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
