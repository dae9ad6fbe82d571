//! The node: RSVP, Boomerang, the ledger and the plan wired together, without logic of its own.

use crate::book::{Bookable, BookingPorts as BookWorld, Resource, ResourceRegistry};
use crate::granted::GrantedShare;
use crate::io::{Event, Input, InterfaceState, Output};
use crate::status::{LinkView, ReservationView};
use crate::tc::{ControlOutput, Tc};
use alloc::collections::{BTreeMap, VecDeque};
use boomerang::Boomerang;
use core::net::IpAddr;
use rsvp::Rsvp;
use rsvp::io as protocol;
use rsvp::overload::{Incoming, Intake};
use terms::book::ResourceId;
use terms::ports::{PolicyPort, RHandle, Route, RouteDecision, TcRequest, TrafficControl};
use terms::probe::{Off, ProbeObserver};
use terms::{Adspec, IfIndex, Rate, Refused, Time};

/// The configuration of a node.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Name, timing and limits of RSVP.
    pub rsvp: protocol::Config,
    /// Limits and keys of Boomerang.
    pub boomerang: boomerang::Config,
    /// The seed for refresh jitter, and for keyed tables and secrets unless [`Node::keyed`] sets them.
    pub seed: u64,
}

/// A constant that derives a second key word from one seed.
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

/// A router or host.
///
/// After each input, drain [`Node::poll`]; come back at [`Node::wake_at`] with [`Input::Wake`]. `P` observes
/// the engines' probe points; the default is none, and [`Node::with`] sets one.
pub struct Node<R, P = Off> {
    rsvp: Rsvp<P>,
    boomerang: Boomerang<P>,
    world: World<R>,
    interfaces: BTreeMap<IfIndex, InterfaceState>,
    shelf: ResourceRegistry,
    out: VecDeque<Output>,
    stopped: bool,
}

/// The ports that the protocols call directly.
struct World<R> {
    route: R,
    tc: Tc,
}

impl<R: Route> Node<R> {
    /// A node without interfaces that asks `route` for routes.
    pub fn new(config: Config, route: R) -> Node<R> {
        Node::with(config, route, Off)
    }
}

impl<R: Route, P: ProbeObserver> Node<R, P> {
    /// As [`Node::new`], with an observer of probe points: a clone for each engine.
    pub fn with(config: Config, route: R, probe: P) -> Node<R, P>
    where
        P: Clone,
    {
        Node {
            rsvp: Rsvp::with(config.rsvp, config.seed, probe.clone()),
            boomerang: Boomerang::with(config.boomerang, config.seed.wrapping_mul(KEY), probe),
            world: World { route, tc: Tc::new([config.seed, config.seed.rotate_left(32) ^ KEY]) },
            interfaces: BTreeMap::new(),
            shelf: ResourceRegistry::default(),
            out: VecDeque::new(),
            stopped: false,
        }
    }

    /// The same node, with secrets and table keys from `chance` instead of the seed: in a daemon, from the
    /// kernel's random source. Call it before the first input.
    #[must_use]
    pub fn keyed(mut self, chance: &mut dyn FnMut() -> u64) -> Node<R, P> {
        self.rsvp.keyed(chance);
        self.boomerang.keyed(chance);
        self.world.tc = Tc::new([chance(), chance()]);
        self
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        debug_assert!(self.out.is_empty(), "one input, then drain");
        match input {
            Input::PlanDone { id, result } => self.world.tc.plan_done(now, id, result),
            _ if self.stopped => return,
            Input::Message { iif, src, dst, ttl, bytes } => {
                self.tell(now, protocol::Input::Message { iif, src, dst, ttl, bytes });
            }
            Input::Waited(waiting) => self.tell(now, protocol::Input::Waited(waiting)),
            Input::Wake => {
                self.world.tc.wake(now);
                self.settle(now);
                self.tell(now, protocol::Input::Wake);
                self.tell_boomerang(now, boomerang::Input::Wake);
            }
            Input::App(call) => self.tell(now, protocol::Input::App(call)),
            Input::Echo { iif, packet } => self.tell_boomerang(now, boomerang::Input::Packet { iif, packet }),
            Input::Boomerang(call) => self.tell_boomerang(now, boomerang::Input::App(call)),
            Input::Interface(state) => self.interface(now, state),
            Input::InterfaceGone(interface) => {
                self.interfaces.remove(&interface);
                self.world.tc.interface_gone(now, interface);
                self.out.extend(self.shelf.link(interface, None).map(Output::Event));
                self.settle(now);
                self.tell_boomerang(now, boomerang::Input::InterfaceGone(interface));
                self.tell(now, protocol::Input::Interface { interface, state: None });
            }
            Input::Auth { interface, auth } => self.tell(now, protocol::Input::Auth { interface, auth }),
            Input::SequencesReserved { from, upto } => {
                self.tell(now, protocol::Input::SequencesReserved { from, upto });
            }
            Input::SequencesFailed => self.tell(now, protocol::Input::SequencesFailed),
            Input::RouteChanged(within) => self.tell(now, protocol::Input::RouteChanged(within)),
            Input::Premium { oif, premium } => self.world.tc.premium(oif, premium),
            Input::FoundClass { oif, class, spec } => self.world.tc.found_class(oif, class, &spec),
            Input::Adopt { oif, flow, entry } => self.world.tc.adopt(now, oif, flow, entry),
            Input::Stop => {
                self.stopped = true;
                self.world.tc.stop(now);
            }
        }
        self.settle(now);
    }

    /// Lets a message of protocol 46 wait in `intake`, if it may; then drain [`Node::poll`].
    pub fn offer(&mut self, now: Time, intake: &mut Intake, message: &Incoming<'_>) {
        if !self.stopped {
            intake.offer(&mut self.rsvp, now, message);
            self.settle(now);
        }
    }

    /// The next thing the node says.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time to come back with [`Input::Wake`], if there is no other input.
    pub fn wake_at(&self) -> Option<Time> {
        let times = [self.rsvp.wake_at(), self.boomerang.wake_at(), self.world.tc.wake_at()];
        times.into_iter().flatten().min().filter(|_| !self.stopped)
    }

    /// The routing table that the node asks.
    pub fn route_mut(&mut self) -> &mut R {
        &mut self.world.route
    }

    /// RSVP's state, for status.
    pub fn rsvp(&self) -> &Rsvp<P> {
        &self.rsvp
    }

    /// The observer of RSVP's probe points.
    pub fn probe_mut(&mut self) -> &mut P {
        self.rsvp.probe_mut()
    }

    /// Boomerang's state, for status.
    pub fn boomerang(&self) -> &Boomerang<P> {
        &self.boomerang
    }

    /// The observer of Boomerang's probe points.
    pub fn boomerang_probe_mut(&mut self) -> &mut P {
        self.boomerang.probe_mut()
    }

    /// Sets Boomerang's configuration from now on.
    pub fn configure_boomerang(&mut self, config: boomerang::Config) {
        self.boomerang.configure(config);
    }

    /// Traffic control's state, for status.
    pub fn tc(&self) -> &Tc {
        &self.world.tc
    }

    /// Lets the bookings read and change the tables of this node, under a policy. Displacements are reported
    /// afterwards: drain [`Node::poll`] as after an input.
    pub fn with_book<B: PolicyPort, T>(
        &mut self,
        now: Time,
        policy: &B,
        ask: impl FnOnce(&mut BookWorld<'_, B>) -> T,
    ) -> T {
        let answer = ask(&mut BookWorld { tc: &mut self.world.tc, shelf: &mut self.shelf, policy });
        for oif in self.shelf.take_touched() {
            self.world.tc.read_ledger(now, oif);
        }
        self.settle(now);
        answer
    }

    /// The bookable resource of an interface.
    pub fn resource_of(&self, oif: IfIndex) -> Option<ResourceId> {
        self.shelf.of(oif)
    }

    /// Adds a resource other than an interface, or changes its capacity; the caller must tell the bookings.
    pub fn add_resource(&mut self, now: Time, stock: Resource) -> ResourceId {
        self.shelf.add_resource(now, stock)
    }

    /// Sets the terms of bookings on an interface, and the configured guarantees of its classes. Call it
    /// before the first booking there. Drain [`Node::poll`] afterwards as after an input.
    pub fn bookable(&mut self, now: Time, oif: IfIndex, bookable: Bookable) -> Option<ResourceId> {
        self.world.tc.set_apart(now, oif, bookable.core);
        self.settle(now);
        self.shelf.set_bookable(now, oif, bookable)
    }

    /// The ledger of an interface, for bookings and grants. Tell it the time first: [`admit::LinkLedger::expire`].
    pub fn ledger_mut(&mut self, oif: IfIndex) -> Option<&mut admit::LinkLedger> {
        self.world.tc.ledger_mut(oif)
    }

    /// Sets the rate that Boomerang's fast path may give away on an interface; see [`Tc::grant`]. Drain
    /// [`Node::poll`] afterwards as after an input.
    ///
    /// # Errors
    /// [`Refused`] with the free rate; the old grant stays.
    pub fn grant(&mut self, now: Time, oif: IfIndex, share: GrantedShare) -> Result<(), Refused> {
        let granted = self.world.tc.grant(now, oif, share);
        self.settle(now);
        granted
    }

    /// Adopts a grant; see [`Tc::adopt_grant`].
    ///
    /// # Errors
    /// As for [`Tc::adopt_grant`].
    pub fn adopt_grant(&mut self, now: Time, oif: IfIndex, share: GrantedShare) -> Result<(), Refused> {
        let adopted = self.world.tc.adopt_grant(now, oif, share);
        self.settle(now);
        adopted
    }

    /// Every reservation on this node's outgoing interfaces: requested, admitted, installed.
    pub fn reservations(&self) -> impl Iterator<Item = ReservationView> + '_ {
        self.world.tc.reservations()
    }

    /// Every interface that takes reservations.
    pub fn links(&self) -> impl Iterator<Item = LinkView> + '_ {
        self.world.tc.links()
    }

    /// Every interface, as it was last told.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceState> {
        self.interfaces.values()
    }

    fn interface(&mut self, now: Time, state: InterfaceState) {
        self.world.tc.interface(now, &state);
        let name = state.link.is_some().then_some(state.name.as_str());
        let other = self.interfaces.get(&state.index).is_none_or(|known| known.link != state.link);
        self.out.extend(self.shelf.link(state.index, name).filter(|_| other).map(Output::Event));
        self.settle(now);
        let interface = state.index;
        let known = protocol::Interface {
            name: state.name.clone(),
            addresses: state.addresses.clone(),
            mtu: state.mtu,
            enabled: state.rsvp,
        };
        self.interfaces.insert(interface, state);
        self.tell(now, protocol::Input::Interface { interface, state: Some(known) });
    }

    /// Passes one input to RSVP, and handles all outputs that follow.
    fn tell(&mut self, now: Time, input: protocol::Input<'_>) {
        self.rsvp.handle(now, &mut self.world, input);
        self.settle(now);
    }

    /// Passes one input to Boomerang, and handles all outputs that follow.
    fn tell_boomerang(&mut self, now: Time, input: boomerang::Input<'_>) {
        self.boomerang.handle(now, &mut self.world, input);
        self.settle(now);
    }

    /// Collects the outputs of the protocols and traffic control, and passes them on, until there are none.
    fn settle(&mut self, now: Time) {
        let mut news: VecDeque<protocol::Input<'_>> = VecDeque::new();
        loop {
            while let Some(said) = self.world.tc.poll() {
                match said {
                    ControlOutput::Plan(id, ops) => self.out.push_back(Output::Plan { id, ops }),
                    ControlOutput::Installed(handle, result) => {
                        news.push_back(protocol::Input::Installed { handle, result })
                    }
                    ControlOutput::Displaced(handle, by) => news.push_back(protocol::Input::Displaced { handle, by }),
                    ControlOutput::Event(event) => {
                        news.extend(self.adopted(&event));
                        self.out.push_back(Output::Event(event));
                    }
                }
            }
            while let Some(output) = self.rsvp.poll() {
                self.out.push_back(output.into());
            }
            while let Some(output) = self.boomerang.poll() {
                self.out.push_back(match output {
                    boomerang::Output::Event(event) => Output::Event(Event::Boomerang(event)),
                    output => Output::Boomerang(output),
                });
            }
            let Some(input) = news.pop_front() else { return };
            let input = match self.not_rsvps(input) {
                Ok(input) => {
                    self.boomerang.handle(now, &mut self.world, input);
                    continue;
                }
                Err(input) => input,
            };
            if !self.stopped {
                self.rsvp.handle(now, &mut self.world, input);
            }
        }
    }

    /// Turns news of a Boomerang reservation into an input for Boomerang.
    fn not_rsvps<'a>(&self, news: protocol::Input<'a>) -> Result<boomerang::Input<'static>, protocol::Input<'a>> {
        match news {
            protocol::Input::Installed { handle, result } if self.boomerang.owns(handle) => {
                Ok(boomerang::Input::Installed { handle, result })
            }
            protocol::Input::Displaced { handle, .. } if self.boomerang.owns(handle) => {
                Ok(boomerang::Input::Displaced { handle })
            }
            news => Err(news),
        }
    }

    /// Tells RSVP to wait for the Path of an adopted flow's session instead of refusing its Resv.
    fn adopted(&self, event: &Event) -> Option<protocol::Input<'static>> {
        let Event::Adopted { oif, flow, .. } = event else { return None };
        let held = self.world.tc.reservation(*oif, flow)?;
        Some(protocol::Input::Adopted { session: held.session, until: held.adopted_until? })
    }
}

impl<R: Route> Route for World<R> {
    fn route(&mut self, dst: IpAddr, src: Option<IpAddr>, iif: Option<IfIndex>) -> RouteDecision {
        self.route.route(dst, src, iif)
    }
}

impl<R> TrafficControl for World<R> {
    fn add(&mut self, now: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        self.tc.add(now, request)
    }

    fn modify(&mut self, now: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        self.tc.modify(now, handle, request)
    }

    fn remove(&mut self, now: Time, handle: RHandle) {
        self.tc.remove(now, handle);
    }

    fn offers(&self, now: Time, oif: IfIndex, min_packet: u32) -> Rate {
        self.tc.offers(now, oif, min_packet)
    }

    fn set_up_rate(&self, oif: IfIndex) -> Option<Rate> {
        self.tc.set_up_rate(oif)
    }

    fn advertise(&self, now: Time, oif: IfIndex, arriving: &Adspec) -> Adspec {
        self.tc.advertise(now, oif, arriving)
    }
}

impl From<protocol::Output> for Output {
    fn from(output: protocol::Output) -> Output {
        match output {
            protocol::Output::Send(datagram) => Output::Send(datagram),
            protocol::Output::Upcall { app, upcall } => Output::Upcall { app, upcall },
            protocol::Output::Event(event) => Output::Event(Event::Rsvp(event)),
            protocol::Output::ReserveSequences { upto } => Output::ReserveSequences { upto },
        }
    }
}
