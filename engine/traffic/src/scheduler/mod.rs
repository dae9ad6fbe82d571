//! Schedulers: the choice of the class that sends next.
//!
//! A scheduler holds no packets. It is told when a class's queue stops being empty, chooses a class, and is
//! told the length of the sent packet and of the next one; the queues are the packet path's. Three calls, always in
//! this order:
//!
//! 1. [`Scheduler::backlogged`] when a packet came to an empty queue;
//! 2. [`Scheduler::choose`] when the link is free;
//! 3. [`Scheduler::served`] at once after a choice, with the length of the packet that goes and of the next one.
//!
//! Lengths are bytes on the wire. Time must not run backwards; [`crate::path`] ensures that. Only the
//! addition of a class allocates.

pub mod drr;
pub mod heap;
pub mod hfsc;
pub mod htb;
pub mod priority;
pub mod wf2q;

use terms::Time;

/// The schedulers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum SchedulerKind {
    /// A hierarchical token bucket like the kernel's HTB, with one level of classes.
    #[default]
    Htb,
    /// Guarantees, shares and limits by service curves. Only at a root: its real-time criterion must see the link.
    Hfsc,
    /// WF2Q+: shares in proportion to rates.
    Wf2q,
    /// Deficit round robin: bytes a turn.
    Drr,
    /// Strict priority: guarantees hold only for traffic that is policed at the entrance.
    Priority,
}

impl SchedulerKind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            SchedulerKind::Htb => "htb",
            SchedulerKind::Hfsc => "hfsc",
            SchedulerKind::Wf2q => "wf2q",
            SchedulerKind::Drr => "drr",
            SchedulerKind::Priority => "priority",
        }
    }
}

/// A class in a scheduler. Numbers of removed classes are given out again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SchedulerClass(pub u32);

impl SchedulerClass {
    /// The root: the link. Every scheduler has it from the start.
    pub const ROOT: SchedulerClass = SchedulerClass(0);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A call that the scheduler cannot carry out; it is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misplaced {
    /// No class has this number.
    Unknown(SchedulerClass),
    /// The class has children, so it can neither be removed nor hold packets.
    HasChildren(SchedulerClass),
    /// A class with packets cannot become a parent.
    Backlogged(SchedulerClass),
    /// Children need a parent that shares in its own parent's bandwidth (a link-sharing curve).
    NoLinkShare(SchedulerClass),
    /// The tree would be deeper than this.
    TooDeep(u32),
}

impl core::fmt::Display for Misplaced {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Misplaced::Unknown(node) => write!(f, "no class {}", node.0),
            Misplaced::HasChildren(node) => write!(f, "class {} has children", node.0),
            Misplaced::Backlogged(node) => write!(f, "class {} holds packets", node.0),
            Misplaced::NoLinkShare(node) => write!(f, "class {} has no link-sharing curve for children", node.0),
            Misplaced::TooDeep(limit) => write!(f, "more than {limit} levels of classes"),
        }
    }
}

impl core::error::Error for Misplaced {}

/// The interface of every scheduler.
pub trait Scheduler {
    /// The queue of `leaf` was empty and now has a packet of `head` bytes at its head.
    fn backlogged(&mut self, now: Time, leaf: SchedulerClass, head: u32);

    /// The class that sends now; `None` if no class may send or has a packet. A choice must be followed by
    /// [`Scheduler::served`].
    fn choose(&mut self, now: Time) -> Option<SchedulerClass>;

    /// The chosen `leaf` sent `len` bytes; its next packet has `next` bytes, or its queue is empty.
    fn served(&mut self, now: Time, leaf: SchedulerClass, len: u32, next: Option<u32>);

    /// The queue of `leaf` was emptied without being served (its class is removed).
    fn purged(&mut self, now: Time, leaf: SchedulerClass);

    /// The time at which [`Scheduler::choose`] can succeed after it said `None`; `None`: not before a packet
    /// comes. A time in the past means at once.
    fn wake_at(&self) -> Option<Time>;
}
