//! The eBPF program against the engine's token bucket: same packets, same decisions, same level, to the last unit.
//!
//! The program is run by the kernel on packets of our own making (BPF_PROG_TEST_RUN). It reads the clock itself, so
//! the time of each decision is read back from its bucket and told to the engine's.

use crate::scratch::{self, StateDir};
use linux::bpf::entry::{MAJOR, RawFlow, RawKey, RawState};
use linux::bpf::sys::{SkBuff, attach, link_place, pin, program_id, test_run};
use linux::bpf::{FlowTable, Hook};
use std::net::IpAddr;
use std::os::fd::AsFd;
use terms::ports::Preemption;
use terms::{Bytes, FlowKey, FlowSpec, IfIndex, Rate, Session, Span, Time, Tspec};
use traffic::bucket::TokenBucket;
use traffic::edge::Side;
use traffic::plan::{BucketSpec, ClassId, FlowSpecEntry};

/// The loopback: there in every namespace.
pub const LO: IfIndex = IfIndex(1);
pub const OWN: u32 = (MAJOR as u32) << 16 | 0x10;
pub const CONTROL: u32 = (MAJOR as u32) << 16 | 3;
const PREMIUM: u32 = (MAJOR as u32) << 16 | 5;
const BACKGROUND: u32 = (MAJOR as u32) << 16 | 6;
/// What the program returns: let the next one see it.
const NEXT: i32 = -1;

pub fn key(src: &str, dst: &str, protocol: u8) -> FlowKey {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    FlowKey { src: ip(src), dst: ip(dst), protocol, src_port: 4000, dst_port: 5004, wild: terms::Wild::NONE }
}

pub fn entry(bucket: BucketSpec) -> FlowSpecEntry {
    let tspec = Tspec { r: bucket.rate, b: bucket.depth, p: Rate::INFINITE, m: bucket.min_unit, M: 1500 };
    let session = Session { dst: IpAddr::from([10, 0, 0, 2]), protocol: 17, dst_port: 5004 };
    let flowspec = FlowSpec::ControlledLoad(tspec);
    let lifetime = Span::from_secs(157);
    let priority = Preemption::default();
    let record = control::record::FlowRecord {
        session,
        flowspec,
        sender_tspec: tspec,
        admitted: bucket.rate,
        lifetime,
        priority,
    };
    FlowSpecEntry { class: ClassId(0x10), bucket, shared: None, record: record.encode() }
}

/// The program, to be run on single packets.
pub struct Bench {
    pub table: FlowTable,
    _state: StateDir,
}

impl Bench {
    /// The program loaded, no flow installed.
    pub fn new() -> Bench {
        let state = StateDir::new();
        Bench { table: FlowTable::open(state.path(), 64, Hook::Best).expect("the program loads"), _state: state }
    }

    /// Installs a flow in this slot with a full bucket.
    pub fn install(&mut self, slot: u32, flow: &FlowKey, bucket: BucketSpec) -> RawFlow {
        let raw = RawFlow::new(slot, &entry(bucket));
        self.table.put_state(slot, &RawState::full(&raw)).expect("state");
        self.table.put_flow(&RawKey::new(LO, flow), &raw).expect("flow");
        raw
    }

    /// The priority that a packet leaves with, which came with `priority`.
    pub fn send(&self, packet: &[u8], priority: u32) -> u32 {
        self.send_segments(packet, priority, 0, 0)
    }

    /// The same of a packet that is cut into segments later.
    pub fn send_segments(&self, packet: &[u8], priority: u32, segments: u32, size: u32) -> u32 {
        let mut context = SkBuff::leaving(LO.0, priority, segments, size);
        assert_eq!(test_run(self.table.program(), packet, &mut context).expect("test run"), NEXT);
        context.priority()
    }
}

/// An Ethernet frame with an IP packet of `len` bytes.
pub fn frame(flow: &FlowKey, len: usize) -> Vec<u8> {
    let mut transport = vec![0; len];
    transport[..2].copy_from_slice(&flow.src_port.to_be_bytes());
    transport[2..4].copy_from_slice(&flow.dst_port.to_be_bytes());
    match (flow.src, flow.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut ip = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, flow.protocol, 0, 0];
            ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            ip.extend(src.octets());
            ip.extend(dst.octets());
            ethernet(0x0800, ip, &transport[..len - 20])
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut ip = vec![0x60, 0, 0, 0, 0, 0, flow.protocol, 64];
            ip[4..6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
            ip.extend(src.octets());
            ip.extend(dst.octets());
            ethernet(0x86dd, ip, &transport[..len - 40])
        }
        _ => panic!("one family"),
    }
}

pub fn ethernet(kind: u16, header: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(kind.to_be_bytes());
    frame.extend(header);
    frame.extend(payload);
    frame
}

/// A small generator, so that a failure can be had again (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    /// Below 2^bits, every length of number as likely as any other.
    pub fn log(&mut self, bits: u64) -> u64 {
        let top = 1 << self.below(bits);
        self.below(top)
    }
}

#[test]
fn same_packets_same_decisions_same_level() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let mut dice = Dice(2);
        let mut over = 0;
        for (slot, flow) in [key("10.0.0.1", "10.0.0.2", 17), key("fd00::1", "fd00::2", 6)].into_iter().enumerate() {
            let slot = slot as u32;
            let mut bucket = BucketSpec { rate: Rate::from_mbps(80), depth: Bytes::new(8192), min_unit: 128 };
            bench.install(slot, &flow, bucket);
            let mut model = TokenBucket::new(&bucket, Time::ZERO);
            for n in 0..20_000 {
                if n % 500 == 499 {
                    // Another bucket in place: from nothing to gigabits, from one byte to many.
                    bucket = BucketSpec {
                        rate: Rate::from_bps(dice.log(36) << 2),
                        depth: Bytes::new(1000 + dice.log(22)),
                        min_unit: dice.log(11) as u32,
                    };
                    let state = bench.table.state(slot).expect("state");
                    model.change(&bucket, Time::from_nanos(state.last));
                    bench.table.put_flow(&RawKey::new(LO, &flow), &RawFlow::new(slot, &entry(bucket))).expect("flow");
                }
                let len = 60 + dice.below(1440) as u32;
                let before = bench.table.state(slot).expect("state");
                let priority = bench.send(&frame(&flow, len as usize), 0);
                let after = bench.table.state(slot).expect("state");
                let now = Time::from_nanos(after.last);
                let conforms = model.take(now, len);
                assert_eq!(priority, if conforms { OWN } else { 0 }, "packet {n} of {len} bytes, {bucket:?}");
                assert_eq!(after.level, model.level_at(now), "packet {n} of {len} bytes, {bucket:?}");
                let (packets, bytes) = if conforms { (1, u64::from(len)) } else { (0, 0) };
                assert_eq!((after.packets, after.bytes), (before.packets + packets, before.bytes + bytes));
                let all = after.bytes + after.over_bytes - before.bytes - before.over_bytes;
                assert_eq!(all, u64::from(len));
                over += u64::from(!conforms);
            }
        }
        assert!((4_000..36_000).contains(&over), "{over} of 40,000 in excess: the test would prove nothing");
    });
}

#[test]
fn no_one_chooses_our_classes() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let bucket = BucketSpec { rate: Rate::from_mbps(8), depth: Bytes::new(1 << 20), min_unit: 64 };
        let mine = key("10.0.0.1", "10.0.0.2", 17);
        bench.install(0, &mine, bucket);
        let other = FlowKey { src_port: 4001, ..mine };
        assert_eq!(bench.send(&frame(&mine, 100), 0), OWN);
        assert_eq!(bench.send(&frame(&mine, 100), CONTROL), OWN, "whatever it asked for");
        assert_eq!(bench.send(&frame(&other, 100), OWN), 0);
        assert_eq!(bench.send(&frame(&other, 100), CONTROL), 0);
        assert_eq!(bench.send(&frame(&other, 100), (MAJOR as u32) << 16), 0, "not even past the shaper");
        assert_eq!(bench.send(&frame(&other, 100), 6), 6, "others' priorities are theirs");
        assert_eq!(bench.send(&ethernet(0x88cc, vec![0; 60], &[]), OWN), 0, "no IP at all");
        for flow in [
            FlowKey { protocol: 6, ..mine },
            FlowKey { dst_port: 5005, ..mine },
            FlowKey { src: IpAddr::from([10, 0, 0, 3]), ..mine },
            FlowKey { dst: IpAddr::from([10, 0, 0, 3]), ..mine },
        ] {
            assert_eq!(bench.send(&frame(&flow, 100), 0), 0, "{flow:?}");
        }
        bench.table.remove_flow(&RawKey::new(LO, &mine)).expect("remove");
        assert_eq!(bench.send(&frame(&mine, 100), 0), 0);
    });
}

#[test]
fn signalling_and_neighbours_have_their_class() {
    scratch::in_netns(|| {
        let bench = Bench::new();
        assert_eq!(bench.send(&frame(&key("10.0.0.1", "10.0.0.2", 46), 100), 0), CONTROL);
        assert_eq!(bench.send(&frame(&key("fd00::1", "fd00::2", 46), 100), 0), CONTROL);
        assert_eq!(bench.send(&ethernet(0x0806, vec![0; 28], &[]), 0), CONTROL);
        for (kind, wanted) in [(132, 0), (133, CONTROL), (135, CONTROL), (137, CONTROL), (128, 0)] {
            let mut packet = frame(&key("fd00::1", "fd00::2", 58), 80);
            packet[14 + 40] = kind;
            assert_eq!(bench.send(&packet, 0), wanted, "ICMPv6 {kind}");
        }
        // Router Alert in front, as RSVP sends it (RFC 2711).
        let mut packet = frame(&key("fd00::1", "fd00::2", 0), 100);
        packet[54..62].copy_from_slice(&[46, 0, 5, 2, 0, 0, 1, 0]);
        assert_eq!(bench.send(&packet, 0), CONTROL);
    });
}

#[test]
fn every_segment_is_charged() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let bucket = BucketSpec { rate: Rate::ZERO, depth: Bytes::new(1 << 20), min_unit: 64 };
        let udp = key("10.0.0.1", "10.0.0.2", 17);
        let tcp = key("fd00::1", "fd00::2", 6);
        bench.install(0, &udp, bucket);
        bench.install(1, &tcp, bucket);
        // 2,828 bytes = 28 of headers + 2,800 of payload: two segments of 1,200 and one of 400.
        assert_eq!(bench.send_segments(&frame(&udp, 2828), 0, 3, 1200), OWN);
        let counted = bench.table.counters(0).expect("counters");
        assert_eq!((counted.packets, counted.bytes), (3, 2800 + 3 * 28));
        // 40 + 32 bytes of headers, 3,000 of payload: three segments of 1,000.
        let mut packet = frame(&tcp, 3072);
        packet[14 + 40 + 12] = 8 << 4;
        assert_eq!(bench.send_segments(&packet, 0, 3, 1000), OWN);
        let counted = bench.table.counters(1).expect("counters");
        assert_eq!((counted.packets, counted.bytes), (3, 3000 + 3 * 72));
        // Segments shorter than the minimum policed unit count as that long, the last one too.
        let strict = BucketSpec { min_unit: 1500, depth: Bytes::new(4500), ..bucket };
        let raw = bench.install(0, &udp, strict);
        assert_eq!(bench.send_segments(&frame(&udp, 2828), 0, 3, 1200), OWN);
        assert_eq!(bench.table.state(0).expect("state").level, RawState::full(&raw).level - 4500 * 8_000_000_000);
        assert_eq!(bench.send(&frame(&udp, 60), 0), 0, "nothing is left");
    });
}

#[test]
fn later_fragments_follow_the_first() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let bucket = BucketSpec { rate: Rate::ZERO, depth: Bytes::new(1 << 20), min_unit: 64 };
        let flow = key("10.0.0.1", "10.0.0.2", 17);
        bench.install(0, &flow, bucket);
        let fragment = |id: u8, bits: [u8; 2]| {
            let mut packet = frame(&flow, 600);
            packet[14 + 5] = id;
            packet[14 + 6..14 + 8].copy_from_slice(&bits);
            if bits[1] != 0 {
                packet[14 + 20..14 + 24].copy_from_slice(&[9; 4]); // payload where ports would be
            }
            packet
        };
        assert_eq!(bench.send(&fragment(1, [0, 72]), 0), 0, "its first was never seen");
        assert_eq!(bench.send(&fragment(1, [0x20, 0]), 0), OWN, "the first");
        assert_eq!(bench.send(&fragment(1, [0x20, 72]), 0), OWN, "the second");
        assert_eq!(bench.send(&fragment(1, [0, 144]), 0), OWN, "the last");
        assert_eq!(bench.send(&fragment(2, [0, 72]), 0), 0, "of another datagram");
        let six = key("fd00::1", "fd00::2", 17);
        bench.install(1, &six, bucket);
        let fragment = |offset: [u8; 2], ports: bool| {
            let mut packet = frame(&FlowKey { protocol: 44, ..six }, 600);
            let mut header = vec![17, 0, offset[0], offset[1], 0, 0, 0, 5];
            header.extend(if ports { [15, 160, 19, 140] } else { [9; 4] });
            packet[54..66].copy_from_slice(&header);
            packet
        };
        assert_eq!(bench.send(&fragment([2, 0x41], false), 0), 0);
        assert_eq!(bench.send(&fragment([0, 1], true), 0), OWN);
        assert_eq!(bench.send(&fragment([2, 0x40], false), 0), OWN);
    });
}

#[test]
fn no_packet_breaks_the_program() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let bucket = BucketSpec { rate: Rate::from_mbps(1), depth: Bytes::new(9000), min_unit: 64 };
        let flows = [key("10.0.0.1", "10.0.0.2", 17), key("fd00::1", "fd00::2", 6)];
        for (slot, flow) in flows.iter().enumerate() {
            bench.install(slot as u32, flow, bucket);
        }
        let mut dice = Dice(7);
        let mut ran = 0;
        for _ in 0..20_000 {
            let mut packet = frame(&flows[dice.below(2) as usize], 120);
            for _ in 0..dice.below(6) {
                let at = 12 + dice.below(60) as usize;
                packet[at] = dice.below(256) as u8;
            }
            packet.truncate(34 + dice.below(100) as usize);
            let size = (dice.below(2) * dice.below(2000)) as u32;
            let mut context = SkBuff::leaving(LO.0, 0, u32::from(size != 0) * 2, size);
            match test_run(bench.table.program(), &packet, &mut context) {
                Ok(verdict) => assert_eq!(verdict, NEXT),
                // The kernel itself runs no packet that is shorter than its header.
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
                    continue;
                }
            }
            ran += 1;
            let priority = context.priority();
            assert!([0, OWN, CONTROL, PREMIUM, BACKGROUND].contains(&priority));
        }
        assert!(ran > 15_000, "{ran} of 20,000 ran");
    });
}

#[test]
fn another_builds_program_is_replaced_in_place() {
    scratch::in_netns(|| {
        let state = StateDir::new();
        let dir = state.path().join("bpf").join(linux::bpf::LAYOUT);
        drop(FlowTable::open(state.path(), 64, Hook::Best).expect("the bpffs and the maps"));
        // Another program on the same maps: the same, but for its verdict.
        let mut object = linux::bpf::OBJECT.to_vec();
        let verdict = [0x18, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x95];
        let at = object.windows(17).position(|bytes| bytes == verdict).expect("r0 = -1, exit");
        object[at + 4..at + 8].fill(0);
        let mut other = aya::EbpfLoader::new().default_map_pin_directory(&dir).load(&object).expect("loads");
        let program: &mut aya::programs::SchedClassifier =
            other.program_mut("sluice_egress").expect("there").try_into().expect("a classifier");
        program.load().expect("verified");
        let link = match attach(program.fd().expect("loaded").as_fd(), LO.0, Side::Egress, false) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                bench::skipped("this kernel has no TCX links to be replaced");
                return;
            }
            other => other.expect("attach"),
        };
        pin(link.as_fd(), &dir.join("egress_1")).expect("pin");
        let theirs = link_place(link.as_fd()).expect("look");
        let table = FlowTable::open(state.path(), 64, Hook::Best).expect("opens");
        let ours = link_place(link.as_fd()).expect("look");
        assert_eq!((ours.ifindex, ours.program), (LO.0, program_id(table.program()).expect("look")));
        assert_ne!(ours.program, theirs.program);
        assert!(table.is_linked(LO));
        // And the next time there is nothing to load.
        let id = ours.program;
        drop(table);
        let table = FlowTable::open(state.path(), 64, Hook::Best).expect("opens");
        assert_eq!(program_id(table.program()).expect("look"), id);
    });
}
