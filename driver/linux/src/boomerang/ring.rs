//! What the programs tell: messages that they do not decide, whole, with the interface that they came in by.

use super::FastPath;
use std::os::fd::{AsRawFd, BorrowedFd};
use terms::IfIndex;

/// `struct told` before the packet.
const HEAD: usize = 16;

/// Why the program did not decide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// Masks, multicast, options, locks, a vector of rates: rare.
    Rare,
    /// The grant has not so much free, but the ledger may have.
    Exhausted,
    /// Both rows of the session are full.
    Full,
    /// It goes nowhere that the kernel's routes know, or to this node itself.
    NoWay,
    /// A reply to no request that passed here.
    Stranger,
    /// Several CPUs wanted the same at once.
    Crowded,
}

impl Reason {
    fn of(number: u32) -> Option<Reason> {
        Some(match number {
            1 => Reason::Rare,
            2 => Reason::Exhausted,
            3 => Reason::Full,
            4 => Reason::NoWay,
            5 => Reason::Stranger,
            6 => Reason::Crowded,
            _ => return None,
        })
    }
}

/// A message that is now ours: the kernel has let go of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserMessage {
    /// Where it came in.
    pub iif: IfIndex,
    /// Why.
    pub reason: Reason,
    /// The IP packet.
    pub packet: Vec<u8>,
}

impl FastPath {
    /// The next message, if there is one.
    pub fn next_told(&mut self) -> Option<UserMessage> {
        loop {
            let item = self.ring.next()?;
            if let Some(told) = read(&item) {
                return Some(told);
            }
        }
    }

    /// Becomes readable when there is one.
    pub fn ring(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor and lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

fn read(bytes: &[u8]) -> Option<UserMessage> {
    let word = |at: usize| bytes.get(at..)?.first_chunk::<4>().map(|word| u32::from_ne_bytes(*word));
    let (iif, reason, length) = (word(0)?, word(4)?, word(8)? as usize);
    let packet = bytes.get(HEAD..)?.get(..length)?.to_vec();
    Some(UserMessage { iif: IfIndex(iif), reason: Reason::of(reason)?, packet })
}
