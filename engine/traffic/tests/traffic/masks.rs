//! Flows of prefixes, among all others: whose a packet is, against a list that is read from its beginning.

use core::net::IpAddr;
use proptest::prelude::*;
use std::collections::BTreeMap;
use terms::signalling::SIGNALLING;
use terms::*;
use traffic::plan::*;
use traffic::port::{Limits, Port};
use traffic::shapes::{MOST_SHAPES, Shape, Shapes};

const OIF: IfIndex = IfIndex(3);

fn port() -> Port {
    let queue = QueueSpec { packets: 60_000, bytes: Bytes::MAX };
    let spec = ClassSpec { real_time: None, link_share: Rate::from_mbps(1), upper_limit: None, priority: 1, queue };
    let mut port = Port::new(OIF, Limits::default(), SIGNALLING, [1, 2]);
    let link = LinkSpec {
        rate: Rate::from_mbps(10),
        overhead: 14,
        mtu: 1500,
        scheduler: traffic::scheduler::SchedulerKind::Htb,
    };
    port.apply(Time::ZERO, &PlanOp::Link { oif: OIF, spec: link }).unwrap();
    for class in [ClassId::BEST_EFFORT, ClassId::CONTROLLED_LOAD] {
        port.apply(Time::ZERO, &PlanOp::Class { oif: OIF, class, spec }).unwrap();
    }
    port
}

fn entry() -> FlowSpecEntry {
    FlowSpecEntry {
        class: ClassId::CONTROLLED_LOAD,
        bucket: BucketSpec { rate: Rate::from_mbps(9), depth: Bytes::MAX, min_unit: 64 },
        shared: None,
        record: OwnerRecord::EMPTY,
    }
}

/// An address of sixteen that lie close together, so that everything meets everything.
fn host(six: bool, n: u8) -> IpAddr {
    if six { IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n.into()]) } else { IpAddr::from([10, 0, 0, n]) }
}

fn packet() -> impl Strategy<Value = FlowKey> {
    let ports = (1..3u16, 1..3u16, prop::sample::select(vec![6u8, 17]));
    (1..16u8, 1..16u8, prop::bool::ANY, ports).prop_map(|(src, dst, six, (src_port, dst_port, protocol))| {
        let (src, dst) = (host(six, src), host(six, dst));
        FlowKey { src, dst, protocol, src_port, dst_port, wild: Wild::NONE }
    })
}

/// A packet, cut down to some flow that has it.
fn flow() -> impl Strategy<Value = FlowKey> {
    let wild = (prop::sample::select(vec![0u8, 1, 2, 4]), prop::sample::select(vec![0u8, 2, 4, 255]));
    (packet(), 0..5u8, wild, prop::bool::ANY, prop::bool::ANY, prop::bool::ANY).prop_map(
        |(packet, kind, (dst, src), protocol, dst_port, src_port)| {
            let is_ipv6 = packet.dst.is_ipv6();
            let any = if is_ipv6 { IpAddr::from([0; 16]) } else { IpAddr::from([0; 4]) };
            match kind {
                0 => packet,
                1 => FlowKey { src_port: 0, dst_port: 0, ..packet },
                4 => FlowKey { src_port: 0, ..packet },
                2 => FlowKey { src: any, src_port: 0, dst_port: if dst_port { 0 } else { packet.dst_port }, ..packet },
                _ => {
                    let src_wild = if src == 255 { if is_ipv6 { 128 } else { 32 } } else { src };
                    let any_protocol = protocol || (dst, src_wild) == (0, 0);
                    let shape = Shape {
                        dst_wild: dst,
                        src_wild,
                        any_protocol,
                        any_dst_port: dst_port,
                        any_src_port: src_port,
                        is_ipv6,
                    };
                    shape.cut(&packet).unwrap()
                }
            }
        },
    )
}

/// Bit by bit.
fn alike(a: IpAddr, b: IpAddr, wild: u8) -> bool {
    let bits = |address: IpAddr| -> Vec<bool> {
        let octets = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1)).collect()
    };
    let (a, b) = (bits(a), bits(b));
    a.len() == b.len() && a[..a.len() - usize::from(wild)] == b[..b.len() - usize::from(wild)]
}

fn has(flow: &FlowKey, packet: &FlowKey) -> bool {
    let (masked, spi) = (flow.wild != Wild::NONE || flow.protocol == 0, matches!(flow.protocol, 50 | 51));
    let any_sender = flow.src.is_unspecified() && flow.wild == Wild::NONE && flow.protocol != 0;
    let src = alike(flow.src, packet.src, flow.wild.src) || (any_sender && flow.src.is_ipv4() == packet.src.is_ipv4());
    src && alike(flow.dst, packet.dst, flow.wild.dst)
        && (flow.protocol == 0 || flow.protocol == packet.protocol)
        && (flow.src_port == packet.src_port || (flow.src_port == 0 && (masked || flow.dst_port == 0 || !spi)))
        && (flow.dst_port == 0 || flow.dst_port == packet.dst_port)
}

/// Which of the flows that have a packet is asked first: as `docs/plane.md` says it.
fn rank(flow: &FlowKey) -> (u8, u8, u8, bool, bool, bool) {
    let masked = flow.wild != Wild::NONE || flow.protocol == 0;
    let kind = match (masked, flow.src.is_unspecified(), flow.dst_port == 0) {
        (true, ..) => 4,
        (_, true, true) => 3,
        (_, true, false) => 2,
        (_, false, true) => 1,
        (_, false, false) => 0,
    };
    (kind, flow.wild.dst, flow.wild.src, flow.protocol == 0, flow.dst_port == 0, flow.src_port == 0)
}

#[derive(Clone, Debug)]
enum Step {
    Set(FlowKey),
    Drop(usize),
    Packet(FlowKey),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => flow().prop_map(Step::Set),
        1 => (0..20usize).prop_map(Step::Drop),
        6 => packet().prop_map(Step::Packet),
    ]
}

proptest! {
    #![proptest_config(chance::cases(600))]

    #[test]
    fn a_packet_is_charged_to_the_closest_flow_that_has_it(steps in prop::collection::vec(step(), 1..150)) {
        let (mut port, mut there) = (port(), BTreeMap::<FlowKey, u64>::new());
        for step in steps {
            match step {
                Step::Set(flow) => {
                    let mut shapes: Vec<Shape> = there.keys().chain([&flow]).filter_map(Shape::of).collect();
                    shapes.sort_unstable();
                    shapes.dedup();
                    let set = port.apply(Time::ZERO, &PlanOp::Flow { oif: OIF, flow, entry: entry() });
                    prop_assert_eq!(set.is_ok(), shapes.len() <= MOST_SHAPES, "{:?}", shapes);
                    if set.is_ok() {
                        there.entry(flow).or_insert(0);
                    }
                }
                Step::Drop(n) => {
                    let Some(flow) = there.keys().nth(n).copied() else { continue };
                    port.apply(Time::ZERO, &PlanOp::DropFlow { oif: OIF, flow }).unwrap();
                    there.remove(&flow);
                }
                Step::Packet(flow) => {
                    port.enqueue(Time::ZERO, PacketMeta { flow, len: 100, dscp: Dscp(0), arrival: Time::ZERO, group: None, id: 0 });
                    let closest = there.iter_mut().filter(|(key, _)| has(key, &flow)).min_by_key(|(key, _)| rank(key));
                    closest.into_iter().for_each(|(_, packets)| *packets += 1);
                }
            }
            for (flow, packets) in &there {
                prop_assert_eq!(port.flow_counters(flow).unwrap().packets, *packets, "{:?}", flow);
            }
        }
    }
}

/// Of two shapes the one that comes first never has flows that could hold all of the other's.
#[test]
fn the_closest_shape_comes_first() {
    let wilds = [0, 1, 16, 32];
    let mut all = Vec::new();
    for (dst_wild, src_wild) in wilds.into_iter().flat_map(|dst| wilds.map(|src| (dst, src))) {
        for n in 0..8 {
            let [any_protocol, any_dst_port, any_src_port] = [n & 1 != 0, n & 2 != 0, n & 4 != 0];
            all.push(Shape { dst_wild, src_wild, any_protocol, any_dst_port, any_src_port, is_ipv6: false });
        }
    }
    for a in &all {
        for b in &all {
            let holds = b.dst_wild >= a.dst_wild
                && b.src_wild >= a.src_wild
                && b.any_protocol >= a.any_protocol
                && b.any_dst_port >= a.any_dst_port
                && b.any_src_port >= a.any_src_port;
            assert!(!holds || a <= b, "{a:?} lies within {b:?}");
        }
    }
}

#[test]
fn shapes_are_counted_and_few() {
    let mut shapes = Shapes::default();
    let of = |dst: u8, n: u8| FlowKey {
        src: [10, 1, 0, 0].into(),
        dst: [10, n, 0, 0].into(),
        protocol: 0,
        src_port: 0,
        dst_port: 0,
        wild: Wild { src: 16, dst },
    };
    for dst in 1..=MOST_SHAPES as u8 {
        assert!(shapes.has_room_for(&of(dst, 2)) && shapes.count(&of(dst, 2), true), "another shape");
        assert!(!shapes.count(&of(dst, 4), true), "the same");
    }
    assert!(!shapes.has_room_for(&of(9, 2)) && shapes.has_room_for(&of(8, 6)));
    assert!(!shapes.count(&of(3, 2), false) && shapes.count(&of(3, 4), false), "gone with its last flow");
    assert!(shapes.has_room_for(&of(9, 2)));
    assert!(!Shape::is_proper(&FlowKey { dst: [10, 2, 0, 1].into(), ..of(16, 2) }), "a bit that does not count");
    assert!(!Shape::is_proper(&FlowKey { wild: Wild { src: 33, dst: 0 }, ..of(16, 2) }), "more bits than there are");
    assert!(!Shape::is_proper(&FlowKey { src: [0; 16].into(), ..of(16, 2) }), "two families");
    assert!(Shape::is_proper(&of(16, 2)));
}
