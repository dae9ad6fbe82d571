//! The life of a reservation, as one table: no other step is possible. What is over stays over.
//!
//! ```text
//!  hold ---> Held --commit--> Booked --open--> Active --suspend--> Suspended
//!             |                 |  <--pause--   |  <----resume----   |
//!             +-expire          |               |                    |
//!             +-cancel          +-cancel, end   +-cancel, end        +-cancel, end, pause
//!             +-promise, <--withdraw
//!             v                 ^
//!  prepare -> Promised --keep---+       create --> Booked
//!             +-cancel, expire          (over: Expired, Cancelled, Ended)
//! ```

use terms::Misuse;

/// The state of a reservation in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BookingState {
    /// Its amounts are counted until a deadline; nothing has been promised.
    Held,
    /// Promised; its next window is ahead.
    Booked,
    /// A window of it is open.
    Active,
    /// A window is open, but a background part has less than its floor, and so nothing.
    Suspended,
    /// Over: every window has passed.
    Ended,
    /// Over: its owner or an operator gave it back.
    Cancelled,
    /// Over: the hold was not committed in time, or a promise was not decided before its last window passed.
    Expired,
    /// Promised to a coordinator, whose decision alone makes it booked or ends it. No timer does.
    Promised,
}

impl BookingState {
    /// All states.
    pub const ALL: [BookingState; 8] = [
        BookingState::Held,
        BookingState::Booked,
        BookingState::Active,
        BookingState::Suspended,
        BookingState::Ended,
        BookingState::Cancelled,
        BookingState::Expired,
        BookingState::Promised,
    ];

    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            BookingState::Held => "held",
            BookingState::Booked => "booked",
            BookingState::Active => "active",
            BookingState::Suspended => "suspended",
            BookingState::Ended => "ended",
            BookingState::Cancelled => "cancelled",
            BookingState::Expired => "expired",
            BookingState::Promised => "promised",
        }
    }

    /// True if it is over.
    pub const fn is_over(self) -> bool {
        matches!(self, BookingState::Ended | BookingState::Cancelled | BookingState::Expired)
    }

    /// True if it is booked, and not over: it is due in its windows.
    pub const fn is_booked(self) -> bool {
        matches!(self, BookingState::Booked | BookingState::Active | BookingState::Suspended)
    }

    /// True if a window of it is open.
    pub const fn is_open(self) -> bool {
        matches!(self, BookingState::Active | BookingState::Suspended)
    }
}

/// A step in the life of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LifeStep {
    /// Its holder commits it.
    Commit,
    /// The hold's deadline, or its last window, passes.
    Expire,
    /// A window begins.
    Open,
    /// A window ends, and another is ahead.
    Pause,
    /// Its last window ends.
    End,
    /// A background part falls below its floor.
    Suspend,
    /// Every background part has its floor again.
    Resume,
    /// Amounts or windows change.
    Modify,
    /// A part is bound to other packets or processes.
    Bind,
    /// It is given back, or the coordinator decided to abort its creation.
    Cancel,
    /// The hold is promised to a coordinator.
    Promise,
    /// The coordinator decided to commit.
    Keep,
    /// The coordinator decided to abort what was a hold before.
    Withdraw,
}

impl LifeStep {
    /// All steps.
    pub const ALL: [LifeStep; 13] = [
        LifeStep::Commit,
        LifeStep::Expire,
        LifeStep::Open,
        LifeStep::Pause,
        LifeStep::End,
        LifeStep::Suspend,
        LifeStep::Resume,
        LifeStep::Modify,
        LifeStep::Bind,
        LifeStep::Cancel,
        LifeStep::Promise,
        LifeStep::Keep,
        LifeStep::Withdraw,
    ];
}

impl BookingState {
    /// The table of edges.
    ///
    /// # Errors
    /// [`Misuse::WrongState`] for a step that is not in it.
    pub const fn after(self, act: LifeStep) -> Result<BookingState, Misuse> {
        Ok(match (self, act) {
            (BookingState::Held, LifeStep::Commit) => BookingState::Booked,
            (BookingState::Held | BookingState::Promised, LifeStep::Expire) => BookingState::Expired,
            (BookingState::Held, LifeStep::Promise) => BookingState::Promised,
            (BookingState::Promised, LifeStep::Keep) => BookingState::Booked,
            (BookingState::Promised, LifeStep::Withdraw) => BookingState::Held,
            (BookingState::Booked, LifeStep::Open) => BookingState::Active,
            (BookingState::Active | BookingState::Suspended, LifeStep::Pause) => BookingState::Booked,
            (BookingState::Booked | BookingState::Active | BookingState::Suspended, LifeStep::End) => {
                BookingState::Ended
            }
            (BookingState::Active, LifeStep::Suspend) => BookingState::Suspended,
            (BookingState::Suspended, LifeStep::Resume) => BookingState::Active,
            (
                BookingState::Held | BookingState::Booked | BookingState::Active | BookingState::Suspended,
                LifeStep::Modify | LifeStep::Bind,
            ) => self,
            (
                BookingState::Held
                | BookingState::Promised
                | BookingState::Booked
                | BookingState::Active
                | BookingState::Suspended,
                LifeStep::Cancel,
            ) => BookingState::Cancelled,
            _ => return Err(Misuse::WrongState),
        })
    }
}
