//! The protocol of the agent's socket: one JSON object a line, each way.
//!
//! A line to the agent is a [`Call`]: `{"id":1,"call":"status"}`. A line from it is a [`ReplyLine`]: an
//! answer, `{"id":1,"ok":{...}}` or `{"id":1,"error":{...}}`, or an event: `{"event":{...}}`. Rates are bit/s
//! of IP bytes unless a name says `wire`, sizes are bytes, spans have their unit in the name.

pub use crate::book::{
    AskDoc, AuditAsk, AuditPage, BindingDoc, BookAnswer, BookFilter, ChangeDoc, DecideDoc, PrepareDoc, PromisesDoc,
    RefusalDoc, WindowDoc,
};
pub use crate::boomerang::{BoomerangAsk, BoomerangDoc, BoomerangNews, BoomerangSession};
pub use crate::event::{Direction, EventDoc, TraceFilter};
pub use crate::links::{CallerDoc, LinkRow, RouteRow};
pub use crate::may::{MayDoc, SignalDoc};
pub use crate::overview::DoctorDoc;
pub use crate::rows::{
    ClassRow, CounterRow, FlowMeasured, HelloDoc, Installed, InterfaceRow, ReservationRow, SenderRow, SessionRow,
    Status,
};
pub use crate::session::{AdspecDoc, FlowSpecDoc, GuaranteedDoc, PriorityDoc, SenderId, SessionId, StyleDoc, TspecDoc};
pub use crate::show::{RowFilter, Rows, Skip, TableDoc, View};
pub use crate::statics::{StaticDoc, StaticRow};
pub use crate::turns::TurnsDoc;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The longest line that either side accepts, bytes.
pub const MAX_LINE: usize = 1 << 20;

/// A line to the agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// A number that comes back with the answer.
    pub id: u64,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

/// A request to the agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Request {
    /// The agent's name and version: [`Answer::Hello`].
    Hello,
    /// All reservations and interfaces: [`Answer::Status`].
    Status,
    /// The features that this machine has and lacks: [`Answer::Doctor`]. The first question starts the examination; until it is
    /// done, the kernel in the answer is empty.
    Doctor,
    /// The known sessions: [`Answer::Sessions`], a page.
    Sessions(Skip),
    /// Path states: [`Answer::Senders`], a page.
    Senders(Skip),
    /// Reservation states: [`Answer::Reservations`], a page.
    Reservations(Skip),
    /// Messages by type: [`Answer::Counters`].
    Counters,
    /// Register a sender: SENDER of RFC 2205 section 3.11.1.
    Sender {
        /// Destination.
        session: SessionId,
        /// Source.
        sender: SenderId,
        /// The traffic.
        tspec: TspecDoc,
        /// TTL of the data packets.
        ttl: u8,
    },
    /// Remove a sender.
    SenderGone {
        /// Destination.
        session: SessionId,
        /// Source.
        sender: SenderId,
    },
    /// Register a receiver; path events follow.
    Receiver {
        /// The session.
        session: SessionId,
    },
    /// RESERVE. The answer says only that it was taken; an event (`confirm` or `error`) has the result.
    Reserve {
        /// The session.
        session: SessionId,
        /// `ff`, `se` or `wf`.
        style: StyleDoc,
        /// The senders.
        senders: Vec<SenderId>,
        /// The flowspecs; one per sender for `ff`.
        flowspecs: Vec<FlowSpecDoc>,
        /// True if a confirmation is wanted.
        confirm: bool,
    },
    /// The priority of this connection's requests from now on (RFC 3181); null: none.
    Priority {
        /// The priority, if any.
        priority: Option<PriorityDoc>,
    },
    /// RELEASE; without a session: everything of this connection.
    Release {
        /// The session.
        session: Option<SessionId>,
    },
    /// One of the operator's tables, filtered and limited: [`Answer::Shown`].
    Show {
        /// The table.
        view: View,
        /// The rows.
        #[serde(default)]
        filter: RowFilter,
    },
    /// Add a sender or reservation that outlives connection and agent: [`Answer::Statics`], its one row.
    AddStatic {
        /// The sender or reservation.
        what: StaticDoc,
    },
    /// Remove a static sender or reservation.
    RemoveStatic {
        /// Its number.
        number: u64,
    },
    /// All static senders and reservations: [`Answer::Statics`], a page.
    Statics(Skip),
    /// Read the files of keys again; with a mistake in one of them all stay as they were.
    ReloadKeys,
    /// Send every event of the node to this connection from now on.
    Watch,
    /// Send every RSVP message received or sent to this connection from now on, as `message` events.
    Trace {
        /// The messages.
        #[serde(default)]
        filter: TraceFilter,
    },
    /// Reserve by Boomerang: [`Answer::Boomerang`], the one session, not yet answered. Its result comes as
    /// `boomerang` events on this connection.
    BoomerangReserve {
        /// The request.
        ask: BoomerangAsk,
        /// The session that it changes; null: a new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
    },
    /// Release a session; the result comes as an event.
    BoomerangRelease {
        /// Its number.
        number: u64,
    },
    /// Sessions and blocks of Boomerang, without the first `skip` of each: [`Answer::Boomerang`], a page.
    #[allow(missing_docs)]
    BoomerangSessions {
        #[serde(default)]
        skip: u64,
    },
    /// Send every Boomerang message that user space handles to this connection from now on, as `echo` events.
    BoomerangTrace,
    /// Ask what would be granted. [`BookAnswer::Enquired`].
    BookEnquire(AskDoc),
    /// Reserve. [`BookAnswer::Reservation`].
    BookCreate(AskDoc),
    /// Commit a hold. [`BookAnswer::Reservation`].
    BookCommit {
        /// The handle.
        handle: String,
        /// True if the group's coordinator decided: policy is not asked again. Only for callers that may speak for
        /// others.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// Change a booking; if the change does not fit, the booking stays. [`BookAnswer::Reservation`].
    BookModify {
        /// The handle.
        handle: String,
        /// The change.
        change: ChangeDoc,
    },
    /// Bind a part to a flow, process or control group. [`BookAnswer::Reservation`].
    BookBind {
        /// The handle.
        handle: String,
        /// The part, from 0.
        #[serde(default)]
        part: usize,
        /// The binding; null: none.
        #[serde(default)]
        binding: Option<BindingDoc>,
    },
    /// Cancel a booking. [`BookAnswer::Reservation`].
    BookCancel {
        /// The handle.
        handle: String,
    },
    /// A broker asks for a promise, for the caller for whom it speaks: this agent's part in a transaction over
    /// several agents. [`BookAnswer::Reservation`].
    BookPrepare(Box<PrepareDoc>),
    /// A broker tells its decision. [`BookAnswer::Reservation`] or [`BookAnswer::Nothing`], once it is carried out.
    BookDecide(DecideDoc),
    /// A broker asks for the open promises to it. [`BookAnswer::Promises`].
    BookPromises(PromisesDoc),
    /// Decide a promise, because its broker does not. For operators. [`BookAnswer::Reservation`].
    BookResolve {
        /// The handle.
        handle: String,
        /// True: the promise comes true; false: it is dropped.
        commit: bool,
    },
    /// Show one ([`BookAnswer::Reservation`]), or those that match ([`BookAnswer::Reservations`]).
    BookShow {
        /// The one to show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
        /// The ones to list.
        #[serde(default)]
        filter: BookFilter,
    },
    /// The events of one: [`BookAnswer::Events`]. A page of fewer than [`PAGE`](crate::show::PAGE) is the last.
    BookHistory {
        /// The handle.
        handle: String,
        /// The number of the last event that was seen; 0: from the oldest that is kept.
        #[serde(default, skip_serializing_if = "is_nought")]
        after: u64,
    },
    /// The caller's past events, as [`BookAnswer::Events`], then all new ones, as `book` events.
    BookFollow {
        /// The number of the last event that was seen; 0: from the oldest that is kept; null: only what is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// Decisions and their rules: [`Answer::Audit`]. For operators, auditors, and callers that policy names.
    BookAudit(AuditAsk),
    /// The resources. [`BookAnswer::Resources`].
    Resources {
        /// The window of a timeline of the free amounts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeline: Option<WindowDoc>,
        /// The only resource to show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
        /// The last resource of the previous page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// The rule that would decide about a request, and its decision; nothing is reserved. [`Answer::May`].
    May {
        /// The caller in question; null: this one. Operators, auditors, and those whom policy names may ask
        /// about others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<CallerDoc>,
        /// The request.
        #[serde(default, skip_serializing_if = "is_nothing")]
        ask: AskDoc,
        /// The signalled request, in place of `ask`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<SignalDoc>,
    },
    /// Speak for another requester from now on; null: for itself again. Root and the agent's own user only.
    SpeakFor {
        /// The requester.
        who: Option<CallerDoc>,
    },
    /// Show a token of a virtual organisation with this connection's later requests; null: none any more. It is
    /// verified at once, and its checks are asked at each request.
    ShowToken {
        /// The token, base64.
        token: Option<String>,
    },
    /// The links: [`Answer::Links`].
    Links,
    /// The ways out to some addresses, by the kernel's routes: [`Answer::Routes`].
    Routes {
        /// The addresses, at most [`MAX_ROUTES`](crate::links::MAX_ROUTES).
        to: Vec<IpAddr>,
    },
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
        /// The number of the call.
        id: u64,
        /// The answer.
        ok: Box<Answer>,
    },
    /// The call was not carried out; nothing has changed.
    Error {
        /// The number of the call; 0 if the line could not be read.
        id: u64,
        /// The reason.
        error: Problem,
    },
    /// An event for this connection.
    Event {
        /// The time, nanoseconds of the agent's clock.
        at_ns: u64,
        /// The event.
        event: EventDoc,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Success without further content.
    Done,
    /// The agent itself.
    Hello(HelloDoc),
    /// The whole status.
    Status(Status),
    /// The features that this machine has and lacks.
    Doctor(DoctorDoc),
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
    /// An answer about bookings.
    Book(BookAnswer),
    /// Decisions.
    Audit(AuditPage),
    /// Links.
    Links(Vec<LinkRow>),
    /// Ways out, in the order of the addresses.
    Routes(Vec<RouteRow>),
    /// The policy's answer.
    May(MayDoc),
    /// Sessions and blocks of Boomerang.
    Boomerang(BoomerangDoc),
}

/// The reason why a call was not carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Problem {
    /// For programs: `malformed`, `refused`, `fault` or `misuse`.
    pub kind: String,
    /// A message for people: what is wrong, where, and what to do.
    pub message: String,
    /// Of a booking: the resource, the time, the free amount, and the alternatives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Box<RefusalDoc>>,
}

impl Problem {
    /// A request that makes no sense.
    pub fn misuse(message: impl Into<String>) -> Problem {
        Problem { kind: "misuse".to_owned(), message: message.into(), refusal: None }
    }
}

/// True if the request is empty.
fn is_nothing(ask: &AskDoc) -> bool {
    *ask == AskDoc::default()
}
