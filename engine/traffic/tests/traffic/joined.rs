//! Flows that are admitted by measurement and best effort behind one place of the link: the queue of two levels decides the
//! same, other classes keep what they have, and no packet is lost track of while classes come and go.

use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use std::collections::BTreeSet;
use terms::signalling::SIGNALLING;
use terms::*;
use traffic::plan::*;
use traffic::port::{Drop, Limits, Port, SchedulerKind, Verdict};
use traffic::queue::{Pool, QueueLevel, TwoLevels};

const OIF: IfIndex = IfIndex(3);
const ROOM: u32 = 6;
/// The ports of a promoted flow, of nobody's, and of a reserved one.
const MEASURED: u16 = 1;
const PLAIN: u16 = 2;
const RESERVED: u16 = 3;

fn packet(port: u16, len: u32, id: u64) -> PacketMeta {
    let host = |h| IpAddr::V4(Ipv4Addr::new(10, 0, 0, h));
    let flow = FlowKey { src: host(1), dst: host(2), protocol: 17, src_port: port, dst_port: 5004, wild: Wild::NONE };
    PacketMeta { flow, len, dscp: Dscp(0), arrival: Time::ZERO, group: None, id }
}

fn class(rate: Rate, packets: u32) -> ClassSpec {
    ClassSpec {
        real_time: Some(ServiceCurve::linear(rate)),
        link_share: rate,
        upper_limit: None,
        priority: 7,
        queue: QueueSpec { packets, bytes: Bytes::MAX },
    }
}

fn set(class: ClassId, spec: ClassSpec) -> PlanOp {
    PlanOp::Class { oif: OIF, class, spec }
}

fn flow(port: u16, class: ClassId) -> PlanOp {
    let bucket = BucketSpec { rate: Rate::from_mbps(1_000), depth: Bytes::new(1 << 24), min_unit: 0 };
    let entry = FlowSpecEntry { class, shared: None, bucket, record: OwnerRecord::EMPTY };
    PlanOp::Flow { oif: OIF, flow: packet(port, 100, 0).flow, entry }
}

/// 10 Mb/s: 3 for what is measured, 5 for best effort, and 2 for a reserved flow.
fn port() -> Port {
    let mut port = Port::new(OIF, Limits::default(), SIGNALLING, [1, 2]);
    let link = LinkSpec { rate: Rate::from_mbps(10), overhead: 0, mtu: 1500, scheduler: SchedulerKind::Hfsc };
    let ops = [
        PlanOp::Link { oif: OIF, spec: link },
        set(ClassId::BEST_EFFORT, class(Rate::from_mbps(5), ROOM)),
        set(ClassId::FIRST_OWN, class(Rate::from_mbps(2), 50)),
        set(ClassId::MEASURED, class(Rate::from_mbps(3), 50)),
        flow(MEASURED, ClassId::MEASURED),
        flow(RESERVED, ClassId::FIRST_OWN),
    ];
    ops.iter().for_each(|op| port.apply(Time::ZERO, op).unwrap());
    port
}

fn lost(port: &mut Port) -> Vec<(u64, Drop)> {
    std::iter::from_fn(|| port.poll_loss()).map(|loss| (loss.packet.id, loss.why)).collect()
}

#[test]
fn the_first_goes_before_all_of_the_second_and_pushes_out_the_last() {
    let mut port = port();
    for id in 0..u64::from(ROOM) {
        assert!(matches!(port.enqueue(Time::ZERO, packet(PLAIN, 1_000, id)), Verdict::Queued { .. }));
    }
    assert!(matches!(port.enqueue(Time::ZERO, packet(PLAIN, 1_000, 50)), Verdict::Dropped { .. }));
    assert!(!port.was_claimed());
    for id in 100..102 {
        assert!(matches!(port.enqueue(Time::ZERO, packet(MEASURED, 200, id)), Verdict::Queued { .. }));
    }
    assert!(port.was_claimed());
    assert_eq!(lost(&mut port), [(5, Drop::PushedOut), (4, Drop::PushedOut)]);
    let sent: Vec<u64> = std::iter::from_fn(|| port.dequeue(Time::from_nanos(1))).map(|packet| packet.id).collect();
    assert_eq!(sent, [100, 101, 0, 1, 2, 3], "also before what was next when they came");
    let counters = port.class_counters(ClassId::BEST_EFFORT).unwrap();
    assert_eq!((counters.packets, counters.over_packets), (4, 3));
}

/// The class beside them has its guarantee, whatever the two bring.
#[test]
fn a_reserved_flow_has_its_rate_beside_both() {
    let mut port = port();
    let (mut sent, mut now) = ([0u64; 4], Time::ZERO);
    for id in 0..20_000 {
        for flow in [MEASURED, PLAIN, RESERVED] {
            port.enqueue(now, packet(flow, 500, id));
        }
        lost(&mut port);
        let gone = port.dequeue(now).expect("the link is busy");
        sent[usize::from(gone.flow.src_port)] += 1;
        now = now + Rate::from_mbps(10).span_for(Bytes::new(500));
    }
    let share = |flow: u16| sent[usize::from(flow)] as f64 / 20_000.0;
    assert!((share(RESERVED) - 0.2).abs() < 0.01, "{sent:?}");
    assert!((share(MEASURED) - 0.8).abs() < 0.01 && sent[usize::from(PLAIN)] <= 1, "strict: {sent:?}");
}

proptest! {
    #![proptest_config(chance::cases(128))]

    /// Against the queue of the simulator.
    #[test]
    fn as_the_queue_of_two_levels(steps in proptest::collection::vec((0u8..4, 64u32..1_500), 1..400)) {
        let mut port = port();
        let (mut oracle, mut pool) = (TwoLevels::new(ROOM), Pool::new(64));
        pool.reserve(64);
        for (id, (what, len)) in (0u64..).zip(steps) {
            let now = Time::from_nanos(id * 100_000);
            let level = match what {
                0 => QueueLevel::First,
                1 | 2 => QueueLevel::Second,
                _ => {
                    let expected = oracle.pop(&mut pool).map(|(_, _, id)| id);
                    prop_assert_eq!(port.dequeue(now).map(|packet| packet.id), expected);
                    continue;
                }
            };
            let flow = if level == QueueLevel::First { MEASURED } else { PLAIN };
            let verdict = port.enqueue(now, packet(flow, len, id));
            match oracle.push(&mut pool, level, len, id) {
                Ok(out) => {
                    prop_assert!(matches!(verdict, Verdict::Queued { .. }), "{verdict:?}");
                    let out: Vec<_> = out.into_iter().map(|(_, id)| (id, Drop::PushedOut)).collect();
                    prop_assert_eq!(lost(&mut port), out);
                }
                Err(_) => prop_assert!(matches!(verdict, Verdict::Dropped { .. }), "{verdict:?}"),
            }
            prop_assert_eq!(port.queued(), oracle.packets());
        }
    }

    /// Classes come, change and go, and the link changes, in any order: every packet goes or is lost, once, and the plan that
    /// is read is the one that was told.
    #[test]
    fn no_packet_is_forgotten_while_classes_come_and_go(
        steps in proptest::collection::vec((0u8..12, 64u32..1_500), 1..300),
    ) {
        let mut port = port();
        let (mut inside, mut now) = (BTreeSet::new(), Time::ZERO);
        for (id, (what, len)) in (0u64..).zip(steps) {
            now = now + Span::from_micros(300);
            let rate = Rate::from_kbps(u64::from(len));
            let mut apply = |op: PlanOp| port.apply(now, &op).unwrap();
            match what {
                0..=5 => {
                    let flow = [MEASURED, PLAIN, RESERVED][usize::from(what) % 3];
                    match port.enqueue(now, packet(flow, len, id)) {
                        Verdict::Queued { .. } | Verdict::Held { .. } => drop(inside.insert(id)),
                        Verdict::Dropped { .. } | Verdict::Policed => {}
                    }
                }
                6 => {
                    apply(PlanOp::DropFlow { oif: OIF, flow: packet(MEASURED, 100, 0).flow });
                    apply(PlanOp::DropClass { oif: OIF, class: ClassId::MEASURED });
                }
                7 => {
                    apply(set(ClassId::MEASURED, class(rate, len % 60)));
                    apply(flow(MEASURED, ClassId::MEASURED));
                }
                8 => apply(set(ClassId::BEST_EFFORT, class(rate, len % 10))),
                9 => {
                    let scheduler = if len % 3 == 0 { SchedulerKind::Htb } else { SchedulerKind::Hfsc };
                    let rate = Rate::from_mbps(u64::from(len));
                    apply(PlanOp::Link { oif: OIF, spec: LinkSpec { rate, overhead: len % 3, mtu: 1500, scheduler } });
                }
                10 if len % 4 == 0 => apply(PlanOp::DropClass { oif: OIF, class: ClassId::BEST_EFFORT }),
                _ => {
                    if let Some(packet) = port.dequeue(now) {
                        prop_assert!(inside.remove(&packet.id));
                    }
                }
            }
            for (id, _) in lost(&mut port) {
                prop_assert!(inside.remove(&id));
            }
            prop_assert_eq!(port.inside() as usize, inside.len());
        }
        // All that is left goes, at the pace of the link.
        for _ in 0..=inside.len() {
            now = now + Span::from_secs(1);
            if let Some(packet) = port.dequeue(now) {
                prop_assert!(inside.remove(&packet.id));
            }
        }
        prop_assert!(inside.is_empty(), "{inside:?}");
    }
}
