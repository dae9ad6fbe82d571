//! Inputs and outputs of the participant.

use super::ParticipantRecord;
use crate::coordinator::Serial;
use crate::{Branch, CoordinatorName, Decision, Epoch, Vote};
use alloc::string::String;
use alloc::vec::Vec;
use terms::{Span, Time};

/// A write on its way to the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(pub u64);

/// Limits and times of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// The most open promises to one coordinator.
    pub promises: usize,
    /// The most coordinators.
    pub coordinators: usize,
    /// The wait for a decision before the coordinator is asked; it doubles.
    pub pause: Span,
    /// The longest wait between two questions.
    pub longest_pause: Span,
}

impl Default for Config {
    /// 1,000 promises to each of 64 coordinators; asks after 2 s, and every 60 s at the latest.
    fn default() -> Config {
        Config { promises: 1_000, coordinators: 64, pause: Span::from_secs(2), longest_pause: Span::from_secs(60) }
    }
}

/// The change that the host makes in the same write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PromisedChange {
    /// The part is promised: its amounts count, and no timer ends it.
    Promise(Branch),
    /// The promise comes true.
    Make(Branch),
    /// The promise is dropped: its amounts are free.
    Drop(Branch, DropReason),
    /// None.
    Nothing,
}

/// The reason for dropping a promise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// The coordinator decided so.
    Aborted,
    /// Its last window has passed without a decision.
    Moot,
    /// An operator decided so.
    Resolved,
}

/// An input of the participant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A record of the journal, before [`Input::Recovered`], in any order.
    Recovering(ParticipantRecord),
    /// The last record has come.
    Recovered,
    /// A coordinator asks for a vote, and the host has decided.
    Prepare {
        /// The part of the transaction.
        branch: Branch,
        /// The coordinator.
        coordinator: CoordinatorName,
        /// Its epoch.
        epoch: Epoch,
        /// The place of the transaction in the epoch.
        serial: Serial,
        /// The host's decision, or the reason of its refusal, for people.
        granted: Result<(), String>,
        /// The end of the last window that is promised; [`Time::FOREVER`]: it is open.
        until: Time,
    },
    /// A coordinator tells its decision.
    Decide {
        /// The part of the transaction.
        branch: Branch,
        /// The coordinator.
        coordinator: CoordinatorName,
        /// Its epoch.
        epoch: Epoch,
        /// The decision.
        decision: Decision,
    },
    /// A coordinator has connected.
    Connected {
        /// The coordinator.
        coordinator: CoordinatorName,
        /// Its epoch.
        epoch: Epoch,
    },
    /// An operator decides a promise.
    Resolve {
        /// The part of the transaction.
        branch: Branch,
        /// True: the promise comes true.
        commit: bool,
    },
    /// A write, and every write before it, is on the disk.
    Written(WriteId),
    /// A write failed, and nothing of it is on the disk.
    WriteFailed(WriteId),
    /// The time of `wake_at()` has come.
    Wake,
}

/// An output of the participant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Write these records and the host's change, all or none; answer [`Input::Written`] or
    /// [`Input::WriteFailed`].
    Append {
        /// The write.
        id: WriteId,
        /// The records.
        records: Vec<ParticipantRecord>,
        /// The host's change.
        change: PromisedChange,
    },
    /// The vote. A Yes is on the disk.
    Vote {
        /// The part of the transaction.
        branch: Branch,
        /// The vote.
        vote: Vote,
    },
    /// The decision is carried out, and this is on the disk.
    Acknowledge(Branch),
    /// The coordinator is older than one that this participant has heard of, or has forgotten decisions: the
    /// message is refused.
    Outdated {
        /// The coordinator.
        coordinator: CoordinatorName,
        /// The newest epoch that this participant knows.
        known: Epoch,
    },
    /// Ask the coordinator for its decision.
    Ask {
        /// The part of the transaction.
        branch: Branch,
        /// The coordinator.
        coordinator: CoordinatorName,
        /// The epoch in which it was promised.
        epoch: Epoch,
    },
    /// The coordinator has decided otherwise than an operator did here, or than time did: people must know.
    Contradicted {
        /// The part of the transaction.
        branch: Branch,
        /// True: the others made the change.
        committed: bool,
    },
}
