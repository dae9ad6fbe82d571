//! The engine's inputs and outputs.
//!
//! The methods of [`Rsvp`](crate::Rsvp) fall into these families:
//!
//! - **Making** (`new`, `with`, `keyed`): before the first input.
//! - **Inputs** (`handle`): one at a time, with the time of the call, and with the ports for routes and traffic control.
//!   [`Input::Interface`] of an interface comes before its messages.
//! - **Outputs** (`poll`): read until `None` after each input, and carry out in order.
//! - **Waking** (`wake_at`): the time of the next [`Input::Wake`]; read it after the last output. To come early is
//!   harmless, to come late delays what was due.
//! - **Views** (`sessions`, `paths`, `reservations`, `traffic_control`, `neighbours`, `counters`): at any time.

mod config;

pub use config::Config;

use crate::integrity::key::AuthMode;
use crate::overload::waiting::WaitingMessage;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::{Preemption, RHandle};
use terms::{Adspec, Fault, FilterSpec, FlowSpec, IfIndex, SenderTemplate, Session, Style, Time, Tspec};

/// The driver's number for a local application; its registrations end with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AppId(pub u64);

/// An input of the engine.
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
    /// A message from an [`Intake`](crate::overload::Intake).
    Waited(&'a WaitingMessage),
    /// `wake_at()` has come (or passed).
    Wake,
    /// A local application's call.
    App(AppCall<'a>),
    /// The data plane has carried out an `add` or `modify` of traffic control, or has failed.
    Installed {
        /// The reservation's handle.
        handle: RHandle,
        /// The result; on a fault the reservation has been undone.
        result: Result<(), Fault>,
    },
    /// Traffic control took a reservation's capacity away (RFC 2205 appendix B, error 12; RFC 3181). Its handle is not
    /// known to traffic control any more.
    Displaced {
        /// The reservation's handle.
        handle: RHandle,
        /// The priority of the request that took its place; `None`: an advance booking.
        by: Option<Preemption>,
    },
    /// Routes to this network (address, prefix length in bits) may have changed; `None`: any route.
    RouteChanged(Option<(IpAddr, u8)>),
    /// An interface came, changed or went.
    Interface {
        /// The interface.
        interface: IfIndex,
        /// Its new state; `None`: gone or down.
        state: Option<Interface>,
    },
    /// A flow of this session is known to be installed from an earlier life of this node; until its lifetime is over,
    /// Resv messages that come before the Path are ignored rather than refused.
    Adopted {
        /// The session.
        session: Session,
        /// The end of that lifetime.
        until: Time,
    },
    /// New keys of an interface.
    Auth {
        /// The interface.
        interface: IfIndex,
        /// The keys that messages must be signed with, in and out; or none.
        auth: AuthMode,
    },
    /// The answer to [`Output::ReserveSequences`]: the disk records that sequence numbers below `upto` may
    /// have been used.
    SequencesReserved {
        /// Numbers below this may have been used in an earlier life, by the disk's record when this one
        /// began; zero if it had none.
        from: u64,
        /// At least the bound that was asked for, and at least `from` and a block of 2^20.
        upto: u64,
    },
    /// The other answer: the write failed. The engine asks again after a second, then after twice as long
    /// each time, up to 32 s; numbers reserved before stay usable.
    SequencesFailed,
}

/// A local application's call (RFC 2205 section 3.11.1).
#[derive(Clone, Copy, Debug)]
pub enum AppCall<'a> {
    /// A local application announces its traffic (RFC 2205 section 3.11.1, SENDER).
    Sender {
        /// The application.
        app: AppId,
        /// The session that it sends to.
        session: Session,
        /// The sender's address and port.
        template: SenderTemplate,
        /// Its traffic.
        tspec: Tspec,
        /// TTL of its data packets, carried in the Path message.
        ttl: u8,
    },
    /// A sender stops: PathTear follows.
    SenderGone {
        /// The application.
        app: AppId,
        /// The session that it sends to.
        session: Session,
        /// The sender's address and port.
        template: SenderTemplate,
    },
    /// A local application registers for a session that it will receive (SESSION): path events follow.
    Receiver {
        /// The application.
        app: AppId,
        /// The session.
        session: Session,
    },
    /// An application asks for a reservation (RESERVE). A repeated call changes the request.
    Reserve {
        /// The application.
        app: AppId,
        /// The session.
        session: Session,
        /// Style: distinct (FF), shared by the senders named (SE) or by all senders (WF).
        style: Style,
        /// The senders; for FF one per flowspec, in order; for WF none (any that are given do not count).
        filters: &'a [FilterSpec],
        /// The flowspecs; for FF one per filter, for SE and WF one.
        flowspecs: &'a [FlowSpec],
        /// True if the application wants a ResvConf.
        confirm: bool,
    },
    /// An application acts on behalf of hosts that do not signal: from now on the addresses of its senders
    /// and sessions need not be this node's (a sender proxy and a receiver proxy, RFC 5945). Its reservations
    /// end here: the links from a sender's host to this node, and from this node to a receiver's host, are
    /// not reserved.
    Proxy {
        /// The application.
        app: AppId,
    },
    /// Sets the pre-emption priority of the application's requests from now on (RFC 3181).
    Priority {
        /// The application.
        app: AppId,
        /// The priority; `None`: requests carry none.
        priority: Option<Preemption>,
    },
    /// An application gives its reservation up, or (with nothing reserved) its registration (RELEASE).
    Release {
        /// The application.
        app: AppId,
        /// The session; `None`: all of the application's.
        session: Option<Session>,
    },
}

/// An interface, as the engine needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Name, for people who read a refusal.
    pub name: String,
    /// Our addresses; the first of each family is the one for hops.
    pub addresses: Vec<IpAddr>,
    /// MTU, bytes.
    pub mtu: u32,
    /// True if RSVP is enabled here.
    pub enabled: bool,
}

/// An output of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a datagram of protocol 46.
    Send(Datagram),
    /// Pass an upcall to a local application.
    Upcall {
        /// The application.
        app: AppId,
        /// The upcall.
        upcall: Upcall,
    },
    /// An event for logs and tests.
    Event(Event),
    /// Write durably that sequence numbers of INTEGRITY below `upto` may be used up, and answer with
    /// [`Input::SequencesReserved`] or [`Input::SequencesFailed`]. Messages that have to be signed do not
    /// wait for the answer: without a number they are lost.
    ReserveSequences {
        /// The bound.
        upto: u64,
    },
}

/// A message to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The outgoing interface; `None`: as the routing table decides.
    pub oif: Option<IfIndex>,
    /// IP source (the sender's own address for Path and PathTear).
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// IP TTL; equal to Send_TTL in the message.
    pub ttl: u8,
    /// True if it carries the Router Alert option (Path, PathTear, ResvConf).
    pub router_alert: bool,
    /// The RSVP message, checksum in place.
    pub bytes: Vec<u8>,
}

/// Upcalls of RFC 2205 section 3.11.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Upcall {
    /// PATH_EVENT: a sender is new or has changed.
    Path {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// Its traffic.
        tspec: Tspec,
        /// The properties of the path, if the Path has an ADSPEC.
        adspec: Option<Adspec>,
        /// The MTU of the link that it comes in by, bytes ([`terms::guaranteed::received`]); `None`: a sender of this node.
        own_mtu: Option<u32>,
    },
    /// A sender is gone.
    PathGone {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
    },
    /// RESV_EVENT: the sender's flow is reserved from the receivers up to here.
    Resv {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// The style of the receivers' requests.
        style: Style,
        /// The reservation.
        flowspec: FlowSpec,
    },
    /// The reservation for the sender is gone.
    ResvGone {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
    },
    /// RESV_CONFIRM.
    Confirm {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// The flowspec that was confirmed.
        flowspec: FlowSpec,
        /// The node that confirmed it.
        node: IpAddr,
    },
    /// PATH_ERROR or RESV_ERROR.
    Error {
        /// The session.
        session: Session,
        /// The sender, if the error names one.
        template: Option<SenderTemplate>,
        /// True if it answers a reservation; false if it answers a Path.
        resv: bool,
        /// The error.
        error: ErrorReport,
    },
}

/// An ERROR_SPEC, with its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorReport {
    /// The node that found it.
    pub node: IpAddr,
    /// Error code, RFC 2205 appendix B.
    pub code: u8,
    /// Error value.
    pub value: u16,
    /// InPlace: an older reservation is still there.
    pub in_place: bool,
    /// NotGuilty.
    pub not_guilty: bool,
    /// The refusing node's own words (RFC 5284 USER_ERROR_SPEC): node, interface, amounts asked and free.
    pub text: Option<String>,
    /// The flowspec that was refused, if the message carries it.
    pub flowspec: Option<FlowSpec>,
}

/// An event, for logs, dashboards and tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Path state came.
    PathCreated {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// Previous hop; `None`: a local sender.
        phop: Option<IpAddr>,
    },
    /// Path state is gone.
    PathRemoved {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// The reason.
        why: Gone,
    },
    /// Reservation state came or changed.
    ResvCreated {
        /// The session.
        session: Session,
        /// The sender of a distinct reservation; `None`: several share it.
        template: Option<SenderTemplate>,
        /// The style.
        style: Style,
        /// The outgoing interface; `None`: for a local application.
        oif: Option<IfIndex>,
        /// The flowspec.
        flowspec: FlowSpec,
    },
    /// Reservation state is gone.
    ResvRemoved {
        /// The session.
        session: Session,
        /// The sender of a distinct reservation; `None`: several share it.
        template: Option<SenderTemplate>,
        /// The style.
        style: Style,
        /// The outgoing interface; `None`: for a local application.
        oif: Option<IfIndex>,
        /// The reason.
        why: Gone,
    },
    /// A reservation was refused here.
    Refused {
        /// The session.
        session: Session,
        /// The sender.
        template: Option<SenderTemplate>,
        /// The error that we answered with.
        error: ErrorReport,
    },
    /// A message was dropped.
    Dropped {
        /// The incoming interface.
        iif: IfIndex,
        /// IP source.
        src: IpAddr,
        /// The reason.
        why: &'static str,
    },
    /// A Resv came before the Path for a session adopted from an earlier life of this node; it was ignored.
    AwaitingPath {
        /// The session.
        session: Session,
        /// The next hop that sent it.
        nhop: IpAddr,
    },
    /// Path messages of a sender come from another previous hop now.
    PhopChanged {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// The hop before.
        from: IpAddr,
        /// The hop now.
        to: IpAddr,
    },
    /// The route to the destination changed; the Path follows it after the repair wait.
    Rerouted {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// The new outgoing interface; `None`: no route, or the destination is here.
        oif: Option<IfIndex>,
    },
    /// A hop between the previous RSVP node and us does not speak RSVP.
    NonRsvpHop {
        /// The session.
        session: Session,
        /// Previous hop.
        phop: IpAddr,
    },
    /// The relation to a neighbour changed.
    Neighbour {
        /// The interface.
        interface: IfIndex,
        /// Its address on the link.
        addr: IpAddr,
        /// The change.
        news: NeighbourNews,
    },
}

/// A change in the relation to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourNews {
    /// It has answered our challenge: from now on its messages are taken.
    Authenticated {
        /// The key's identifier.
        key_id: u64,
    },
    /// The last key that we share has expired, and stays in use for lack of another (RFC 2747 section 5.3).
    KeyOverdue {
        /// The key's identifier.
        key_id: u64,
    },
    /// It has started anew (its epoch or its Hello instance has changed), and gets all our state again.
    Restarted,
    /// It has not answered a Hello for three and a half intervals.
    Silent,
}

/// The reason why state is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// A tear message came, or the application ended it.
    Torn,
    /// Its lifetime was over.
    Expired,
    /// The path state under it is gone.
    PathGone,
    /// A newer request took its place, or the plane failed.
    Replaced,
    /// A node upstream refused it.
    Refused,
    /// The interface or the route is gone.
    RouteGone,
}
