//! Traffic control: handles, counters, [`qdisc`]s, [`class`]es and [`filter`]s (`linux/pkt_sched.h`, `linux/gen_stats.h`).

pub mod class;
pub mod filter;
pub mod qdisc;

use super::message::{Attributes, u32_at, u64_at};
use terms::IfIndex;

/// The name of a qdisc (`major:0`) or class (`major:minor`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcHandle(pub u32);

impl TcHandle {
    /// None: the kernel's own default qdiscs have it.
    pub const NONE: TcHandle = TcHandle(0);
    /// As a parent: the root of the interface.
    pub const ROOT: TcHandle = TcHandle(u32::MAX);
    /// As a parent: the place of clsact.
    pub const CLSACT: TcHandle = TcHandle(0xffff_fff1);

    /// As a filter's parent: clsact, packets that leave.
    pub const EGRESS: TcHandle = TcHandle(0xffff_fff3);
    /// As a filter's parent: clsact, packets that come.
    pub const INGRESS: TcHandle = TcHandle(0xffff_fff2);

    /// `major:minor`.
    pub const fn new(major: u16, minor: u16) -> TcHandle {
        TcHandle((major as u32) << 16 | minor as u32)
    }

    /// The qdisc's half.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The class's half.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
}

impl std::fmt::Debug for TcHandle {
    /// As `tc` writes it: `5c1c:2`, both halves hexadecimal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            TcHandle::ROOT => f.write_str("root"),
            handle if handle.minor() == 0 => write!(f, "{:x}:", handle.major()),
            handle => write!(f, "{:x}:{:x}", handle.major(), handle.minor()),
        }
    }
}

/// What a qdisc or class has counted; bytes are as the kernel counts them (link header included).
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

/// Attributes of both kinds of message.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
/// Without it the kernel tells everybody but the one who asked for a single qdisc or class.
const ECHO: u16 = libc::NLM_F_ECHO as u16;
/// Length of `struct tcmsg`.
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
