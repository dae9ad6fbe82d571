//! A promise: its states, and its time.

use super::{DropReason, ParticipantRecord, WriteId};
use crate::{Branch, CoordinatorName, Decision, Epoch};
use terms::{Span, Time};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum State {
    /// On its way to the disk; `Some`: the decision that has come meanwhile.
    Promising(WriteId, Option<Decision>),
    /// On the disk. Nothing but a decision ends it.
    Promised,
    /// The decision is on its way to the disk.
    Applying(WriteId, End),
    /// The decision could not be written: again at this time.
    Again(Time, End),
    /// Ended by time or by an operator: true if the change was made. The coordinator is still asked.
    Alone(bool),
    /// The decision that was heard after such an end is on its way to the disk.
    Hearing(WriteId, bool),
    /// Over: true if the change was made. Kept so that a repeated Prepare is known.
    Done(bool),
}

/// How a promise ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum End {
    Make(Option<u64>),
    Drop(DropReason),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Promise {
    pub(super) coordinator: CoordinatorName,
    pub(super) epoch: Epoch,
    pub(super) serial: u64,
    pub(super) until: Time,
    pub(super) state: State,
    pub(super) ask_at: Time,
    pub(super) pause: Span,
    /// Its time in [`Participant::due`].
    pub(super) wake: Option<Time>,
}

impl End {
    pub(super) fn of(decision: Decision) -> End {
        match decision {
            Decision::Commit { number } => End::Make(Some(number)),
            Decision::Abort => End::Drop(DropReason::Aborted),
        }
    }

    /// True if the coordinator did not decide it.
    pub(super) fn is_alone(self) -> bool {
        matches!(self, End::Make(None) | End::Drop(DropReason::Moot | DropReason::Resolved))
    }
}

impl Promise {
    pub(super) fn record(&self, branch: Branch, made: Option<bool>, alone: bool) -> ParticipantRecord {
        let (coordinator, epoch, serial, until) = (self.coordinator.clone(), self.epoch, self.serial, self.until);
        ParticipantRecord::Branch { branch, coordinator, epoch, serial, until, made, alone }
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        match self.state {
            State::Promised => Some(self.ask_at.min(self.until)),
            State::Alone(_) => Some(self.ask_at),
            State::Again(at, _) => Some(at),
            _ => None,
        }
    }
}
