//! The layouts shared with `bpf/flow.c`, and the conversion of plan entries to and from them.
//!
//! Fields that only user space reads are little-endian bytes with a version of our own, so that an agent of
//! another build knows whether it can adopt them.

use std::net::IpAddr;
use terms::{Bytes, FlowKey, IfIndex, Rate, ServiceCurve, Span, Wild};
use traffic::plan::{BucketId, BucketSpec, ClassId, ClassSpec, FlowSpecEntry, LinkSpec, OwnerRecord, QueueSpec};
use traffic::scheduler::SchedulerKind;
use traffic::shapes::Shape;

/// The major number of our root qdiscs, the same on every interface and in `flow.c`.
pub const MAJOR: u16 = 0x5c1c;
/// The time that a byte takes at 1 bit/s, ns.
const BYTE: u64 = 8_000_000_000;
/// The version of a flow's record.
const VERSION: u32 = 2;
/// The version of the records of links and classes.
const CLASS_VERSION: u8 = 1;
/// The length of a flow's record, bytes.
const FLOW_RECORD: usize = 144;
/// The length of a class's record, bytes.
pub const CLASS_RECORD: usize = 64;

/// `struct flow_key`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawKey {
    ifindex: u32,
    src: [u8; 16],
    dst: [u8; 16],
    src_port: [u8; 2],
    dst_port: [u8; 2],
    protocol: u8,
    family: u8,
    wild: [u8; 2],
}

/// `struct flow`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawFlow {
    /// The index of the bucket and counters.
    pub slot: u32,
    priority: u32,
    rate: u64,
    depth: u64,
    fill: u64,
    min_unit: u32,
    version: u32,
    record: [u8; FLOW_RECORD],
}

/// `struct state`: the state that the program writes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawState {
    lock: u32,
    zero: u32,
    /// The bucket's level, bit-nanoseconds.
    pub level: u64,
    /// The time at which that level was right, ns of the kernel's monotonic clock.
    pub last: u64,
    /// Conforming packets.
    pub packets: u64,
    /// The IP bytes of these packets.
    pub bytes: u64,
    /// Packets in excess.
    pub over_packets: u64,
    /// The IP bytes of these packets.
    pub over_bytes: u64,
}

/// `struct kinds`: the number of flows of each kind that is not a whole five-tuple.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawKinds {
    /// Flows by addresses and protocol only.
    pub without_ports: u32,
    /// Flows from any sender to a destination and port.
    pub of_any_sender: u32,
    /// Flows from any sender to a destination.
    pub of_any_sender_without_ports: u32,
    /// Flows from any port of one sender to a destination and port.
    pub of_any_source_port: u32,
}

/// `struct class_key`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawClassKey {
    /// The interface.
    pub ifindex: u32,
    /// The class.
    pub class: u32,
}

/// `struct class_record`.
pub type ClassRecord = [u8; CLASS_RECORD];

// SAFETY: `repr(C)`, no padding (4 + 16 + 16 + 2 + 2 + 1 + 1 + 2 = 44, aligned to 4), every bit pattern is a value.
unsafe impl aya::Pod for RawKey {}
// SAFETY: `repr(C)`, no padding (4 + 4 + 8 + 8 + 8 + 4 + 4 + 144 = 184, aligned to 8), every bit pattern is a value.
unsafe impl aya::Pod for RawFlow {}
// SAFETY: `repr(C)`, no padding (4 + 4 + 6 * 8 = 56, aligned to 8), every bit pattern is a value.
unsafe impl aya::Pod for RawState {}
// SAFETY: `repr(C)`, no padding (4 * 4), every bit pattern is a value.
unsafe impl aya::Pod for RawKinds {}
// SAFETY: `repr(C)`, no padding, every bit pattern is a value.
unsafe impl aya::Pod for RawClassKey {}

// The slot of a shared bucket, the depth, and the owner's record.
const _: () = assert!(1 + 8 + 8 + OwnerRecord::LEN == FLOW_RECORD);
const _: () = assert!(size_of::<RawKey>() == 44 && size_of::<RawFlow>() == 184 && size_of::<RawState>() == 56);

impl RawKey {
    /// No bits and no family: the end of the list.
    pub(super) const NOTHING: RawKey = RawKey {
        ifindex: 0,
        src: [0; 16],
        dst: [0; 16],
        src_port: [0; 2],
        dst_port: [0; 2],
        protocol: 0,
        family: 0,
        wild: [0; 2],
    };

    /// The relevant bits of keys of this shape.
    pub(super) fn keeping(shape: &Shape) -> RawKey {
        let port = |any: bool| if any { [0; 2] } else { [0xff; 2] };
        RawKey {
            ifindex: u32::MAX,
            src: leading(shape.is_ipv6, shape.src_wild),
            dst: leading(shape.is_ipv6, shape.dst_wild),
            src_port: port(shape.any_src_port),
            dst_port: port(shape.any_dst_port),
            protocol: if shape.any_protocol { 0 } else { 0xff },
            family: if shape.is_ipv6 { 6 } else { 4 },
            wild: [shape.src_wild, shape.dst_wild],
        }
    }

    /// The key of a flow that leaves by `oif`.
    pub fn new(oif: IfIndex, flow: &FlowKey) -> RawKey {
        let (family, src) = raw_ip(&flow.src);
        let (_, dst) = raw_ip(&flow.dst);
        RawKey {
            ifindex: oif.0,
            src,
            dst,
            src_port: flow.src_port.to_be_bytes(),
            dst_port: flow.dst_port.to_be_bytes(),
            protocol: flow.protocol,
            family,
            wild: [flow.wild.src, flow.wild.dst],
        }
    }

    /// The interface and the flow of this key.
    pub fn read(&self) -> (IfIndex, FlowKey) {
        let flow = FlowKey {
            src: ip(self.family, &self.src),
            dst: ip(self.family, &self.dst),
            protocol: self.protocol,
            src_port: u16::from_be_bytes(self.src_port),
            dst_port: u16::from_be_bytes(self.dst_port),
            wild: Wild { src: self.wild[0], dst: self.wild[1] },
        };
        (IfIndex(self.ifindex), flow)
    }
}

/// The mask of an address with `wild` wild bits at its end, as it is in a key.
fn leading(is_ipv6: bool, wild: u8) -> [u8; 16] {
    let ones = (if is_ipv6 { 128_u32 } else { 32 }).saturating_sub(u32::from(wild));
    u128::MAX.checked_shl(128 - ones).unwrap_or(0).to_be_bytes()
}

impl RawState {
    /// The tag of the session that owns this state, for programs that store one.
    pub fn tag(&self) -> u32 {
        self.zero
    }
    /// The state of a full bucket, with counters at zero.
    pub fn full(flow: &RawFlow) -> RawState {
        RawState { level: flow.depth, ..RawState::default() }
    }
}

/// The length of a flow's record in the first layout, bytes.
const FIRST_RECORD: usize = 128;

/// `struct flow` of the first layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FirstFlow {
    /// The fields of today's entry, up to the record.
    pub head: [u8; 40],
    /// Today's record without its first nine bytes.
    pub record: [u8; FIRST_RECORD],
}

// SAFETY: `repr(C)` of bytes alone; every bit pattern is a value.
unsafe impl aya::Pod for FirstFlow {}

impl RawFlow {
    /// An entry for a flow, with the slot of its bucket and counters.
    pub fn new(slot: u32, entry: &FlowSpecEntry) -> RawFlow {
        let depth = entry.bucket.depth.get().min(u64::MAX / BYTE) * BYTE;
        let rate = entry.bucket.rate.as_bps();
        let fill = match (depth, rate) {
            (0, _) => 0,
            (_, 0) => u64::MAX,
            _ => depth.div_ceil(rate),
        };
        let mut out = Writer { bytes: [0; FLOW_RECORD], at: 0 };
        out.put(&[u8::from(entry.shared.is_some())]);
        out.u64(entry.shared.map_or(0, |id| id.0));
        out.u64(entry.bucket.depth.get());
        out.put(&entry.record.0);
        let priority = u32::from(MAJOR) << 16 | u32::from(entry.class.0);
        let min_unit = entry.bucket.min_unit;
        RawFlow { slot, priority, rate, depth, fill, min_unit, version: VERSION, record: out.bytes }
    }

    /// The class of the flow's conforming packets.
    pub fn class(&self) -> ClassId {
        ClassId(self.priority as u16)
    }

    /// Converts an entry of the first layout; `None` if no build of that layout wrote it.
    pub(super) fn from_first(flow: &FirstFlow) -> Option<RawFlow> {
        let mut head = Reader { bytes: &flow.head };
        let mut u32 = || head.take().map(u32::from_ne_bytes);
        let (slot, priority) = (u32()?, u32()?);
        let mut u64 = || head.take().map(u64::from_ne_bytes);
        let (rate, depth, fill) = (u64()?, u64()?, u64()?);
        let min_unit = u32::from_ne_bytes(head.take()?);
        if u32::from_ne_bytes(head.take()?) != 1 {
            return None;
        }
        let mut record = [0; FLOW_RECORD];
        record[9..9 + flow.record.len()].copy_from_slice(&flow.record);
        Some(RawFlow { slot, priority, rate, depth, fill, min_unit, version: VERSION, record })
    }

    /// The shared bucket that its slot holds; `None`: its own bucket.
    pub fn shared(&self) -> Option<BucketId> {
        let mut from = Reader { bytes: &self.record };
        let shared = from.take::<1>()?[0] != 0;
        from.u64().filter(|_| shared).map(BucketId)
    }

    /// The plan entry of this flow; `None` if another build wrote it in an unknown form.
    pub fn read(&self) -> Option<FlowSpecEntry> {
        if self.version != VERSION {
            return None;
        }
        let mut from = Reader { bytes: &self.record };
        from.take::<9>()?;
        let depth = Bytes::new(from.u64()?);
        Some(FlowSpecEntry {
            class: self.class(),
            bucket: BucketSpec { rate: Rate::from_bps(self.rate), depth, min_unit: self.min_unit },
            shared: self.shared(),
            record: OwnerRecord(from.take()?),
        })
    }
}

/// The record of a link's specification.
pub fn link_record(spec: &LinkSpec) -> ClassRecord {
    let mut out = Writer { bytes: [0; CLASS_RECORD], at: 0 };
    out.put(&[CLASS_VERSION]);
    out.u64(spec.rate.as_bps());
    out.put(&spec.overhead.to_le_bytes());
    out.put(&spec.mtu.to_le_bytes());
    // Older records end here: zero.
    out.put(&[u8::from(spec.scheduler == SchedulerKind::Hfsc)]);
    out.bytes
}

/// The specification in a link's record; `None` if its version is unknown.
pub fn read_link(record: &ClassRecord) -> Option<LinkSpec> {
    let mut from = Reader { bytes: record };
    if from.take::<1>()?[0] != CLASS_VERSION {
        return None;
    }
    Some(LinkSpec {
        rate: from.rate()?,
        overhead: u32::from_le_bytes(from.take()?),
        mtu: u32::from_le_bytes(from.take()?),
        scheduler: if from.take::<1>()?[0] == 0 { SchedulerKind::Htb } else { SchedulerKind::Hfsc },
    })
}

/// The record of a class's specification.
pub fn class_record(spec: &ClassSpec) -> ClassRecord {
    let mut out = Writer { bytes: [0; CLASS_RECORD], at: 0 };
    out.put(&[CLASS_VERSION, u8::from(spec.real_time.is_some()), u8::from(spec.upper_limit.is_some()), spec.priority]);
    let curve = spec.real_time.unwrap_or(ServiceCurve::linear(Rate::ZERO));
    out.u64(curve.m1.as_bps());
    out.u64(curve.d.as_nanos());
    out.u64(curve.m2.as_bps());
    out.u64(spec.link_share.as_bps());
    out.u64(spec.upper_limit.unwrap_or(Rate::ZERO).as_bps());
    out.put(&spec.queue.packets.to_le_bytes());
    out.u64(spec.queue.bytes.get());
    out.bytes
}

/// The specification in a class's record; `None` if its version is unknown.
pub fn read_class(record: &ClassRecord) -> Option<ClassSpec> {
    let mut from = Reader { bytes: record };
    let [version, real_time, upper_limit, priority] = from.take()?;
    if version != CLASS_VERSION {
        return None;
    }
    let curve = ServiceCurve { m1: from.rate()?, d: Span::from_nanos(from.u64()?), m2: from.rate()? };
    let link_share = from.rate()?;
    let limit = from.rate()?;
    let packets = u32::from_le_bytes(from.take()?);
    Some(ClassSpec {
        real_time: (real_time != 0).then_some(curve),
        link_share,
        upper_limit: (upper_limit != 0).then_some(limit),
        priority,
        queue: QueueSpec { packets, bytes: Bytes::new(from.u64()?) },
    })
}

fn raw_ip(address: &IpAddr) -> (u8, [u8; 16]) {
    match address {
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            (4, bytes)
        }
        IpAddr::V6(v6) => (6, v6.octets()),
    }
}

fn ip(family: u8, bytes: &[u8; 16]) -> IpAddr {
    match family {
        4 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        _ => IpAddr::from(*bytes),
    }
}

/// Writes fields into a record; they always fit (a test writes the longest record).
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    fn rate(&mut self) -> Option<Rate> {
        Some(Rate::from_bps(self.u64()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_come_back() {
        let record = OwnerRecord(std::array::from_fn(|at| at as u8 ^ 0xa5));
        let bucket = BucketSpec { rate: Rate::from_mbps(3), depth: Bytes::new(8192), min_unit: 64 };
        let entry = FlowSpecEntry { class: ClassId(0xfffe), bucket, shared: None, record };
        let raw = RawFlow::new(7, &entry);
        assert_eq!(raw.read(), Some(entry));
        assert_eq!(raw.priority, 0x5c1c_fffe);
        let shared = FlowSpecEntry { shared: Some(BucketId(u64::MAX - 1)), ..entry };
        assert_eq!(RawFlow::new(7, &shared).read(), Some(shared));
        assert_eq!(RawFlow { version: 3, ..raw }.read(), None, "another build's");
        let endless = BucketSpec { rate: Rate::ZERO, depth: Bytes::MAX, min_unit: 0 };
        let entry = FlowSpecEntry { bucket: endless, ..entry };
        assert_eq!(RawFlow::new(0, &entry).read(), Some(entry), "a saturated depth is kept as it was told");
    }

    #[test]
    fn keys_come_back() {
        for (src, dst) in [("10.0.0.1", "10.9.8.7"), ("fd00::1", "ff02::1")] {
            let flow = FlowKey {
                src: src.parse().expect("src"),
                dst: dst.parse().expect("dst"),
                protocol: 17,
                src_port: 4000,
                dst_port: 5004,
                wild: terms::Wild::NONE,
            };
            assert_eq!(RawKey::new(IfIndex(3), &flow).read(), (IfIndex(3), flow));
        }
    }

    #[test]
    fn classes_and_links_come_back() {
        let queue = QueueSpec { packets: 100, bytes: Bytes::new(150_000) };
        let curve = ServiceCurve { m1: Rate::from_mbps(9), d: Span::from_millis(3), m2: Rate::from_mbps(2) };
        let all = ClassSpec {
            real_time: Some(curve),
            link_share: Rate::from_mbps(1),
            upper_limit: Some(Rate::INFINITE),
            priority: 7,
            queue,
        };
        for spec in [all, ClassSpec { real_time: None, ..all }, ClassSpec { upper_limit: None, ..all }] {
            assert_eq!(read_class(&class_record(&spec)), Some(spec));
        }
        let link = LinkSpec { rate: Rate::from_mbps(10), overhead: 38, mtu: 9000, scheduler: SchedulerKind::Htb };
        for scheduler in [SchedulerKind::Htb, SchedulerKind::Hfsc] {
            let link = LinkSpec { scheduler, ..link };
            assert_eq!(read_link(&link_record(&link)), Some(link));
        }
        assert_eq!(read_class(&[0; CLASS_RECORD]), None);
        assert_eq!(read_link(&[0; CLASS_RECORD]), None);
    }
}
