//! Schedulers: which class sends next.
//!
//! A scheduler holds no packets. It is told when a class's queue stops being empty, chooses a class, and is told what
//! was sent and what is now at the head of that queue; the queues are the port's. Three calls, always in this
//! rhythm:
//!
//! 1. [`Scheduler::backlogged`] when a packet came to an empty queue;
//! 2. [`Scheduler::choose`] when the link is free;
//! 3. [`Scheduler::served`] at once after a choice, with the length of the packet that goes and of the next one.
//!
//! Lengths are bytes on the wire. Time must not run backwards; [`crate::port`] sees to that. Nothing here allocates
//! but adding a class.

pub mod drr;
pub mod heap;
pub mod hfsc;
pub mod htb;
pub mod priority;
pub mod wf2q;

use terms::Time;

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

/// What the caller asked for means nothing to the scheduler; nothing has changed.
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

/// What every scheduler does.
pub trait Scheduler {
    /// The queue of `leaf` was empty and now has a packet of `head` bytes at its head.
    fn backlogged(&mut self, now: Time, leaf: SchedulerClass, head: u32);

    /// Who sends now; `None`: nobody may, or nobody has anything. A choice must be followed by
    /// [`Scheduler::served`].
    fn choose(&mut self, now: Time) -> Option<SchedulerClass>;

    /// The chosen `leaf` sent `len` bytes; its next packet has `next` bytes, or its queue is empty.
    fn served(&mut self, now: Time, leaf: SchedulerClass, len: u32, next: Option<u32>);

    /// The queue of `leaf` was emptied without being served (its class goes).
    fn purged(&mut self, now: Time, leaf: SchedulerClass);

    /// When [`Scheduler::choose`] can succeed after it said `None`; `None`: not before a packet comes. A time that is
    /// past means at once.
    fn wake_at(&self) -> Option<Time>;
}
