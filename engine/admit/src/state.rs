//! The life of a slot: which step each state allows. Every other step is refused as [`Misuse::WrongState`], and what
//! has ended has no state any more (its handle is unknown).
//!
//! ```text
//!  hold --> Held --promise--> Promised --commit--> Committed --close--> (over)
//!            |                   |                    |
//!            +-release, expire   +-release            +-release
//!
//!  open --> Open --release, displace--> (over)         grant --> Committed
//! ```

use terms::Misuse;

/// Where a slot is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Counted until its deadline; nobody has promised anything.
    Held,
    /// Voted for: it has no deadline and survives a restart; only the coordinator's decision ends it.
    Promised,
    /// Booked: it opens at its start and closes at its end.
    Committed,
    /// Signalled: in force now and open at its end.
    Open,
}

impl State {
    /// All of them.
    pub const ALL: [State; 4] = [State::Held, State::Promised, State::Committed, State::Open];
}

/// What may happen to a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// The participant votes yes.
    Promise,
    /// The coordinator decides for it.
    Commit,
    /// It is given back: aborted, cancelled, torn down.
    Release,
    /// Its deadline passes.
    Expire,
    /// Its window is over.
    Close,
    /// Its rate or window changes.
    Modify,
    /// A booking takes its place.
    Displace,
}

impl Step {
    /// All of them.
    pub const ALL: [Step; 7] =
        [Step::Promise, Step::Commit, Step::Release, Step::Expire, Step::Close, Step::Modify, Step::Displace];
}

/// What an allowed step leads to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum After {
    /// The slot goes on, in this state.
    Goes(State),
    /// The slot is over; its capacity is free again.
    Over,
}

impl State {
    /// The table of edges.
    ///
    /// # Errors
    /// [`Misuse::WrongState`] for a step that is not in it.
    pub const fn after(self, step: Step) -> Result<After, Misuse> {
        Ok(match (self, step) {
            (State::Held, Step::Promise) => After::Goes(State::Promised),
            (State::Held, Step::Modify) => After::Goes(State::Held),
            (State::Held, Step::Release | Step::Expire) => After::Over,
            (State::Promised, Step::Commit) => After::Goes(State::Committed),
            (State::Promised, Step::Release) => After::Over,
            (State::Committed, Step::Modify) => After::Goes(State::Committed),
            (State::Committed, Step::Release | Step::Close) => After::Over,
            (State::Open, Step::Modify) => After::Goes(State::Open),
            (State::Open, Step::Release | Step::Displace) => After::Over,
            _ => return Err(Misuse::WrongState),
        })
    }
}
