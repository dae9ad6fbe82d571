//! Inputs and outputs of a node; the same for the daemon, the simulator and a replay.
//!
//! On each interface one plan batch at a time is in progress: until `PlanDone` answers it, further changes
//! wait and go into the next batch together.

pub use crate::classes::{Premium, PremiumDemand};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use rsvp::integrity::AuthMode;
pub use rsvp::io::{AppCall, AppId};
pub use rsvp::io::{Datagram, Upcall};
use terms::ports::Preemption;
use terms::{Fault, FlowKey, IfIndex, Rate, Span};
use traffic::plan::{ClassId, ClassSpec, FlowSpecEntry, LinkSpec, PlanOp};

/// The number of a batch of plan operations for the data plane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlanId(pub u64);

/// An input of a node.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram of protocol 46 came in.
    Message {
        /// The incoming interface.
        iif: IfIndex,
        /// IP source.
        src: IpAddr,
        /// IP destination.
        dst: IpAddr,
        /// IP TTL (hop limit) as received.
        ttl: u8,
        /// The RSVP message.
        bytes: &'a [u8],
    },
    /// A message that waited in an [`Intake`](rsvp::overload::Intake).
    Waited(&'a rsvp::overload::WaitingMessage),
    /// An ICMP echo with Boomerang's magic came in (`None`: a local process sends it). It is rewritten in
    /// place; exactly one [`Output::Boomerang`] decides its fate.
    Echo {
        /// The incoming interface.
        iif: Option<IfIndex>,
        /// The whole IP packet.
        packet: &'a mut [u8],
    },
    /// `wake_at()` has come (or passed).
    Wake,
    /// A local application's call.
    App(AppCall<'a>),
    /// A local application's call to the initiating side of Boomerang.
    Boomerang(boomerang::ApplicationCall),
    /// An interface came or changed. The first notice of an interface with a link makes the plane ours.
    Interface(InterfaceState),
    /// An interface went, or is down.
    InterfaceGone(IfIndex),
    /// Routes may have changed, to destinations with this prefix (address and length in bits) or (`None`) to any.
    RouteChanged(Option<(IpAddr, u8)>),
    /// The data plane carried a batch out (every change read back), or could not; then it has undone all of it.
    PlanDone {
        /// The number of the batch.
        id: PlanId,
        /// The plane's result.
        result: Result<(), Fault>,
    },
    /// A flow of an earlier run was found in the plane at start. Told *before* the `Interface` of its
    /// interface, so that the interface's first plan already holds it and no installed reservation ever
    /// shrinks; and before any message.
    Adopt {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The flow's entry in the plane.
        entry: FlowSpecEntry,
    },
    /// A class was found in the plane at start, as the plane has it. Told before the `Interface` of its
    /// interface: a batch needs the present guarantees for an order that never exceeds the link.
    FoundClass {
        /// The interface.
        oif: IfIndex,
        /// The class.
        class: ClassId,
        /// The specification of the class.
        spec: ClassSpec,
    },
    /// The load of an interface's premium classes from now on. If it is told before the `Interface` of an
    /// adopted plane, they do not shrink until the bookings are known.
    Premium {
        /// The interface.
        oif: IfIndex,
        /// The load; an empty one removes the classes.
        premium: Premium,
    },
    /// The keys of an interface, from now on.
    Auth {
        /// The interface.
        interface: IfIndex,
        /// The rules for accepting messages and for signing ours.
        auth: AuthMode,
    },
    /// The answer to [`Output::ReserveSequences`].
    SequencesReserved {
        /// The stored bound when this run of the node began; zero if there was none.
        from: u64,
        /// The stored bound now.
        upto: u64,
    },
    /// The other answer: the bound could not be written. The node asks again after a while.
    SequencesFailed,
    /// The agent stops: every interface is released.
    Stop,
}

/// An interface and its link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceState {
    /// The index of the interface.
    pub index: IfIndex,
    /// The name, for people.
    pub name: String,
    /// This node's addresses on the interface.
    pub addresses: Vec<IpAddr>,
    /// MTU, bytes.
    pub mtu: u32,
    /// True if RSVP runs here.
    pub rsvp: bool,
    /// The link, if its rate is known; without it, there are no reservations and the plane ignores the interface.
    pub link: Option<Reservable>,
}

/// A link that takes reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservable {
    /// Rate, overhead, MTU.
    pub spec: LinkSpec,
    /// The most that signalled (open-ended) reservations may hold together, wire rate.
    pub signalled_share: Rate,
    /// The wire rate that best effort and signalling always keep.
    pub kept_back: Rate,
    /// The time for which a new signalled reservation is safe from advance bookings; `None`: for ever, and
    /// then a booking must find room beside it.
    pub assumed_holding: Option<Span>,
    /// The `C` (bytes) and `D` (microseconds) of the plane; `None`: no bound, guaranteed service is refused.
    pub guaranteed: Option<(u32, u32)>,
}

/// An output of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a datagram of protocol 46.
    Send(Datagram),
    /// Carry these out on the data plane, all or nothing, read back, and answer with `PlanDone`.
    Plan {
        /// The number of the batch.
        id: PlanId,
        /// The operations, in order.
        ops: Vec<PlanOp>,
    },
    /// A report to a local application.
    Upcall {
        /// The application.
        app: AppId,
        /// The report.
        upcall: Upcall,
    },
    /// An output of Boomerang: the fate of the input's packet, other packets, upcalls. Its events are
    /// [`Event::Boomerang`].
    Boomerang(boomerang::Output),
    /// An event for people and tests.
    Event(Event),
    /// Write durably that sequence numbers of INTEGRITY below `upto` may be used up, and answer with
    /// [`Input::SequencesReserved`] or [`Input::SequencesFailed`].
    ReserveSequences {
        /// The bound.
        upto: u64,
    },
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An event of the RSVP engine.
    Rsvp(rsvp::io::Event),
    /// An event of the Boomerang engine.
    Boomerang(boomerang::Event),
    /// A slot was opened on an interface.
    Admitted {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The rate that the ledger counts.
        rate: Rate,
    },
    /// A slot was released.
    Released {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The released rate.
        rate: Rate,
    },
    /// A flow that was found in the plane holds capacity again.
    Adopted {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The rate that the ledger counts.
        rate: Rate,
    },
    /// An adopted flow was not refreshed within its lifetime.
    AdoptedExpired {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
    },
    /// A reservation was displaced: by a request of that priority, or (`None`) by a booking that begins.
    Displaced {
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The lost rate.
        rate: Rate,
        /// The priority of the request.
        by: Option<Preemption>,
    },
    /// A booked slot's window has begun.
    Opens {
        /// The interface.
        oif: IfIndex,
        /// The ledger's handle.
        slot: u64,
        /// The rate of the slot.
        rate: Rate,
    },
    /// A booked slot's window is over, or a hold was not promised in time.
    Closes {
        /// The interface.
        oif: IfIndex,
        /// The ledger's handle.
        slot: u64,
        /// The rate of the slot.
        rate: Rate,
    },
    /// A bookable resource has come, gone or changed. Signalled reservations on an interface change the room
    /// for its background too, but without this event.
    Resource {
        /// The resource.
        resource: terms::book::ResourceId,
    },
    /// The plane could not carry out a batch.
    PlaneFault {
        /// The number of the batch.
        id: PlanId,
        /// The fault.
        fault: Fault,
    },
}
