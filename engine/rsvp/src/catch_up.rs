//! A neighbour has shown, by a valid message, that it may have lost our state there: it is refreshed soon.
//!
//! This happens at most once in R for each neighbour, only for state that leads to it, with a few messages a
//! millisecond; and the table of path states is walked a piece at a time. So an attacker who makes a
//! neighbour ask makes us send no more than one more round of refreshes, and no other work waits for it.

use crate::state::psb::{OutgoingInterfaces, Psb};
use crate::state::rsb::NextHop;
use crate::state::table::BlockId;
use crate::state::timers::Alarm;
use crate::state::{State, Timer};
use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;
use terms::{FilterSpec, IfIndex, Session, Span, Time};

/// Most path states of one piece of the walk, and the pause before the next piece.
const AT_ONCE: (u32, Span) = (1024, Span::from_millis(1));

/// The interval between two messages.
const APART: Span = Span::from_micros(50);

/// Most neighbours with an entry here.
const MOST: usize = 4096;

/// Most reservations of a session whose next hop is compared.
const MOST_ASKED: usize = 64;

/// States that messages have just refreshed: true for path state, the session, and the sender (`None`: any).
pub(crate) type Kept = BTreeSet<(bool, Session, Option<FilterSpec>)>;

/// Neighbours that get a round of refreshes, or had one in the last R.
#[derive(Default)]
pub(crate) struct CatchUps {
    all: BTreeMap<(IfIndex, IpAddr), CatchUp>,
    alarm: Alarm,
}

struct CatchUp {
    /// The time at which the last round began.
    began: Option<Time>,
    /// The time of the next piece; [`Time::FOREVER`]: there is none.
    due: Time,
    /// The first place of that piece.
    next: u32,
    /// True if another round is to follow.
    owed: bool,
    /// States to leave out, as the neighbour has just got them.
    but: Kept,
}

impl CatchUps {
    fn next(&self) -> Time {
        self.all.values().map(|one| one.due).min().unwrap_or(Time::FOREVER)
    }

    pub fn forget(&mut self, interface: IfIndex) {
        self.all.retain(|(at, _), _| *at != interface);
    }

    /// Begins a round, now or when R is over.
    fn begin(&mut self, now: Time, at: (IfIndex, IpAddr), period: Span, but: Kept) {
        if self.all.len() >= MOST && !self.all.contains_key(&at) {
            let over = |one: &CatchUp| one.due == Time::FOREVER && one.began.is_none_or(|t| now.since(t) >= period);
            self.all.retain(|_, one| !over(one));
            if self.all.len() >= MOST {
                return;
            }
        }
        let fresh = CatchUp { began: None, due: Time::FOREVER, next: 0, owed: false, but: Kept::new() };
        let one = self.all.entry(at).or_insert(fresh);
        if one.due == Time::FOREVER {
            (one.due, one.next) = (one.began.map_or(now, |began| now.max(began + period)), 0);
            // What it heard just now is old by the time that it has to wait for.
            one.but = if one.due == now { but } else { Kept::new() };
        } else {
            one.owed |= one.next > 0;
        }
    }

    /// A piece that is due: its neighbour, its first place, and the states to leave out.
    fn take(&mut self, now: Time) -> Option<((IfIndex, IpAddr), u32, Kept)> {
        let (&at, one) = self.all.iter_mut().find(|(_, one)| one.due <= now)?;
        if one.next == 0 {
            one.began = Some(now);
        }
        Some((at, one.next, core::mem::take(&mut one.but)))
    }

    /// Ends a piece; the rest, if any, begins at `next`.
    fn told(&mut self, now: Time, at: (IfIndex, IpAddr), period: Span, next: Option<u32>, but: Kept) {
        let Some(one) = self.all.get_mut(&at) else { return };
        one.next = next.unwrap_or(0);
        one.due = match next {
            Some(_) => now + AT_ONCE.1,
            None if core::mem::take(&mut one.owed) => one.began.unwrap_or(now) + period,
            None => Time::FOREVER,
        };
        if next.is_some() {
            one.but = but;
        }
    }
}

impl CatchUps {
    /// Schedules a refresh of our state at a neighbour, without the states that it has just got.
    pub fn catch_up(&mut self, state: &mut State, now: Time, interface: IfIndex, peer: IpAddr, but: Kept) {
        let period = state.config().refresh;
        self.begin(now, (interface, peer), period, but);
        self.arm(state);
    }

    fn arm(&mut self, state: &mut State) {
        let next = self.next();
        if next != Time::FOREVER {
            state.alarms().set_by(&mut self.alarm, next, Timer::CatchUp);
        }
    }

    /// Handles the next piece of each neighbour that is due.
    pub fn alarm(&mut self, state: &mut State, now: Time) {
        state.alarms().clear(&mut self.alarm);
        while let Some((at, from, but)) = self.take(now) {
            let end = from.saturating_add(AT_ONCE.0);
            let paths = state.psbs_between(from..end);
            let mut when = now;
            for id in paths {
                if refresh_towards(state, id, at, when, &but) {
                    when = when + APART;
                }
            }
            let next = (end < state.places()).then_some(end);
            self.told(now, at, state.config().refresh, next, but);
        }
        self.arm(state);
    }
}

/// Refreshes by `when` the state that a path state has at a neighbour. False if it has none there.
fn refresh_towards(state: &mut State, id: BlockId<Psb>, at: (IfIndex, IpAddr), when: Time, but: &Kept) -> bool {
    let (_, session, template) = state.sender_of(id);
    let said = |path| [Some(template), None].into_iter().any(|who| but.contains(&(path, session, who)));
    let down = leads_to(state, id, at) && !said(true);
    let psb = &mut state[id];
    let up = psb.phop().is_some_and(|p| (p.iif, p.addr) == at) && !said(false);
    if down && psb.path_refresh_at != Time::FOREVER {
        psb.path_refresh_at = psb.path_refresh_at.min(when);
    }
    if let Some(request) = psb.request.as_mut().filter(|_| up) {
        request.refresh_at = request.refresh_at.min(when);
    }
    if down || up {
        state.arm_path(id);
    }
    down || up
}

/// True if the Paths of a sender go to this neighbour, as far as is known: it is the gateway or the
/// destination, or it has asked for a reservation.
fn leads_to(state: &State, id: BlockId<Psb>, (interface, peer): (IfIndex, IpAddr)) -> bool {
    let (sid, session, _) = state.sender_of(id);
    match &state[id].out {
        out if !out.takes(interface) => false,
        OutgoingInterfaces::Interface { gateway, .. } => {
            let local = |addr: IpAddr| matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local());
            // A gateway of link-local address is known by another as a hop.
            let gateway = gateway.is_some_and(|addr| addr == peer || (local(addr) && !local(peer)));
            let asks = |hop: NextHop| hop == NextHop::Hop { oif: interface, addr: peer };
            let mut requests = state.rsbs_of(sid).take(MOST_ASKED);
            gateway || session.dst == peer || requests.any(|rsb| asks(state.key(rsb).1))
        }
        _ => true,
    }
}
