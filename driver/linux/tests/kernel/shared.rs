//! Flows that are no plain five-tuple, one packet at a time through the eBPF program: buckets that several flows share,
//! any sender, no ports, security parameter indices; held against the engine's token bucket and a classifier that a
//! person can check by reading.

use crate::policer::{Bench, Dice, LO, OWN, entry, ethernet, frame, key};
use crate::scratch;
use linux::bpf::entry::{RawFlow, RawKey, RawKinds, RawState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::{Bytes, FlowKey, Rate, Time};
use traffic::bucket::TokenBucket;
use traffic::plan::{BucketId, BucketSpec, FlowSpecEntry};

const DEEP: BucketSpec = BucketSpec { rate: Rate::ZERO, depth: Bytes::new(1 << 20), min_unit: 64 };

fn any(flow: &FlowKey) -> FlowKey {
    let src = match flow.src {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    FlowKey { src, src_port: 0, ..*flow }
}

fn of_any_source_port(flow: &FlowKey) -> FlowKey {
    FlowKey { src_port: 0, ..*flow }
}

fn without_ports(flow: &FlowKey) -> FlowKey {
    FlowKey { src_port: 0, dst_port: 0, ..*flow }
}

/// Says to the program which kinds there are, as the plane does.
fn kinds(bench: &mut Bench, flows: &[FlowKey]) {
    let mut kinds = RawKinds::default();
    flows.iter().for_each(|flow| kinds.count(flow, true));
    bench.table.put_kinds(&kinds).expect("kinds");
}

/// The slot whose counters grew by one packet, if one did, after this packet was sent.
fn hit(bench: &Bench, slots: u32, packet: &[u8]) -> Option<u32> {
    let counted =
        |bench: &Bench| (0..slots).map(|n| bench.table.counters(n).expect("counters").packets).collect::<Vec<_>>();
    let before = counted(bench);
    let priority = bench.send(packet, 0);
    let after = counted(bench);
    let hit: Vec<u32> = (0..slots).filter(|n| after[*n as usize] != before[*n as usize]).collect();
    assert!(hit.len() <= 1, "one packet, one bucket");
    assert_eq!(priority, if hit.is_empty() { 0 } else { OWN });
    hit.first().copied()
}

#[test]
fn a_packet_belongs_to_the_flow_that_names_it_most_closely() {
    scratch::in_netns(|| {
        let mut dice = Dice(11);
        for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "ff1e::2")] {
            let udp = key(src, dst, 17);
            // The closest first: the oracle takes the first of these that is installed and has the packet.
            let wild = any(&udp);
            let all = [udp, of_any_source_port(&udp), without_ports(&udp), wild, without_ports(&wild)];
            for installed in 0..32u32 {
                let mut bench = Bench::new();
                let there: Vec<FlowKey> = (0..5).filter(|n| installed >> n & 1 == 1).map(|n| all[n]).collect();
                there.iter().enumerate().for_each(|(slot, flow)| {
                    bench.install(slot as u32, flow, DEEP);
                });
                kinds(&mut bench, &there);
                for _ in 0..40 {
                    let bit = |dice: &mut Dice| dice.below(2) == 1;
                    let mut packet = udp;
                    if bit(&mut dice) {
                        packet.src_port = 4001;
                    }
                    if bit(&mut dice) {
                        packet.dst_port = 5005;
                    }
                    if bit(&mut dice) {
                        packet.src = key("10.0.0.9", "10.0.0.2", 17).src;
                        if udp.src.is_ipv6() {
                            packet.src = key("fd00::9", dst, 17).src;
                        }
                    }
                    if dice.below(8) == 0 {
                        packet.protocol = 6;
                    }
                    let has = |flow: &FlowKey| {
                        flow.protocol == packet.protocol
                            && flow.dst == packet.dst
                            && (flow.src.is_unspecified() || flow.src == packet.src)
                            && (flow.dst_port == 0 || flow.dst_port == packet.dst_port)
                            && (flow.src_port == 0 || flow.src_port == packet.src_port)
                    };
                    let wanted = there.iter().position(has).map(|n| n as u32);
                    assert_eq!(hit(&bench, 5, &frame(&packet, 100)), wanted, "{packet:?} among {there:?}");
                }
            }
        }
    });
}

#[test]
fn esp_and_ah_are_told_apart_by_their_index() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let spi: u32 = 0xc0de_0007;
        let [high, low] = [(spi >> 16) as u16, spi as u16];
        let of = |src: &str, dst: &str, protocol| FlowKey { src_port: high, dst_port: low, ..key(src, dst, protocol) };
        let flows = [
            of("10.0.0.1", "10.0.0.2", 50),
            of("fd00::1", "fd00::2", 50),
            of("10.0.0.1", "10.0.0.2", 51),
            of("fd00::1", "fd00::2", 51),
        ];
        flows.iter().enumerate().for_each(|(slot, flow)| {
            bench.install(slot as u32, flow, DEEP);
        });
        let packet = |flow: &FlowKey, spi: u32| {
            let mut packet = frame(flow, 120);
            let header = 14 + if flow.src.is_ipv4() { 20 } else { 40 };
            let at = header + if flow.protocol == 51 { 4 } else { 0 };
            packet[header..header + 8].fill(0);
            packet[at..at + 4].copy_from_slice(&spi.to_be_bytes());
            packet
        };
        for (slot, flow) in flows.iter().enumerate() {
            assert_eq!(hit(&bench, 4, &packet(flow, spi)), Some(slot as u32), "{flow:?}");
            for other in [spi + 1, spi ^ 0x8000_0000, 0] {
                assert_eq!(hit(&bench, 4, &packet(flow, other)), None, "{other:x}");
            }
        }
        // Fragments of an ESP packet follow its first, which has the index.
        let mut first = packet(&flows[0], spi);
        first[14 + 5] = 9;
        first[14 + 6] = 0x20;
        let mut later = packet(&flows[0], 0x0909_0909);
        later[14 + 5] = 9;
        later[14 + 7] = 40;
        assert_eq!(hit(&bench, 4, &later), None, "its first was never seen");
        assert_eq!((hit(&bench, 4, &first), hit(&bench, 4, &later)), (Some(0), Some(0)));
        // An index that begins with zeros is no wildcard, whatever other flows there are.
        let low = FlowKey { src_port: 0, ..flows[0] };
        bench.install(4, &low, DEEP);
        kinds(&mut bench, &[low, of_any_source_port(&key("10.0.0.9", "10.0.0.2", 17))]);
        assert_eq!(hit(&bench, 5, &packet(&low, u32::from(low.dst_port))), Some(4));
        assert_eq!(hit(&bench, 5, &packet(&low, 0x0bad_0000 | u32::from(low.dst_port))), None);
        // Whoever sends ESP there.
        let wild = without_ports(&any(&flows[1]));
        let raw = RawFlow::new(5, &entry(DEEP));
        bench.table.put_state(5, &RawState::full(&raw)).expect("state");
        bench.table.put_flow(&RawKey::new(LO, &wild), &raw).expect("flow");
        kinds(&mut bench, &[wild]);
        assert_eq!(hit(&bench, 6, &packet(&flows[1], 77)), Some(5));
        assert_eq!(hit(&bench, 6, &packet(&flows[1], spi)), Some(1), "the closer one first");
    });
}

#[test]
fn a_flow_without_ports_has_every_fragment() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let udp = without_ports(&key("10.0.0.1", "10.0.0.2", 17));
        bench.install(0, &udp, DEEP);
        let mut fragment = frame(&key("10.0.0.1", "10.0.0.2", 17), 600);
        fragment[14 + 7] = 72;
        assert_eq!(hit(&bench, 1, &fragment), Some(0), "even one whose first was never seen");
        kinds(&mut bench, &[udp]);
        assert_eq!(hit(&bench, 1, &frame(&key("10.0.0.1", "10.0.0.2", 17), 600)), Some(0));
    });
}

#[test]
fn extension_headers_are_passed_up_to_a_bound() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let udp = key("fd00::1", "fd00::2", 17);
        bench.install(0, &udp, DEEP);
        for headers in 0..9usize {
            let FlowKey { src: IpAddr::V6(src), dst: IpAddr::V6(dst), .. } = udp else { panic!("IPv6") };
            let kinds = [0, 60, 43];
            let kind = |n: usize| if n == headers { 17 } else { kinds[n.min(2)] };
            let mut body = Vec::new();
            for n in 0..headers {
                let mut header = [0; 8 + 8];
                (header[0], header[1]) = (kind(n + 1), u8::from(n % 2 == 1));
                body.extend(&header[..if n % 2 == 1 { 16 } else { 8 }]);
            }
            body.extend(udp.src_port.to_be_bytes());
            body.extend(udp.dst_port.to_be_bytes());
            body.extend([0; 60]);
            let mut ip = vec![0x60, 0, 0, 0, 0, body.len() as u8, kind(0), 64];
            ip.extend(src.octets());
            ip.extend(dst.octets());
            let wanted = (headers <= 6).then_some(0);
            assert_eq!(hit(&bench, 1, &ethernet(0x86dd, ip, &body)), wanted, "{headers} headers");
        }
    });
}

/// One packet in three goes to each of three flows of one bucket, one of them IPv6 and one of any sender; their numbers
/// are changed in place, one flow after another. Every decision, level and count is that of one engine's bucket.
#[test]
fn flows_of_one_bucket_are_policed_together() {
    const PACKETS: u32 = 1_000_000;
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let mut dice = Dice(5);
        let (four, six) = (key("10.0.0.1", "10.0.0.2", 17), key("fd00::1", "fd00::2", 6));
        let wild = any(&key("10.0.0.1", "10.0.0.3", 17));
        let flows = [four, six, wild];
        let mut bucket = BucketSpec { rate: Rate::from_mbps(80), depth: Bytes::new(8192), min_unit: 128 };
        let raw = |bucket| RawFlow::new(3, &FlowSpecEntry { shared: Some(BucketId(77)), ..entry(bucket) });
        bench.table.put_state(3, &RawState::full(&raw(bucket))).expect("state");
        for flow in &flows {
            bench.table.put_flow(&RawKey::new(LO, flow), &raw(bucket)).expect("flow");
        }
        kinds(&mut bench, &flows);
        let lengths = [60u32, 127, 128, 400, 999, 1500];
        let frames = |flow: &FlowKey| lengths.map(|len| frame(flow, len.max(80) as usize));
        let sent = [four, six, key("10.0.0.7", "10.0.0.3", 17)].map(|flow| frames(&flow));
        let mut model = TokenBucket::new(&bucket, Time::ZERO);
        let mut counted = [0u64; 4];
        for n in 0..PACKETS {
            if n % 5_000 == 4_999 {
                bucket = BucketSpec {
                    rate: Rate::from_bps(dice.log(36) << 2),
                    depth: Bytes::new(1000 + dice.log(22)),
                    min_unit: dice.log(11) as u32,
                };
                let state = bench.table.state(3).expect("state");
                model.change(&bucket, Time::from_nanos(state.last));
                for flow in &flows {
                    bench.table.put_flow(&RawKey::new(LO, flow), &raw(bucket)).expect("flow");
                }
            }
            let (which, size) = (dice.below(3) as usize, dice.below(6) as usize);
            let len = lengths[size].max(80);
            let priority = bench.send(&sent[which][size], 0);
            let after = bench.table.state(3).expect("state");
            let now = Time::from_nanos(after.last);
            let conforms = model.take(now, len);
            assert_eq!(priority, if conforms { OWN } else { 0 }, "packet {n} of {len} bytes, {bucket:?}");
            assert_eq!(after.level, model.level_at(now), "packet {n} of {len} bytes, {bucket:?}");
            let at = if conforms { 0 } else { 2 };
            counted[at] += 1;
            counted[at + 1] += u64::from(len);
            assert_eq!([after.packets, after.bytes, after.over_packets, after.over_bytes], counted);
        }
        let over = counted[2];
        let bounds = u64::from(PACKETS) / 10..u64::from(PACKETS) * 9 / 10;
        assert!(bounds.contains(&over), "{over} of {PACKETS} in excess: the test would prove nothing");
    });
}
