//! The layouts shared with `bpf/sessions.h`, and the conversion of sessions to and from them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use terms::{FlowKey, IfIndex, Rate};

/// Places in a row.
pub const WAYS: usize = 4;
/// Interfaces with a higher number have no fast path.
pub const MOST_INTERFACES: u32 = 4096;
/// A tick is 2^26 ns, 67 ms.
pub const TICK: u32 = 26;
const TICKS: u64 = 0x3ff_ffff;
pub(super) const STATUS: u64 = 3;
pub(super) const LIVE: u64 = 2;
pub(super) const THEIRS: u64 = 3;
/// The bits of the state word that count how often the place was freed.
pub(super) const LIFE: u64 = 0x3c;
const IPV6: u64 = 1 << 23;
/// The bits of a key's second word that hold the interface.
pub(super) const OUT: u64 = IPV6 - 1;

/// `struct place`.
#[repr(C)]
#[derive(Debug)]
pub struct SessionCell {
    /// First word of the key: the addresses, or their hash.
    pub who: AtomicU64,
    /// Second word of the key: ports, protocol, family and interface.
    pub place: AtomicU64,
    /// Rate, expiry, count of frees, status.
    pub state: AtomicU64,
    /// The last transaction and the rate before it.
    pub undo: AtomicU64,
}

/// `struct row`.
#[repr(C)]
#[derive(Debug)]
pub struct TableRow {
    /// The places of the row.
    pub at: [SessionCell; WAYS],
}

/// `struct wide`: the addresses of an IPv6 session.
#[repr(C)]
#[derive(Debug)]
pub struct Wide {
    /// Source and destination, in the byte order of a packet.
    pub word: [AtomicU64; 4],
}

/// `struct interface`.
#[repr(C)]
#[derive(Debug)]
pub struct InterfaceCell {
    /// The free rate of the grant, bit/s.
    pub free: AtomicU64,
    /// The rate that the ledger could still add to the grant, bit/s.
    pub room: AtomicU64,
    /// Flags; see [`flag`].
    pub flags: AtomicU32,
    /// The class of admitted sessions.
    pub priority: AtomicU32,
    zero: [u64; 5],
}

/// Flags of an interface.
pub mod flag {
    /// The interface has a grant for sessions that leave by it.
    pub const ADMITS: u32 = 1;
    /// The device accepts redirected frames.
    pub const REDIRECTS: u32 = 2;
    /// The program handles messages that come in by this interface.
    pub const LISTENS: u32 = 4;
    /// A reply may reserve here even though no request passed.
    pub const ANY_REPLIES: u32 = 8;
}

/// `struct settings`.
#[repr(C)]
#[derive(Debug)]
pub struct Settings {
    /// The seeds of the hash.
    pub seed: [AtomicU64; 2],
    /// Boot clock less monotonic clock, ns.
    pub offset: AtomicU64,
    /// The number of rows minus one.
    pub mask: AtomicU64,
    /// The longest refresh interval, s.
    pub most_refresh: AtomicU32,
    /// The depth of a session's token bucket, as time at the session's rate, ns,
    pub burst_ns: AtomicU32,
    /// and its least depth, bytes.
    pub burst_least: AtomicU32,
    /// The least size that a packet is charged with, bytes.
    pub min_unit: AtomicU32,
    /// The most messages per second from one source.
    pub per_source: AtomicU32,
    zero: u32,
    /// The time until which a process reads the ring, ns of the boot clock; 0: always.
    pub read_until: AtomicU64,
    nothing: [u32; 2],
}

/// The state word of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellState(pub u64);

impl CellState {
    /// True if the place holds a session.
    pub fn is_live(self) -> bool {
        self.0 & STATUS == LIVE
    }

    /// The session's rate.
    pub fn rate(self) -> Rate {
        Rate::from_bps(self.0 >> 32)
    }

    /// True if the session had expired by this tick. Ticks wrap round: a session that expired more than 26
    /// days ago seems alive.
    pub fn is_over(self, tick: u64) -> bool {
        let age = tick.wrapping_sub(self.0 >> 6) & TICKS;
        age <= TICKS / 2
    }

    /// Ticks until it expires.
    pub fn left(self, tick: u64) -> u64 {
        let left = (self.0 >> 6).wrapping_sub(tick) & TICKS;
        if left > TICKS / 2 { 0 } else { left }
    }

    /// The state of the place after it is freed once more.
    pub fn freed(self) -> CellState {
        CellState((self.0 & LIFE).wrapping_add(4) & LIFE)
    }
}

/// A session as the table holds it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KernelSession {
    /// The interface by which the session's packets leave.
    pub oif: IfIndex,
    /// The flow of the session.
    pub flow: FlowKey,
    /// The session's part of the grant.
    pub rate: Rate,
    /// Ticks until it expires.
    pub left: u64,
    /// The last transaction that changed it.
    pub transaction: u32,
    /// The rate before that transaction.
    pub before: Rate,
    /// The number of its place in the table.
    pub place: u32,
    /// The tag that identifies the session's meter.
    pub tag: u32,
}

/// Reads place `index` of the table, which is in this row; `None` if it is free or changing at this moment.
pub fn session(row: &TableRow, index: usize, wide: Option<&Wide>, tick: u64) -> Option<KernelSession> {
    let way = index % WAYS;
    let at = &row.at[way];
    let before = CellState(at.state.load(Ordering::Acquire));
    if !before.is_live() {
        return None;
    }
    let (oif, flow) = key(at, wide);
    let mixed = at.who.load(Ordering::Acquire) ^ at.place.load(Ordering::Acquire);
    let undo = at.undo.load(Ordering::Acquire);
    let state = CellState(at.state.load(Ordering::Acquire));
    if !state.is_live() || state.0 & LIFE != before.0 & LIFE {
        return None;
    }
    Some(KernelSession {
        oif,
        flow,
        rate: state.rate(),
        left: state.left(tick),
        transaction: (undo >> 32) as u32,
        before: Rate::from_bps(undo & 0xffff_ffff),
        place: index as u32,
        tag: tag(mixed, state.0),
    })
}

/// The interface and the flow in the key of a place.
pub(super) fn key(at: &SessionCell, wide: Option<&Wide>) -> (IfIndex, FlowKey) {
    let (who, place) = (at.who.load(Ordering::Acquire), at.place.load(Ordering::Acquire));
    let words = wide.map(|wide| wide.word.each_ref().map(|word| word.load(Ordering::Acquire)));
    let (src, dst) = match words.filter(|_| place & IPV6 != 0) {
        Some([a, b, c, d]) => (v6(a, b), v6(c, d)),
        None => (v4(who >> 32), v4(who)),
    };
    let (protocol, src_port, dst_port) = ((place >> 24) as u8, (place >> 48) as u16, (place >> 32) as u16);
    (oif(place), FlowKey { src, dst, protocol, src_port, dst_port, wild: terms::Wild::NONE })
}

/// The addresses of a key: both in its first word, or in words of their own.
pub(super) enum Addresses {
    Short(u64),
    Wide([u64; 4]),
}

/// Converts the addresses of a flow to words, the inverse of [`key`].
pub(super) fn addresses(flow: &FlowKey) -> Addresses {
    if let (IpAddr::V4(src), IpAddr::V4(dst)) = (flow.src, flow.dst) {
        let word = |address: Ipv4Addr| u64::from(u32::from_le_bytes(address.octets()));
        return Addresses::Short(word(src) << 32 | word(dst));
    }
    let halves = |address: IpAddr| {
        let bits = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let bits = u128::from_le_bytes(bits.octets());
        [bits as u64, (bits >> 64) as u64]
    };
    let ([a, b], [c, d]) = (halves(flow.src), halves(flow.dst));
    Addresses::Wide([a, b, c, d])
}

/// The second word of a key.
pub(super) fn place(oif: IfIndex, flow: &FlowKey) -> u64 {
    let ports = u64::from(flow.src_port) << 48 | u64::from(flow.dst_port) << 32;
    let family = if flow.src.is_ipv4() && flow.dst.is_ipv4() { 0 } else { IPV6 };
    ports | u64::from(flow.protocol) << 24 | family | u64::from(oif.0) & OUT
}

/// The same as `tag_of` in `bpf/sessions.h`.
fn tag(mixed: u64, state: u64) -> u32 {
    (((mixed ^ mixed >> 32) << 4 | (state >> 2 & 15)) as u32) ^ 0x8000_0000
}

/// The interface in the second word of a key.
pub fn oif(place: u64) -> IfIndex {
    IfIndex((place & OUT) as u32)
}

/// An IPv4 address in the form of `struct classifier4`, read as a little-endian word.
fn v4(word: u64) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from((word as u32).to_le_bytes()))
}

fn v6(first: u64, second: u64) -> IpAddr {
    let octets = u128::from(first) | u128::from(second) << 64;
    IpAddr::V6(Ipv6Addr::from(octets.to_le_bytes()))
}
