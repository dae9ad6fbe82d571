//! The layouts shared with `bpf/sessions.h`, and how sessions become them and come back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use terms::{FlowKey, IfIndex, Rate};

/// Places of a row.
pub const WAYS: usize = 4;
/// Interfaces with a higher number have no fast path.
pub const MOST_INTERFACES: u32 = 4096;
/// A tick is 2^26 ns, 67 ms.
pub const TICK: u32 = 26;
const TICKS: u64 = 0x3ff_ffff;
pub(super) const STATUS: u64 = 3;
pub(super) const LIVE: u64 = 2;
pub(super) const THEIRS: u64 = 3;
/// How often the place was freed.
pub(super) const LIFE: u64 = 0x3c;
const IPV6: u64 = 1 << 23;
/// The interface in the second half of a key.
pub(super) const OUT: u64 = IPV6 - 1;

/// `struct place`.
#[repr(C)]
#[derive(Debug)]
pub struct SessionCell {
    /// Half of the key.
    pub who: AtomicU64,
    /// The other half.
    pub place: AtomicU64,
    /// Rate, expiry, life, status.
    pub state: AtomicU64,
    /// Transaction and the rate before it.
    pub undo: AtomicU64,
}

/// `struct row`.
#[repr(C)]
#[derive(Debug)]
pub struct TableRow {
    /// Its places.
    pub at: [SessionCell; WAYS],
}

/// `struct wide`: the addresses of an IPv6 session.
#[repr(C)]
#[derive(Debug)]
pub struct Wide {
    /// Source and destination as they lie in a packet.
    pub word: [AtomicU64; 4],
}

/// `struct interface`.
#[repr(C)]
#[derive(Debug)]
pub struct InterfaceCell {
    /// Of the grant, bit/s.
    pub free: AtomicU64,
    /// What the ledger could still add to it, bit/s.
    pub room: AtomicU64,
    /// See [`flag`].
    pub flags: AtomicU32,
    /// Class of admitted sessions.
    pub priority: AtomicU32,
    zero: [u64; 5],
}

/// Flags of an interface.
pub mod flag {
    /// A grant was given for what leaves here.
    pub const ADMITS: u32 = 1;
    /// The device takes redirected frames.
    pub const REDIRECTS: u32 = 2;
    /// Messages that come in here are ours.
    pub const LISTENS: u32 = 4;
    /// A reply may reserve here though no request passed.
    pub const ANY_REPLIES: u32 = 8;
}

/// `struct settings`.
#[repr(C)]
#[derive(Debug)]
pub struct Settings {
    /// Of the hash.
    pub seed: [AtomicU64; 2],
    /// Boot clock less monotonic clock, ns.
    pub offset: AtomicU64,
    /// Rows less one.
    pub mask: AtomicU64,
    /// The longest refresh interval, s.
    pub most_refresh: AtomicU32,
    /// A session's token bucket holds what its rate brings in this time, ns,
    pub burst_ns: AtomicU32,
    /// and at least this, bytes.
    pub burst_least: AtomicU32,
    /// A shorter packet counts as this long, bytes.
    pub min_unit: AtomicU32,
    /// Messages a second that are taken of one source.
    pub per_source: AtomicU32,
    zero: u32,
    /// Until when somebody reads the ring, ns of the boot clock; 0: always.
    pub read_until: AtomicU64,
    nothing: [u32; 2],
}

/// The state word of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellState(pub u64);

impl CellState {
    /// Whether a session is here.
    pub fn is_live(self) -> bool {
        self.0 & STATUS == LIVE
    }

    /// Its rate.
    pub fn rate(self) -> Rate {
        Rate::from_bps(self.0 >> 32)
    }

    /// Whether it has not been refreshed for its life at this tick. Ticks go round: what expired more than 26 days ago
    /// looks as if it had not.
    pub fn is_over(self, tick: u64) -> bool {
        let age = tick.wrapping_sub(self.0 >> 6) & TICKS;
        age <= TICKS / 2
    }

    /// Ticks until it expires.
    pub fn left(self, tick: u64) -> u64 {
        let left = (self.0 >> 6).wrapping_sub(tick) & TICKS;
        if left > TICKS / 2 { 0 } else { left }
    }

    /// The place freed once more.
    pub fn freed(self) -> CellState {
        CellState((self.0 & LIFE).wrapping_add(4) & LIFE)
    }
}

/// A session as the table holds it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KernelSession {
    /// Where it leaves.
    pub oif: IfIndex,
    /// Whose packets.
    pub flow: FlowKey,
    /// What it has of the grant.
    pub rate: Rate,
    /// Ticks until it expires.
    pub left: u64,
    /// The transaction that last spoke of it.
    pub transaction: u32,
    /// What it had before that.
    pub before: Rate,
    /// Number of its place in the table.
    pub place: u32,
    /// By which its meter is known to be its own.
    pub tag: u32,
}

/// Reads place `index` of the table, `way` of this row; `None` if nothing is there, or it changes just now.
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

/// Whose packets a place is about, and where they leave.
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

/// As [`key`] reads them.
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

/// The second half of a key.
pub(super) fn place(oif: IfIndex, flow: &FlowKey) -> u64 {
    let ports = u64::from(flow.src_port) << 48 | u64::from(flow.dst_port) << 32;
    let family = if flow.src.is_ipv4() && flow.dst.is_ipv4() { 0 } else { IPV6 };
    ports | u64::from(flow.protocol) << 24 | family | u64::from(oif.0) & OUT
}

/// As `tag_of` in `bpf/sessions.h`.
fn tag(mixed: u64, state: u64) -> u32 {
    (((mixed ^ mixed >> 32) << 4 | (state >> 2 & 15)) as u32) ^ 0x8000_0000
}

/// The interface in the second half of a key.
pub fn oif(place: u64) -> IfIndex {
    IfIndex((place & OUT) as u32)
}

/// As `struct classifier4` holds it, read as a little-endian word.
fn v4(word: u64) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from((word as u32).to_le_bytes()))
}

fn v6(first: u64, second: u64) -> IpAddr {
    let octets = u128::from(first) | u128::from(second) << 64;
    IpAddr::V6(Ipv6Addr::from(octets.to_le_bytes()))
}
