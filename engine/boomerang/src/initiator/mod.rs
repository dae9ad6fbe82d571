//! The initiating side, which starts every exchange. It asks, retries without a reply, adopts the rates of the reply,
//! refreshes at random moments shortly before the interval ends, lowers or gives up on a refusal, and releases.

mod answer;
mod ask;
mod timer;

use crate::io::{AppId, ApplicationCall, BoomerangUpcall, Event, Output};
use crate::node::{Env, NodeSide};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::Rng;
use terms::probe::ProbeObserver;
use terms::{Span, Time};
use wire::boomerang::{Rates, Selector, Uid};

/// A session, as a local application asks for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRequest {
    /// The far end, which answers the ping, or a multicast group (then [`SessionRequest::no_echo`] must be set).
    pub far_end: IpAddr,
    /// The source address; `None`: the address of the outgoing interface.
    pub source: Option<IpAddr>,
    /// The flow whose packets are meant, forward.
    pub classifier: Selector,
    /// The bits of the classifier that count.
    pub mask: Selector,
    /// The acceptable rates, best first; more than one pair is a DOWNGRADE.
    pub rates: Vec<Rates>,
    /// The least acceptable rates after a refusal; zero in both directions: nothing less than asked.
    pub at_least: Rates,
    /// Seconds between refreshes.
    pub refresh: u8,
    /// True to forbid a reply: for groups.
    pub no_echo: bool,
    /// The user ID and the credential.
    pub uid: Option<Uid>,
    /// The number of the AUTH key that signs the messages.
    pub auth: Option<u32>,
    /// True to count aware nodes.
    pub count: bool,
    /// The TTL or hop limit.
    pub ttl: u8,
    /// True to set IPv4's Router Alert, for nodes that look at nothing else.
    pub router_alert: bool,
}

/// The phase of a local application's session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionPhase {
    /// Requested, without a reply yet.
    Asking,
    /// Reserved.
    Held,
    /// Released, without a reply yet.
    Releasing,
}

/// A session of a local application, for status.
#[derive(Clone, PartialEq, Debug)]
pub struct InitiatedSession {
    /// The local application's session number.
    pub app: AppId,
    /// The application's request.
    pub asked: SessionRequest,
    /// The present phase.
    pub phase: SessionPhase,
    /// The rates that all aware nodes have reserved.
    pub granted: Option<Rates>,
    /// The present refresh interval, in seconds.
    pub refresh: u8,
    /// The number of aware nodes out and back, if they were counted.
    pub hops: Option<(u16, u16)>,
    /// The number of messages in a row without a reply.
    pub silent: u32,
    /// The number of the last transaction.
    pub transaction: u32,
}

#[derive(Debug)]
struct Session {
    asked: SessionRequest,
    phase: SessionPhase,
    /// The rates in the messages at present.
    wanted: Vec<Rates>,
    granted: Option<Rates>,
    transaction: u32,
    /// True if the last message has its reply.
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

/// The sessions of all local applications.
#[derive(Debug)]
pub(crate) struct Initiator {
    sessions: BTreeMap<AppId, Session>,
    timers: BTreeSet<(Time, AppId)>,
    transactions: BTreeMap<u32, AppId>,
    auth_sequence: u64,
    chance: Rng,
}

/// The wait for the first reply; it doubles with each retry.
const PATIENCE: Span = Span::from_secs(1);
/// The number of messages without a reply before a set-up is given up, or a refresh is reported.
const TRIES: u32 = 3;
/// The most retries of a locked reservation with the key from the reply.
const UNLOCKS: u32 = 2;
/// The most times that a request is lowered to the available rate.
const LOWERINGS: u32 = 3;

impl Initiator {
    /// No sessions. `chance` feeds transactions and jitter.
    pub fn new(chance: Rng) -> Initiator {
        Initiator {
            sessions: BTreeMap::new(),
            timers: BTreeSet::new(),
            transactions: BTreeMap::new(),
            auth_sequence: 0,
            chance,
        }
    }

    pub fn chance(&mut self) -> &mut Rng {
        &mut self.chance
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

impl Initiator {
    pub(crate) fn call<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, call: ApplicationCall) {
        match call {
            ApplicationCall::Reserve { app, asked } => self.reserve_for(node, env, app, asked),
            ApplicationCall::Release { app } => self.release_for(node, env, app),
        }
    }

    fn reserve_for<P: ProbeObserver>(
        &mut self,
        node: &mut NodeSide<P>,
        env: &mut impl Env,
        app: AppId,
        asked: SessionRequest,
    ) {
        let most = node.config().most_asked;
        let Some(session) = self.sessions.get_mut(&app) else {
            if self.sessions.len() >= most {
                node.event(Event::Full { what: "Boomerang sessions of applications", limit: most });
                let none = Rates::default();
                upcall(node, app, BoomerangUpcall::Refused { available: none, kept: none });
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
            self.sessions.insert(app, session);
            return self.ask(node, env, app);
        };
        session.wanted = asked.rates.clone();
        session.phase = SessionPhase::Asking;
        (session.lowered, session.unlocks, session.silent) = (0, 0, 0);
        session.refresh = asked.refresh;
        session.asked = asked;
        self.ask(node, env, app);
    }

    fn release_for<P: ProbeObserver>(&mut self, node: &mut NodeSide<P>, env: &mut impl Env, app: AppId) {
        let Some(session) = self.sessions.get_mut(&app) else { return };
        session.phase = SessionPhase::Releasing;
        session.wanted = [Rates::default()].into();
        session.silent = 0;
        let silent = session.asked.no_echo;
        self.ask(node, env, app);
        if silent {
            self.forget(app);
            upcall(node, app, BoomerangUpcall::Released);
        }
    }

    /// The sessions of local applications.
    pub fn sessions(&self) -> impl Iterator<Item = InitiatedSession> + '_ {
        self.sessions.iter().map(|(app, session)| InitiatedSession {
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

fn upcall<P: ProbeObserver>(node: &mut NodeSide<P>, app: AppId, upcall: BoomerangUpcall) {
    node.say(Output::Upcall { app, upcall });
}
