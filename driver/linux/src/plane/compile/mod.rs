//! Conversion of a plan's link and classes to the kernel's disciplines, HTB and HFSC, and back.
//!
//! The kernel counts whole bytes/s. Both a link and its classes are *supply*, so both round down, and classes that
//! fit their link in bit/s never exceed it in the kernel.

mod hfsc;
mod htb;

use crate::netlink::tc::class::{ClassKind, HtbClass};
use crate::netlink::tc::qdisc::Discipline;
use terms::{Bytes, Fault, Rate};
use traffic::plan::{ClassId, ClassSpec, LinkSpec, QueueSpec};
use traffic::scheduler::SchedulerKind;

/// The kernel's form of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// The class.
    pub kind: ClassKind,
    /// Its queue; `None`: it has children.
    pub queue: Option<Discipline>,
}

/// The least rate of a class; it stands for "nothing guaranteed".
pub const NOTHING: u64 = 1;

const LIMIT_TOO_LOW: Fault = Fault { what: "a class's upper limit is below what it is guaranteed", code: 0 };

/// The root qdisc for a link; packets without a flow entry go to its default class.
///
/// # Errors
/// The kernel has no such scheduler in this form.
pub fn root(spec: &LinkSpec, header: u32) -> Result<Discipline, Fault> {
    let default = ClassId::BEST_EFFORT.0;
    match spec.scheduler {
        SchedulerKind::Htb => Ok(Discipline::Htb { default }),
        SchedulerKind::Hfsc => Ok(Discipline::Hfsc { default, overhead: overhead(spec, header) }),
        _ => Err(Fault { what: "the kernel plane runs no schedulers but htb and hfsc", code: libc::EOPNOTSUPP }),
    }
}

/// The class of a whole link, if the kernel counts packets with `header` bytes of link header.
///
/// # Errors
/// The kernel has no form for it.
pub fn link(spec: &LinkSpec, header: u32) -> Result<Compiled, Fault> {
    let rate = spec.rate.as_bps() / 8;
    if rate == 0 {
        return Err(Fault { what: "a link's rate must be at least 8 bit/s", code: 0 });
    }
    let kind = match root(spec, header)? {
        Discipline::Hfsc { .. } => ClassKind::Hfsc(hfsc::link(rate)?),
        _ => ClassKind::Htb(htb::link(spec, rate, header)),
    };
    Ok(Compiled { kind, queue: None })
}

/// A class of that link.
///
/// # Errors
/// The kernel has no form for it.
pub fn class(spec: &ClassSpec, on: &LinkSpec, header: u32) -> Result<Compiled, Fault> {
    let kind = match on.scheduler {
        SchedulerKind::Hfsc => ClassKind::Hfsc(hfsc::class(spec, on)?),
        _ => ClassKind::Htb(htb::class(spec, on, header)?),
    };
    Ok(Compiled { kind, queue: Some(queue(&spec.queue, full_packet(on))) })
}

/// The class of a link as the kernel tells it, but for what the kernel never changes of a class with children and does not
/// use: HTB's quantum and priority.
pub fn link_told(kind: ClassKind) -> ClassKind {
    match kind {
        ClassKind::Htb(class) => ClassKind::Htb(HtbClass { quantum: htb::LINK_QUANTUM, prio: 0, ..class }),
        ClassKind::Hfsc(_) => kind,
    }
}

/// The link with this class, as far as the kernel reports it; HFSC has the overhead at its root.
pub fn link_from(kind: &ClassKind, root: Option<&Discipline>, header: u32, mtu: u32) -> LinkSpec {
    let (rate, overhead, scheduler) = match (kind, root) {
        (ClassKind::Htb(htb), _) => (htb.rate, htb.overhead, SchedulerKind::Htb),
        (ClassKind::Hfsc(class), Some(Discipline::Hfsc { overhead, .. })) => {
            (hfsc::limit(class), *overhead, SchedulerKind::Hfsc)
        }
        (ClassKind::Hfsc(class), _) => (hfsc::limit(class), 0, SchedulerKind::Hfsc),
    };
    LinkSpec { rate: bits(rate), overhead: u32::from(overhead) + header, mtu, scheduler }
}

/// The class with this form on that link, as far as the kernel reports it.
pub fn class_from(seen: &Compiled, on: &LinkSpec) -> ClassSpec {
    let packet = full_packet(on);
    let spec = match &seen.kind {
        ClassKind::Htb(class) => htb::class_from(class, on),
        ClassKind::Hfsc(class) => hfsc::class_from(class, on),
    };
    let queue = match seen.queue {
        Some(Discipline::Pfifo { limit }) => QueueSpec { packets: limit, bytes: Bytes::new(u64::from(limit) * packet) },
        Some(Discipline::Bfifo { limit }) => {
            QueueSpec { packets: limit / narrow(packet).max(1) + 1, bytes: Bytes::new(u64::from(limit)) }
        }
        _ => unlimited(on),
    };
    ClassSpec { queue, ..spec }
}

/// The highest rate that a class is guaranteed at any instant, bytes/s.
pub fn guaranteed(kind: &ClassKind) -> u64 {
    match kind {
        ClassKind::Htb(htb) => htb.rate,
        ClassKind::Hfsc(hfsc) => hfsc.real_time.map_or(0, |curve| u64::from(curve.highest())),
    }
}

/// The most that a class gets, bytes/s; of the class of a link, its rate.
pub fn most(kind: &ClassKind) -> u64 {
    match kind {
        ClassKind::Htb(htb) => htb.ceil,
        ClassKind::Hfsc(class) => hfsc::limit(class),
    }
}

/// The queue of a class. The kernel has FIFOs with a limit of packets or of bytes, not both: take the one
/// that full packets reach first.
fn queue(spec: &QueueSpec, packet: u64) -> Discipline {
    if u64::from(spec.packets).saturating_mul(packet) <= spec.bytes.get() {
        Discipline::Pfifo { limit: spec.packets.max(1) }
    } else {
        Discipline::Bfifo { limit: narrow(spec.bytes.get().max(packet)) }
    }
}

/// The queue that the kernel gives a class by itself.
fn unlimited(on: &LinkSpec) -> QueueSpec {
    QueueSpec { packets: 1000, bytes: Bytes::new(1000 * full_packet(on)) }
}

/// The largest rate of a class, bytes/s.
fn ceiling(spec: &ClassSpec, on: &LinkSpec) -> u64 {
    spec.upper_limit.map_or(on.rate, |limit| limit.min(on.rate)).as_bps() / 8
}

fn full_packet(link: &LinkSpec) -> u64 {
    u64::from(link.mtu) + u64::from(link.overhead)
}

fn overhead(link: &LinkSpec, header: u32) -> u16 {
    link.overhead.saturating_sub(header).min(u32::from(u16::MAX)) as u16
}

fn bits(bytes_per_second: u64) -> Rate {
    Rate::from_bps(bytes_per_second.saturating_mul(8))
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
