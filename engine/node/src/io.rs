//! Inputs and outputs of a node; the same for the agent, the simulator and a replay.
//!
//! Inputs that come together are a turn: [`Node::handle_in_turn`](crate::Node::handle_in_turn) takes each, and after
//! the last [`Node::end_turn`](crate::Node::end_turn) draws one plan batch for each interface where a change is due. On
//! each interface one batch at a time is in progress: until `PlanDone` answers it, further changes wait and go into the
//! next batch together. If a batch fails, its reservations are tried again in smaller ones, and only those that fail
//! alone are lost.
//!
//! **Outputs with an answer.** The driver answers each of these once; other inputs may come between.
//!
//! | output | answer |
//! |---|---|
//! | [`Output::Plan`] | [`Input::PlanDone`] with the same number, after [`Input::Stop`] too |
//! | [`Output::Trust`] | [`Input::Trusted`] |
//! | [`Output::Append`] | [`Input::Booking`] with `Appended` or `AppendFailed` |
//! | [`Output::Order`] | [`Input::Booking`] with `Enforced` |
//! | [`Output::ReserveSequences`] | [`Input::SequencesReserved`] or [`Input::SequencesFailed`] |
//!
//! **Order at a start.** What an earlier run left in the plane comes first ([`Input::FoundClass`], [`Input::Adopt`],
//! [`Input::FoundEdge`]), then [`Input::Interface`] of its interface, then messages. Records of the journal come before
//! the first call about bookings; [`booking::Input::Recovered`] ends them.
//!
//! **The end.** After [`Input::Stop`] the node takes [`Input::PlanDone`] alone, ignores every other input, and asks for
//! no wake-up.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use control::edges::SlaPlace;
pub use control::io::{Event as ControlEvent, InterfaceState, PlanId, Reservable};
use core::net::IpAddr;
use rsvp::integrity::AuthMode;
pub use rsvp::io::{AppCall, AppId};
pub use rsvp::io::{Datagram, Upcall};
use terms::{Fault, FlowKey, IfIndex};
use traffic::edge::{EdgeAt, EdgeRule, MultiField};
use traffic::plan::{ClassId, ClassSpec, FlowSpecEntry, PlanOp};

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
    /// An edge was found in the plane at start, with its rules. Told before the first booking.
    FoundEdge {
        /// The edge.
        at: EdgeAt,
        /// Its rules.
        rules: BTreeMap<MultiField, EdgeRule>,
    },
    /// An input of the bookings: a record of the journal, a call, the journal's answer, the calendar, other rules.
    /// The node itself tells them of resources, of time, and of what is enforced at an edge.
    Booking(booking::Input),
    /// Control groups of this host may have come, gone or been made again: those of booked parts are looked at.
    Groups,
    /// The edges that exist whatever is booked, and the interfaces whose marks are trusted, from now on.
    Roles {
        /// The sides of interfaces at which premium marks without a booking are wiped.
        edges: BTreeSet<EdgeAt>,
        /// The interfaces whose marks are trusted.
        trusted: BTreeSet<IfIndex>,
        /// The agreements with neighbouring domains, by the name of the resource (`sla/PEER`).
        slas: BTreeMap<String, SlaPlace>,
    },
    /// The answer to [`Output::Trust`].
    Trusted(Result<(), Fault>),
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
    /// Write these records durably, all or none, in order; answer with [`booking::Input::Appended`] or
    /// [`booking::Input::AppendFailed`].
    Append(booking::Batch),
    /// The answer to a call about bookings.
    Reply {
        /// The number of the call.
        id: booking::io::CallId,
        /// The answer. It is the largest of all, and every other output is moved with room for the largest.
        reply: Box<booking::Reply>,
    },
    /// Carry out an order for a resource of the host (processor, disk, licence), read it back, and answer with
    /// [`booking::Input::Enforced`].
    Order(booking::io::Order),
    /// Ask a coordinator for its decision about a promise; answer with [`booking::Input::Call`] and
    /// [`booking::Call::Decide`].
    AskDecision(booking::promise::DecisionQuestion),
    /// A coordinator has decided otherwise than an operator or time did here: people must know.
    Contradicted(booking::promise::Contradiction),
    /// A record of the journal breaks its form and is left out. The operator must know, and decide.
    Corrupt {
        /// The table of the record.
        table: booking::io::RecordTable,
        /// The key of the record.
        key: Vec<u8>,
        /// The mistake.
        what: &'static str,
    },
    /// Trust the marks of packets from exactly these interfaces; answer with [`Input::Trusted`].
    Trust(BTreeSet<IfIndex>),
    /// An event for people and tests.
    Event(Event),
    /// The result of [`Node::promote`](crate::Node::promote).
    Promoted {
        /// Its handle.
        handle: terms::ports::RHandle,
        /// The outgoing interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// The plane's result.
        result: Result<(), Fault>,
    },
    /// A signalled reservation that is admitted by measurement has come, changed or gone.
    ByMeasurement(control::tc::SignalledFlow),
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
    /// An event of traffic control.
    Control(control::io::Event),
    /// An event of a booking, after it has been written.
    Booking(booking::Event),
    /// News of the control group that a booked part is for.
    Group(GroupEvent),
}

/// The control group of a booked part has gone, or is there again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupEvent {
    /// The reservation.
    pub handle: terms::book::Handle,
    /// The part, from 0.
    pub part: usize,
    /// The path of the group.
    pub path: alloc::string::String,
    /// True if it is there again, with another number: its packets are the reservation's again.
    pub there: bool,
}
