//! The life of a reservation, as one table: no other step is possible. What is over stays over.
//!
//! ```text
//!  hold ---> Held --commit--> Booked --open--> Active --suspend--> Suspended
//!             |                 |  <--pause--   |  <----resume----   |
//!             +-expire          |               |                    |
//!             +-cancel          +-cancel, end   +-cancel, end        +-cancel, end, pause
//!
//!  create --> Booked            (over: Expired, Cancelled, Ended)
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
    /// Over: the hold was not committed in time.
    Expired,
}

impl BookingState {
    /// All states.
    pub const ALL: [BookingState; 7] = [
        BookingState::Held,
        BookingState::Booked,
        BookingState::Active,
        BookingState::Suspended,
        BookingState::Ended,
        BookingState::Cancelled,
        BookingState::Expired,
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
        }
    }

    /// True if it is over.
    pub const fn is_over(self) -> bool {
        matches!(self, BookingState::Ended | BookingState::Cancelled | BookingState::Expired)
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
    /// It is given back.
    Cancel,
}

impl LifeStep {
    /// All steps.
    pub const ALL: [LifeStep; 10] = [
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
            (BookingState::Held, LifeStep::Expire) => BookingState::Expired,
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
                BookingState::Held | BookingState::Booked | BookingState::Active | BookingState::Suspended,
                LifeStep::Cancel,
            ) => BookingState::Cancelled,
            _ => return Err(Misuse::WrongState),
        })
    }
}
