//! Route and interface changes: local repair, RFC 2205 section 3.6. The Path follows a changed route after W,
//! in which the route settles. The reservation on the old route is given back at once, so that nothing is
//! held twice here.

use crate::links::Env;
use crate::path_life::PathLife;
use crate::procedure::procedure;
use crate::state::psb::{OutgoingInterfaces, Psb};
use crate::state::table::BlockId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::IfIndex;
use terms::ports::Oifs;
use terms::probe::ProbeObserver;

/// Most path states that are checked in one step. A notice that may concern all of a million must not delay
/// everything else by a million look-ups: the rest follows at the next wake-ups, which come at once.
const MOST_AT_ONCE: u32 = 1024;

/// Most changes that are told apart while a walk is under way; beyond that, all path states are checked.
const MOST_CHANGES: usize = 32;

/// A walk over all path states that is under way. It is circular: a change that comes meanwhile is checked
/// from the present place of the walk until the walk is there again. It does not begin anew, or states far
/// from the beginning would never be checked while changes go on.
struct Sweep {
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

/// The walk that is under way, if there is one.
#[derive(Default)]
pub(crate) struct Sweeps(Option<Sweep>);

impl Sweeps {
    /// True if a walk is under way.
    pub fn is_under_way(&self) -> bool {
        self.0.is_some()
    }
}

procedure! {
    /// The walk over path states after a change.
    Repair
}

impl<P: ProbeObserver, E: Env> Repair<'_, P, E> {
    pub(crate) fn route_changed(&mut self, sweeps: &mut Sweeps, within: Option<(IpAddr, u8)>) {
        let what = within.map_or(What::Everything, |(network, bits)| What::Within(network, bits));
        self.begin_sweep(sweeps, what);
    }

    pub(crate) fn interface_changed(&mut self, sweeps: &mut Sweeps, interface: IfIndex) {
        self.begin_sweep(sweeps, What::Interface(interface));
    }

    /// Begins to check all path states that a change may concern, or adds it to the walk under way.
    fn begin_sweep(&mut self, sweeps: &mut Sweeps, what: What) {
        let mut sweep = sweeps.0.take().unwrap_or(Sweep { next: 0, changes: Vec::new() });
        let full = sweep.changes.len() >= MOST_CHANGES;
        let what = if full && !matches!(what, What::Interface(_)) { What::Everything } else { what };
        let asks_all = |change: &Change| !matches!(change.what, What::Interface(_));
        sweep.changes.retain(|change| change.what != what && !(full && asks_all(change)));
        sweep.changes.push(Change { what, from: sweep.next, ends: 0 });
        sweeps.0 = Some(sweep);
        self.sweep_on(sweeps);
    }

    /// Checks the next path states of the walk.
    pub(crate) fn sweep_on(&mut self, sweeps: &mut Sweeps) {
        let Some(mut sweep) = sweeps.0.take() else { return };
        let end = sweep.next.saturating_add(MOST_AT_ONCE);
        let chosen = self.state.psbs_between(sweep.next..end);
        for &id in &chosen {
            // One repair may end another's state.
            if self.state.get(id).is_some() && self.state.key(id).2.is_none() && self.is_asked_after(&sweep, id) {
                self.repair(id);
            }
        }
        for id in chosen {
            let told = |psb: &Psb, what| matches!(what, What::Interface(interface) if psb.out.takes(interface));
            let through = |psb: &Psb| sweep.changes.iter().any(|change| told(psb, change.what));
            if self.state.get(id).is_some_and(through) {
                self.life().path_soon(id);
            }
        }
        sweep.next = end;
        if end >= self.state.places() {
            sweep.next = 0;
            sweep.changes.iter_mut().for_each(|change| change.ends += 1);
        }
        sweep.changes.retain(|change| !change.is_over(sweep.next));
        if !sweep.changes.is_empty() {
            sweeps.0 = Some(sweep);
        }
    }

    /// True if a change of the walk may concern the route of this path state.
    fn is_asked_after(&self, sweep: &Sweep, id: BlockId<Psb>) -> bool {
        let (_, session, template) = self.state.sender_of(id);
        sweep.changes.iter().any(|change| match change.what {
            What::Everything | What::Interface(_) => true,
            // A router may look at the way back to the source too (RFC 3704).
            What::Within(network, bits) => {
                is_within(session.dst, network, bits) || is_within(template.src, network, bits)
            }
        })
    }

    fn repair(&mut self, id: BlockId<Psb>) {
        let (_, session, template) = self.state.sender_of(id);
        if session.dst.is_multicast() {
            return self.tree_changed(id);
        }
        let iif = self.state[id].phop().map(|p| p.iif);
        let mut out = self.signalling.links().way_out(self.env, &session, template.src, iif);
        if iif.is_some_and(|iif| out.takes(iif)) {
            out = OutgoingInterfaces::Nowhere;
        }
        if out != self.state[id].out {
            self.life().reroute(id, out);
        }
    }

    /// Follows a change of multicast routing: of a sender's incoming interface, or of its branches.
    pub(crate) fn tree_changed(&mut self, id: BlockId<Psb>) {
        let (sid, session, template) = self.state.sender_of(id);
        let Some(phop) = self.state[id].phop().copied() else {
            let out = self.signalling.links().tree_from_here(self.env, &session, template.src);
            return self.life().rerouted(id, out);
        };
        let tree = self.signalling.links().tree(self.env, &session, template.src, Some(phop.iif));
        let out = |oifs| OutgoingInterfaces::Tree(Box::new(oifs));
        let Some(iif) = tree.iif.filter(|iif| *iif != phop.iif) else {
            return self.life().rerouted(id, out(tree.oifs));
        };
        // Packets come in elsewhere. If Paths have been heard from there, they are what counts now.
        match self.state.psb(&(sid, template, Some(iif))) {
            Some(aside) => {
                let news = self.state[aside].news();
                let expires = self.state[aside].expires;
                self.life().set_aside(id);
                self.state.drop_aside(aside);
                self.life().path_known(id, out(tree.oifs), news);
                self.state[id].expires = expires;
                self.state.arm_path(id);
            }
            None => self.life().rerouted(id, out(Oifs::NONE)),
        }
    }

    fn life(&mut self) -> PathLife<'_, P, E> {
        PathLife::new(self.env, self.state, self.signalling, self.probe)
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
