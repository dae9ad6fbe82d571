//! The node: RSVP, Boomerang, the bookings, the ledger and the plan wired together, without logic of its own.

mod bookings;
mod measured;

use crate::io::{ControlEvent, Event, GroupEvent, Input, InterfaceState, Output};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use booking::Bookings;
use booking::io::OrderId;
pub use bookings::NoPolicy;
use bookings::{BoundGroup, News};
use boomerang::Boomerang;
use control::edges::PartId;
use control::granted::GrantedShare;
use control::resources::{Bookable, Resource};
use control::status::{LinkView, ReservationView};
use control::tc::Tc;
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
    /// Limits and spans of the bookings.
    pub booking: booking::Config,
    /// The seed for refresh jitter, and for keyed tables and secrets unless [`Node::keyed`] sets them.
    pub seed: u64,
}

/// A constant that derives a second key word from one seed.
const KEY: u64 = 0x9e37_79b9_7f4a_7c15;

/// A router or host.
///
/// After each input, drain [`Node::poll`]. Inputs that came together are a turn: [`Node::handle_in_turn`] takes each, and
/// [`Node::end_turn`] follows the last; [`Node::handle`] takes one that came alone. Come back at [`Node::wake_at`] with
/// [`Input::Wake`]. `P` observes the engines' probe points; the default is none, and [`Node::with`] sets one. `B`
/// decides who may book what; the default refuses everybody, and [`Node::under`] sets one.
pub struct Node<R, P = Off, B = NoPolicy> {
    rsvp: Rsvp<P>,
    boomerang: Boomerang<P>,
    bookings: Bookings,
    policy: B,
    /// The orders for parts of interfaces that wait for the plane.
    orders: BTreeMap<PartId, OrderId>,
    /// The control groups of booked parts.
    groups: BTreeMap<PartId, BoundGroup>,
    /// Their changes; told after the batch that makes them true.
    group_news: Vec<GroupEvent>,
    /// True until what earlier runs left in the plane has been ordered again or removed.
    earlier: bool,
    world: World<R>,
    interfaces: BTreeMap<IfIndex, InterfaceState>,
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
            bookings: Bookings::new(config.booking, own(&mut || config.seed)),
            policy: NoPolicy,
            orders: BTreeMap::new(),
            groups: BTreeMap::new(),
            group_news: Vec::new(),
            earlier: false,
            world: World { route, tc: Tc::new([config.seed, config.seed.rotate_left(32) ^ KEY]) },
            interfaces: BTreeMap::new(),
            out: VecDeque::new(),
            stopped: false,
        }
    }

    /// The same node under this policy for bookings. Call it before the first input.
    #[must_use]
    pub fn under<B: PolicyPort>(self, policy: B) -> Node<R, P, B> {
        Node {
            rsvp: self.rsvp,
            boomerang: self.boomerang,
            bookings: self.bookings,
            policy,
            orders: self.orders,
            groups: self.groups,
            group_news: self.group_news,
            earlier: self.earlier,
            world: self.world,
            interfaces: self.interfaces,
            out: self.out,
            stopped: self.stopped,
        }
    }

    /// The same node, with secrets and table keys from `chance` instead of the seed: in a daemon, from the
    /// kernel's random source. Call it before the first input.
    #[must_use]
    pub fn keyed(mut self, chance: &mut dyn FnMut() -> u64) -> Node<R, P> {
        self.rsvp.keyed(chance);
        self.boomerang.keyed(chance);
        self.bookings.keyed(own(chance));
        self.world.tc = Tc::new([chance(), chance()]);
        self
    }
}

/// A secret of the bookings.
fn own(chance: &mut dyn FnMut() -> u64) -> [u8; 32] {
    let mut own = [0; 32];
    own.chunks_mut(8).for_each(|word| word.copy_from_slice(&chance().to_be_bytes()));
    own
}

impl<R: Route, P: ProbeObserver, B: PolicyPort> Node<R, P, B> {
    /// Takes one input that came alone: a turn of its own.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        self.handle_in_turn(now, input);
        self.end_turn(now);
    }

    /// Ends a turn: draws the batches that its inputs made due. Then drain [`Node::poll`].
    pub fn end_turn(&mut self, now: Time) {
        while self.world.tc.end_turn() {
            self.settle(now);
        }
        self.out.extend(self.group_news.drain(..).map(|news| Output::Event(Event::Group(news))));
    }

    /// Takes one of several inputs that came together; drain [`Node::poll`] after each. No batch is drawn before
    /// [`Node::end_turn`], so that all of them make one batch on each interface.
    pub fn handle_in_turn(&mut self, now: Time, input: Input<'_>) {
        debug_assert!(self.out.is_empty(), "one input, then drain");
        // Whatever is told to an engine settles there.
        match input {
            Input::PlanDone { id, result } => self.world.tc.plan_done(now, id, result),
            _ if self.stopped => return,
            Input::Message { iif, src, dst, ttl, bytes } => {
                return self.tell(now, protocol::Input::Message { iif, src, dst, ttl, bytes });
            }
            Input::Waited(waiting) => return self.tell(now, protocol::Input::Waited(waiting)),
            Input::Wake => {
                self.world.tc.wake(now);
                self.settle(now);
                self.tell(now, protocol::Input::Wake);
                self.tell_boomerang(now, boomerang::Input::Wake);
                if self.bookings.wake_at().is_some_and(|at| at <= now) {
                    self.tell_bookings(now, booking::Input::Wake);
                }
            }
            Input::App(call) => return self.tell(now, protocol::Input::App(call)),
            Input::Echo { iif, packet } => return self.tell_boomerang(now, boomerang::Input::Packet { iif, packet }),
            Input::Boomerang(call) => return self.tell_boomerang(now, boomerang::Input::App(call)),
            Input::Interface(state) => return self.interface(now, state),
            Input::InterfaceGone(interface) => {
                self.interfaces.remove(&interface);
                self.world.tc.interface_gone(now, interface);
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
            Input::FoundEdge { at, rules } => self.world.tc.edge_turn().found_edge(at, &rules),
            Input::Booking(input) => {
                self.earlier |= input == booking::Input::Recovered;
                self.tell_bookings(now, input);
            }
            Input::Groups => self.look_at_groups(),
            Input::Roles { edges, trusted, slas } => {
                self.world.tc.edge_turn().stand(&edges, &trusted);
                self.world.tc.edge_turn().agree(&slas);
            }
            Input::Trusted(result) => self.world.tc.edge_turn().trusted(now, result),
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
        let times = [self.rsvp.wake_at(), self.boomerang.wake_at(), self.world.tc.wake_at(), self.bookings.wake_at()];
        times.into_iter().flatten().min().filter(|_| !self.stopped)
    }

    /// True if a booked part is for a control group: [`Input::Groups`] is due every second or so.
    pub fn has_groups(&self) -> bool {
        !self.groups.is_empty()
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

    /// The bookings, for status.
    pub fn bookings(&self) -> &Bookings {
        &self.bookings
    }

    /// The policy for bookings.
    pub fn policy(&self) -> &B {
        &self.policy
    }

    /// The same, to change it; then tell [`booking::Input::Policy`].
    pub fn policy_mut(&mut self) -> &mut B {
        &mut self.policy
    }

    /// The bookable resource of an interface.
    pub fn resource_of(&self, oif: IfIndex) -> Option<ResourceId> {
        self.world.tc.resource_of(oif)
    }

    /// Adds a resource other than an interface, or changes its capacity; the caller must tell the bookings.
    pub fn add_resource(&mut self, now: Time, stock: Resource) -> ResourceId {
        self.world.tc.add_resource(now, stock)
    }

    /// Sets the terms of bookings on an interface, and the configured guarantees of its classes. Call it
    /// before the first booking there. Drain [`Node::poll`] afterwards as after an input.
    pub fn bookable(&mut self, now: Time, oif: IfIndex, bookable: Bookable) -> Option<ResourceId> {
        let resource = self.world.tc.bookable(now, oif, bookable);
        self.end_turn(now);
        resource
    }

    /// The ledger of an interface, for bookings and grants. Tell it the time first: [`control::io::LinkLedger::expire`].
    pub fn ledger_mut(&mut self, oif: IfIndex) -> Option<&mut control::io::LinkLedger> {
        self.world.tc.ledger_mut(oif)
    }

    /// Sets the rate that Boomerang's fast path may give away on an interface; see [`Tc::grant`]. Drain
    /// [`Node::poll`] afterwards as after an input.
    ///
    /// # Errors
    /// [`Refused`] with the free rate; the old grant stays.
    pub fn grant(&mut self, now: Time, oif: IfIndex, share: GrantedShare) -> Result<(), Refused> {
        let granted = self.world.tc.grant(now, oif, share);
        self.end_turn(now);
        granted
    }

    /// Adopts a grant; see [`Tc::adopt_grant`].
    ///
    /// # Errors
    /// As for [`Tc::adopt_grant`].
    pub fn adopt_grant(&mut self, now: Time, oif: IfIndex, share: GrantedShare) -> Result<(), Refused> {
        let adopted = self.world.tc.adopt_grant(now, oif, share);
        self.end_turn(now);
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

    /// Passes one input to the bookings, and handles all outputs that follow.
    fn tell_bookings(&mut self, now: Time, input: booking::Input) {
        let Node { bookings, policy, world, .. } = self;
        world.tc.with_book(now, policy, |ports| bookings.handle(now, ports, input));
        self.settle(now);
    }

    /// Passes one input to Boomerang, and handles all outputs that follow.
    fn tell_boomerang(&mut self, now: Time, input: boomerang::Input<'_>) {
        self.boomerang.handle(now, &mut self.world, input);
        self.settle(now);
    }

    /// Collects the outputs of the engines, and passes them on, until there are none.
    fn settle(&mut self, now: Time) {
        let mut news: VecDeque<News> = VecDeque::new();
        loop {
            while let Some(said) = self.world.tc.poll() {
                self.control_said(said, &mut news);
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
            while let Some(output) = self.bookings.poll() {
                self.bookings_said(output, &mut news);
            }
            match news.pop_front() {
                Some(News::Booking(input)) => {
                    let Node { bookings, policy, world, .. } = self;
                    world.tc.with_book(now, policy, |ports| bookings.handle(now, ports, input));
                }
                Some(News::Protocol(input)) => self.protocol_news(now, input),
                None if self.earlier && self.orders.is_empty() => {
                    self.earlier = false;
                    self.world.tc.edge_turn().earlier_is_over();
                }
                None => return,
            }
        }
    }

    /// Passes news to the protocol whose reservation it is about.
    fn protocol_news(&mut self, now: Time, input: protocol::Input<'static>) {
        match self.not_rsvps(input) {
            Ok(input) => self.boomerang.handle(now, &mut self.world, input),
            Err(input) if !self.stopped => self.rsvp.handle(now, &mut self.world, input),
            Err(_) => {}
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
    fn adopted(&self, event: &ControlEvent) -> Option<protocol::Input<'static>> {
        let ControlEvent::Adopted { oif, flow, .. } = event else { return None };
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
