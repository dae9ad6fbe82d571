//! Refusals of the ledger, and the shortfall after capacity was lowered under what is given away.

use terms::{IfIndex, Misuse, Rate, Refused, Time};

/// The ledger refused the request. The state is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Denied {
    /// The request is for more than is free at some instant of its window.
    Capacity {
        /// The rate asked for, or the growth of the slot.
        asked: Rate,
        /// The rate that is free at every instant of the window.
        free: Rate,
    },
    /// A table is full.
    Limit {
        /// The name of the table.
        what: &'static str,
        /// Its size.
        limit: usize,
    },
    /// The request makes no sense: a rate of zero, a window that is over, a stale handle, a step that the
    /// state forbids.
    Misuse(Misuse),
}

impl Denied {
    /// The same refusal, for the capacity of `interface`.
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

/// More has been given away than there is, because capacity was lowered. No slot was taken back: policy
/// decides that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shortfall {
    /// The first instant with a shortfall, from now on.
    pub first: Time,
    /// The largest missing rate at any instant.
    pub worst: Rate,
}
