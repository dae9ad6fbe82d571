//! Events in the life of a reservation.

use crate::state::BookingState;
use alloc::string::String;
use terms::Time;
use terms::book::{Binding, Handle, ResourceKind};

/// An event in the life of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The event's number.
    pub seq: u64,
    /// The time of the event; calendar time.
    pub at: Time,
    /// The handle of the reservation.
    pub handle: Handle,
    /// The owner's name.
    pub owner: String,
    /// The reservation's group.
    pub group: String,
    /// The kind of event.
    pub what: EventKind,
}

/// The kind of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// It was created, held or booked.
    Created(BookingState),
    /// The hold was committed.
    Committed,
    /// Amounts, windows or the label changed.
    Modified,
    /// A part was bound to other packets or processes, or to none.
    Bound {
        /// The part, from 0.
        part: usize,
        /// The packets or processes; `None`: not bound any more.
        binding: Option<Binding>,
    },
    /// A window began.
    Opened,
    /// A window ended, and another is ahead.
    Paused,
    /// Its end is as near as its owner wanted to be told.
    EndsSoon {
        /// The end; calendar time.
        end: Time,
    },
    /// It is over.
    Over(BookingState),
    /// The share of a background part changed (0: suspended).
    Share {
        /// The part, from 0.
        part: usize,
        /// The kind, and so the unit of its amounts.
        kind: ResourceKind,
        /// The share before.
        from: u64,
        /// The share now.
        to: u64,
    },
    /// The due amount could not be enforced; it is tried again.
    Failing {
        /// The part, from 0.
        part: usize,
        /// The reason.
        text: String,
    },
    /// The due amount is enforced again.
    InForce {
        /// The part, from 0.
        part: usize,
    },
    /// A resource has less than was promised, and this reservation is affected.
    Short {
        /// The part, from 0.
        part: usize,
        /// The kind, and so the unit of its amounts.
        kind: ResourceKind,
        /// The first instant of the shortage; calendar time.
        first: Time,
        /// The largest shortage of all that was promised.
        missing: u64,
    },
    /// An operator or time ended a promise of it, and the coordinator has decided otherwise.
    Contradicted {
        /// True: the other members made the change.
        committed: bool,
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
            EventKind::EndsSoon { .. } => "ends_soon",
            EventKind::Over(state) => state.name(),
            EventKind::Share { .. } => "share",
            EventKind::Failing { .. } => "failing",
            EventKind::InForce { .. } => "in_force",
            EventKind::Short { .. } => "short",
            EventKind::Contradicted { .. } => "contradicted",
        }
    }
}
