//! The initiating side: the only one that starts anything. It asks, asks again when nobody answers, adopts what comes back,
//! refreshes at random moments shortly before the interval is over, lowers or gives up when it is refused, and releases.

mod answer;
mod ask;
mod timer;

use crate::io::{AppId, BoomerangUpcall, Event, Output};
use crate::{ApplicationCall, Boomerang};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::{Route, TrafficControl};
use terms::probe::ProbeObserver;
use terms::{Span, Time};
use wire::boomerang::{Rates, Selector, Uid};

/// What a local application asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRequest {
    /// Who answers the ping, or a multicast group (then [`SessionRequest::no_echo`] must be set).
    pub far_end: IpAddr,
    /// Our address; `None`: that of the interface that the way leads out of.
    pub source: Option<IpAddr>,
    /// Whose packets, forward.
    pub classifier: Selector,
    /// Which bits of that count.
    pub mask: Selector,
    /// What would do, best first; more than one pair is a DOWNGRADE.
    pub rates: Vec<Rates>,
    /// When a node refuses, what it has is taken if it is at least this; zero in both directions: nothing less is.
    pub at_least: Rates,
    /// Seconds between refreshes.
    pub refresh: u8,
    /// Nobody shall answer: for groups.
    pub no_echo: bool,
    /// User ID and credential.
    pub uid: Option<Uid>,
    /// The key to prove with who asks.
    pub auth: Option<u32>,
    /// Whether aware nodes are counted.
    pub count: bool,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Whether IPv4's Router Alert is set, for nodes that look at nothing else.
    pub router_alert: bool,
}

/// Where a session of a local application stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionPhase {
    /// Asked, and not answered.
    Asking,
    /// Reserved.
    Held,
    /// Given back, and not answered.
    Releasing,
}

/// A session of a local application, for status.
#[derive(Clone, PartialEq, Debug)]
pub struct InitiatedSession {
    /// Whose.
    pub app: AppId,
    /// What it asked for.
    pub asked: SessionRequest,
    /// Where it stands.
    pub phase: SessionPhase,
    /// What all nodes have reserved.
    pub granted: Option<Rates>,
    /// Seconds between refreshes now.
    pub refresh: u8,
    /// Aware nodes out and back, where they were counted.
    pub hops: Option<(u16, u16)>,
    /// Messages without an answer.
    pub silent: u32,
    /// The last transaction.
    pub transaction: u32,
}

#[derive(Debug)]
struct Session {
    asked: SessionRequest,
    phase: SessionPhase,
    /// What the messages say now.
    wanted: Vec<Rates>,
    granted: Option<Rates>,
    transaction: u32,
    /// Whether the last message has been answered.
    answered: bool,
    /// ICMP's identifier and next sequence number.
    id: u16,
    sequence: u16,
    key: u64,
    unlocks: u32,
    lowered: u32,
    silent: u32,
    refresh: u8,
    hops: Option<(u16, u16)>,
    due: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Initiator {
    sessions: BTreeMap<AppId, Session>,
    timers: BTreeSet<(Time, AppId)>,
    transactions: BTreeMap<u32, AppId>,
    auth_sequence: u64,
}

/// How long the first answer is waited for; each time twice as long.
const PATIENCE: Span = Span::from_secs(1);
/// Messages without an answer before a set-up is given up, or a refresh is reported.
const TRIES: u32 = 3;
/// How often a locked reservation is asked for with the key that came back.
const UNLOCKS: u32 = 2;
/// How often what is asked is lowered to what there is.
const LOWERINGS: u32 = 3;

impl Initiator {
    pub fn new() -> Initiator {
        Initiator::default()
    }

    pub fn wake_at(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn arm(&mut self, app: AppId, at: Time) {
        let Some(session) = self.sessions.get_mut(&app) else { return };
        self.timers.remove(&(session.due, app));
        session.due = at;
        self.timers.insert((at, app));
    }

    fn forget(&mut self, app: AppId) -> Option<Session> {
        let session = self.sessions.remove(&app)?;
        self.timers.remove(&(session.due, app));
        self.transactions.remove(&session.transaction);
        Some(session)
    }
}

impl<P: ProbeObserver> Boomerang<P> {
    pub(crate) fn call<E: Route + TrafficControl>(&mut self, env: &mut E, call: ApplicationCall) {
        match call {
            ApplicationCall::Reserve { app, asked } => self.reserve_for(env, app, asked),
            ApplicationCall::Release { app } => self.release_for(env, app),
        }
    }

    fn reserve_for<E: Route + TrafficControl>(&mut self, env: &mut E, app: AppId, asked: SessionRequest) {
        let most = self.config.most_asked;
        let Some(session) = self.initiator.sessions.get_mut(&app) else {
            if self.initiator.sessions.len() >= most {
                self.event(Event::Full { what: "Boomerang sessions of applications", limit: most });
                let none = Rates::default();
                self.upcall(app, BoomerangUpcall::Refused { available: none, kept: none });
                return;
            }
            let session = Session {
                phase: SessionPhase::Asking,
                wanted: asked.rates.clone(),
                granted: None,
                transaction: 0,
                answered: true,
                id: self.chance.next_u32() as u16,
                sequence: 0,
                key: 1,
                unlocks: 0,
                lowered: 0,
                silent: 0,
                refresh: asked.refresh,
                hops: None,
                due: Time::FOREVER,
                asked,
            };
            self.initiator.sessions.insert(app, session);
            return self.ask(env, app);
        };
        session.wanted = asked.rates.clone();
        session.phase = SessionPhase::Asking;
        (session.lowered, session.unlocks, session.silent) = (0, 0, 0);
        session.refresh = asked.refresh;
        session.asked = asked;
        self.ask(env, app);
    }

    fn release_for<E: Route + TrafficControl>(&mut self, env: &mut E, app: AppId) {
        let Some(session) = self.initiator.sessions.get_mut(&app) else { return };
        session.phase = SessionPhase::Releasing;
        session.wanted = [Rates::default()].into();
        session.silent = 0;
        let silent = session.asked.no_echo;
        self.ask(env, app);
        if silent {
            self.initiator.forget(app);
            self.upcall(app, BoomerangUpcall::Released);
        }
    }

    pub(crate) fn upcall(&mut self, app: AppId, upcall: BoomerangUpcall) {
        self.say(Output::Upcall { app, upcall });
    }

    /// The sessions of local applications.
    pub fn sessions(&self) -> impl Iterator<Item = InitiatedSession> + '_ {
        self.initiator.sessions.iter().map(|(app, session)| InitiatedSession {
            app: *app,
            asked: session.asked.clone(),
            phase: session.phase,
            granted: session.granted,
            refresh: session.refresh,
            hops: session.hops,
            silent: session.silent,
            transaction: session.transaction,
        })
    }
}
