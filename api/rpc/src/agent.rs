//! What is said over the agent's socket: one JSON object a line, each way.
//!
//! A line to the agent is a [`Call`]: `{"id":1,"call":"status"}`. A line from it is a [`ReplyLine`]: the answer to a call,
//! `{"id":1,"ok":{...}}` or `{"id":1,"error":{...}}`, or news: `{"event":{...}}`. Rates are bit/s of IP bytes unless a name says
//! `wire`, sizes are bytes, spans say their unit in the name.

pub use crate::book::{
    AskDoc, AuditAsk, AuditPage, BindingDoc, BookAnswer, BookFilter, ChangeDoc, RefusalDoc, WindowDoc,
};
pub use crate::boomerang::{BoomerangAsk, BoomerangDoc, BoomerangNews, BoomerangSession};
pub use crate::event::{Direction, EventDoc, TraceFilter};
pub use crate::links::{CallerDoc, LinkRow};
pub use crate::may::{MayDoc, SignalDoc};
pub use crate::proxy::{StaticDoc, StaticRow};
pub use crate::rows::{ClassRow, CounterRow, InterfaceRow, SenderRow, SessionRow};
pub use crate::show::{RowFilter, Rows, Skip, TableDoc, View};
pub use crate::turns::TurnsDoc;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The longest line that either side accepts, bytes.
pub const MAX_LINE: usize = 1 << 20;

/// A line to the agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Comes back with the answer.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
}

/// What may be asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Request {
    /// Who are you? Answered with [`Answer::Hello`].
    Hello,
    /// Everything about every reservation and interface: [`Answer::Status`].
    Status,
    /// The sessions known: [`Answer::Sessions`], a page.
    Sessions(Skip),
    /// Path states: [`Answer::Senders`], a page.
    Senders(Skip),
    /// Reservation states: [`Answer::Reservations`], a page.
    Reservations(Skip),
    /// Messages by type: [`Answer::Counters`].
    Counters,
    /// "I send this": SENDER of RFC 2205 section 3.11.1.
    Sender {
        /// To where.
        session: SessionId,
        /// From where.
        sender: SenderId,
        /// How much.
        tspec: TspecDoc,
        /// TTL of the data packets.
        ttl: u8,
    },
    /// "I no longer send."
    SenderGone {
        /// To where.
        session: SessionId,
        /// From where.
        sender: SenderId,
    },
    /// "I receive this": path events follow.
    Receiver {
        /// The session.
        session: SessionId,
    },
    /// RESERVE. The answer says that it was taken; whether it holds comes as an event (`confirm` or `error`).
    Reserve {
        /// The session.
        session: SessionId,
        /// `ff`, `se` or `wf`.
        style: StyleDoc,
        /// Which senders.
        senders: Vec<SenderId>,
        /// How much; one per sender for `ff`.
        flowspecs: Vec<FlowSpecDoc>,
        /// Whether a confirmation is wanted.
        confirm: bool,
    },
    /// At which priority this connection asks from now on (RFC 3181); null: nothing is said.
    Priority {
        /// Which, if any.
        priority: Option<PriorityDoc>,
    },
    /// RELEASE; without a session: everything of this connection.
    Release {
        /// The session.
        session: Option<SessionId>,
    },
    /// One of the operator's tables, filtered and limited: [`Answer::Shown`].
    Show {
        /// Which.
        view: View,
        /// Which rows of it.
        #[serde(default)]
        filter: RowFilter,
    },
    /// For a host that does not signal; it outlives the connection and the agent. [`Answer::Statics`], its one row.
    AddStatic {
        /// What.
        what: StaticDoc,
    },
    /// Takes one of them away.
    RemoveStatic {
        /// Its number.
        number: u64,
    },
    /// All of them: [`Answer::Statics`], a page.
    Statics(Skip),
    /// Read the files of keys again; with a mistake in one of them all stay as they were.
    ReloadKeys,
    /// Send every event of the node to this connection from now on.
    Watch,
    /// Send every RSVP message that comes or goes to this connection from now on, as `message` events.
    Trace {
        /// Which messages.
        #[serde(default)]
        filter: TraceFilter,
    },
    /// Reserve by Boomerang: [`Answer::Boomerang`], the one session, as it stands before its answer is back; how it went comes as
    /// `boomerang` events on this connection.
    BoomerangReserve {
        /// What.
        ask: BoomerangAsk,
        /// Instead of what this session has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
    },
    /// Give one back; how it went comes as an event.
    BoomerangRelease {
        /// Which.
        number: u64,
    },
    /// What Boomerang has here, but for so many of each list: [`Answer::Boomerang`], a page.
    #[allow(missing_docs)]
    BoomerangSessions {
        #[serde(default)]
        skip: u64,
    },
    /// Send every Boomerang message that user space handles to this connection from now on, as `echo` events.
    BoomerangTrace,
    /// What would the book grant? [`BookAnswer::Enquired`].
    BookEnquire(AskDoc),
    /// Reserve. [`BookAnswer::Reservation`].
    BookCreate(AskDoc),
    /// Book what is held. [`BookAnswer::Reservation`].
    BookCommit {
        /// Which.
        handle: String,
        /// Whoever coordinates its group decided when all held: policy is not asked again. Only who may speak for others says so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// Change it; if the new does not fit the old stays. [`BookAnswer::Reservation`].
    BookModify {
        /// Which.
        handle: String,
        /// What.
        change: ChangeDoc,
    },
    /// Whose packets or processes a part is for. [`BookAnswer::Reservation`].
    BookBind {
        /// Which.
        handle: String,
        /// Which part, from 0.
        #[serde(default)]
        part: usize,
        /// Whose; null: nobody's.
        #[serde(default)]
        binding: Option<BindingDoc>,
    },
    /// Give it back. [`BookAnswer::Reservation`].
    BookCancel {
        /// Which.
        handle: String,
    },
    /// One ([`BookAnswer::Reservation`]), or those that match ([`BookAnswer::Reservations`]).
    BookShow {
        /// Which one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        /// Which ones.
        #[serde(default)]
        filter: BookFilter,
    },
    /// What happened to one. [`BookAnswer::Events`], a page: one of fewer than [`PAGE`](crate::show::PAGE) is the last.
    BookHistory {
        /// Which.
        handle: String,
        /// The number of the last event that was seen; 0: from the oldest that is kept.
        #[serde(default, skip_serializing_if = "is_nought")]
        after: u64,
    },
    /// The caller's reservations' history after an event, as [`BookAnswer::Events`], then all as it happens, as `book` events.
    BookFollow {
        /// The number of the last event that was seen; 0: from the oldest that is kept; null: only what is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// What was decided, and by which rule: [`Answer::Audit`]. Operators, auditors, and whom policy names.
    BookAudit(AuditAsk),
    /// What there is to reserve. [`BookAnswer::Resources`].
    Resources {
        /// With a timeline of what is free in this window.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeline: Option<WindowDoc>,
        /// Of this one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
        /// The next page: those behind this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Which rule would decide about that, and what it would say; nothing is asked for. [`Answer::May`].
    May {
        /// About whom; null: the caller. Operators, auditors, and whom policy names may ask about others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<CallerDoc>,
        /// What.
        #[serde(default, skip_serializing_if = "is_nothing")]
        ask: AskDoc,
        /// What is signalled, in place of `ask`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<SignalDoc>,
    },
    /// From now on this connection speaks for somebody else; null: for itself again. Root and the agent's own user only.
    SpeakFor {
        /// For whom.
        who: Option<CallerDoc>,
    },
    /// The links that there are: [`Answer::Links`].
    Links,
    /// Stop the agent, in good order.
    Stop,
}

pub(crate) fn is_nought(number: &u64) -> bool {
    *number == 0
}

/// A line from the agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ReplyLine {
    /// The call was carried out.
    Ok {
        /// Of the call.
        id: u64,
        /// The answer.
        ok: Box<Answer>,
    },
    /// The call was not carried out; nothing has changed.
    Error {
        /// Of the call; 0 if the line could not be read.
        id: u64,
        /// Why.
        error: Problem,
    },
    /// News for this connection.
    Event {
        /// When, nanoseconds of the agent's clock.
        at_ns: u64,
        /// What.
        event: EventDoc,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done; there is nothing more to say.
    Done,
    /// The agent itself.
    Hello(HelloDoc),
    /// Everything.
    Status(Status),
    /// Sessions.
    Sessions(Vec<SessionRow>),
    /// Path states.
    Senders(Vec<SenderRow>),
    /// Reservation states.
    Reservations(Vec<ReservationRow>),
    /// Messages.
    Counters(Vec<CounterRow>),
    /// One of the operator's tables.
    Shown(TableDoc),
    /// Static senders and reservations.
    Statics(Vec<StaticRow>),
    /// What the book says.
    Book(BookAnswer),
    /// Decisions.
    Audit(AuditPage),
    /// Links.
    Links(Vec<LinkRow>),
    /// What policy would say.
    May(MayDoc),
    /// Boomerang.
    Boomerang(BoomerangDoc),
}

/// Why a call was not carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// For programs: `malformed`, `refused`, `fault` or `misuse`.
    pub kind: String,
    /// For people: what, where, what to do.
    pub message: String,
    /// Of the book: which resource, when, how much is free, and what would be possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Box<RefusalDoc>>,
}

/// The agent itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HelloDoc {
    /// The node's name.
    pub node: String,
    /// The agent's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
}

/// A session, as RFC 2205 names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SessionId {
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Destination port.
    pub dst_port: u16,
}

/// A sender of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SenderId {
    /// Source address.
    pub src: IpAddr,
    /// Source port; of ESP and AH with a virtual destination port (RFC 2207), the security parameter index.
    pub src_port: u32,
}

/// A Tspec.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TspecDoc {
    /// Token rate, bit/s.
    pub r_bps: u64,
    /// Bucket depth, bytes.
    pub b_bytes: u64,
    /// Peak rate, bit/s; null: not bounded.
    pub p_bps: Option<u64>,
    /// Minimum policed unit, bytes.
    pub m_bytes: u32,
    /// Maximum packet size, bytes.
    #[serde(rename = "M_bytes")]
    pub max_bytes: u32,
}

/// A flowspec.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "service", rename_all = "kebab-case")]
pub enum FlowSpecDoc {
    /// RFC 2211.
    ControlledLoad {
        /// The traffic.
        tspec: TspecDoc,
    },
    /// RFC 2212.
    Guaranteed {
        /// The traffic.
        tspec: TspecDoc,
        /// R, bit/s.
        #[serde(rename = "R_bps")]
        rate_bps: u64,
        /// S, microseconds.
        #[serde(rename = "S_us")]
        slack_us: u64,
    },
}

/// A reservation style.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StyleDoc {
    /// Fixed filter.
    Ff,
    /// Shared explicit.
    Se,
    /// Wildcard filter.
    Wf,
}

/// A pre-emption priority: the higher number goes before (RFC 3181).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PriorityDoc {
    /// How far it may displace others, by their `defending`.
    pub preempting: u16,
    /// What it takes to displace it; at least `preempting`.
    pub defending: u16,
}

/// A reservation: asked / admitted / installed / measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReservationRow {
    /// The session.
    #[serde(flatten)]
    pub session: SessionId,
    /// The sender.
    #[serde(flatten)]
    pub sender: SenderId,
    /// Of prefixes (Boomerang's masks): whose packets, `10.1.0.0/16:* -> 10.2.0.0/16:*/any`; session and sender are their
    /// first addresses then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefixes: Option<String>,
    /// Where it is installed; null: the reservation of a local receiver, on no interface of ours.
    pub oif: Option<String>,
    /// Next hop that asked; null: a local application, or adopted.
    pub nhop: Option<IpAddr>,
    /// Style; null while it is only adopted.
    pub style: Option<StyleDoc>,
    /// What was asked.
    pub asked: FlowSpecDoc,
    /// What the ledger counts for it, wire bit/s; null where no interface of ours carries it.
    pub admitted_wire_bps: Option<u64>,
    /// What the plane has for it.
    pub installed: Option<Installed>,
    /// What the plane sees of it.
    pub measured: Option<FlowMeasured>,
    /// Milliseconds until it dies unrefreshed; null: local.
    pub expires_in_ms: Option<u64>,
}

/// A reservation in the plane.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Installed {
    /// `pending` (told to the plane), `installed` (read back), `adopted` (found at start, awaiting its refresh).
    pub state: String,
    /// Its class, as tc writes it: `5c1c:4`.
    pub class: String,
    /// Whether the class is shared with other flows, each held to its own bucket.
    pub shared: bool,
    /// Bucket rate, bit/s.
    pub bucket_bps: u64,
    /// Bucket depth, bytes.
    pub bucket_bytes: u64,
}

/// What a plane measured of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowMeasured {
    /// Over so many milliseconds; 0: no two samples yet.
    pub interval_ms: u64,
    /// Conforming traffic, bit/s of IP bytes over the interval.
    pub bps: f64,
    /// Traffic above the bucket (sent as best effort), bit/s over the interval.
    pub excess_bps: f64,
    /// Conforming packets since it was installed.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets above the bucket since it was installed.
    pub excess_packets: u64,
    /// Their bytes.
    pub excess_bytes: u64,
}

/// Everything.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The agent.
    pub agent: HelloDoc,
    /// Interfaces.
    pub interfaces: Vec<InterfaceRow>,
    /// Reservations.
    pub reservations: Vec<ReservationRow>,
    /// What the operator should know: guarantees that this kernel cannot give, classes that were changed by others.
    pub notes: Vec<String>,
    /// How long the turns of the agent's loop took; an older agent does not say.
    #[serde(default)]
    pub turns: TurnsDoc,
}

/// Whether nothing is asked for.
fn is_nothing(ask: &AskDoc) -> bool {
    *ask == AskDoc::default()
}
