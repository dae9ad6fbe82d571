//! The life of a slot: the steps that each state allows. Every other step is refused as
//! [`Misuse::WrongState`]. A slot that is over has no state (its handle is unknown).
//!
//! ```text
//!  hold --> Held --promise--> Promised --commit--> Committed --close--> (over)
//!            |                   |                    |
//!            +-release, expire   +-release            +-release
//!
//!  open --> Open --release, displace--> (over)         grant --> Committed
//! ```

use terms::Misuse;

/// The state of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlotState {
    /// Counted until its deadline; the participant has not voted yet.
    Held,
    /// The participant voted yes: the slot has no deadline and survives a restart. Only the coordinator's
    /// decision ends it.
    Promised,
    /// Booked: it opens at its start and closes at its end.
    Committed,
    /// Signalled: in force now and open at its end.
    Open,
}

impl SlotState {
    /// All of them.
    pub const ALL: [SlotState; 4] = [SlotState::Held, SlotState::Promised, SlotState::Committed, SlotState::Open];
}

/// A step in the life of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlotStep {
    /// The participant votes yes.
    Promise,
    /// The coordinator decides to commit.
    Commit,
    /// The slot is given back: aborted, cancelled, torn down.
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

impl SlotStep {
    /// All of them.
    pub const ALL: [SlotStep; 7] = [
        SlotStep::Promise,
        SlotStep::Commit,
        SlotStep::Release,
        SlotStep::Expire,
        SlotStep::Close,
        SlotStep::Modify,
        SlotStep::Displace,
    ];
}

/// The result of an allowed step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum After {
    /// The slot goes on, in this state.
    Goes(SlotState),
    /// The slot is over; its capacity is free again.
    Over,
}

impl SlotState {
    /// The state after a step.
    ///
    /// # Errors
    /// [`Misuse::WrongState`] if this state does not allow the step.
    pub const fn after(self, step: SlotStep) -> Result<After, Misuse> {
        Ok(match (self, step) {
            (SlotState::Held, SlotStep::Promise) => After::Goes(SlotState::Promised),
            (SlotState::Held, SlotStep::Modify) => After::Goes(SlotState::Held),
            (SlotState::Held, SlotStep::Release | SlotStep::Expire) => After::Over,
            (SlotState::Promised, SlotStep::Commit) => After::Goes(SlotState::Committed),
            (SlotState::Promised, SlotStep::Release) => After::Over,
            (SlotState::Committed, SlotStep::Modify) => After::Goes(SlotState::Committed),
            (SlotState::Committed, SlotStep::Release | SlotStep::Close) => After::Over,
            (SlotState::Open, SlotStep::Modify) => After::Goes(SlotState::Open),
            (SlotState::Open, SlotStep::Release | SlotStep::Displace) => After::Over,
            _ => return Err(Misuse::WrongState),
        })
    }
}
