//! The words of the protocol.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// The number of a transaction. It is drawn by chance and never used again, also not for a second attempt at
/// the same request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub [u8; 16]);

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TransactionId {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl TransactionId {
    /// Reads 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<TransactionId> {
        let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
        let mut id = [0; 16];
        for (byte, two) in id.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16).filter(|_| !c.is_ascii_uppercase());
            *byte = (digit(two[0])? << 4 | digit(two[1])?) as u8;
        }
        Some(TransactionId(id))
    }
}

/// The name of a coordinator: that of the broker, not of a process.
pub type CoordinatorName = Box<str>;

/// A start of a coordinator. Every message carries it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch {
    /// Its number; later starts have higher numbers. The first is 1.
    pub number: u64,
    /// The number of decisions to commit that its journal had seen at this start. A journal that was restored
    /// from an older copy has seen fewer than participants have.
    pub decisions: u64,
    /// Drawn by chance at this start: two starts from copies of one journal differ by it.
    pub nonce: u64,
}

impl Epoch {
    /// True if a participant that has heard of `known` may believe a coordinator of this epoch.
    pub fn follows(self, known: Epoch) -> bool {
        let later = self.number > known.number && self.decisions >= known.decisions;
        later || (self.number == known.number && self.nonce == known.nonce)
    }
}

/// A participant's answer to Prepare.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Vote {
    /// It can and will do what the coordinator decides.
    Yes,
    /// It has refused, keeps nothing and will do nothing: the reason, for people.
    No(String),
}

/// The end of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Decision {
    /// All members make the change.
    Commit {
        /// The number of this decision: the coordinator counts its decisions to commit, from 1.
        number: u64,
    },
    /// No member makes the change.
    Abort,
}

/// The part of one member in a transaction: a participant may have several in the same transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Branch {
    /// The transaction.
    pub transaction: TransactionId,
    /// The place of the member in the transaction's list, from 0.
    pub member: u32,
}
