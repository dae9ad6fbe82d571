//! Inputs and outputs of the coordinator.

use crate::record::{CoordinatorRecord, MemberRecord};
use crate::{Branch, Decision, Epoch, TransactionId, Vote};
use alloc::string::String;
use alloc::vec::Vec;
use terms::Span;

/// A batch of records on its way to the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogBatchId(pub u64);

/// Limits and times of a coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// The longest wait for votes; then the transaction is aborted.
    pub patience: Span,
    /// The first pause before a decision is sent again to a member that has not acknowledged it; it doubles.
    pub pause: Span,
    /// The longest pause.
    pub longest_pause: Span,
    /// The most transactions that are open at once.
    pub limit: usize,
}

impl Default for Config {
    /// 20 s for votes; 250 ms to 5 s between repetitions; 10,000 transactions.
    fn default() -> Config {
        let milliseconds = |ms: u64| Span::from_nanos(ms * 1_000_000);
        let (pause, longest_pause) = (milliseconds(250), milliseconds(5_000));
        Config { patience: Span::from_secs(20), pause, longest_pause, limit: 10_000 }
    }
}

/// The place of a transaction in its epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Serial {
    /// Its number in the epoch, from 1.
    pub number: u64,
    /// Every transaction of this epoch with a lower number has ended.
    pub floor: u64,
}

/// The two kinds of transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TransactionKind {
    /// All members are asked first; each may refuse.
    Vote,
    /// The same, one after the other: the last member is asked first, and the others when it has said Yes.
    Chain,
    /// It is decided already, and no member can refuse it (a cancellation): written down, then driven to its
    /// end.
    Order,
}

/// An input of the coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A record of the journal, before [`Input::Recovered`], in any order.
    Recovering(CoordinatorRecord),
    /// A participant that may know a newer epoch than the journal, before [`Input::Recovered`]: its name. Until it has
    /// confirmed the present epoch, what it may have heard of is not presumed to be aborted.
    Participant(String),
    /// The last record has come: a new epoch begins.
    Recovered {
        /// A number drawn by chance, for [`Epoch::nonce`].
        nonce: u64,
    },
    /// A new transaction.
    Begin {
        /// Its number.
        id: TransactionId,
        /// Its kind.
        kind: TransactionKind,
        /// Its members, at least one.
        members: Vec<MemberRecord>,
        /// The caller's words about it, kept in the journal.
        note: Vec<u8>,
        /// The part of another coordinator's transaction that it stands for: when all members have said Yes it waits
        /// for [`Input::Decide`]. An order has none.
        above: Option<Branch>,
    },
    /// The caller's words about a transaction that is not decided yet: written with the decision.
    Noted {
        /// The transaction.
        id: TransactionId,
        /// The words.
        note: Vec<u8>,
    },
    /// The coordinator above has decided. True: commit.
    Decide(TransactionId, bool),
    /// A member has voted.
    Voted {
        /// The member.
        branch: Branch,
        /// Its vote.
        vote: Vote,
    },
    /// A member has not answered Prepare, and may have promised.
    Lost {
        /// The member.
        branch: Branch,
        /// The reason, for people.
        why: String,
    },
    /// The caller does not want it any more. A transaction that is decided stays decided.
    GiveUp(TransactionId),
    /// A member has done what was decided, and this is on its disk.
    Acknowledged(Branch),
    /// A participant can be reached, perhaps again: its name. Decisions are sent again at once.
    Connected(String),
    /// A participant was told the present epoch, and knows no newer one: its name.
    Confirmed(String),
    /// A participant's open promises to this coordinator.
    Promises {
        /// The promises, each with the number of its epoch.
        promises: Vec<(Branch, u64)>,
        /// The participant.
        name: String,
    },
    /// A participant refuses this coordinator, because it knows a newer epoch or has seen more decisions.
    Outdated {
        /// The newest epoch that it knows.
        known: Epoch,
    },
    /// The operator says that the journal is an older copy, and that no other process uses the coordinator's
    /// name: go on after this epoch. Transactions that may have been lost are not presumed to be aborted.
    AcceptOlder {
        /// The newest epoch that participants know.
        known: Epoch,
        /// A number drawn by chance, for [`Epoch::nonce`].
        nonce: u64,
    },
    /// A batch, and every batch before it, is on the disk.
    Written(LogBatchId),
    /// A batch could not be written, and nothing of it is on the disk: the reason, for people.
    WriteFailed(LogBatchId, String),
    /// The time of `wake_at()` has come.
    Wake,
}

/// An output of the coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Write these records, all or none, in order; answer [`Input::Written`] or [`Input::WriteFailed`].
    Append {
        /// The batch.
        batch: LogBatchId,
        /// Its records.
        records: Vec<CoordinatorRecord>,
        /// False: nothing waits for it.
        forced: bool,
    },
    /// Ask this member for its vote.
    Prepare {
        /// The member.
        branch: Branch,
        /// The epoch.
        epoch: Epoch,
        /// The place of the transaction in its epoch.
        serial: Serial,
    },
    /// Tell this member the decision. It is repeated until the member acknowledges it.
    Decide {
        /// The member.
        branch: Branch,
        /// The participant's name.
        name: String,
        /// The epoch.
        epoch: Epoch,
        /// The decision.
        decision: Decision,
    },
    /// All members of a transaction that stands for a part of another have said Yes: it waits for
    /// [`Input::Decide`]. Nothing of this is on the disk yet.
    Prepared(TransactionId),
    /// The decision, for the caller. A commit is on the disk.
    Decided {
        /// The transaction.
        id: TransactionId,
        /// The decision.
        decision: Decision,
        /// The reason of an abort: the member that refused or was lost, if one was, and words for people.
        why: Option<(Option<u32>, String)>,
    },
    /// The transaction was not begun: the reason, for people.
    NotBegun {
        /// The transaction.
        id: TransactionId,
        /// The reason.
        why: String,
    },
    /// Every member has acknowledged.
    Ended(TransactionId),
    /// Participants know a newer epoch. Nothing is begun or decided any more until [`Input::AcceptOlder`].
    Outdated {
        /// The newest epoch that they know.
        known: Epoch,
    },
    /// A promise whose outcome this journal has lost: an operator must decide at the participant.
    Unresolved {
        /// The member.
        branch: Branch,
        /// The participant.
        name: String,
    },
}

/// The outcome of a transaction, for a participant that asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Not decided yet, or this coordinator cannot know: ask again later.
    Open,
    /// Decided.
    Decided(Decision),
    /// The journal has lost it: an operator must decide.
    Unknown,
}

/// The phase of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// Members are asked for their votes.
    Preparing,
    /// All members have said Yes, and the coordinator above decides.
    Prepared,
    /// The decision is on its way to the disk.
    Deciding,
    /// It is decided, and members are told.
    Committing,
    /// It is aborted, and members are told.
    Aborting,
}
