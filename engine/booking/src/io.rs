//! What the book is told and what it says.
//!
//! One input, then drain. Every change is said as one [`Batch`] to be written durably; the reply to the call that made it, and the
//! events that tell of it, come out only when the batch is [`Input::Appended`]. What happens by time alone is enforced at once.
//!
//! Windows in calls, answers and events are calendar time (UTC); `now` is the agent's own; [`Input::Clock`] tells how they differ.

use crate::refusal::{OfferedPart, Refusal};
use crate::state::BookingState;
use crate::view::{BookingView, ResourceView};
use alloc::string::String;
use alloc::vec::Vec;
use terms::book::{Background, Binding, Caller, Guarantee, Handle, PacketShape, ResourceId, ResourceKind};
use terms::{Span, Time, Window};

/// A call on its way, by a number that the driver gives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u64);

/// A batch on its way to the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchId(pub u64);

/// An order on its way to whoever enforces it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OrderId(pub u64);

/// What the book is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A record of the journal, from an earlier life; all of them before [`Input::Recovered`], in any order.
    Recovering(JournalRecord),
    /// That was all. Calls are refused before it.
    Recovered,
    /// Somebody calls.
    Call {
        /// Comes back with the reply.
        id: CallId,
        /// Who.
        caller: Caller,
        /// What.
        call: Call,
    },
    /// A batch, and every batch before it, is on the disk.
    Appended(BatchId),
    /// A batch could not be written and nothing of it is on the disk.
    AppendFailed {
        /// Which.
        id: BatchId,
        /// What the store said.
        text: String,
    },
    /// An order was carried out and read back, or could not be.
    Enforced {
        /// Which.
        id: OrderId,
        /// Why not, for people.
        result: Result<(), String>,
    },
    /// How calendar time and the agent's clock differ.
    Clock(CalendarOffset),
    /// Signalled reservations, the capacity, or the being there of a resource have changed.
    Resource(ResourceId),
    /// The rules have changed.
    Policy,
    /// `wake_at()` has come.
    Wake,
}

/// Calendar time is the agent's clock plus `ahead_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CalendarOffset {
    /// By how much calendar time is ahead, nanoseconds.
    pub ahead_ns: i64,
    /// How far calendar time may be off.
    pub uncertainty: Span,
}

/// What may be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// What would be granted? Nothing is held.
    Enquire(BookingRequest),
    /// Reserve, all parts or none.
    Create {
        /// What.
        ask: BookingRequest,
        /// For how long it is only held, until [`Call::Commit`]; `None`: it is booked at once.
        hold: Option<Span>,
        /// The same key of an owner with the same request has one effect; with another it is refused. Empty: none.
        key: String,
    },
    /// Book what is held.
    Commit(Handle),
    /// The same, as its coordinator decided when all held: neither policy nor the clock is asked again.
    Decided(Handle),
    /// Change amounts or windows; if the new does not fit, the old stays.
    Modify {
        /// Which.
        handle: Handle,
        /// What.
        change: BookingChange,
    },
    /// Say whose packets or processes a part is for, or (`None`) nobody's.
    Bind {
        /// Which.
        handle: Handle,
        /// Which part, from 0.
        part: usize,
        /// Whose.
        binding: Option<Binding>,
    },
    /// Give it back.
    Cancel(Handle),
    /// One reservation.
    Show(Handle),
    /// Those that match, in order of their creation.
    List(Matching),
    /// What happened to one after the event of this number (0: all that is kept), oldest first, a page.
    History(Handle, u64),
    /// What happened after this event, oldest first; see [`CallResult::Events`].
    Since {
        /// Its number; 0: from the oldest that is kept.
        seq: u64,
        /// At most so many.
        most: usize,
    },
    /// What there is to reserve.
    Resources {
        /// How far ahead the timelines go, calendar time; `None`: no timelines.
        timeline: Option<Window>,
    },
}

/// A request for resources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BookingRequest {
    /// What of which resources; at least one.
    pub parts: Vec<PartAsk>,
    /// When.
    pub when: When,
    /// What its owner calls it.
    pub label: String,
    /// What it belongs to.
    pub group: String,
    /// All that the group has, as whoever made it names them.
    pub members: Vec<String>,
}

/// How much of one resource.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartAsk {
    /// The resource's name.
    pub resource: String,
    /// How much: the most that is wanted.
    pub amount: u64,
    /// The least that will do; equal to `amount` where there is no range.
    pub least: u64,
    /// Whether it only shares what foreground leaves; `amount` is the most that it can use.
    pub background: Option<Background>,
    /// How its packets travel.
    pub shape: PacketShape,
    /// Whose packets or processes, if that is known already.
    pub binding: Option<Binding>,
}

/// When something is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum When {
    /// In this window.
    Window {
        /// `None`: from now on.
        start: Option<Time>,
        /// `None`: open at its end.
        end: Option<Time>,
    },
    /// For so long, from now on.
    Now {
        /// How long.
        span: Span,
    },
    /// For so long, as early as it fits.
    Earliest {
        /// How long.
        span: Span,
        /// Not before; `None`: now.
        not_before: Option<Time>,
        /// Over by; `None`: whenever.
        by: Option<Time>,
    },
    /// So much moved by a deadline, at a constant rate if one will do, otherwise in steps. Every part is a rate, and
    /// its `amount` is the most that it can use (0: whatever there is).
    Volume {
        /// How much.
        bytes: u64,
        /// Not before; `None`: now.
        not_before: Option<Time>,
        /// By when.
        deadline: Time,
    },
    /// In each of these windows (a recurrence, spelled out), all of them or none.
    Series {
        /// In order, none overlapping.
        windows: Vec<Window>,
        /// Which of them, from 0, need not fit: those that do are granted. Every other must. Empty: all must.
        may_fail: Vec<usize>,
    },
}

impl Default for When {
    /// From now on, open at its end.
    fn default() -> When {
        When::Window { start: None, end: None }
    }
}

/// What to change of a reservation; `None` leaves as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BookingChange {
    /// New amounts: of which part, which must be of this kind, how much. All steps of the part get it.
    pub amounts: Vec<(usize, ResourceKind, u64)>,
    /// A new start, of the first step; not of one that has begun.
    pub start: Option<Time>,
    /// A new end, of the last step; [`Time::FOREVER`]: open.
    pub end: Option<Time>,
    /// Another label.
    pub label: Option<String>,
}

/// Which reservations to list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matching {
    /// Of this owner.
    pub owner: Option<String>,
    /// Of this group.
    pub group: Option<String>,
    /// With this label.
    pub label: Option<String>,
    /// With a part of this resource.
    pub resource: Option<String>,
    /// In one of these states; empty: all that are not over.
    pub states: Vec<BookingState>,
    /// With a window that meets this one.
    pub window: Option<Window>,
    /// Created after this one, which itself is not listed: for the next page.
    pub after: Option<Handle>,
    /// At most so many; 0: as many as the book allows in one answer.
    pub most: usize,
}

/// The answer to a call.
pub type Reply = Result<CallResult, Refusal>;

/// What came of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallResult {
    /// What would be granted, part by part.
    Enquired(Enquired),
    /// The reservation as it is after the call.
    Reservation(BookingView),
    /// Those that match.
    List {
        /// These.
        views: Vec<BookingView>,
        /// Whether there are more.
        more: bool,
    },
    /// What happened, oldest first.
    Events {
        /// These.
        events: Vec<Event>,
        /// The number of the last event that there is: nothing newer has happened.
        last: u64,
        /// Whether events between the one asked for and the first of these are not kept any more.
        lost: bool,
    },
    /// What there is to reserve.
    Resources(Vec<ResourceView>),
}

/// What would be granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enquired {
    /// What each part would get now; `None`: the request as it stands would be refused.
    pub granted: Option<Vec<OfferedPart>>,
    /// Why it would be refused, and what would be possible.
    pub refusal: Option<Refusal>,
    /// What there is, part by part.
    pub parts: Vec<Free>,
}

/// What there is for a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Free {
    /// What amounts count.
    pub kind: ResourceKind,
    /// What it could have at most over its whole window (of a series: over the first).
    pub free: u64,
    /// What a promise would be worth.
    pub guarantee: Guarantee,
}

/// What the book says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Write these durably, all or none, after those before; answer with [`Input::Appended`] or [`Input::AppendFailed`].
    Append(Batch),
    /// The answer to a call.
    Reply {
        /// Whose.
        id: CallId,
        /// What.
        reply: Reply,
    },
    /// Make it so in the kernel, read it back, and answer with [`Input::Enforced`]. Orders are carried out in order.
    Enforce(Order),
    /// It happened, and it is written down. Numbers grow; some are never used.
    Event(Event),
    /// A record of the journal is not what its form says; it is left out. The operator must know, and decide.
    Corrupt {
        /// Where.
        table: RecordTable,
        /// Under which key.
        key: Vec<u8>,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Records that are written together or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Its name; they grow by one.
    pub id: BatchId,
    /// In no order that matters; a key is named once.
    pub records: Vec<JournalRecord>,
    /// It gives something back, or says what has happened already: a store that keeps room for the worst day uses it for this.
    pub urgent: bool,
}

/// A record: what a store keeps without understanding it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalRecord {
    /// Where.
    pub table: RecordTable,
    /// Under which key: at most 128 bytes.
    pub key: Vec<u8>,
    /// What; `None`: the key is deleted.
    pub value: Option<Vec<u8>>,
}

/// Where a record belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordTable {
    /// Reservations, by handle. Told when recovering.
    Reservation,
    /// Events, by number. Told when recovering.
    Event,
    /// Who decided what by which rule, by event number. Written, never told again; the store chains them.
    Audit,
}

/// What somebody is to make so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// Its name.
    pub id: OrderId,
    /// Of which reservation.
    pub handle: Handle,
    /// Which part, from 0.
    pub part: usize,
    /// Which resource.
    pub resource: String,
    /// Whether it is background (an AF class), not foreground (EF).
    pub background: bool,
    /// How its packets travel.
    pub shape: PacketShape,
    /// What.
    pub action: OrderAction,
}

/// What is to be made so. All of them may be repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderAction {
    /// From now on these have this amount.
    Enable {
        /// Whose; `None`: the resource needs no binding.
        binding: Option<Binding>,
        /// How much.
        amount: u64,
    },
    /// They have another amount.
    Change {
        /// Whose.
        binding: Option<Binding>,
        /// How much.
        amount: u64,
    },
    /// They have nothing any more.
    Disable {
        /// Whose.
        binding: Option<Binding>,
    },
}

/// Something that happened to a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its number.
    pub seq: u64,
    /// When; calendar time.
    pub at: Time,
    /// To which.
    pub handle: Handle,
    /// Whose it is.
    pub owner: String,
    /// Of which group.
    pub group: String,
    /// What.
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// It was created, held or booked.
    Created(BookingState),
    /// What was held is booked.
    Committed,
    /// Amounts, windows or the label changed.
    Modified,
    /// A part is for these now.
    Bound {
        /// Which part.
        part: usize,
        /// Whose.
        binding: Option<Binding>,
    },
    /// A window began.
    Opened,
    /// A window ended, and another is ahead.
    Paused,
    /// It is over.
    Over(BookingState),
    /// A background part's share has changed (0: suspended).
    Share {
        /// Which part.
        part: usize,
        /// What its amounts count.
        kind: ResourceKind,
        /// What it had.
        from: u64,
        /// What it has.
        to: u64,
    },
    /// What is due could not be enforced; it is tried again.
    Failing {
        /// Which part.
        part: usize,
        /// Why.
        text: String,
    },
    /// It is enforced again.
    InForce {
        /// Which part.
        part: usize,
    },
    /// A resource has less than was promised, and this is among those that were promised it.
    Short {
        /// Which part.
        part: usize,
        /// What its amounts count.
        kind: ResourceKind,
        /// From when on; calendar time.
        first: Time,
        /// How much is missing at most, of all that was promised.
        missing: u64,
    },
}

impl EventKind {
    /// Its name in documents.
    pub const fn name(&self) -> &'static str {
        match self {
            EventKind::Created(_) => "created",
            EventKind::Committed => "committed",
            EventKind::Modified => "modified",
            EventKind::Bound { .. } => "bound",
            EventKind::Opened => "opened",
            EventKind::Paused => "paused",
            EventKind::Over(state) => state.name(),
            EventKind::Share { .. } => "share",
            EventKind::Failing { .. } => "failing",
            EventKind::InForce { .. } => "in_force",
            EventKind::Short { .. } => "short",
        }
    }
}
