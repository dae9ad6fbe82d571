//! Inputs and outputs of the bookings.
//!
//! The methods of [`Bookings`](crate::Bookings) fall into these families:
//!
//! - **Making** (`new`, `keyed`): before the first input.
//! - **Inputs** (`handle`): one at a time, with the agent's time, and with the ports for ledgers and policy. Every
//!   [`Input::Recovering`] comes first, then [`Input::Recovered`]; a call that comes earlier is refused.
//! - **Outputs** (`poll`): read until `None` after each input. A batch is answered by [`Input::Appended`] or
//!   [`Input::AppendFailed`], an order by [`Input::Enforced`], each once; a call has one reply.
//! - **Waking** (`wake_at`): the time of the next [`Input::Wake`]; read it after the last output.
//! - **Views** (`peek`, `due`, `events_after`, `would_allow`, `live`): at any time.
//!
//! Every change is one [`Batch`] to be written durably. Its reply and its events come
//! out only when the batch is [`Input::Appended`]. Changes by time alone are enforced at once.
//!
//! Windows are calendar time (UTC); `now` is the agent's own clock; [`Input::Clock`] tells the difference.

pub use crate::event::{Event, EventKind};
use crate::promise::{Contradiction, DecideCall, DecisionQuestion, PrepareCall, PromiseList, PromisesCall};
use crate::refusal::{OfferedPart, Refusal};
use crate::state::BookingState;
use crate::view::{BookingView, ResourceView};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use terms::book::{Background, Binding, Caller, Guarantee, Handle, PacketShape, ResourceId, ResourceKind};
use terms::{Amount, Span, Time, Window};

/// A call on its way, by a number that the driver gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u64);

/// A batch on its way to the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchId(pub u64);

/// An order on its way to the driver that enforces it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OrderId(pub u64);

/// An input of the bookings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A record of the journal, from an earlier run; all of them before [`Input::Recovered`], in any order.
    Recovering(JournalRecord),
    /// The last record has come. Calls are refused before it.
    Recovered,
    /// A call.
    Call {
        /// The number that comes back with the reply.
        id: CallId,
        /// The caller.
        caller: Box<Caller>,
        /// The call.
        call: Call,
    },
    /// A batch, and every batch before it, is on the disk.
    Appended(BatchId),
    /// A batch could not be written and nothing of it is on the disk.
    AppendFailed {
        /// The batch that failed.
        id: BatchId,
        /// The store's reason, for people.
        text: String,
    },
    /// An order was carried out and read back, or could not be.
    Enforced {
        /// The order.
        id: OrderId,
        /// The reason for a failure, for people.
        result: Result<(), String>,
    },
    /// The difference of calendar time and the agent's clock.
    Clock(CalendarOffset),
    /// The signalled reservations, the capacity or the presence of a resource has changed.
    Resource(ResourceId),
    /// The rules have changed.
    Policy,
    /// The time of `wake_at()` has come.
    Wake,
}

/// Calendar time is the agent's clock plus `ahead_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CalendarOffset {
    /// The lead of calendar time over the agent's clock, nanoseconds.
    pub ahead_ns: i64,
    /// The largest error of calendar time.
    pub uncertainty: Span,
}

/// A call of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Ask for the grant that a creation would get. Nothing is held.
    Enquire(BookingRequest),
    /// Reserve, all parts or none.
    Create {
        /// The request.
        ask: BookingRequest,
        /// The length of the hold, until [`Call::Commit`]; `None`: it is booked at once.
        hold: Option<Span>,
        /// An owner's key: the same request again has one effect, another one is refused. Empty: none.
        key: String,
    },
    /// Book a held reservation.
    Commit(Handle),
    /// Book a held reservation as its coordinator decided: neither policy nor the clock is asked again.
    Decided(Handle),
    /// Change amounts or windows; if the change does not fit, the reservation stays as it was.
    Modify {
        /// The reservation.
        handle: Handle,
        /// The change.
        change: BookingChange,
    },
    /// Bind a part to packets or processes, or (`None`) to nothing.
    Bind {
        /// The reservation.
        handle: Handle,
        /// The part, from 0.
        part: usize,
        /// The packets or processes.
        binding: Option<Binding>,
    },
    /// Cancel a reservation: its amounts are free again.
    Cancel(Handle),
    /// A coordinator asks for a promise: this agent's part in a transaction over several agents.
    Prepare(Box<PrepareCall>),
    /// A coordinator tells its decision.
    Decide(Box<DecideCall>),
    /// A coordinator asks for the open promises to it.
    Promises(PromisesCall),
    /// An operator decides a promise, because its coordinator does not.
    Resolve {
        /// The reservation.
        handle: Handle,
        /// True: the promise comes true.
        commit: bool,
    },
    /// One reservation.
    Show(Handle),
    /// The reservations that match, in order of their creation.
    List(Matching),
    /// A page of one reservation's events after this event number (0: all that are kept), oldest first.
    History(Handle, u64),
    /// The events after an event, oldest first; see [`CallResult::Events`].
    Since {
        /// The number of that event; 0: start at the oldest that is kept.
        seq: u64,
        /// The most events in the answer; 0: the limit of [`Config::rows`](crate::Config::rows).
        most: usize,
    },
    /// The resources.
    Resources {
        /// The window of the timelines, calendar time; `None`: no timelines.
        timeline: Option<Window>,
    },
}

/// A request for resources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BookingRequest {
    /// The parts, at least one.
    pub parts: Vec<PartAsk>,
    /// The time of the reservation.
    pub when: When,
    /// The owner's label for it.
    pub label: String,
    /// The group to which it belongs; empty: none.
    pub group: String,
    /// All members of the group, as its creator names them.
    pub members: Vec<String>,
    /// How long before its end an event says that it ends soon; `None`: none does.
    pub notice: Option<Box<Span>>,
}

/// A request for an amount of one resource.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartAsk {
    /// The resource's name.
    pub resource: String,
    /// The most that is wanted.
    pub amount: u64,
    /// The least that is acceptable; equal to `amount` if there is no range.
    pub least: u64,
    /// The terms of a background part; `amount` is then the most that it can use.
    pub background: Option<Background>,
    /// How its packets travel.
    pub shape: PacketShape,
    /// The packets or processes, if they are known already.
    pub binding: Option<Binding>,
}

/// The time of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum When {
    /// One window.
    Window {
        /// The start; `None`: now.
        start: Option<Time>,
        /// The end; `None`: open.
        end: Option<Time>,
    },
    /// For a span, from now on.
    Now {
        /// The length.
        span: Span,
    },
    /// For a span, as early as it fits.
    Earliest {
        /// The length.
        span: Span,
        /// The earliest start; `None`: now.
        not_before: Option<Time>,
        /// The latest end; `None`: [`Config::horizon`](crate::Config::horizon) from now.
        by: Option<Time>,
    },
    /// A volume that must be moved by a deadline, at a constant rate if that fits, otherwise in steps. Every
    /// part is a rate, and its `amount` is the most that it can use (0: all that is free).
    Volume {
        /// The volume, bytes.
        bytes: u64,
        /// The earliest start; `None`: now.
        not_before: Option<Time>,
        /// The deadline.
        deadline: Time,
    },
    /// A series of windows (a recurrence, spelled out); all must fit, except those that may fail.
    Series {
        /// The windows, in order, none overlapping.
        windows: Vec<Window>,
        /// The indices, from 0, of the windows that may fail. All others must fit.
        may_fail: Vec<usize>,
    },
}

impl Default for When {
    /// One window from now on, open at its end.
    fn default() -> When {
        When::Window { start: None, end: None }
    }
}

/// A change of a reservation; `None` leaves a field as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BookingChange {
    /// New amounts: the part, the kind that the part must have, the amount. All steps of the part get it.
    pub amounts: Vec<(usize, ResourceKind, u64)>,
    /// A new start, of the first step; it is refused for a step that has begun.
    pub start: Option<Time>,
    /// A new end, of the last step; [`Time::FOREVER`]: open.
    pub end: Option<Time>,
    /// A new label.
    pub label: Option<String>,
    /// Steps to give back: those that overlap one of these windows. One that runs ends now.
    pub without: Vec<Window>,
}

/// A filter for a list of reservations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matching {
    /// Only reservations of this owner.
    pub owner: Option<String>,
    /// Only reservations of this group.
    pub group: Option<String>,
    /// Only reservations with this label.
    pub label: Option<String>,
    /// Only reservations with a part of this resource.
    pub resource: Option<String>,
    /// Only reservations in one of these states; empty: all that are not over.
    pub states: Vec<BookingState>,
    /// Only reservations with a window that overlaps this one.
    pub window: Option<Window>,
    /// Created after this one, which itself is not listed: for the next page.
    pub after: Option<Handle>,
    /// The most reservations in the answer; 0: the limit of [`Config::rows`](crate::Config::rows).
    pub most: usize,
}

/// The answer to a call.
pub type Reply = Result<CallResult, Refusal>;

/// The result of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallResult {
    /// The grant that a creation would get, part by part.
    Enquired(Enquired),
    /// The reservation as it is after the call.
    Reservation(BookingView),
    /// The reservations that match.
    List {
        /// Their views.
        views: Vec<BookingView>,
        /// True if there are more.
        more: bool,
    },
    /// Events, oldest first.
    Events {
        /// The events.
        events: Vec<Event>,
        /// The number of the newest event that there is.
        last: u64,
        /// True if some events between the requested number and the first of these are no longer kept.
        lost: bool,
    },
    /// The resources.
    Resources(Vec<ResourceView>),
    /// The open promises to a coordinator.
    Promises(PromiseList),
    /// It is done, and no reservation is left to show.
    Nothing,
}

/// The answer to an enquiry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enquired {
    /// The grant of each part now; `None`: the request as it stands would be refused.
    pub granted: Option<Vec<OfferedPart>>,
    /// The reason for a refusal, and alternatives.
    pub refusal: Option<Refusal>,
    /// The free amounts, part by part.
    pub parts: Vec<Free>,
}

/// The free amount for a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Free {
    /// The kind, and so the unit of amounts.
    pub kind: ResourceKind,
    /// The most that it could have over its whole window (for a series: over the first).
    pub free: u64,
    /// The strength of a promise.
    pub guarantee: Guarantee,
}

/// An output of the bookings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Write these durably, all or none, in order; answer [`Input::Appended`] or [`Input::AppendFailed`].
    Append(Batch),
    /// The answer to a call.
    Reply {
        /// The number of the call.
        id: CallId,
        /// The answer.
        reply: Reply,
    },
    /// Make it so in the kernel, read it back, and answer with [`Input::Enforced`]. Orders are carried out in order.
    Enforce(Order),
    /// An event that has been written. Numbers grow; some are never used.
    Event(Event),
    /// Ask a coordinator for its decision; tell the answer as [`Call::Decide`].
    AskDecision(DecisionQuestion),
    /// A coordinator has decided otherwise than an operator or time did here. The operator must know.
    Contradicted(Contradiction),
    /// A record of the journal breaks its form and is left out. The operator must know, and decide.
    Corrupt {
        /// The table of the record.
        table: RecordTable,
        /// The key of the record.
        key: Vec<u8>,
        /// The mistake.
        what: &'static str,
    },
}

/// Records that are written together or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The batch's number; numbers grow by one.
    pub id: BatchId,
    /// The records, in any order; a key occurs once.
    pub records: Vec<JournalRecord>,
    /// True if it gives something back or records past events. A store may use its reserve of space for it.
    pub urgent: bool,
}

/// A record that a store keeps without understanding it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalRecord {
    /// The table.
    pub table: RecordTable,
    /// The key, at most 128 bytes.
    pub key: Vec<u8>,
    /// The value; `None`: the key is deleted.
    pub value: Option<Vec<u8>>,
}

/// The table to which a record belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordTable {
    /// Reservations, by number (earlier builds: by handle). Told when recovering.
    Reservation,
    /// Events, by number. Told when recovering.
    Event,
    /// Decisions (caller, call, rule), by time and number. Written, never told again; the store chains them.
    Audit,
    /// Promises to coordinators, and the changes that they promise. Told when recovering.
    Promise,
}

/// An instruction to the driver for one part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The order's number.
    pub id: OrderId,
    /// The handle of the reservation.
    pub handle: Handle,
    /// The part, from 0.
    pub part: usize,
    /// The resource's name.
    pub resource: String,
    /// True if the part is background (an AF class), false if it is foreground (EF).
    pub background: bool,
    /// How its packets travel.
    pub shape: PacketShape,
    /// The action.
    pub action: OrderAction,
}

/// The action of an order. All of them may be repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderAction {
    /// From now on the binding has this amount.
    Enable {
        /// The packets or processes; `None`: the resource needs no binding.
        binding: Option<Binding>,
        /// The amount.
        amount: Amount,
    },
    /// The binding has another amount.
    Change {
        /// The packets or processes; `None`: the resource needs no binding.
        binding: Option<Binding>,
        /// The amount.
        amount: Amount,
    },
    /// The binding has no amount any more.
    Disable {
        /// The packets or processes; `None`: the resource needs no binding.
        binding: Option<Binding>,
    },
}
