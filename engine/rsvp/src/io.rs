//! What the engine is told and what it says.
//!
//! The driver calls `handle(now, env, input)` and then drains `poll()` until it is empty, before the next input.
//! `wake_at()` says when to come back with [`Input::Wake`].

use crate::integrity::AuthMode;
use crate::overload::WaitingMessage;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::{Preemption, RHandle};
use terms::{Adspec, Fault, FilterSpec, FlowSpec, IfIndex, SenderTemplate, Session, Span, Style, Time, Tspec};

pub use crate::neighbour::NeighbourNews;

/// A local application, as the driver numbers it; its registrations end with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AppId(pub u64);

/// What the engine is told.
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
    /// A message that waited in an [`Intake`](crate::overload::Intake).
    Waited(&'a WaitingMessage),
    /// `wake_at()` has come (or passed).
    Wake,
    /// A local application's call.
    App(AppCall<'a>),
    /// The data plane has done what an `add` or `modify` of traffic control led to, or could not.
    Installed {
        /// Which.
        handle: RHandle,
        /// How it went; on a fault the reservation has been undone.
        result: Result<(), Fault>,
    },
    /// Traffic control took a reservation's capacity away (RFC 2205 appendix B, error 12; RFC 3181). Its handle is not
    /// known to traffic control any more.
    Displaced {
        /// Which.
        handle: RHandle,
        /// Whose request took its place; `None`: an advance booking.
        by: Option<Preemption>,
    },
    /// The ways to destinations that begin with so many bits of this address may have changed; `None`: to any.
    RouteChanged(Option<(IpAddr, u8)>),
    /// An interface came, changed or went.
    Interface {
        /// Which.
        interface: IfIndex,
        /// What it is now; `None`: gone or down.
        state: Option<Interface>,
    },
    /// A flow of this session is known to be installed from an earlier life of this node; until its lifetime is over,
    /// Resv messages that come before the Path are ignored rather than refused.
    Adopted {
        /// The session.
        session: Session,
        /// Until then.
        until: Time,
    },
    /// The keys of an interface, from now on.
    Auth {
        /// Which.
        interface: IfIndex,
        /// Whose messages are taken, and how ours are signed.
        auth: AuthMode,
    },
    /// The answer to [`Output::ReserveSequences`]: it is on disk that sequence numbers below `upto` may be gone.
    SequencesReserved {
        /// Those below are, by what the disk said when this life of the node began; zero if it said nothing.
        from: u64,
        /// Not below what was asked, nor below `from` and a block of 2^20.
        upto: u64,
    },
    /// The other answer: nothing could be written. It is asked for again after a second, then after twice as long each time,
    /// up to 32 s; what was reserved before stays usable.
    SequencesFailed,
}

/// A local application's call (RFC 2205 section 3.11.1).
#[derive(Clone, Copy, Debug)]
pub enum AppCall<'a> {
    /// A local application says what it sends (RFC 2205 section 3.11.1, SENDER).
    Sender {
        /// Who.
        app: AppId,
        /// To where.
        session: Session,
        /// From which address and port.
        template: SenderTemplate,
        /// How much.
        tspec: Tspec,
        /// TTL of its data packets, carried in the Path message.
        ttl: u8,
    },
    /// It stops: PathTear follows.
    SenderGone {
        /// Who.
        app: AppId,
        /// To where.
        session: Session,
        /// From which address and port.
        template: SenderTemplate,
    },
    /// A local application registers for a session that it will receive (SESSION): path events follow.
    Receiver {
        /// Who.
        app: AppId,
        /// The session.
        session: Session,
    },
    /// It asks (RESERVE). A repeated call changes the request.
    Reserve {
        /// Who.
        app: AppId,
        /// The session.
        session: Session,
        /// Style: distinct (FF), shared by the senders named (SE) or by whoever sends (WF).
        style: Style,
        /// Which senders; for FF one per flowspec, in order; for WF none (any that are given do not count).
        filters: &'a [FilterSpec],
        /// How much; for FF one per filter, for SE and WF one.
        flowspecs: &'a [FlowSpec],
        /// Whether a ResvConf is wanted.
        confirm: bool,
    },
    /// It acts on behalf of hosts that do not signal: from now on the addresses of its senders and sessions need not be
    /// this node's (a sender proxy and a receiver proxy, RFC 5945). What it reserves ends here: the links from a sender's
    /// host to this node, and from this node to a receiver's host, are nobody's promise.
    Proxy {
        /// Who.
        app: AppId,
    },
    /// What it asks from now on stands at this priority against what others ask (RFC 3181).
    Priority {
        /// Who.
        app: AppId,
        /// How high; `None`: nothing is said.
        priority: Option<Preemption>,
    },
    /// It gives its reservation up, or (with nothing reserved) its registration (RELEASE).
    Release {
        /// Who.
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
    /// Our address, of each family, first the one for hops.
    pub addresses: Vec<IpAddr>,
    /// MTU, bytes.
    pub mtu: u32,
    /// Whether RSVP is spoken here.
    pub enabled: bool,
}

/// What the engine says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a datagram of protocol 46.
    Send(Datagram),
    /// Tell a local application.
    Upcall {
        /// Who.
        app: AppId,
        /// What.
        upcall: Upcall,
    },
    /// Something happened that people and tests may want to know.
    Event(Event),
    /// Write durably that sequence numbers of INTEGRITY below `upto` may be used up, and answer with
    /// [`Input::SequencesReserved`] or [`Input::SequencesFailed`]. Messages that have to be signed wait for nothing: without a number they are lost.
    ReserveSequences {
        /// The bound.
        upto: u64,
    },
}

/// A message to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Out of here; `None`: by the routing table.
    pub oif: Option<IfIndex>,
    /// IP source (the sender's own address for Path and PathTear).
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// IP TTL; equal to Send_TTL in the message.
    pub ttl: u8,
    /// Whether the Router Alert option goes with it (Path, PathTear, ResvConf).
    pub router_alert: bool,
    /// The RSVP message, checksum in place.
    pub bytes: Vec<u8>,
}

/// Upcalls of RFC 2205 section 3.11.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Upcall {
    /// PATH_EVENT: a sender is there (or changed).
    Path {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// What it sends.
        tspec: Tspec,
        /// What the path can do, if it says so.
        adspec: Option<Adspec>,
        /// The MTU of the link that it comes in by, bytes ([`terms::guaranteed::received`]); `None`: a sender of this node.
        own_mtu: Option<u32>,
    },
    /// A sender went.
    PathGone {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
    },
    /// RESV_EVENT: the sender's flow is reserved as far as here.
    Resv {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// What is reserved.
        flowspec: FlowSpec,
    },
    /// The reservation for the sender went.
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
        /// What was confirmed.
        flowspec: FlowSpec,
        /// Who confirmed it.
        node: IpAddr,
    },
    /// PATH_ERROR or RESV_ERROR.
    Error {
        /// The session.
        session: Session,
        /// Whose flow, if one is named.
        template: Option<SenderTemplate>,
        /// Whether it answers a reservation (or else a Path).
        resv: bool,
        /// What is wrong.
        error: ErrorReport,
    },
}

/// An ERROR_SPEC in words.
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
    /// The refusing node's own words (RFC 5284 USER_ERROR_SPEC): node name, interface, what was asked, what is free.
    pub text: Option<String>,
    /// The flowspec that was refused, where the message carries it.
    pub flowspec: Option<FlowSpec>,
}

/// What happened, for logs, dashboards and tests.
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
    /// Path state went.
    PathRemoved {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// Why.
        why: Gone,
    },
    /// Reservation state came or changed.
    ResvCreated {
        /// The session.
        session: Session,
        /// The sender of a distinct reservation; `None`: several share it.
        template: Option<SenderTemplate>,
        /// In which style.
        style: Style,
        /// Where.
        oif: Option<IfIndex>,
        /// What.
        flowspec: FlowSpec,
    },
    /// Reservation state went.
    ResvRemoved {
        /// The session.
        session: Session,
        /// The sender of a distinct reservation; `None`: several share it.
        template: Option<SenderTemplate>,
        /// In which style.
        style: Style,
        /// Where.
        oif: Option<IfIndex>,
        /// Why.
        why: Gone,
    },
    /// A reservation was refused here.
    Refused {
        /// The session.
        session: Session,
        /// The sender.
        template: Option<SenderTemplate>,
        /// What we answered.
        error: ErrorReport,
    },
    /// A message was dropped.
    Dropped {
        /// Where it came in.
        iif: IfIndex,
        /// From whom.
        src: IpAddr,
        /// Why.
        why: &'static str,
    },
    /// A Resv came before the Path for a session adopted from an earlier life of this node; it was let go.
    AwaitingPath {
        /// The session.
        session: Session,
        /// Who sent it.
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
    /// The way to the destination changed; the Path follows it after the repair wait.
    Rerouted {
        /// The session.
        session: Session,
        /// The sender.
        template: SenderTemplate,
        /// The outgoing interface now; `None`: no way, or the destination is here.
        oif: Option<IfIndex>,
    },
    /// A hop between the previous RSVP node and us does not speak RSVP.
    NonRsvpHop {
        /// The session.
        session: Session,
        /// Previous hop.
        phop: IpAddr,
    },
    /// Something happened between a neighbour and us.
    Neighbour {
        /// Where.
        interface: IfIndex,
        /// Its address on the link.
        addr: IpAddr,
        /// What.
        news: NeighbourNews,
    },
}

/// Why state went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// A tear message, or the application's own word.
    Torn,
    /// Its lifetime was over.
    Expired,
    /// The path state under it went.
    PathGone,
    /// A newer request took its place, or the plane failed.
    Replaced,
    /// A node upstream refused it.
    Refused,
    /// The interface or the route went.
    RouteGone,
}

/// Timing and limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// What this node calls itself in a refusal.
    pub node_name: String,
    /// R, the refresh period that we send in TIME_VALUES (RFC 2205 section 3.7; default 30 s).
    pub refresh: Span,
    /// The longest R of a neighbour that its state lives by (default 1 h); TIME_VALUES has room for 49 days.
    pub longest_refresh: Span,
    /// K, how many refreshes may be lost (default 3).
    pub keep: u32,
    /// Kb: for how many R a request that failed upstream is not merged with smaller ones (RFC 2205 section 3.5; 3).
    pub blockade: u32,
    /// W, how long a changed route settles before the Path follows it (RFC 2205 section 3.6; default 2 s).
    pub repair_wait: Span,
    /// Whether refresh reduction is done with neighbours that do it too (RFC 2961).
    pub refresh_reduction: bool,
    /// After how many refreshes of a state by its name one is in full (RFC 2961 section 5.5; default 16).
    pub names_per_full: u8,
    /// How long acknowledgements of what came to a group wait at most (RFC 2961 section 4.7; default a quarter of a
    /// second, half of what a message waits for them).
    pub group_ack_wait: Span,
    /// How often neighbours are asked whether they are still the same (RFC 3209 section 5); `None`: they are answered,
    /// and asked once when they are first heard.
    pub hello: Option<Span>,
    /// What interfaces ask of messages that are not told otherwise ([`Input::Auth`]).
    pub auth: AuthMode,
    /// Most sessions.
    pub max_sessions: usize,
    /// Most path states.
    pub max_paths: usize,
    /// Most senders of one session.
    pub max_senders: usize,
    /// Most reservation states.
    pub max_resvs: usize,
    /// How many more path states than reservation states there may be: what only sends, and whose refreshes go out without
    /// a promise. A new sender beyond it is let go, unless its session has a reservation; it tries again with its refresh.
    pub max_unreserved: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            node_name: String::new(),
            refresh: Span::from_secs(30),
            longest_refresh: Span::from_secs(3_600),
            keep: 3,
            blockade: 3,
            repair_wait: Span::from_secs(2),
            refresh_reduction: false,
            names_per_full: 16,
            group_ack_wait: Span::from_millis(250),
            hello: None,
            auth: AuthMode::None,
            max_sessions: 1 << 20,
            max_paths: 1 << 20,
            max_senders: 4_096,
            max_resvs: 1 << 20,
            max_unreserved: usize::MAX,
        }
    }
}
