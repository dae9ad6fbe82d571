//! Errors by their origin: `Malformed` (the peer's bytes), `Refused` (we said no), `Fault` (the world broke),
//! `Misuse` (the caller). Our own faults are panics, and no byte from outside reaches one.

use crate::{IfIndex, Rate, Time, Unit};

/// Bytes that break their format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Malformed {
    /// The mistake.
    pub what: &'static str,
    /// Its place, in bytes from the start of the input.
    pub offset: usize,
}

/// We said no. The state is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refused {
    /// More was asked than is free at some instant.
    Capacity {
        /// The interface that lacks capacity.
        interface: IfIndex,
        /// The rate that was asked, overhead included.
        asked: Rate,
        /// The rate that is free over the whole of the window.
        free: Rate,
    },
    /// The interface's plane cannot keep a delay bound, so guaranteed service is not offered there.
    NoDelayBound {
        /// The interface without a delay bound.
        interface: IfIndex,
    },
    /// The flow's packets may be larger than the interface's MTU.
    Mtu {
        /// The interface with the smaller MTU.
        interface: IfIndex,
        /// The flow's maximum packet size.
        asked: u32,
        /// The interface's MTU, bytes.
        mtu: u32,
    },
    /// A table is full.
    Limit {
        /// The name of the table.
        what: &'static str,
        /// The table's size, in entries.
        limit: usize,
    },
    /// Policy refused it.
    Policy,
    /// No such interface, or it takes no reservations.
    NotReservable {
        /// The interface that was asked for.
        interface: IfIndex,
    },
    /// The request makes no sense (a rate of zero, a window that is over).
    Meaningless(Misuse),
}

/// The world broke under us; `code` is the kernel's errno where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// The operation that failed.
    pub what: &'static str,
    /// errno, or 0.
    pub code: i32,
}

/// The caller's request makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Misuse {
    /// A window whose end is not after its start.
    EmptyWindow {
        /// Its start.
        start: Time,
        /// Its end.
        end: Time,
    },
    /// A window or a deadline that is over already.
    Past {
        /// Its end.
        end: Time,
        /// The present time.
        now: Time,
    },
    /// A rate of zero where something must be reserved.
    ZeroRate,
    /// A handle that is not (or no longer) known.
    UnknownHandle,
    /// A step that the state does not allow.
    WrongState,
    /// Two amounts whose units differ.
    OtherUnit {
        /// The unit that belongs there.
        wanted: Unit,
        /// The unit that came.
        found: Unit,
    },
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Refused::Capacity { interface, asked, free } => {
                write!(f, "interface {}: asked {asked}, free {free}", interface.0)
            }
            Refused::NoDelayBound { interface } => {
                write!(f, "interface {}: keeps no delay bound, guaranteed service is not offered", interface.0)
            }
            Refused::Mtu { interface, asked, mtu } => {
                write!(f, "interface {}: packets up to {asked} bytes exceed the MTU {mtu}", interface.0)
            }
            Refused::Limit { what, limit } => write!(f, "{what}: the limit of {limit} is reached"),
            Refused::Policy => f.write_str("refused by policy"),
            Refused::NotReservable { interface } => write!(f, "interface {}: takes no reservations", interface.0),
            Refused::Meaningless(misuse) => misuse.fmt(f),
        }
    }
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.code == 0 { f.write_str(self.what) } else { write!(f, "{} (errno {})", self.what, self.code) }
    }
}

impl core::fmt::Display for Misuse {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Misuse::EmptyWindow { start, end } => write!(f, "the window {start:?}..{end:?} is empty"),
            Misuse::Past { end, now } => write!(f, "it is {now:?}, and {end:?} has passed"),
            Misuse::ZeroRate => f.write_str("a rate of zero reserves nothing"),
            Misuse::UnknownHandle => f.write_str("no such handle"),
            Misuse::WrongState => f.write_str("not possible in this state"),
            Misuse::OtherUnit { wanted, found } => write!(f, "{} where {} belong", found.name(), wanted.name()),
        }
    }
}

impl core::error::Error for Malformed {}
impl core::error::Error for Refused {}
impl core::error::Error for Fault {}
impl core::error::Error for Misuse {}
