//! The engine's state, its three entry points (`handle`, `poll`, `wake_at`), and the functions that all
//! procedures share.

use crate::catch_up::CatchUps;
use crate::counters::RsvpCounters;
use crate::heard::{Heard, Hearing};
use crate::integrity::Security;
use crate::io::{AppCall, AppId, Config, Datagram, Event, Input, Interface, Output, Upcall};
use crate::neighbour::Neighbours;
use crate::overload::Incoming;
use crate::pcg::Pcg;
use crate::psb::{Forwarded, Origin, OutgoingInterfaces, Psb, PsbKey};
use crate::receive::Arrival;
use crate::receiver::Standing;
use crate::refusal::Refusal;
use crate::repair::Sweep;
use crate::rsb::{Rsb, RsbKey};
use crate::session::SessionState;
use crate::set_up::SetUp;
use crate::table::{BlockId, BlockTable};
use crate::tcsb::{Tcsb, TcsbKey};
use crate::timers::Timers;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::{RHandle, Route, RouteDecision, TrafficControl};
use terms::probe::{Off, ProbeObserver, ProbePoint};
use terms::{IfIndex, SenderTemplate, Session, Time};
use wire::MessageType;
use wire::iana::error;

/// The ports that the engine calls synchronously: the route, and traffic control.
pub(crate) trait Env: Route + TrafficControl {}
impl<E: Route + TrafficControl> Env for E {}

/// An RSVP node. `P` observes its probe points; [`Off`] unless it is made [`Rsvp::with`] another.
pub struct Rsvp<P = Off> {
    pub(crate) config: Config,
    pub(crate) interfaces: BTreeMap<IfIndex, Interface>,
    pub(crate) own: BTreeSet<IpAddr>,
    pub(crate) sessions: BlockTable<Session, SessionState>,
    pub(crate) psbs: BlockTable<PsbKey, Psb>,
    pub(crate) rsbs: BlockTable<RsbKey, Rsb>,
    pub(crate) tcsbs: BlockTable<TcsbKey, Tcsb>,
    pub(crate) handles: BlockTable<RHandle, BlockId<Tcsb>>,
    /// The proxy flag and the priority of each local application.
    pub(crate) standings: BTreeMap<AppId, Standing>,
    /// The number of sessions with a port, by destination and protocol.
    ported: BlockTable<(IpAddr, u8), u32>,
    /// The number of senders with a port, by session and source address.
    pub(crate) senders_with_ports: BlockTable<(BlockId<SessionState>, IpAddr), u32>,
    pub(crate) timers: Timers<Timer>,
    pub(crate) heard: Heard,
    /// A walk over all path states that is under way.
    pub(crate) sweep: Option<Sweep>,
    pub(crate) hearing: Hearing,
    /// The share of each outgoing interface that session set-up may take.
    pub(crate) set_up: SetUp,
    /// The objects of the present ResvTear that go on with the ResvTears that it sets off.
    pub(crate) tear_carries: Vec<Forwarded>,
    pub(crate) pcg: Pcg,
    pub(crate) counters: RsvpCounters,
    pub(crate) security: Security,
    pub(crate) neighbours: Neighbours,
    pub(crate) catch_ups: CatchUps,
    /// The time of the present input.
    pub(crate) now: Time,
    out: VecDeque<Output>,
    probe: P,
}

/// The owner of an alarm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// The end of an adoption.
    Session(BlockId<SessionState>),
    /// A path state: expiry, Path refresh, Resv refresh.
    Path(BlockId<Psb>),
    /// A reservation state: expiry.
    Resv(BlockId<Rsb>),
    /// A neighbour: a repetition, a summary, a Hello.
    Neighbour(u32),
    /// Neighbours that have challenged us: the messages that they missed are sent again.
    Again,
    /// Neighbours that get a refresh of all our state there.
    CatchUp,
}

impl Rsvp {
    /// A node without interfaces. `seed` feeds the jitter of refreshes and keys the tables' hash: in a daemon
    /// it is random, in a simulation it is the run's seed.
    pub fn new(config: Config, seed: u64) -> Rsvp {
        Rsvp::with(config, seed, Off)
    }
}

impl<P: ProbeObserver> Rsvp<P> {
    /// Takes the secret of cookies and the keys of the tables from `chance`, in a daemon the kernel's random
    /// source: values derived from one seed can be found out from the jitter that others see. Call it before
    /// the first input, for it empties the tables.
    pub fn keyed(&mut self, chance: &mut dyn FnMut() -> u64) {
        self.security.set_secret([(); 4].map(|()| chance()));
        self.neighbours = Neighbours::new(self.config.refresh_reduction, [chance(), chance()]);
        let mut keys = || (chance(), chance());
        self.sessions = BlockTable::new(keys());
        self.psbs = BlockTable::new(keys());
        self.rsbs = BlockTable::new(keys());
        self.tcsbs = BlockTable::new(keys());
        self.handles = BlockTable::new(keys());
        self.ported = BlockTable::new(keys());
        self.senders_with_ports = BlockTable::new(keys());
        self.heard = Heard::new(keys());
    }

    /// As [`Rsvp::new`], with an observer of the probe points.
    pub fn with(config: Config, seed: u64, probe: P) -> Rsvp<P> {
        let mut pcg = Pcg::new(seed);
        // Of its own, so that cookies say nothing about jitter.
        let mut chance = Pcg::new(seed ^ 0x5ec2_e7c0_0c1e_5000);
        let secret = [(); 4].map(|()| chance.next_u64());
        let mut keys = || (pcg.next_u64(), pcg.next_u64());
        Rsvp {
            neighbours: Neighbours::new(config.refresh_reduction, [chance.next_u64(), chance.next_u64()]),
            catch_ups: CatchUps::default(),
            security: Security::new(&config.auth, secret),
            now: Time::ZERO,
            config,
            interfaces: BTreeMap::new(),
            own: BTreeSet::new(),
            sessions: BlockTable::new(keys()),
            psbs: BlockTable::new(keys()),
            rsbs: BlockTable::new(keys()),
            tcsbs: BlockTable::new(keys()),
            handles: BlockTable::new(keys()),
            standings: BTreeMap::new(),
            ported: BlockTable::new(keys()),
            senders_with_ports: BlockTable::new((chance.next_u64(), chance.next_u64())),
            timers: Timers::new(),
            heard: Heard::new(keys()),
            sweep: None,
            hearing: Hearing::NOTHING,
            set_up: SetUp::default(),
            tear_carries: Vec::new(),
            counters: RsvpCounters::default(),
            out: VecDeque::new(),
            pcg,
            probe,
        }
    }

    /// The observer of the probe points.
    pub fn probe_mut(&mut self) -> &mut P {
        &mut self.probe
    }

    /// Does a step of handling a message, and reports its begin and end to the probe.
    #[inline(always)]
    pub(crate) fn step<T>(&mut self, step: ProbePoint, work: impl FnOnce(&mut Self) -> T) -> T {
        self.probe.enter(step);
        let done = work(self);
        self.probe.leave(step);
        done
    }

    /// Takes one input. Drain [`Rsvp::poll`] before the next.
    pub fn handle<E: Route + TrafficControl>(&mut self, now: Time, env: &mut E, input: Input<'_>) {
        debug_assert!(self.out.is_empty(), "one input, then drain");
        self.now = now;
        match input {
            Input::Message { iif, src, dst, ttl, bytes } => {
                self.message_arrives(now, env, &Arrival { iif, src, dst, ttl, direct: true, proof: None }, bytes);
            }
            Input::Waited(waiting) => {
                let Incoming { iif, src, dst, ttl, bytes } = waiting.incoming();
                let from = Arrival { iif, src, dst, ttl, direct: true, proof: waiting.proof() };
                self.message_arrives(now, env, &from, bytes);
            }
            Input::Wake => self.step(ProbePoint::Soften, |rsvp| rsvp.wake(now, env)),
            Input::App(call) => self.call(now, env, call),
            Input::Installed { handle, result } => self.installed(now, env, handle, result),
            Input::Displaced { handle, by } => self.displaced(now, env, handle, by),
            Input::RouteChanged(within) => self.route_changed(now, env, within),
            Input::Interface { interface, state } => {
                if state.is_none() {
                    self.security.forget(interface);
                    self.catch_ups.forget(interface);
                    self.forget_neighbours(interface);
                }
                self.interface_changed(now, env, interface, state);
            }
            Input::Adopted { session, until } => self.adopted(&session, until),
            Input::Auth { interface, auth } => self.security.set(interface, &auth),
            Input::SequencesReserved { from, upto } => self.security.reserved(from, upto),
            Input::SequencesFailed => self.security.not_reserved(now),
        }
        self.settle_neighbours();
        if let Some(upto) = self.security.reserve(now) {
            self.out.push_back(Output::ReserveSequences { upto });
        }
    }

    /// A local application's call (RFC 2205 section 3.11.1).
    fn call<E: Route + TrafficControl>(&mut self, now: Time, env: &mut E, call: AppCall<'_>) {
        match call {
            AppCall::Sender { app, session, template, tspec, ttl } => {
                self.sender(now, env, &crate::sender::Offer { app, session, template, tspec, ttl });
            }
            AppCall::SenderGone { app, session, template } => self.sender_gone(now, env, app, &session, &template),
            AppCall::Receiver { app, session } => self.receiver(app, &session),
            AppCall::Reserve { app, session, style, filters, flowspecs, confirm } => {
                let ask = crate::receiver::Ask { app, session, style, filters, flowspecs, confirm };
                self.reserve(now, env, &ask);
            }
            AppCall::Proxy { app } => self.standing(app, |s| s.proxy = true),
            AppCall::Priority { app, priority } => self.standing(app, |s| s.priority = priority),
            AppCall::Release { app, session: Some(session) } => self.release(now, env, app, &session),
            AppCall::Release { app, session: None } => self.application_ended(now, env, app),
        }
    }

    /// The next output, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time at which the driver calls with [`Input::Wake`], if no other input comes before.
    pub fn wake_at(&self) -> Option<Time> {
        if self.sweep.is_some() {
            return Some(self.now);
        }
        [self.timers.next(), self.security.wake_at()].into_iter().flatten().min()
    }

    pub(crate) fn say(&mut self, event: Event) {
        self.out.push_back(Output::Event(event));
    }

    pub(crate) fn tell(&mut self, app: AppId, upcall: Upcall) {
        self.out.push_back(Output::Upcall { app, upcall });
    }

    pub(crate) fn send(&mut self, kind: MessageType, datagram: Datagram) {
        self.send_about(kind, datagram, None);
    }

    /// Sends a message, signed if its interface requires that.
    pub(crate) fn send_signed(&mut self, kind: MessageType, datagram: Datagram) {
        if let Some(datagram) = self.sealed(self.now, kind, datagram) {
            self.send_unsigned(kind, datagram);
        }
    }

    /// Sends a message as it is.
    pub(crate) fn send_unsigned(&mut self, kind: MessageType, datagram: Datagram) {
        self.counters.sent.add(kind);
        self.out.push_back(Output::Send(datagram));
    }

    pub(crate) fn set_interfaces(&mut self, change: impl FnOnce(&mut BTreeMap<IfIndex, Interface>)) {
        change(&mut self.interfaces);
        self.heard.clear();
        self.own = self.interfaces.values().flat_map(|i| i.addresses.iter().copied()).collect();
    }

    /// True if an address is this node's.
    pub(crate) fn is_ours(&self, addr: IpAddr) -> bool {
        self.own.contains(&addr)
    }

    /// Our address for hops on an interface, of the family of `like`.
    pub(crate) fn address_on(&self, interface: IfIndex, like: IpAddr) -> Option<IpAddr> {
        let interface = self.interfaces.get(&interface)?;
        interface.addresses.iter().copied().find(|a| a.is_ipv4() == like.is_ipv4())
    }

    /// True if RSVP is enabled on an interface.
    pub(crate) fn speaks_on(&self, interface: IfIndex) -> bool {
        self.interfaces.get(&interface).is_some_and(|i| i.enabled)
    }

    /// The outgoing interface of a unicast session's packets (RFC 2205 section 3.11.3).
    pub(crate) fn way_out<E: Env>(
        &self,
        env: &mut E,
        session: &Session,
        src: IpAddr,
        iif: Option<IfIndex>,
    ) -> OutgoingInterfaces {
        if self.is_ours(session.dst) {
            return OutgoingInterfaces::Local;
        }
        match env.route(session.dst, Some(src), iif) {
            RouteDecision::Local => OutgoingInterfaces::Local,
            RouteDecision::Out { oif, gateway, source } if self.speaks_on(oif) => {
                OutgoingInterfaces::Interface { oif, gateway, source }
            }
            RouteDecision::Out { .. } | RouteDecision::Tree(_) | RouteDecision::None => OutgoingInterfaces::Nowhere,
        }
    }

    /// The state of a session; a new one if the session is unknown and allowed.
    pub(crate) fn session_for(&mut self, session: &Session) -> Result<BlockId<SessionState>, Refusal> {
        match self.sessions.find(session) {
            Some(id) => Ok(id),
            None => self.step(ProbePoint::CreateSession, |rsvp| rsvp.new_session(session)),
        }
    }

    fn new_session(&mut self, session: &Session) -> Result<BlockId<SessionState>, Refusal> {
        if self.mixed_destination_ports(session) {
            return Err(Refusal::code(error::BAD_DSTPORT, 0));
        }
        if self.sessions.len() >= self.config.max_sessions {
            return Err(Refusal::table_full("sessions", self.config.max_sessions));
        }
        if session.dst_port != 0 {
            let by = (session.dst, session.protocol);
            match self.ported.find(&by) {
                Some(count) => self.ported[count] += 1,
                None => drop(self.ported.insert_alone(by, 1)),
            }
        }
        Ok(self.sessions.insert_alone(*session, SessionState::default()))
    }

    /// True if a session would mix a destination port of zero with others of the same destination and
    /// protocol, which no classifier can tell apart (RFC 2205 section 3.2).
    fn mixed_destination_ports(&self, session: &Session) -> bool {
        match session.dst_port {
            0 => self.ported.find(&(session.dst, session.protocol)).is_some(),
            _ => self.sessions.find(&Session { dst_port: 0, ..*session }).is_some(),
        }
    }

    /// Forgets a session that has no state left.
    pub(crate) fn drop_if_idle(&mut self, id: BlockId<SessionState>) {
        if self.sessions[id].is_idle() {
            let session = self.sessions.key(id);
            let mut gone = self.sessions.remove_alone(id);
            self.timers.clear(&mut gone.alarm);
            let count = self.ported.find(&(session.dst, session.protocol)).filter(|_| session.dst_port != 0);
            if let Some(count) = count {
                self.ported[count] -= 1;
                if self.ported[count] == 0 {
                    self.ported.remove_alone(count);
                }
            }
        }
    }

    /// Arms a path state's alarm no later than its next deadline.
    pub(crate) fn arm_path(&mut self, id: BlockId<Psb>) {
        let psb = &mut self.psbs[id];
        let at = psb.next_deadline();
        if at != Time::FOREVER {
            self.timers.set_by(&mut psb.alarm, at, Timer::Path(id));
        }
    }

    /// The path state of a sender.
    pub(crate) fn psb_of(&self, session: BlockId<SessionState>, template: &SenderTemplate) -> Option<BlockId<Psb>> {
        self.psbs.find(&(session, *template, None))
    }

    /// A path state's session and sender.
    pub(crate) fn sender_of(&self, id: BlockId<Psb>) -> (BlockId<SessionState>, Session, SenderTemplate) {
        let (sid, template, _) = self.psbs.key(id);
        (sid, self.sessions.key(sid), template)
    }

    /// The local application that is the sender, if it is one.
    pub(crate) fn local_sender(&self, id: BlockId<Psb>) -> Option<AppId> {
        match self.psbs[id].origin {
            Origin::Local(app) => Some(app),
            Origin::Hop(_) => None,
        }
    }
}

/// The refusal of an API call that is not supported or not meaningful.
pub(crate) fn api_refusal(value: u16, text: alloc::string::String) -> Refusal {
    Refusal { code: error::API, value, in_place: false, text: Some(text) }
}
