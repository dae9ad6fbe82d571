//! Flows of prefixes: the programs on single packets, held against the simulator's port; and real packets of two sites,
//! in both families, while an agent runs and while none does.

use crate::bed::{Bed, bed, entry, key, roomy};
use crate::policer::{Bench, Dice, LO, OWN, frame, key as tuple};
use crate::scratch;
use crate::styles::{FAR6, NEAR6, OTHER, deep, dual, packets, receiver6, sender_of};
use crate::traffic::{arrived, class, drain, offer};
use ::traffic::plan::{BucketSpec, ClassId, ClassSpec, FlowSpecEntry, PlanOp, QueueSpec};
use ::traffic::port::{Limits, Port};
use ::traffic::shapes::{MOST_SHAPES, Shape, Shapes};
use linux::bpf::Hook;
use linux::bpf::entry::RawKinds;
use linux::bpf::sys::{SkBuff, test_run};
use linux::netlink::addr::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use terms::signalling::SIGNALLING;
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Time, Wild};

const PLENTY: BucketSpec = BucketSpec { rate: Rate::ZERO, depth: Bytes::new(1 << 20), min_unit: 64 };

/// The priority that a packet leaves with behind both programs, as they hang one after the other.
fn leaves(bench: &Bench, packet: &[u8]) -> u32 {
    let mut context = SkBuff::leaving(LO.0, 0, 0, 0);
    for program in [bench.table.program(), bench.table.masks().program()] {
        assert_eq!(test_run(program, packet, &mut context).expect("test run"), -1, "the next one sees it too");
    }
    context.priority()
}

/// Says which kinds and shapes there are, as the plane does.
fn announce(bench: &mut Bench, flows: &[FlowKey]) {
    let (mut kinds, mut shapes) = (RawKinds::default(), Shapes::default());
    for flow in flows {
        kinds.count(flow, true);
        shapes.count(flow, true);
    }
    bench.table.put_kinds(&kinds).expect("kinds");
    bench.table.masks_mut().put(LO, &shapes).expect("shapes");
}

/// The simulator's interface with the same flows.
fn port(flows: &[FlowKey]) -> Port {
    let queue = QueueSpec { packets: 60_000, bytes: Bytes::MAX };
    let spec = ClassSpec { real_time: None, link_share: Rate::from_mbps(1), upper_limit: None, priority: 1, queue };
    let mut port = Port::new(LO, Limits::default(), SIGNALLING, [1, 2]);
    let mut tell = |op| port.apply(Time::ZERO, &op).expect("fits");
    tell(PlanOp::Link { oif: LO, spec: crate::bed::link_spec() });
    tell(PlanOp::Class { oif: LO, class: ClassId::BEST_EFFORT, spec });
    tell(PlanOp::Class { oif: LO, class: ClassId(0x10), spec });
    flows.iter().for_each(|flow| tell(PlanOp::Flow { oif: LO, flow: *flow, entry: crate::policer::entry(PLENTY) }));
    port
}

fn some_packet(dice: &mut Dice) -> FlowKey {
    let (src, dst) = (1 + dice.below(15), 1 + dice.below(15));
    let protocol = if dice.below(4) == 0 { 6 } else { 17 };
    let (src, dst) = match dice.below(2) {
        0 => (format!("10.0.0.{src}"), format!("10.0.0.{dst}")),
        _ => (format!("fd00::{src:x}"), format!("fd00::{dst:x}")),
    };
    let (src_port, dst_port) = (4000 + dice.below(2) as u16, 5004 + dice.below(2) as u16);
    FlowKey { src_port, dst_port, ..tuple(&src, &dst, protocol) }
}

/// A packet cut down to a flow that has it.
fn some_flow(dice: &mut Dice) -> FlowKey {
    let packet = some_packet(dice);
    let is_ipv6 = packet.dst.is_ipv6();
    match dice.below(7) {
        0 => packet,
        1 => FlowKey { src_port: 0, dst_port: 0, ..packet },
        2 => {
            let any = if is_ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
            FlowKey { src: any, src_port: 0, ..packet }
        }
        _ => {
            let all = if is_ipv6 { 128 } else { 32 };
            let shape = Shape {
                dst_wild: [0, 1, 2, 3, 4][dice.below(5) as usize],
                src_wild: [0, 2, 3, 4, all][dice.below(5) as usize],
                any_protocol: dice.below(2) == 0,
                any_dst_port: dice.below(3) > 0,
                any_src_port: dice.below(3) > 0,
                is_ipv6,
            };
            let flow = shape.cut(&packet).expect("of its family");
            if flow.is_masked() { flow } else { packet }
        }
    }
}

#[test]
fn programs_and_simulator_find_the_same_flow() {
    scratch::in_netns(|| {
        let mut dice = Dice(29);
        let (mut masked, mut nobody) = (0, 0);
        for round in 0..30 {
            let (mut bench, mut flows, mut shapes) = (Bench::new(), Vec::new(), Shapes::default());
            for _ in 0..1 + dice.below(14) {
                let flow = some_flow(&mut dice);
                if !flows.contains(&flow) && shapes.has_room_for(&flow) {
                    shapes.count(&flow, true);
                    bench.install(flows.len() as u32, &flow, PLENTY);
                    flows.push(flow);
                }
            }
            announce(&mut bench, &flows);
            let mut port = port(&flows);
            for _ in 0..120 {
                let flow = some_packet(&mut dice);
                let counted = |n: usize| bench.table.counters(n as u32).expect("counters").packets;
                let before: Vec<u64> = (0..flows.len()).map(counted).collect();
                let priority = leaves(&bench, &frame(&flow, 100));
                let hit: Vec<usize> = (0..flows.len()).filter(|n| counted(*n) > before[*n]).collect();
                let of = |port: &Port| flows.iter().map(|f| port.flow_counters(f).expect("there").packets).collect();
                let before: Vec<u64> = of(&port);
                port.enqueue(
                    Time::ZERO,
                    PacketMeta { flow, len: 100, dscp: Dscp(0), arrival: Time::ZERO, group: None, id: 0 },
                );
                let after: Vec<u64> = of(&port);
                let wanted: Vec<usize> = (0..flows.len()).filter(|n| after[*n] > before[*n]).collect();
                assert_eq!(hit, wanted, "round {round}: {flow:?} among {flows:#?}");
                assert_eq!(priority, if hit.is_empty() { 0 } else { OWN });
                masked += u32::from(hit.first().is_some_and(|n| flows[*n].is_masked()));
                nobody += u32::from(hit.is_empty());
            }
        }
        assert!(masked > 300 && nobody > 300, "both are common: {masked}, {nobody}");
    });
}

/// What a closer flow has in excess is not the prefix's; control is nobody's; a code point is asked for last.
#[test]
fn a_packet_is_charged_to_one_bucket() {
    scratch::in_netns(|| {
        for (near, far, site, there) in
            [("10.1.0.1", "10.2.0.1", "10.1.0.0", "10.2.0.0"), ("fd01::1", "fd02::1", "fd01::", "fd02::")]
        {
            let mut bench = Bench::new();
            let (exact, wild) = (tuple(near, far, 17), Wild { src: 16, dst: 16 });
            let sites = FlowKey { wild, protocol: 0, src_port: 0, dst_port: 0, ..tuple(site, there, 17) };
            bench.install(0, &exact, BucketSpec { rate: Rate::ZERO, depth: Bytes::new(300), min_unit: 64 });
            bench.install(1, &sites, PLENTY);
            announce(&mut bench, &[exact, sites]);
            let given: Vec<u32> = (0..5).map(|_| leaves(&bench, &frame(&exact, 100))).collect();
            assert_eq!(given, [OWN, OWN, OWN, 0, 0]);
            let counted = bench.table.counters(0).expect("counters");
            assert_eq!((counted.packets, counted.over_packets), (3, 2));
            assert_eq!(bench.table.counters(1).expect("counters").packets, 0, "{near}: not the prefix's as well");
            let mut signal = frame(&tuple(near, far, 46), 100);
            assert_eq!(leaves(&bench, &signal), crate::policer::CONTROL);
            assert_eq!(bench.table.counters(1).expect("counters").packets, 0);
            signal = frame(&tuple(near, far, 6), 100);
            let dscp = if near.starts_with("10.") { (14 + 1, 46 << 2) } else { (14, 0x60 | 46 >> 2) };
            signal[dscp.0] = dscp.1;
            assert_eq!(leaves(&bench, &signal), OWN, "a reservation goes before a code point");
            // Later fragments have no ports, and belong to the sites all the same.
            if near.starts_with("10.") {
                let mut later = frame(&FlowKey { src_port: 7, ..exact }, 100);
                later[14 + 7] = 9;
                assert_eq!(leaves(&bench, &later), OWN);
            }
        }
    });
}

/// All of two sites by IPv4, and by IPv6: the last bits of the addresses of the bed.
fn sites() -> [FlowKey; 2] {
    let any = FlowKey { protocol: 0, src_port: 0, dst_port: 0, ..key(0) };
    let four = FlowKey {
        src: Ipv4Addr::new(10, 77, 0, 0).into(),
        dst: Ipv4Addr::new(10, 77, 0, 0).into(),
        wild: Wild { src: 4, dst: 2 },
        ..any
    };
    let net = |last| Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last).into();
    [four, FlowKey { src: net(0), dst: net(0), wild: Wild { src: 4, dst: 2 }, ..any }]
}

/// A second host of the near site by IPv6, and one outside of it in each family.
const OTHER6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 9);
const OUTSIDE6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x99);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 200);

/// Both families, and more hosts on the near side.
fn settled() -> Bed {
    let mut bed = bed();
    dual(&mut bed);
    let more: [(IpAddr, u8); 3] = [(OTHER6.into(), 64), (OUTSIDE6.into(), 64), (OUTSIDE.into(), 24)];
    for (address, prefix) in more {
        bed.socket.add_address(&Address { index: bed.oif, address, prefix }).expect("address");
    }
    bed
}

fn sender6_of(address: Ipv6Addr, from: u16) -> UdpSocket {
    let mut tries = 0;
    let socket = loop {
        match UdpSocket::bind(SocketAddr::from((address, from))) {
            Ok(socket) => break socket,
            // Another host may have the address, until the kernel knows better.
            Err(_) if tries < 1_000 => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("bind to {address}: {error}"),
        }
        tries += 1;
    };
    socket.connect(SocketAddr::from((FAR6, 5004))).expect("connect");
    roomy(socket)
}

fn limited(kbps: u64) -> FlowSpecEntry {
    let bucket = BucketSpec { rate: Rate::from_kbps(kbps), depth: Bytes::new(8_192), min_unit: 64 };
    FlowSpecEntry { bucket, ..entry(ClassId::CONTROLLED_LOAD, kbps) }
}

#[test]
fn a_site_gets_its_rate_together_and_whoever_is_outside_is_best_effort() {
    scratch::in_netns(|| {
        let mut bed = settled();
        let mut plane = bed.open();
        let [four, six] = sites();
        let mut ops = bed.base(5_000);
        ops.extend([four, six].map(|flow| PlanOp::Flow { oif: bed.oif, flow, entry: limited(1_500) }));
        // One flow between two of the hosts has its own reservation.
        ops.push(bed.flow(7, ClassId::CONTROLLED_LOAD, 1_000));
        plane.apply(&ops).expect("fits");
        let _sinks = (bed.receiver(5004), bed.receiver(5005), receiver6(&bed, 5004));
        let own = bed.sender(20_007, 5004);
        let a = [bed.sender(20_001, 5004), sender_of(OTHER, 20_002, 5005), sender_of(OUTSIDE, 20_003, 5004)];
        let b = [sender6_of(NEAR6, 21_001), sender6_of(OTHER6, 21_002), sender6_of(OUTSIDE6, 21_003)];
        let start = Instant::now();
        let all: Vec<_> = a.iter().chain(&b).map(|socket| (socket, 1_000, 1_200)).chain([(&own, 1_000, 800)]).collect();
        let sent = offer(Duration::from_secs(1), &all);
        let most = start.elapsed().as_micros() as u64 * 15 / 80 + 8_192;
        drain(&mut bed);
        let mut conforming = sent[6];
        for (flow, sent) in [(four, &sent[..3]), (six, &sent[3..6])] {
            let counted = plane.flow_counters(bed.oif, &flow).expect("map").expect("installed");
            // ARP and neighbour discovery are control, and were done before; nothing else is sent by the kernel.
            let inside = sent[0] + sent[1];
            assert_eq!(counted.packets + counted.over_packets, inside, "{flow:?}: two inside, one outside: {sent:?}");
            assert!(counted.bytes <= most, "{counted:?}: together no more than {most}");
            assert!(counted.over_packets > inside / 8, "more than a third of it is too much: {counted:?}");
            assert!(counted.packets > inside / 3, "and the rate is had: {counted:?}");
            conforming += counted.packets;
        }
        assert_eq!(packets(&plane, &bed, &key(7)), (sent[6], 0), "what is named more closely pays for itself");
        let controlled = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD);
        assert_eq!((controlled.packets, controlled.over_packets), (conforming, 0));
    });
}

/// What the plane refuses, and what it leaves when the last flow of prefixes has gone.
#[test]
fn few_shapes_proper_prefixes_and_nothing_left_behind() {
    scratch::in_netns(|| {
        let bed = bed();
        let mut plane = bed.open();
        plane.apply(&bed.base(5_000)).expect("fits");
        let pin = bed.state.path().join(format!("bpf/{}/behind_{}", linux::bpf::LAYOUT, bed.oif.0));
        let flow = |n: u8| FlowKey {
            src: [10, 0, 0, 0].into(),
            dst: [32, 0, 0, 0].into(),
            wild: Wild { src: 24, dst: n },
            ..key(0)
        };
        let set = |flow| PlanOp::Flow { oif: bed.oif, flow, entry: deep() };
        let mut improper = flow(16);
        improper.dst = [32, 0, 0, 1].into();
        assert!(plane.apply(&[set(improper)]).is_err() && !pin.exists());
        let most = MOST_SHAPES as u8;
        plane.apply(&(1..=most).map(|n| set(flow(n))).collect::<Vec<_>>()).expect("fits");
        assert!(pin.exists(), "the program is there with the first");
        let told = plane.read().expect("read");
        let full = plane.apply(&[set(flow(most + 1))]).expect_err("one shape too many");
        assert_eq!((full.code, plane.read()), (libc::ENOSPC, Ok(told)));
        plane.apply(&[set(FlowKey { dst: [34, 0, 0, 0].into(), ..flow(3) })]).expect("another flow of a shape");
        for n in 1..=most {
            assert!(pin.exists());
            plane.apply(&[PlanOp::DropFlow { oif: bed.oif, flow: flow(n) }]).expect("goes");
        }
        assert!(pin.exists(), "one is left");
        plane
            .apply(&[PlanOp::DropFlow { oif: bed.oif, flow: FlowKey { dst: [34, 0, 0, 0].into(), ..flow(3) } }])
            .expect("goes");
        assert!(!pin.exists(), "and away with the last");
        plane.apply(&[set(flow(2))]).expect("fits");
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("goes");
        assert!(!pin.exists());
    });
}

fn is_adopted_after_a_kill(hook: Hook) {
    let mut bed = settled();
    let mut plane = bed.open_by(hook);
    let [four, six] = sites();
    let mut ops = bed.base(6_000);
    ops.extend([four, six].map(|flow| PlanOp::Flow { oif: bed.oif, flow, entry: deep() }));
    plane.apply(&ops).expect("fits");
    let told = plane.read().expect("read");
    let (near, other) = (bed.sender(20_001, 5004), sender6_of(OTHER6, 21_002));
    let outside = sender_of(OUTSIDE, 20_003, 5004);
    let sink = bed.receiver(5004);
    let _sink = receiver6(&bed, 5004);
    let mut sent = [0; 3];
    let offered = |sent: &mut [u64; 3]| {
        let more = offer(Duration::from_millis(200), &[(&near, 500, 800), (&other, 500, 800), (&outside, 500, 800)]);
        sent.iter_mut().zip(more).for_each(|(sent, more)| *sent += more);
    };
    offered(&mut sent);
    drop(plane);
    offered(&mut sent);
    let mut plane = bed.open_by(hook);
    assert_eq!(plane.read(), Ok(told), "adopted as it was");
    assert_eq!(plane.reconcile(), Ok(vec![]), "nothing to mend");
    offered(&mut sent);
    drain(&mut bed);
    assert_eq!((packets(&plane, &bed, &four), packets(&plane, &bed, &six)), ((sent[0], 0), (sent[1], 0)));
    let controlled = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD);
    assert_eq!((controlled.packets, controlled.over_packets), (sent[0] + sent[1], 0), "not one packet outside");
    assert_eq!(arrived(&sink), sent[0] + sent[2]);
    // What is adopted goes like anything else.
    plane.apply(&[four, six].map(|flow| PlanOp::DropFlow { oif: bed.oif, flow })).expect("goes");
    offered(&mut sent);
    drain(&mut bed);
    assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, controlled.packets);
}

#[test]
fn sites_outlive_their_agent() {
    scratch::in_netns(|| is_adopted_after_a_kill(Hook::Best));
}

#[test]
fn sites_outlive_their_agent_before_linux_6_6() {
    scratch::in_netns(|| is_adopted_after_a_kill(Hook::Clsact));
}
