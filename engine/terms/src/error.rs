//! The world's faults, each named for the guilty: `Malformed` (the peer's bytes), `Refused` (we said no),
//! `Fault` (the world broke), `Misuse` (the caller). Our own faults are panics, and no byte from outside reaches one.

use crate::{IfIndex, Rate, Time};

/// Bytes that are not what their format says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Malformed {
    /// What is wrong.
    pub what: &'static str,
    /// Where, in bytes from the start of what was being read.
    pub offset: usize,
}

/// We said no. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refused {
    /// More was asked than is free at some instant.
    Capacity {
        /// Where.
        interface: IfIndex,
        /// What was asked, overhead included.
        asked: Rate,
        /// What is free over the whole of what was asked for.
        free: Rate,
    },
    /// The interface's plane cannot keep a delay bound, so guaranteed service is not offered there.
    NoDelayBound {
        /// Where.
        interface: IfIndex,
    },
    /// The flow's packets may be larger than the interface's MTU.
    Mtu {
        /// Where.
        interface: IfIndex,
        /// The flow's maximum packet size.
        asked: u32,
        /// The interface's.
        mtu: u32,
    },
    /// A table is full.
    Limit {
        /// Which table.
        what: &'static str,
        /// Its size.
        limit: usize,
    },
    /// Policy says no.
    Policy,
    /// No such interface, or it takes no reservations.
    NotReservable {
        /// Where.
        interface: IfIndex,
    },
    /// What was asked means nothing (a rate of zero, a window that is over).
    Meaningless(Misuse),
}

/// The world broke under us; `code` is the kernel's errno where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// What could not be done.
    pub what: &'static str,
    /// errno, or 0.
    pub code: i32,
}

/// The caller asked for something that means nothing.
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
        /// The time it is.
        now: Time,
    },
    /// A rate of zero where something must be reserved.
    ZeroRate,
    /// A handle that is not (or no longer) known.
    UnknownHandle,
    /// A step that the thing's state does not allow.
    WrongState,
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
        }
    }
}

impl core::error::Error for Malformed {}
impl core::error::Error for Refused {}
impl core::error::Error for Fault {}
impl core::error::Error for Misuse {}
