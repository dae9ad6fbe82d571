//! Inner nodes: schedulers of schedulers, as in hierarchical packet fair queueing (Bennett and Zhang 1997, section 4).
//!
//! A node whose parent uses lengths has *committed* the packet that it sends next; later packets, even of a higher
//! priority, wait for that one packet. Below strict priority no packet is committed, so priorities hold exactly.

use super::spec::{Sharing, TreeShare};
use crate::scheduler::drr::Drr;
use crate::scheduler::hfsc::Hfsc;
use crate::scheduler::priority::Priority;
use crate::scheduler::wf2q::Wf2q;
use crate::scheduler::{Misplaced, Scheduler, SchedulerClass};
use alloc::vec::Vec;
use terms::{Rate, Time};

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
    /// Its index in [`super::TreeSpec::nodes`]; the root has none.
    pub(super) node: Option<usize>,
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
    pub(super) fn new(sharing: Sharing, rate: Rate, node: Option<usize>, parent: u32, class: SchedulerClass) -> Inner {
        let server = Server::new(sharing, rate);
        Inner { server, node, parent, class, children: Vec::new(), backlog: 0, head: None }
    }

    /// Adds a class for a child; `None` if the share is not of the scheduler's kind.
    pub(super) fn adopt(&mut self, now: Time, share: TreeShare, child: Child) -> Option<SchedulerClass> {
        let class = self.server.add(now, share)?;
        self.children.resize(self.children.len().max(class.index() + 1), None);
        self.children[class.index()] = Some(child);
        Some(class)
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
}

impl Server {
    fn new(sharing: Sharing, rate: Rate) -> Server {
        match sharing {
            Sharing::Priority => Server::Priority(Priority::new()),
            Sharing::Wf2q => Server::Wf2q(Wf2q::new(rate)),
            Sharing::Drr => Server::Drr(Drr::new()),
            Sharing::Hfsc => Server::Hfsc(Hfsc::new()),
        }
    }

    fn add(&mut self, now: Time, share: TreeShare) -> Option<SchedulerClass> {
        match (self, share) {
            (Server::Priority(s), TreeShare::Priority(priority)) => Some(s.add(priority)),
            (Server::Wf2q(s), TreeShare::Rate(rate)) => Some(s.add(rate)),
            (Server::Drr(s), TreeShare::Quantum(quantum)) => Some(s.add(quantum)),
            (Server::Hfsc(s), TreeShare::Curves(curves)) => s.add(now, SchedulerClass::ROOT, curves).ok(),
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
            _ => Err(Misplaced::Unknown(class)),
        }
    }

    /// Changes the rate that is shared.
    pub(super) fn change_rate(&mut self, rate: Rate) {
        if let Server::Wf2q(s) = self {
            s.change_link(rate);
        }
    }

    /// True if it must know the length of each child's next packet.
    pub(super) fn looks_at_lengths(&self) -> bool {
        !matches!(self, Server::Priority(_))
    }

    fn as_scheduler(&mut self) -> &mut dyn Scheduler {
        match self {
            Server::Priority(s) => s,
            Server::Wf2q(s) => s,
            Server::Drr(s) => s,
            Server::Hfsc(s) => s,
        }
    }
}

impl Scheduler for Server {
    fn backlogged(&mut self, now: Time, leaf: SchedulerClass, head: u32) {
        self.as_scheduler().backlogged(now, leaf, head);
    }

    fn choose(&mut self, now: Time) -> Option<SchedulerClass> {
        self.as_scheduler().choose(now)
    }

    fn served(&mut self, now: Time, leaf: SchedulerClass, len: u32, next: Option<u32>) {
        self.as_scheduler().served(now, leaf, len, next);
    }

    fn purged(&mut self, now: Time, leaf: SchedulerClass) {
        self.as_scheduler().purged(now, leaf);
    }

    fn wake_at(&self) -> Option<Time> {
        match self {
            Server::Priority(s) => s.wake_at(),
            Server::Wf2q(s) => s.wake_at(),
            Server::Drr(s) => s.wake_at(),
            Server::Hfsc(s) => s.wake_at(),
        }
    }
}
