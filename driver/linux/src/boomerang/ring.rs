//! Messages that the programs do not decide: they come whole, with the interface by which they came in.

use super::FastPath;
use std::os::fd::{AsRawFd, BorrowedFd};
use terms::IfIndex;

/// The length of `struct told` before the packet, bytes.
const HEAD: usize = 16;

/// The reason why the program did not decide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// The message has masks, multicast, options, locks or a vector of rates, which are rare.
    Rare,
    /// The free part of the grant is too small, but the ledger may have more.
    Exhausted,
    /// Both rows of the session are full.
    Full,
    /// The kernel has no route for it, or it is addressed to this node.
    NoWay,
    /// It is a reply to no request that passed here.
    Stranger,
    /// Several CPUs wanted the same place at once.
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

/// A message that user space must handle: the kernel has consumed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserMessage {
    /// The interface by which it came in.
    pub iif: IfIndex,
    /// The reason why the program did not decide.
    pub reason: Reason,
    /// The IP packet.
    pub packet: Vec<u8>,
}

impl FastPath {
    /// The next message; `None` if there is none.
    pub fn next_told(&mut self) -> Option<UserMessage> {
        loop {
            let item = self.ring.next()?;
            if let Some(told) = read(&item) {
                return Some(told);
            }
        }
    }

    /// A descriptor that is readable while there is a message.
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
