//! Why the ledger says no, and what it says when capacity is lowered under what it has given away.

use terms::{IfIndex, Misuse, Rate, Refused, Time};

/// The ledger said no, and nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Denied {
    /// More was asked than is free at some instant of the window.
    Capacity {
        /// What was asked, or what the slot would have grown by.
        asked: Rate,
        /// What is free at every instant of it.
        free: Rate,
    },
    /// A table is full.
    Limit {
        /// Which table.
        what: &'static str,
        /// Its size.
        limit: usize,
    },
    /// The request means nothing: a rate of zero, a window that is over, a stale handle, a step its state forbids.
    Misuse(Misuse),
}

impl Denied {
    /// The same answer about the capacity of `interface`.
    pub fn on(self, interface: IfIndex) -> Refused {
        match self {
            Denied::Capacity { asked, free } => Refused::Capacity { interface, asked, free },
            Denied::Limit { what, limit } => Refused::Limit { what, limit },
            Denied::Misuse(misuse) => Refused::Meaningless(misuse),
        }
    }
}

impl From<Misuse> for Denied {
    fn from(misuse: Misuse) -> Denied {
        Denied::Misuse(misuse)
    }
}

impl core::fmt::Display for Denied {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Denied::Capacity { asked, free } => write!(f, "asked {asked}, free {free}"),
            Denied::Limit { what, limit } => write!(f, "{what}: the limit of {limit} is reached"),
            Denied::Misuse(misuse) => misuse.fmt(f),
        }
    }
}

impl core::error::Error for Denied {}

/// More has been given away than there is (capacity was lowered). Nothing was taken back: that is policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shortfall {
    /// The first instant of it, from now on.
    pub first: Time,
    /// The most that is missing at any instant.
    pub worst: Rate,
}
