//! Route and interface changes: local repair, RFC 2205 section 3.6. The Path follows a changed route after W,
//! in which the route settles. The reservation on the old route is given back at once, so that nothing is
//! held twice here.

use crate::engine::{Env, Rsvp, Timer};
use crate::io::{Event, Gone, Interface};
use crate::psb::{OutgoingInterfaces, Psb};
use crate::table::BlockId;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{IfIndex, Time};

/// Most path states that are checked in one step. A notice that may concern all of a million must not delay
/// everything else by a million look-ups: the rest follows at the next wake-ups, which come at once.
const MOST_AT_ONCE: u32 = 1024;

/// Most changes that are told apart while a walk is under way; beyond that, all path states are checked.
const MOST_CHANGES: usize = 32;

/// A walk over all path states that is under way. It is circular: a change that comes meanwhile is checked
/// from the present place of the walk until the walk is there again. It does not begin anew, or states far
/// from the beginning would never be checked while changes go on.
pub(crate) struct Sweep {
    /// The next place in the table of path states.
    next: u32,
    changes: Vec<Change>,
}

/// A change of routes or interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Any route.
    Everything,
    /// Routes to these destinations.
    Within(IpAddr, u8),
    /// An interface, and with it any route. Paths through it are sent again, as its Adspec may have changed.
    Interface(IfIndex),
}

/// A change, and the part of the walk that still checks for it.
struct Change {
    what: What,
    /// The place of the walk when the change came.
    from: u32,
    /// The number of times the walk has reached the end of the table since.
    ends: u8,
}

impl Change {
    /// True if the walk, which is at `next`, has covered the whole table since the change came.
    fn is_over(&self, next: u32) -> bool {
        self.ends > 1 || (self.ends == 1 && next >= self.from)
    }
}

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn route_changed<E: Env>(&mut self, now: Time, env: &mut E, within: Option<(IpAddr, u8)>) {
        let what = within.map_or(What::Everything, |(network, bits)| What::Within(network, bits));
        self.begin_sweep(now, env, what);
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
        self.begin_sweep(now, env, What::Interface(interface));
    }

    /// Begins to check all path states that a change may concern, or adds it to the walk under way.
    fn begin_sweep<E: Env>(&mut self, now: Time, env: &mut E, what: What) {
        let mut sweep = self.sweep.take().unwrap_or(Sweep { next: 0, changes: Vec::new() });
        let full = sweep.changes.len() >= MOST_CHANGES;
        let what = if full && !matches!(what, What::Interface(_)) { What::Everything } else { what };
        let asks_all = |change: &Change| !matches!(change.what, What::Interface(_));
        sweep.changes.retain(|change| change.what != what && !(full && asks_all(change)));
        sweep.changes.push(Change { what, from: sweep.next, ends: 0 });
        self.sweep = Some(sweep);
        self.sweep_on(now, env);
    }

    /// Checks the next path states of the walk.
    pub(crate) fn sweep_on<E: Env>(&mut self, now: Time, env: &mut E) {
        let Some(mut sweep) = self.sweep.take() else { return };
        let end = sweep.next.saturating_add(MOST_AT_ONCE);
        let chosen: Vec<_> = self.psbs.between(sweep.next..end).collect();
        for &id in &chosen {
            // One repair may end another's state.
            if self.psbs.get(id).is_some() && self.psbs.key(id).2.is_none() && self.is_asked_after(&sweep, id) {
                self.repair(now, env, id);
            }
        }
        for id in chosen {
            let told = |psb: &Psb, what| matches!(what, What::Interface(interface) if psb.out.takes(interface));
            let through = |psb: &Psb| sweep.changes.iter().any(|change| told(psb, change.what));
            if self.psbs.get(id).is_some_and(through) {
                self.path_soon(now, id);
            }
        }
        sweep.next = end;
        if end >= self.psbs.places() {
            sweep.next = 0;
            sweep.changes.iter_mut().for_each(|change| change.ends += 1);
        }
        sweep.changes.retain(|change| !change.is_over(sweep.next));
        if !sweep.changes.is_empty() {
            self.sweep = Some(sweep);
        }
    }

    /// True if a change of the walk may concern the route of this path state.
    fn is_asked_after(&self, sweep: &Sweep, id: BlockId<Psb>) -> bool {
        let (_, session, template) = self.sender_of(id);
        sweep.changes.iter().any(|change| match change.what {
            What::Everything | What::Interface(_) => true,
            // A router may look at the way back to the source too (RFC 3704).
            What::Within(network, bits) => {
                is_within(session.dst, network, bits) || is_within(template.src, network, bits)
            }
        })
    }

    fn repair<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>) {
        let (_, session, template) = self.sender_of(id);
        if session.dst.is_multicast() {
            return self.tree_changed(now, env, id);
        }
        let iif = self.psbs[id].phop().map(|p| p.iif);
        let mut out = self.way_out(env, &session, template.src, iif);
        if iif.is_some_and(|iif| out.takes(iif)) {
            out = OutgoingInterfaces::Nowhere;
        }
        if out != self.psbs[id].out {
            self.reroute(now, env, id, out);
        }
    }

    /// Moves a sender to other outgoing interfaces.
    pub(crate) fn reroute<E: Env>(&mut self, now: Time, env: &mut E, id: BlockId<Psb>, out: OutgoingInterfaces) {
        let (sid, session, template) = self.sender_of(id);
        self.forget_sums(sid);
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

    /// Schedules a Path after W, which is at once if W is zero.
    fn path_soon(&mut self, now: Time, id: BlockId<Psb>) {
        let psb = &mut self.psbs[id];
        psb.path_refresh_at = psb.path_refresh_at.min(now + self.config.repair_wait);
        let (at, alarm) = (psb.next_deadline(), &mut psb.alarm);
        self.timers.set_by(alarm, at, Timer::Path(id));
    }
}

/// True if an address is within a network. One of another address family is not.
fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |differing_from: u32| differing_from >= u32::from(bits);
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same((u32::from(a) ^ u32::from(b)).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => same((u128::from(a) ^ u128::from(b)).leading_zeros()),
        _ => false,
    }
}
