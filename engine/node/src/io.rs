//! What a node is told and what it says; the same for the daemon, the simulator and a replay.
//!
//! On each interface one plan batch at a time is under way: until `PlanDone` answers it, what changes waits and goes
//! into the next one together.

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

/// A batch of plan operations on its way to the data plane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlanId(pub u64);

/// What a node is told.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram of protocol 46 came in.
    Message {
        /// Where.
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
    /// One that waited in an [`Intake`](rsvp::overload::Intake).
    Waited(&'a rsvp::overload::WaitingMessage),
    /// An ICMP echo with Boomerang's magic came in (`None`: a local process sends it). It is rewritten where it lies; what becomes
    /// of it is the one [`Output::Boomerang`] that says so.
    Echo {
        /// Where.
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
    /// An interface came or changed. The first notice of an interface with a link makes the plane its own.
    Interface(InterfaceState),
    /// An interface went, or is down.
    InterfaceGone(IfIndex),
    /// Routes may have changed, to destinations that begin with so many bits of this address or (`None`) to any.
    RouteChanged(Option<(IpAddr, u8)>),
    /// The data plane carried a batch out (every change read back), or could not; then nothing of it is left.
    PlanDone {
        /// Which.
        id: PlanId,
        /// How it went.
        result: Result<(), Fault>,
    },
    /// A flow was found in the plane at start, from an earlier life. Told *before* the `Interface` that it was found
    /// on, so that the interface's first plan already holds it and nothing that is installed ever shrinks; and before
    /// any message.
    Adopt {
        /// Where.
        oif: IfIndex,
        /// Which packets.
        flow: FlowKey,
        /// What happens to them.
        entry: FlowSpecEntry,
    },
    /// A class was found in the plane at start, as the plane has it. Told before the `Interface` that it was found on: a
    /// batch that does not know what is guaranteed by now cannot be ordered so that nothing sums over the link.
    FoundClass {
        /// Where.
        oif: IfIndex,
        /// Which.
        class: ClassId,
        /// What it is.
        spec: ClassSpec,
    },
    /// What the premium classes of an interface serve from now on. Told before the `Interface` of a plane that was
    /// found, they do not shrink until whoever books knows better.
    Premium {
        /// Where.
        oif: IfIndex,
        /// What; nothing: the classes go.
        premium: Premium,
    },
    /// The keys of an interface, from now on.
    Auth {
        /// Which.
        interface: IfIndex,
        /// Whose messages are taken, and how ours are signed.
        auth: AuthMode,
    },
    /// The answer to [`Output::ReserveSequences`].
    SequencesReserved {
        /// What the disk said when this life of the node began; zero if nothing.
        from: u64,
        /// What it says now.
        upto: u64,
    },
    /// The other answer: nothing could be written. It is asked for again after a while.
    SequencesFailed,
    /// The agent stops: give every interface back.
    Stop,
}

/// An interface and what may be reserved on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceState {
    /// Index.
    pub index: IfIndex,
    /// Name, for people.
    pub name: String,
    /// Our addresses there.
    pub addresses: Vec<IpAddr>,
    /// MTU, bytes.
    pub mtu: u32,
    /// Whether RSVP is spoken here.
    pub rsvp: bool,
    /// The link, where its rate is known; without it nothing is reservable and the plane leaves it alone.
    pub link: Option<Reservable>,
}

/// A link that takes reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservable {
    /// Rate, overhead, MTU.
    pub spec: LinkSpec,
    /// The most that signalled (open-ended) reservations may hold together, wire rate.
    pub signalled_share: Rate,
    /// What best effort and signalling keep whatever is reserved, wire rate.
    pub kept_back: Rate,
    /// How long a signalled reservation is safe from advance bookings once it is there; `None`: for ever, and then a
    /// booking must find room beside it.
    pub assumed_holding: Option<Span>,
    /// `C` (bytes) and `D` (microseconds) that the plane keeps; `None`: no bound, guaranteed service is refused.
    pub guaranteed: Option<(u32, u32)>,
}

/// What a node says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a datagram of protocol 46.
    Send(Datagram),
    /// Carry these out on the data plane, all or nothing, read back, and answer with `PlanDone`.
    Plan {
        /// Name of the batch.
        id: PlanId,
        /// In order.
        ops: Vec<PlanOp>,
    },
    /// Tell a local application.
    Upcall {
        /// Who.
        app: AppId,
        /// What.
        upcall: Upcall,
    },
    /// What Boomerang says: what becomes of the packet that was told, other packets, upcalls. Its events are
    /// [`Event::Boomerang`].
    Boomerang(boomerang::Output),
    /// Something happened that people and tests may want to know.
    Event(Event),
    /// Write durably that sequence numbers of INTEGRITY below `upto` may be used up, and answer with
    /// [`Input::SequencesReserved`] or [`Input::SequencesFailed`].
    ReserveSequences {
        /// The bound.
        upto: u64,
    },
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// In the RSVP engine.
    Rsvp(rsvp::io::Event),
    /// In the Boomerang engine.
    Boomerang(boomerang::Event),
    /// A slot was opened on an interface.
    Admitted {
        /// Where.
        oif: IfIndex,
        /// Which packets.
        flow: FlowKey,
        /// How much the ledger counts.
        rate: Rate,
    },
    /// A slot was given back.
    Released {
        /// Where.
        oif: IfIndex,
        /// Which packets.
        flow: FlowKey,
        /// How much.
        rate: Rate,
    },
    /// A flow found in the plane holds capacity again.
    Adopted {
        /// Where.
        oif: IfIndex,
        /// Which packets.
        flow: FlowKey,
        /// How much.
        rate: Rate,
    },
    /// An adopted flow was not refreshed within its lifetime.
    AdoptedExpired {
        /// Where.
        oif: IfIndex,
        /// Which packets.
        flow: FlowKey,
    },
    /// A reservation made way: for a request of that priority, or (`None`) for a booking whose time has come.
    Displaced {
        /// Where.
        oif: IfIndex,
        /// Which packets.
        flow: FlowKey,
        /// How much.
        rate: Rate,
        /// Whose request.
        by: Option<Preemption>,
    },
    /// A booked slot's window has begun.
    Opens {
        /// Where.
        oif: IfIndex,
        /// The ledger's handle.
        slot: u64,
        /// How much.
        rate: Rate,
    },
    /// A booked slot's window is over, or a hold was not promised in time.
    Closes {
        /// Where.
        oif: IfIndex,
        /// The ledger's handle.
        slot: u64,
        /// How much.
        rate: Rate,
    },
    /// A resource of the book has come, gone or changed. What is signalled on an interface changes what its background
    /// parts may have, but is not told by this.
    Resource {
        /// Which.
        resource: terms::book::ResourceId,
    },
    /// The plane could not do something.
    PlaneFault {
        /// Which batch.
        id: PlanId,
        /// Why.
        fault: Fault,
    },
}
