//! The data plane of one interface under every scheduler: classification, policing, counting, live change, and that
//! no packet is ever lost track of.

use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use std::collections::BTreeSet;
use terms::signalling::SIGNALLING;
use terms::*;
use traffic::conditioner::*;
use traffic::dropper::{Coupling, RedCurve};
use traffic::meter::{AfClass, Marker};
use traffic::plan::*;
use traffic::plane::DataPlane;
use traffic::port::{Limits, Port, PortPlane, PortRefused, SchedulerKind, Verdict};

const OIF: IfIndex = IfIndex(3);
const KINDS: [SchedulerKind; 5] =
    [SchedulerKind::Hfsc, SchedulerKind::Htb, SchedulerKind::Priority, SchedulerKind::Wf2q, SchedulerKind::Drr];
/// Those that keep the guarantee of a class, or serve it first.
const KEEP: [SchedulerKind; 3] = [SchedulerKind::Hfsc, SchedulerKind::Htb, SchedulerKind::Priority];

fn flow(n: u16, protocol: u8) -> FlowKey {
    let host = |h| IpAddr::V4(Ipv4Addr::new(10, 0, 0, h));
    FlowKey { src: host(1), dst: host(2), protocol, src_port: n, dst_port: 5004, wild: terms::Wild::NONE }
}

fn packet(n: u16, len: u32, id: u64) -> PacketMeta {
    PacketMeta { flow: flow(n, 17), len, dscp: Dscp(0), arrival: Time::ZERO, group: None, id }
}

fn class(rate: Option<Rate>, share: Rate, priority: u8) -> ClassSpec {
    ClassSpec {
        real_time: rate.map(ServiceCurve::linear),
        link_share: share,
        upper_limit: None,
        priority,
        queue: QueueSpec { packets: 50, bytes: Bytes::new(100_000) },
    }
}

fn entry(class: ClassId, rate: Rate, depth: u64) -> FlowSpecEntry {
    FlowSpecEntry {
        class,
        shared: None,
        bucket: BucketSpec { rate, depth: Bytes::new(depth), min_unit: 64 },
        record: OwnerRecord::EMPTY,
    }
}

fn link() -> LinkSpec {
    LinkSpec { rate: Rate::from_mbps(10), overhead: 14, mtu: 1500, scheduler: traffic::scheduler::SchedulerKind::Htb }
}

/// 10 Mb/s; flow 1 has 3.3 Mb/s of controlled load and may send 3 Mb/s.
fn port(kind: SchedulerKind) -> Port {
    let mut port = Port::new(OIF, Limits::default(), SIGNALLING, [1, 2]);
    let ops = [
        PlanOp::Link { oif: OIF, spec: LinkSpec { scheduler: kind, ..link() } },
        PlanOp::Class { oif: OIF, class: ClassId::BEST_EFFORT, spec: class(None, Rate::from_mbps(9), 7) },
        PlanOp::Class {
            oif: OIF,
            class: ClassId::CONTROL,
            spec: class(Some(Rate::from_kbps(100)), Rate::from_mbps(1), 0),
        },
        PlanOp::Class {
            oif: OIF,
            class: ClassId::CONTROLLED_LOAD,
            spec: class(Some(Rate::from_kbps(3300)), Rate::from_kbps(1), 1),
        },
        PlanOp::Flow { oif: OIF, flow: flow(1, 17), entry: entry(ClassId::CONTROLLED_LOAD, Rate::from_mbps(3), 8000) },
    ];
    for op in &ops {
        port.apply(Time::ZERO, op).unwrap();
        // Desired state: saying it again changes nothing.
        port.apply(Time::ZERO, op).unwrap();
    }
    port
}

/// A link of 10 Mb/s behind the port; sources are (flow, ip length, gap). Returns bytes sent per flow, and the packets
/// of each flow that were dropped.
fn run(port: &mut Port, sources: &[(u16, u32, Span)], until: Time) -> Vec<(u64, u64)> {
    let mut next: Vec<Time> = sources.iter().map(|_| Time::ZERO).collect();
    let mut result = vec![(0, 0); sources.len()];
    let mut free = Time::ZERO;
    loop {
        let i = (0..sources.len()).min_by_key(|i| next[*i]).unwrap();
        while free <= next[i] {
            let Some(out) = port.dequeue(free) else {
                match port.wake_at() {
                    Some(wake) if wake < next[i] => {
                        free = wake.max(free + Span::from_nanos(1));
                        continue;
                    }
                    _ => {
                        free = next[i];
                        break;
                    }
                }
            };
            let source = sources.iter().position(|s| s.0 == out.flow.src_port).unwrap();
            result[source].0 += u64::from(out.len);
            free = free + link().rate.span_for(Bytes::new(u64::from(out.len) + 14));
        }
        if next[i] >= until {
            return result;
        }
        let (f, len, gap) = sources[i];
        if matches!(port.enqueue(next[i], packet(f, len, 0)), Verdict::Dropped { .. }) {
            result[i].1 += 1;
        }
        next[i] = next[i] + gap;
    }
}

#[test]
fn a_reserved_flow_survives_a_flood_under_every_scheduler() {
    for kind in KEEP {
        let mut port = port(kind);
        // 2.99 Mb/s reserved (1400 bytes each 3.75 ms) against a flood of 12 Mb/s.
        let sources = [(1, 1400, Span::from_micros(3750)), (2, 1400, Span::from_nanos(933_333))];
        let sent = run(&mut port, &sources, Time::from_nanos(10_000_000_000));
        assert_eq!(sent[0].1, 0, "{kind:?}: a reserved packet was lost");
        assert!(sent[0].0 >= 2666 * 1400, "{kind:?}: {} bytes", sent[0].0);
        // The flood gets what the stream leaves: 10 Mb/s on the wire less 2.987 Mb/s x 1414/1400.
        let left = (10.0 * 1400.0 / 1414.0 - 2.9867) * 1e6 * 10.0 / 8.0;
        assert!(sent[1].0 as f64 > 0.995 * left, "{kind:?}: flood {} of {left}", sent[1].0);
        let flow = port.flow_counters(&flow(1, 17)).unwrap();
        assert_eq!((flow.packets, flow.over_packets), (2667, 0), "{kind:?}");
    }
}

#[test]
fn what_exceeds_the_bucket_is_best_effort_and_harms_no_one() {
    for kind in KEEP {
        let mut port = port(kind);
        let second = PlanOp::Flow {
            oif: OIF,
            flow: flow(3, 17),
            entry: entry(ClassId::CONTROLLED_LOAD, Rate::from_kbps(300), 3000),
        };
        port.apply(Time::ZERO, &second).unwrap();
        // Flow 1 sends three times its 3 Mb/s, flow 3 keeps to its 300 kb/s, flow 2 floods.
        let sources = [
            (1, 1400, Span::from_nanos(1_244_444)),
            (3, 700, Span::from_millis(19)),
            (2, 1400, Span::from_nanos(933_333)),
        ];
        let sent = run(&mut port, &sources, Time::from_nanos(10_000_000_000));
        assert_eq!(sent[1].1, 0, "{kind:?}: the second reserved flow lost packets");
        let counters = port.flow_counters(&flow(1, 17)).unwrap();
        let conforming = counters.bytes as f64 * 8.0 / 10.0;
        assert!((2.99e6..3.02e6).contains(&conforming), "{kind:?}: {conforming} b/s conforming");
        assert!(counters.over_packets > 5000, "{kind:?}");
        assert!(sent[2].0 > 2_000_000, "{kind:?}: best effort got {}", sent[2].0);
    }
}

#[test]
fn signalling_has_its_class_and_the_unknown_is_best_effort() {
    let mut port = port(SchedulerKind::Hfsc);
    let rsvp = PacketMeta { flow: flow(0, 46), ..packet(0, 200, 1) };
    assert_eq!(port.enqueue(Time::ZERO, rsvp), Verdict::Queued { class: ClassId::CONTROL, excess: false });
    let unknown = port.enqueue(Time::ZERO, packet(9, 200, 2));
    assert_eq!(unknown, Verdict::Queued { class: ClassId::BEST_EFFORT, excess: false });
    let long = port.enqueue(Time::ZERO, packet(1, 9000, 3));
    assert_eq!(long, Verdict::Queued { class: ClassId::BEST_EFFORT, excess: true }, "longer than the bucket is deep");
}

#[test]
fn operations_that_cannot_be_are_refused_and_change_nothing() {
    let mut port = Port::new(OIF, Limits { classes: 1, flows: 1, ..Limits::default() }, SIGNALLING, [0, 0]);
    let spec = class(None, Rate::from_mbps(1), 0);
    let add = |class| PlanOp::Class { oif: OIF, class, spec };
    let be = ClassId::BEST_EFFORT;
    assert_eq!(port.apply(Time::ZERO, &add(be)), Err(PortRefused::NoLink));
    let other = PlanOp::DropLink { oif: IfIndex(9) };
    assert_eq!(port.apply(Time::ZERO, &other), Err(PortRefused::OtherInterface(IfIndex(9))));
    port.apply(Time::ZERO, &PlanOp::Link { oif: OIF, spec: link() }).unwrap();
    assert_eq!(port.apply(Time::ZERO, &add(ClassId::LINK)), Err(PortRefused::Root));
    port.apply(Time::ZERO, &add(be)).unwrap();
    assert_eq!(port.apply(Time::ZERO, &add(ClassId::CONTROL)), Err(PortRefused::Classes));
    let set = |n, class| PlanOp::Flow { oif: OIF, flow: flow(n, 17), entry: entry(class, Rate::from_mbps(1), 3000) };
    assert_eq!(port.apply(Time::ZERO, &set(1, ClassId(99))), Err(PortRefused::UnknownClass(ClassId(99))));
    port.apply(Time::ZERO, &set(1, be)).unwrap();
    assert_eq!(port.apply(Time::ZERO, &set(2, be)), Err(PortRefused::Flows));
    let drop = PlanOp::DropClass { oif: OIF, class: be };
    assert_eq!(port.apply(Time::ZERO, &drop), Err(PortRefused::FlowsRemain(be)));
    port.apply(Time::ZERO, &PlanOp::DropFlow { oif: OIF, flow: flow(1, 17) }).unwrap();
    port.apply(Time::ZERO, &drop).unwrap();
    port.apply(Time::ZERO, &drop).unwrap();
    assert_eq!(port.classes().count(), 0);
}

#[test]
fn before_and_after_it_is_ours_an_interface_is_one_fifo() {
    let mut port = port(SchedulerKind::Htb);
    for id in 0..30 {
        port.enqueue(Time::ZERO, packet((id % 3) as u16, 1000, id));
    }
    port.apply(Time::ZERO, &PlanOp::DropLink { oif: OIF }).unwrap();
    assert_eq!((port.queued(), port.queued_in(ClassId::LINK)), (30, Some(30)));
    port.enqueue(Time::ZERO, packet(1, 1000, 30));
    let mut order = Vec::new();
    while let Some(p) = port.dequeue(Time::ZERO) {
        order.push(p.id);
    }
    assert_eq!((order.len(), order.last()), (31, Some(&30)));
}

#[derive(Clone, Debug)]
enum Step {
    Packet(u16, u32),
    Free,
    Wait(u64),
    Class(u8, u64, u64, Option<u64>),
    DropClass(u8),
    Flow(u16, u8, u64),
    DropFlow(u16),
    Link(u64, bool),
    DropLink,
    Condition(u8, u8),
    DropCondition(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0u16..6, 1u32..3000).prop_map(|(f, l)| Step::Packet(f, l)),
        40 => Just(Step::Free),
        20 => (0u64..5_000_000).prop_map(Step::Wait),
        6 => (2u8..8, 0u64..9, 0u64..9, proptest::option::of(0u64..9)).prop_map(|(c, r, s, u)| Step::Class(c, r, s, u)),
        2 => (2u8..8).prop_map(Step::DropClass),
        4 => (0u16..6, 2u8..8, 0u64..9).prop_map(|(f, c, r)| Step::Flow(f, c, r)),
        2 => (0u16..6).prop_map(Step::DropFlow),
        2 => (0u64..20, any::<bool>()).prop_map(|(rate, other)| Step::Link(rate, other)),
        1 => Just(Step::DropLink),
        4 => (2u8..8, 0u8..5).prop_map(|(c, which)| Step::Condition(c, which)),
        2 => (2u8..8).prop_map(Step::DropCondition),
    ]
}

/// A bucket as shaper, a rate adaptive shaper with a meter, a meter with a marker, RED alone, or nothing.
fn conditioner(which: u8) -> ConditionerSpec {
    let rate = Rate::from_kbps;
    let bytes = Bytes::new;
    let ras = RasSpec { buffer: bytes(20_000), k: Span::from_millis(100), green: true };
    let curve = RedCurve { min: 2, max: 20, max_p: 6_000, gentle: false };
    let none = ConditionerSpec::default();
    match which {
        0 => ConditionerSpec {
            shaper: Some(ShaperSpec::Bucket { rate: rate(800), depth: bytes(2_000), buffer: bytes(9_000) }),
            ..none
        },
        1 => ConditionerSpec {
            shaper: Some(ShaperSpec::SrRas {
                rates: [rate(300), rate(900)],
                thresholds: [bytes(4_000), bytes(9_000)],
                ras,
            }),
            meter: Some(MeterSpec {
                kind: MeterKind::SrTcm { cir: rate(300), cbs: bytes(3_000), ebs: bytes(6_000) },
                aware: false,
            }),
            ..none
        },
        2 => ConditionerSpec {
            meter: Some(MeterSpec {
                kind: MeterKind::SrTcm { cir: rate(300), cbs: bytes(3_000), ebs: bytes(6_000) },
                aware: false,
            }),
            marker: AfClass::new(1).map(Marker::af),
            ..none
        },
        3 => ConditionerSpec {
            dropper: Some(DropperSpec {
                curves: [curve; 3],
                weight: 1 << 24,
                slot: Span::from_micros(100),
                coupling: Coupling::Coupled,
                unit: QueueUnit::Packets,
            }),
            ..none
        },
        _ => none,
    }
}

fn operation(step: &Step, kind: SchedulerKind) -> Option<PlanOp> {
    let oif = OIF;
    Some(match *step {
        Step::Class(c, r, s, u) => {
            let mut spec = class((r > 0).then(|| Rate::from_mbps(r)), Rate::from_mbps(s), c);
            if r > 5 {
                spec.real_time =
                    Some(ServiceCurve { m1: Rate::from_mbps(s), d: Span::from_millis(r), m2: Rate::from_mbps(r) });
            }
            spec.upper_limit = u.map(Rate::from_mbps);
            PlanOp::Class { oif, class: ClassId(u16::from(c)), spec }
        }
        Step::DropClass(c) => PlanOp::DropClass { oif, class: ClassId(u16::from(c)) },
        Step::Flow(f, c, r) => {
            PlanOp::Flow { oif, flow: flow(f, 17), entry: entry(ClassId(u16::from(c)), Rate::from_mbps(r), 5000) }
        }
        Step::DropFlow(f) => PlanOp::DropFlow { oif, flow: flow(f, 17) },
        Step::Link(r, other) => {
            let next = KINDS[(KINDS.iter().position(|k| *k == kind)? + 1) % KINDS.len()];
            let scheduler = if other { next } else { kind };
            PlanOp::Link { oif, spec: LinkSpec { rate: Rate::from_mbps(r), overhead: 14, mtu: 1500, scheduler } }
        }
        Step::Condition(c, which) => PlanOp::Condition { oif, class: ClassId(u16::from(c)), spec: conditioner(which) },
        Step::DropCondition(c) => PlanOp::DropCondition { oif, class: ClassId(u16::from(c)) },
        Step::DropLink => PlanOp::DropLink { oif },
        Step::Packet(..) | Step::Free | Step::Wait(_) => return None,
    })
}

proptest! {
    #![proptest_config(chance::cases(300))]

    /// Whatever the operations and their order: every packet that was taken is said again once, as sent or as lost, each
    /// flow's packets of one class stay in order, and after the last packet nothing is left (unless a limit of zero holds
    /// it).
    #[test]
    fn every_packet_is_accounted_for(kind in 0usize..5, steps in proptest::collection::vec(step(), 1..400)) {
        let mut port = Port::new(OIF, Limits { packets: 60, ..Limits::default() }, SIGNALLING, [7, 9]);
        let spec = LinkSpec { scheduler: KINDS[kind], ..link() };
        port.apply(Time::ZERO, &PlanOp::Link { oif: OIF, spec }).unwrap();
        let mut now = Time::ZERO;
        let (mut id, mut refused, mut inside) = (0, 0u64, BTreeSet::new());
        for step in &steps {
            match step {
                Step::Packet(f, len) => {
                    id += 1;
                    match port.enqueue(now, packet(*f, *len, id)) {
                        Verdict::Queued { .. } | Verdict::Held { .. } => _ = inside.insert(id),
                        Verdict::Dropped { .. } | Verdict::Policed => refused += 1,
                    }
                }
                Step::Free => {
                    if let Some(out) = port.dequeue(now) {
                        prop_assert!(inside.remove(&out.id), "{} was not there", out.id);
                    }
                }
                Step::Wait(ns) => now = now + Span::from_nanos(*ns),
                other => {
                    let _ = port.apply(now, &operation(other, KINDS[kind]).unwrap());
                }
            }
            prop_assert_eq!(inside.len() as u32, port.inside());
            let t = port.totals();
            prop_assert_eq!(t.received, t.sent + t.dropped + t.policed + t.purged + u64::from(port.inside()));
            // Some drivers claim what is lost late.
            if id % 3 > 0 {
                while let Some(loss) = port.poll_loss() {
                    prop_assert!(inside.remove(&loss.packet.id), "{} was not there", loss.packet.id);
                }
            }
        }
        for _ in 0..10_000 {
            match port.dequeue(now) {
                Some(out) => prop_assert!(inside.remove(&out.id)),
                None => match port.wake_at() {
                    Some(wake) => {
                        prop_assert!(wake > now, "asked at {now:?}, said nothing, and wants to be woken at {wake:?}");
                        now = wake;
                    }
                    None => break,
                },
            }
            while let Some(loss) = port.poll_loss() {
                prop_assert!(inside.remove(&loss.packet.id));
            }
        }
        if port.inside() > 0 {
            let holds_back = matches!(KINDS[kind], SchedulerKind::Hfsc | SchedulerKind::Htb);
            prop_assert!(holds_back, "{:?} holds nothing back", KINDS[kind]);
        }
        port.clear(now);
        inside.retain(|_| port.poll_loss().is_none());
        prop_assert!(inside.is_empty() && port.inside() == 0);
        let _ = refused;
    }

    /// A batch of which one operation fails changes nothing.
    #[test]
    fn a_batch_is_all_or_nothing(
        kind in 0usize..5,
        before in proptest::collection::vec(step(), 1..60),
        batch in proptest::collection::vec(step(), 1..20),
    ) {
        let operations = |steps: &[Step]| {
            steps.iter().filter_map(|step| operation(step, KINDS[kind])).collect::<Vec<_>>()
        };
        let mut plane = PortPlane::new(vec![Port::new(OIF, Limits::default(), SIGNALLING, [7, 9])]);
        let spec = LinkSpec { scheduler: KINDS[kind], ..link() };
        plane.apply(Time::ZERO, &[PlanOp::Link { oif: OIF, spec }]).unwrap();
        for op in operations(&before) {
            let _ = plane.apply(Time::ZERO, &[op]);
        }
        let (was, mut now) = (plane.read().unwrap(), Time::from_nanos(5));
        let mut ops = operations(&batch);
        // The last one fails in any case.
        ops.push(PlanOp::DropLink { oif: IfIndex(9) });
        prop_assert!(plane.apply(now, &ops).is_err());
        prop_assert_eq!(plane.read().unwrap(), was.clone());
        // Without it, the plan is what the operations say, as far as they could be carried out.
        ops.pop();
        now = Time::from_nanos(9);
        let mut wanted = was;
        if plane.apply(now, &ops).is_ok() {
            ops.iter().for_each(|op| wanted.apply(op));
        }
        prop_assert_eq!(plane.read().unwrap(), wanted);
    }
}

/// The packets that left, with class, number and start.
#[derive(Default)]
struct Sent(Vec<(ClassId, u64, Time)>);

impl traffic::port::PortEgress for Sent {
    fn send(&mut self, at: Time, class: ClassId, packet: &PacketMeta) {
        self.0.push((class, packet.id, at));
    }

    fn lost(&mut self, loss: &traffic::port::PortLoss) {
        panic!("{loss:?}");
    }
}

/// Packets that find nothing waiting pass without the scheduler. Every class has what it had: no packet of a guaranteed one goes
/// later than its rate and one full packet of others allow, however often others have passed; and all is counted.
#[test]
fn what_passes_an_idle_link_takes_nothing_from_others() {
    let own = ClassId::FIRST_OWN;
    let rate = Rate::from_mbps(2);
    for seed in 1..40 {
        for straight in [false, true] {
            let mut port = port(SchedulerKind::Hfsc);
            port.apply(Time::ZERO, &PlanOp::Class { oif: OIF, class: own, spec: class(Some(rate), rate, 1) }).unwrap();
            let op = PlanOp::Flow { oif: OIF, flow: flow(2, 17), entry: entry(own, rate, 100_000) };
            port.apply(Time::ZERO, &op).unwrap();
            let mut draw = bench::Draw::new(seed);
            let (mut now, mut free, mut sent) = (Time::from_nanos(1), Time::ZERO, Sent::default());
            let (mut finish, mut due, mut passed) = (Time::ZERO, Vec::new(), 0);
            let wire = |len: u32| Bytes::new(u64::from(len) + 14);
            for id in 0..400u64 {
                // Now and then a crowd, else gaps in which the link falls idle.
                let busy = (id / 40).is_multiple_of(2);
                now = now + Span::from_micros(u64::from(draw.next_u32() % if busy { 900 } else { 3_000 }));
                free = port.serve(free, now, &mut sent);
                let (n, len) = (1 + (draw.next_u32() % 3) as u16, 100 + draw.next_u32() % 1_400);
                if n == 2 {
                    finish = finish.max(now) + rate.span_for(wire(len));
                    due.push((id, finish));
                }
                if straight && free <= now {
                    match port.enqueue_free(now, packet(n, len, id)) {
                        Ok((class, went)) => {
                            (passed, free) = (passed + 1, now + link().rate.span_for(wire(len)));
                            sent.0.push((class, went.id, now));
                        }
                        Err(verdict) => assert!(matches!(verdict, Verdict::Queued { .. }), "{verdict:?}"),
                    }
                } else {
                    assert!(matches!(port.enqueue(now, packet(n, len, id)), Verdict::Queued { .. }));
                }
            }
            port.serve(free, now + Span::from_secs(1), &mut sent);
            assert_eq!((sent.0.len(), port.totals().sent, port.totals().received), (400, 400, 400));
            assert_eq!(passed > 50, straight, "{passed}");
            let counted = port.class_counters(own).unwrap().packets as usize;
            assert_eq!(counted, due.len());
            let ours: Vec<(u64, Time)> =
                sent.0.iter().filter(|gone| gone.0 == own).map(|gone| (gone.1, gone.2)).collect();
            let most = rate.span_for(wire(1_500)).saturating_add(link().rate.span_for(wire(1_500)));
            for ((id, went), (wanted, finish)) in ours.iter().zip(&due) {
                assert_eq!(id, wanted, "in order");
                assert!(went.since(*finish) <= most, "seed {seed}: packet {id} went at {went:?}, due at {finish:?}");
            }
        }
    }
}
