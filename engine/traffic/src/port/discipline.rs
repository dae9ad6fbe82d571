//! The scheduler of a port, and its reading of the plan's classes.

use crate::plan::{ClassSpec, LinkSpec};
use crate::scheduler::hfsc::{Curves, Hfsc};
use crate::scheduler::htb::{Htb, HtbSpec};
use crate::scheduler::priority::Priority;
use crate::scheduler::{Misplaced, Scheduler, SchedulerClass};
use terms::{Bytes, ServiceCurve, Time};

/// The schedulers that a port can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerKind {
    /// Guarantees, shares and limits by service curves.
    Hfsc,
    /// A hierarchical token bucket like the kernel's HTB.
    Htb,
    /// Strict `priority`: guarantees hold only for traffic that is policed at the entrance.
    Priority,
}

/// A scheduler at work.
#[derive(Clone, Debug)]
pub(super) enum Discipline {
    Hfsc(Hfsc),
    Htb(Htb),
    Priority(Priority),
}

impl Discipline {
    pub(super) fn new(kind: SchedulerKind, now: Time, link: &LinkSpec) -> Discipline {
        match kind {
            SchedulerKind::Hfsc => Discipline::Hfsc(Hfsc::new()),
            SchedulerKind::Htb => Discipline::Htb(Htb::new(link.rate, packet(link), now)),
            SchedulerKind::Priority => Discipline::Priority(Priority::new()),
        }
    }

    pub(super) fn add(&mut self, now: Time, link: &LinkSpec, spec: &ClassSpec) -> Result<SchedulerClass, Misplaced> {
        match self {
            Discipline::Hfsc(s) => s.add(now, SchedulerClass::ROOT, curves(spec)),
            Discipline::Htb(s) => Ok(s.add(now, HtbSpec::of(spec, link))),
            Discipline::Priority(s) => Ok(s.add(spec.priority)),
        }
    }

    pub(super) fn change(
        &mut self,
        now: Time,
        link: &LinkSpec,
        node: SchedulerClass,
        spec: &ClassSpec,
    ) -> Result<(), Misplaced> {
        match self {
            Discipline::Hfsc(s) => s.change(now, node, curves(spec)),
            Discipline::Htb(s) => s.change(now, node, HtbSpec::of(spec, link)),
            Discipline::Priority(s) => s.change(node, spec.priority),
        }
    }

    pub(super) fn change_link(&mut self, now: Time, link: &LinkSpec) {
        if let Discipline::Htb(s) = self {
            s.change_link(now, link.rate, packet(link));
        }
    }

    pub(super) fn remove(&mut self, node: SchedulerClass) -> Result<(), Misplaced> {
        match self {
            Discipline::Hfsc(s) => s.remove(node),
            Discipline::Htb(s) => s.remove(node),
            Discipline::Priority(s) => s.remove(node),
        }
    }
}

impl Scheduler for Discipline {
    fn backlogged(&mut self, now: Time, leaf: SchedulerClass, head: u32) {
        match self {
            Discipline::Hfsc(s) => s.backlogged(now, leaf, head),
            Discipline::Htb(s) => s.backlogged(now, leaf, head),
            Discipline::Priority(s) => s.backlogged(now, leaf, head),
        }
    }

    fn choose(&mut self, now: Time) -> Option<SchedulerClass> {
        match self {
            Discipline::Hfsc(s) => s.choose(now),
            Discipline::Htb(s) => s.choose(now),
            Discipline::Priority(s) => s.choose(now),
        }
    }

    fn served(&mut self, now: Time, leaf: SchedulerClass, len: u32, next: Option<u32>) {
        match self {
            Discipline::Hfsc(s) => s.served(now, leaf, len, next),
            Discipline::Htb(s) => s.served(now, leaf, len, next),
            Discipline::Priority(s) => s.served(now, leaf, len, next),
        }
    }

    fn purged(&mut self, now: Time, leaf: SchedulerClass) {
        match self {
            Discipline::Hfsc(s) => s.purged(now, leaf),
            Discipline::Htb(s) => s.purged(now, leaf),
            Discipline::Priority(s) => s.purged(now, leaf),
        }
    }

    fn wake_at(&self) -> Option<Time> {
        match self {
            Discipline::Hfsc(s) => s.wake_at(),
            Discipline::Htb(s) => s.wake_at(),
            Discipline::Priority(s) => s.wake_at(),
        }
    }
}

fn curves(spec: &ClassSpec) -> Curves {
    Curves {
        real_time: spec.real_time,
        link_share: Some(ServiceCurve::linear(spec.link_share)),
        upper_limit: spec.upper_limit.map(ServiceCurve::linear),
    }
}

/// The largest packet on the wire.
fn packet(link: &LinkSpec) -> Bytes {
    Bytes::new(u64::from(link.mtu) + u64::from(link.overhead))
}
