//! Traffic control: handles, counters, [`qdisc`]s, [`class`]es and [`filter`]s (`linux/pkt_sched.h`, `linux/gen_stats.h`).

pub mod class;
pub mod filter;
pub mod hfsc;
pub mod qdisc;

use super::message::{Attributes, u32_at, u64_at};
use terms::IfIndex;

/// The name of a qdisc (`major:0`) or class (`major:minor`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcHandle(pub u32);

impl TcHandle {
    /// No handle: that of the kernel's default qdiscs.
    pub const NONE: TcHandle = TcHandle(0);
    /// As a parent: the root of the interface.
    pub const ROOT: TcHandle = TcHandle(u32::MAX);
    /// As a parent: the place of clsact.
    pub const CLSACT: TcHandle = TcHandle(0xffff_fff1);

    /// As a filter's parent: packets that leave, at clsact.
    pub const EGRESS: TcHandle = TcHandle(0xffff_fff3);
    /// As a filter's parent: packets that come in, at clsact.
    pub const INGRESS: TcHandle = TcHandle(0xffff_fff2);

    /// The handle `major:minor`.
    pub const fn new(major: u16, minor: u16) -> TcHandle {
        TcHandle((major as u32) << 16 | minor as u32)
    }

    /// The number of the qdisc.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The number of the class.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
}

impl std::fmt::Debug for TcHandle {
    /// The form that `tc` prints: `5c1c:2`, both halves hexadecimal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            TcHandle::ROOT => f.write_str("root"),
            handle if handle.minor() == 0 => write!(f, "{:x}:", handle.major()),
            handle => write!(f, "{:x}:{:x}", handle.major(), handle.minor()),
        }
    }
}

/// The counters of a qdisc or class; bytes are as the kernel counts them (link header included).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u32,
    /// Packets waiting.
    pub queued: u32,
    /// Bytes waiting.
    pub backlog: u32,
}

/// Attributes of messages about qdiscs and classes.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STAB: u16 = 8;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
/// Without this flag the kernel does not answer a request for a single qdisc or class to the requester
/// itself.
const ECHO: u16 = libc::NLM_F_ECHO as u16;
/// The length of `struct tcmsg`.
const HEADER: usize = 20;

fn header(oif: IfIndex, handle: TcHandle, parent: TcHandle) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[4..8].copy_from_slice(&oif.0.to_ne_bytes());
    bytes[8..12].copy_from_slice(&handle.0.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.0.to_ne_bytes());
    bytes
}

fn stats(attributes: Attributes<'_>) -> Stats {
    let nest = attributes.nest(TCA_STATS2);
    let basic = nest.get(TCA_STATS_BASIC).unwrap_or(&[]);
    let queue = nest.get(TCA_STATS_QUEUE).unwrap_or(&[]);
    let low = u64::from(u32_at(basic, 8).unwrap_or(0));
    Stats {
        bytes: u64_at(basic, 0).unwrap_or(0),
        packets: nest.u64(TCA_STATS_PKT64).unwrap_or(low),
        queued: u32_at(queue, 0).unwrap_or(0),
        backlog: u32_at(queue, 4).unwrap_or(0),
        drops: u32_at(queue, 8).unwrap_or(0),
    }
}
