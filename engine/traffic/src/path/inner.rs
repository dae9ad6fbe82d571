//! Inner nodes: schedulers of schedulers, as in hierarchical packet fair queueing (Bennett and Zhang 1997, section 4).
//!
//! A node whose parent uses lengths has *committed* the packet that it sends next; later packets, even of a higher
//! priority, wait for that one packet. Below strict priority no packet is committed, so priorities hold exactly.

use super::share::TreeShare;
use crate::scheduler::drr::Drr;
use crate::scheduler::hfsc::Hfsc;
use crate::scheduler::htb::Htb;
use crate::scheduler::priority::Priority;
use crate::scheduler::wf2q::Wf2q;
use crate::scheduler::{Misplaced, Scheduler, SchedulerClass, SchedulerKind};
use alloc::vec::Vec;
use terms::{Bytes, Rate, Time};

/// The index of the root among inner nodes.
pub(super) const ROOT: u32 = 0;

/// The child that a scheduler's class represents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Child {
    Inner(u32),
    Leaf(u32),
}

/// An inner node.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) server: Server,
    /// The index of its parent, and its own class there; the root is its own parent.
    pub(super) parent: u32,
    pub(super) class: SchedulerClass,
    /// The children, by class of the scheduler.
    children: Vec<Option<Child>>,
    /// The number of children with packets to send.
    pub(super) backlog: u32,
    /// The class that sends next and its packet's length on the wire, if that is settled.
    pub(super) head: Option<(SchedulerClass, u32)>,
}

impl Inner {
    pub(super) fn new(server: Server, parent: u32, class: SchedulerClass) -> Inner {
        Inner { server, parent, class, children: Vec::new(), backlog: 0, head: None }
    }

    /// Adds a class for a child; `None` if the share is not of the scheduler's kind.
    pub(super) fn adopt(&mut self, now: Time, share: TreeShare, child: Child) -> Option<SchedulerClass> {
        let class = self.server.add(now, share)?;
        self.children.resize(self.children.len().max(class.index() + 1), None);
        self.children[class.index()] = Some(child);
        Some(class)
    }

    /// Removes a class and its child; the class must be without packets.
    pub(super) fn remove(&mut self, class: SchedulerClass) -> Result<(), Misplaced> {
        self.server.remove(class)?;
        self.children[class.index()] = None;
        Ok(())
    }

    /// The child that a class represents.
    pub(super) fn child(&self, class: SchedulerClass) -> Option<Child> {
        self.children.get(class.index()).copied().flatten()
    }
}

/// A scheduler at work.
#[derive(Clone, Debug)]
pub(super) enum Server {
    Priority(Priority),
    Wf2q(Wf2q),
    Drr(Drr),
    Hfsc(Hfsc),
    Htb(Htb),
}

/// Calls the scheduler that is at work.
macro_rules! each {
    ($server:expr, $s:ident => $call:expr) => {
        match $server {
            Server::Priority($s) => $call,
            Server::Wf2q($s) => $call,
            Server::Drr($s) => $call,
            Server::Hfsc($s) => $call,
            Server::Htb($s) => $call,
        }
    };
}

impl Server {
    /// A scheduler of a bandwidth of `rate`, whose largest packet has `packet` bytes on the wire.
    pub(super) fn new(kind: SchedulerKind, rate: Rate, packet: Bytes, now: Time) -> Server {
        match kind {
            SchedulerKind::Priority => Server::Priority(Priority::new()),
            SchedulerKind::Wf2q => Server::Wf2q(Wf2q::new(rate)),
            SchedulerKind::Drr => Server::Drr(Drr::new()),
            SchedulerKind::Hfsc => Server::Hfsc(Hfsc::new()),
            SchedulerKind::Htb => Server::Htb(Htb::new(rate, packet, now)),
        }
    }

    fn add(&mut self, now: Time, share: TreeShare) -> Option<SchedulerClass> {
        match (self, share) {
            (Server::Priority(s), TreeShare::Priority(priority)) => Some(s.add(priority)),
            (Server::Wf2q(s), TreeShare::Rate(rate)) => Some(s.add(rate)),
            (Server::Drr(s), TreeShare::Quantum(quantum)) => Some(s.add(quantum)),
            (Server::Hfsc(s), TreeShare::Curves(curves)) => s.add(now, SchedulerClass::ROOT, curves).ok(),
            (Server::Htb(s), TreeShare::Buckets(spec)) => Some(s.add(now, spec)),
            _ => None,
        }
    }

    /// Changes a share; no effect if it is of another kind.
    pub(super) fn change(&mut self, now: Time, class: SchedulerClass, share: TreeShare) -> Result<(), Misplaced> {
        match (self, share) {
            (Server::Priority(s), TreeShare::Priority(priority)) => s.change(class, priority),
            (Server::Wf2q(s), TreeShare::Rate(rate)) => s.change(class, rate),
            (Server::Drr(s), TreeShare::Quantum(quantum)) => s.change(class, quantum),
            (Server::Hfsc(s), TreeShare::Curves(curves)) => s.change(now, class, curves),
            (Server::Htb(s), TreeShare::Buckets(spec)) => s.change(now, class, spec),
            _ => Err(Misplaced::Unknown(class)),
        }
    }

    fn remove(&mut self, class: SchedulerClass) -> Result<(), Misplaced> {
        each!(self, s => s.remove(class))
    }

    /// Changes the rate that is shared.
    pub(super) fn change_rate(&mut self, now: Time, rate: Rate, packet: Bytes) {
        match self {
            Server::Wf2q(s) => s.change_link(rate),
            Server::Htb(s) => s.change_link(now, rate, packet),
            Server::Priority(_) | Server::Drr(_) | Server::Hfsc(_) => {}
        }
    }

    /// True if it must know the length of each child's next packet.
    pub(super) fn looks_at_lengths(&self) -> bool {
        !matches!(self, Server::Priority(_))
    }

    /// True if it sends whenever a class holds a packet.
    pub(super) fn conserves_work(&self) -> bool {
        !matches!(self, Server::Hfsc(_) | Server::Htb(_))
    }
}

impl Scheduler for Server {
    fn backlogged(&mut self, now: Time, leaf: SchedulerClass, head: u32) {
        each!(self, s => s.backlogged(now, leaf, head));
    }

    fn choose(&mut self, now: Time) -> Option<SchedulerClass> {
        each!(self, s => s.choose(now))
    }

    fn served(&mut self, now: Time, leaf: SchedulerClass, len: u32, next: Option<u32>) {
        each!(self, s => s.served(now, leaf, len, next));
    }

    fn purged(&mut self, now: Time, leaf: SchedulerClass) {
        each!(self, s => s.purged(now, leaf));
    }

    fn wake_at(&self) -> Option<Time> {
        each!(self, s => s.wake_at())
    }
}
