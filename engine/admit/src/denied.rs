//! Refusals of the ledger, and the shortfall after capacity was lowered under what is given away.

use core::fmt::Display;
use terms::{IfIndex, Misuse, Rate, Refused, Time};

/// The ledger refused the request. The state is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Denied<Q = Rate> {
    /// The request is for more than is free at some instant of its window.
    Capacity {
        /// The amount asked for, or the growth of the slot.
        asked: Q,
        /// The amount that is free at every instant of the window.
        free: Q,
    },
    /// The request is for more than the sub-pool has free at some instant of its window.
    Pool {
        /// The part asked for, in the measure of the sub-pool.
        asked: Q,
        /// The part that is free at every instant of the window.
        free: Q,
    },
    /// A table is full.
    Limit {
        /// The name of the table.
        what: &'static str,
        /// Its size.
        limit: usize,
    },
    /// The request makes no sense: an amount of zero, a window that is over, a stale handle, a step that the
    /// state forbids.
    Misuse(Misuse),
}

impl<Q> Denied<Q> {
    /// The same refusal with other amounts: `whole` converts those of the table, `part` those of its sub-pool.
    pub fn convert<T>(self, whole: impl Fn(Q) -> T, part: impl Fn(Q) -> T) -> Denied<T> {
        match self {
            Denied::Capacity { asked, free } => Denied::Capacity { asked: whole(asked), free: whole(free) },
            Denied::Pool { asked, free } => Denied::Pool { asked: part(asked), free: part(free) },
            Denied::Limit { what, limit } => Denied::Limit { what, limit },
            Denied::Misuse(misuse) => Denied::Misuse(misuse),
        }
    }
}

impl Denied {
    /// The same refusal, for the capacity of `interface`.
    pub fn on(self, interface: IfIndex) -> Refused {
        match self {
            Denied::Capacity { asked, free } | Denied::Pool { asked, free } => {
                Refused::Capacity { interface, asked, free }
            }
            Denied::Limit { what, limit } => Refused::Limit { what, limit },
            Denied::Misuse(misuse) => Refused::Meaningless(misuse),
        }
    }
}

impl<Q> From<Misuse> for Denied<Q> {
    fn from(misuse: Misuse) -> Denied<Q> {
        Denied::Misuse(misuse)
    }
}

impl<Q: Display> Display for Denied<Q> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Denied::Capacity { asked, free } => write!(f, "asked {asked}, free {free}"),
            Denied::Pool { asked, free } => write!(f, "asked {asked}, free in the sub-pool {free}"),
            Denied::Limit { what, limit } => write!(f, "{what}: the limit of {limit} is reached"),
            Denied::Misuse(misuse) => misuse.fmt(f),
        }
    }
}

impl<Q: Display + core::fmt::Debug> core::error::Error for Denied<Q> {}

/// More has been given away than there is, because capacity was lowered. No slot was taken back: policy
/// decides that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shortfall<Q = Rate> {
    /// The first instant with a shortfall, from now on.
    pub first: Time,
    /// The largest missing amount at any instant.
    pub worst: Q,
}
