//! The life of a reservation, as one table: what is not in it does not happen. What is over stays over.
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

/// Where a reservation is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
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

impl State {
    /// All of them.
    pub const ALL: [State; 7] =
        [State::Held, State::Booked, State::Active, State::Suspended, State::Ended, State::Cancelled, State::Expired];

    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Booked => "booked",
            State::Active => "active",
            State::Suspended => "suspended",
            State::Ended => "ended",
            State::Cancelled => "cancelled",
            State::Expired => "expired",
        }
    }

    /// Whether it is over.
    pub const fn is_over(self) -> bool {
        matches!(self, State::Ended | State::Cancelled | State::Expired)
    }

    /// Whether a window of it is open.
    pub const fn is_open(self) -> bool {
        matches!(self, State::Active | State::Suspended)
    }
}

/// What may happen to a reservation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Act {
    /// Its holder decides for it.
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
    /// A part is said to be for other packets or processes.
    Bind,
    /// It is given back.
    Cancel,
}

impl Act {
    /// All of them.
    pub const ALL: [Act; 10] = [
        Act::Commit,
        Act::Expire,
        Act::Open,
        Act::Pause,
        Act::End,
        Act::Suspend,
        Act::Resume,
        Act::Modify,
        Act::Bind,
        Act::Cancel,
    ];
}

impl State {
    /// The table of edges.
    ///
    /// # Errors
    /// [`Misuse::WrongState`] for an act that is not in it.
    pub const fn after(self, act: Act) -> Result<State, Misuse> {
        Ok(match (self, act) {
            (State::Held, Act::Commit) => State::Booked,
            (State::Held, Act::Expire) => State::Expired,
            (State::Booked, Act::Open) => State::Active,
            (State::Active | State::Suspended, Act::Pause) => State::Booked,
            (State::Booked | State::Active | State::Suspended, Act::End) => State::Ended,
            (State::Active, Act::Suspend) => State::Suspended,
            (State::Suspended, Act::Resume) => State::Active,
            (State::Held | State::Booked | State::Active | State::Suspended, Act::Modify | Act::Bind) => self,
            (State::Held | State::Booked | State::Active | State::Suspended, Act::Cancel) => State::Cancelled,
            _ => return Err(Misuse::WrongState),
        })
    }
}
