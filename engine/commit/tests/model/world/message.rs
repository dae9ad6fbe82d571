//! Messages between the coordinator and the participants, and their names.

use super::Site;
use commit::coordinator::Serial;
use commit::{Branch, Decision, Epoch, TransactionId};

/// The name of the one coordinator.
pub const COORDINATOR: &str = "broker";

/// A message. The network keeps every message that was ever sent: it may be delivered late, in any order, again,
/// or never.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Message {
    /// The coordinator asks for a vote.
    Prepare { to: u8, transaction: u8, epoch: Epoch, serial: Serial },
    /// The coordinator tells its decision.
    Decide { to: u8, transaction: u8, epoch: Epoch, decision: Decision },
    /// A participant votes.
    Vote { from: u8, transaction: u8, yes: bool },
    /// A participant has carried the decision out.
    Acknowledge { from: u8, transaction: u8 },
    /// A participant asks for the decision.
    Ask { from: u8, transaction: u8, epoch: u64 },
    /// A participant refuses an epoch that is older than this one.
    Outdated { from: u8, known: Epoch },
}

impl Message {
    /// The process that gets it.
    pub fn receiver(&self) -> Site {
        match *self {
            Message::Prepare { to, .. } | Message::Decide { to, .. } => Site::Participant(to),
            _ => Site::Coordinator,
        }
    }
}

/// The number of a transaction.
pub fn id_of(transaction: u8) -> TransactionId {
    TransactionId([transaction + 1; 16])
}

/// The place of a transaction, of which this is the number.
pub fn transaction_of(id: TransactionId) -> u8 {
    id.0[0] - 1
}

/// The part of a participant in a transaction. Every participant has one part in each.
pub fn branch_of(transaction: u8, participant: u8) -> Branch {
    Branch { transaction: id_of(transaction), member: u32::from(participant) }
}

/// The place of the transaction and of the participant, of which this is the part.
pub fn places_of(branch: Branch) -> (u8, u8) {
    (transaction_of(branch.transaction), branch.member as u8)
}

/// The name of a participant.
pub fn name_of(participant: u8) -> String {
    format!("agent{participant}")
}

/// The place of the participant of this name.
pub fn place_of(name: &str) -> u8 {
    name.bytes().last().map_or(0, |digit| digit - b'0')
}
