//! Messages between this node, its neighbours and its applications.

use crate::applications::Applications;
use crate::arrival::Arrival;
use crate::integrity::check::Checked;
use crate::integrity::key::AuthMode;
use crate::integrity::proof::Proof;
use crate::io::{AppId, Config, Datagram, Event, Interface, Upcall};
use crate::links::{Env, Links};
use crate::neighbour::incoming::Named;
use crate::neighbour::{About, Exchange, Neighbours};
use crate::outbox::{HOP_TTL, Outbox};
use crate::set_up::SetUp;
use crate::state::State;
use crate::state::psb::Forwarded;
use crate::state::rsb::Rsb;
use crate::state::table::BlockId;
use crate::transport::Transport;
use crate::views::NeighbourView;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{IfIndex, Rate, Session, Time};
use wire::{Builder, Hello, Message, MessageType, Srefresh};

/// The reason why a message of ours was not sent.
const BEYOND: &str = "more set-up than the link may carry, not sent";

/// The relations to neighbours and applications, and what goes to them.
pub(crate) struct Signalling {
    transport: Transport,
    neighbours: Neighbours,
    /// The share of each outgoing interface that session set-up may take.
    set_up: SetUp,
    applications: Applications,
    /// The objects of the present ResvTear that go on with the ResvTears that it sets off.
    carried: Vec<Forwarded>,
}

impl Signalling {
    /// Without neighbours. Cookies are made with `secret`; our epoch and the tables of names with `chance`.
    pub fn new(config: &Config, secret: [u64; 4], chance: [u64; 2]) -> Signalling {
        Signalling {
            transport: Transport::new(&config.auth, secret),
            neighbours: Neighbours::new(config.refresh_reduction, chance),
            set_up: SetUp::default(),
            applications: Applications::default(),
            carried: Vec::new(),
        }
    }

    /// Forgets all neighbours; new cookies, epoch and names are made with these.
    pub fn rekey(&mut self, config: &Config, secret: [u64; 4], chance: [u64; 2]) {
        self.transport.security().set_secret(secret);
        self.neighbours = Neighbours::new(config.refresh_reduction, chance);
    }

    /// Takes the time of an input.
    pub fn at(&mut self, now: Time) {
        self.transport.at(now);
    }

    /// The time of the present input.
    pub fn now(&self) -> Time {
        self.transport.now()
    }

    /// The time at which sequence numbers are requested again after a failure.
    pub fn wake_at(&self) -> Option<Time> {
        self.transport.wake_at()
    }

    /// The interfaces.
    pub fn links(&self) -> &Links {
        self.transport.links()
    }

    /// The standing of applications.
    pub fn applications(&self) -> &Applications {
        &self.applications
    }

    /// The same, to be changed.
    pub fn applications_mut(&mut self) -> &mut Applications {
        &mut self.applications
    }

    /// The outputs.
    pub fn out(&mut self) -> &mut Outbox {
        self.transport.out()
    }

    /// The outputs, to look at.
    pub fn said(&self) -> &Outbox {
        self.transport.said()
    }

    /// Takes an interface's present state; `None`: it is gone. False if it is as it was.
    pub fn interface(&mut self, state: &mut State, interface: IfIndex, present: Option<Interface>) -> bool {
        if present.is_none() {
            self.transport.forget(interface);
            self.neighbours.forget_neighbours(interface);
        }
        let changed = self.transport.change(interface, present);
        if changed {
            state.unheard_all();
        }
        changed
    }

    /// Changes the keys of an interface.
    pub fn authenticate(&mut self, interface: IfIndex, auth: &AuthMode) {
        self.transport.security().set(interface, auth);
    }

    /// Sequence numbers below `upto` are reserved on disk; those below `from` were in an earlier life.
    pub fn sequences_reserved(&mut self, from: u64, upto: u64) {
        self.transport.security().reserved(from, upto);
    }

    /// The reservation of sequence numbers failed.
    pub fn sequences_failed(&mut self) {
        let now = self.now();
        self.transport.security().not_reserved(now);
    }

    /// Reports an event.
    pub fn say(&mut self, event: Event) {
        self.out().say(event);
    }

    /// Passes an upcall to an application.
    pub fn tell(&mut self, app: AppId, upcall: Upcall) {
        self.out().tell(app, upcall);
    }

    /// Reports that a reservation state came or changed.
    pub fn say_created(&mut self, state: &State, id: BlockId<Rsb>) {
        let (sid, nhop, template) = state.key(id);
        let (session, oif) = (state.key(sid), nhop.oif());
        let Rsb { style, flowspec, .. } = state[id];
        self.say(Event::ResvCreated { session, template, style, oif, flowspec });
    }

    /// Counts a message that changes nothing, and reports the reason.
    pub fn drop_message(&mut self, state: &mut State, from: &Arrival, why: &'static str) {
        state.not_a_refresh();
        self.out().dropped(why);
        self.say(Event::Dropped { iif: from.iif, src: from.src, why });
    }

    /// Keeps the objects of a ResvTear that its successors carry (RFC 2205 section 3.10).
    pub fn carry(&mut self, objects: Vec<Forwarded>) {
        self.carried = objects;
    }

    /// The objects that ResvTears carry at present.
    pub fn carried(&self) -> &[Forwarded] {
        &self.carried
    }

    /// Sets the limit of session set-up on an interface.
    pub fn limit_set_up(&mut self, oif: IfIndex, rate: Option<Rate>) {
        self.set_up.limit(self.transport.now(), oif, rate);
    }

    /// True if a message of `len` bytes about a session may go out by an interface: a session with a
    /// reservation always, any other within the interface's set-up limit.
    pub fn goes_out(&mut self, state: &State, session: &Session, oif: IfIndex, len: usize) -> bool {
        let goes = state.is_reserved(session) || self.set_up.takes(self.transport.now(), oif, len);
        if !goes {
            self.out().dropped(BEYOND);
        }
        goes
    }

    /// Sends a message; `about`: the state that it refreshes or tears, if there is one.
    pub fn send_about(&mut self, state: &mut State, kind: MessageType, datagram: Datagram, about: Option<About>) {
        self.exchange(state).send_about(kind, datagram, about);
    }

    /// Sends a message to a neighbour; `by` an interface, or (`None`) as the routing table decides.
    pub fn send_to_hop(
        &mut self,
        state: &mut State,
        kind: MessageType,
        (by, src, dst): (Option<IfIndex>, IpAddr, IpAddr),
        build: Builder,
    ) {
        self.send_to_hop_about(state, kind, (by, src, dst), build, None);
    }

    /// The same for a message that refreshes a state, or tears it down.
    pub fn send_to_hop_about(
        &mut self,
        state: &mut State,
        kind: MessageType,
        (oif, src, dst): (Option<IfIndex>, IpAddr, IpAddr),
        build: Builder,
        about: Option<About>,
    ) {
        if let Some(bytes) = self.out().finished(build) {
            let out = Datagram { oif, src, dst, ttl: HOP_TTL, router_alert: false, bytes };
            self.send_about(state, kind, out, about);
        }
    }

    fn exchange<'a>(&'a mut self, state: &'a mut State) -> Exchange<'a> {
        Exchange::new(&mut self.neighbours, state, &mut self.transport)
    }

    /// Authenticates a message before it is queued; see [`Transport::authentic`].
    pub fn authentic(
        &mut self,
        state: &mut State,
        now: Time,
        from: &Arrival,
        bytes: &[u8],
    ) -> Result<Option<Proof>, &'static str> {
        self.transport.authentic(state, now, from, bytes)
    }

    /// The messages of a Bundle to us; see [`Transport::signed_apart`].
    pub fn signed_apart<'a>(
        &mut self,
        state: &mut State,
        from: &Arrival,
        bytes: &'a [u8],
    ) -> Option<Vec<(u8, &'a [u8])>> {
        self.transport.signed_apart(state, from, bytes)
    }

    /// True if a message may be read. One that may not leaves nothing but a count, or was a step of the handshake.
    pub fn authenticated(&mut self, state: &mut State, from: &Arrival, bytes: &[u8]) -> bool {
        match self.transport.authenticated(state, from, bytes) {
            Checked::Good => true,
            Checked::Bad(why) => {
                self.transport.drop_unauthenticated(state, from, why);
                false
            }
            Checked::Done => false,
        }
    }

    /// Handles the acknowledgements and the name of a neighbour's message, before its procedure.
    ///
    /// # Errors
    /// It came after a newer message about the same state, and is to be dropped.
    pub fn introduced(
        &mut self,
        state: &mut State,
        from: &Arrival,
        message: &Message<'_>,
        hop: Option<IpAddr>,
    ) -> Result<Option<Named>, &'static str> {
        self.exchange(state).introduced(from, message, hop)
    }

    /// Marks the states that a message has made or refreshed with the message's name, once it is handled.
    pub fn named(&mut self, state: &mut State, named: Option<Named>, message: &Message<'_>) {
        self.exchange(state).named(named, message);
    }

    /// Refreshes states by name (RFC 2961 section 5.3), and answers unknown names with a NACK.
    pub fn srefresh_arrives<E: Env>(&mut self, state: &mut State, env: &mut E, from: &Arrival, message: &Srefresh<'_>) {
        self.exchange(state).srefresh_arrives(env, from, message);
    }

    /// Takes a neighbour's Hello.
    pub fn hello_arrives(&mut self, state: &mut State, from: &Arrival, message: &Hello<'_>) {
        self.exchange(state).hello_arrives(from, message);
    }

    /// Adds what was said between neighbours to a view of them, and neighbours that no state comes from.
    pub fn show_neighbours(&self, all: &mut BTreeMap<(IfIndex, IpAddr), NeighbourView>) {
        self.neighbours.show(all);
        self.transport.show_keys(all);
    }

    /// Handles a neighbour's alarm.
    pub fn neighbour_alarm(&mut self, state: &mut State, n: u32) {
        self.exchange(state).neighbour_alarm(n);
    }

    /// Sends neighbours that have challenged us the messages that they missed.
    pub fn again_alarm(&mut self, state: &mut State) {
        self.transport.again_alarm(state);
    }

    /// Handles the next piece of each neighbour that is owed a refresh of our state.
    pub fn catch_up_alarm(&mut self, state: &mut State) {
        self.transport.catch_up_alarm(state);
    }

    /// Ends an input: what goes to neighbours together is sent, and sequence numbers are asked for.
    pub fn settle(&mut self, state: &mut State) {
        self.exchange(state).settle_neighbours();
        self.transport.reserve_sequences();
    }
}
