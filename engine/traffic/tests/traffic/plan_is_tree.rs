//! A plan and a described tree of the same classes, conditioners and packets send the same packets in the same order, with
//! the same code points, under each scheduler that both can run.

use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use terms::signalling::SIGNALLING;
use terms::*;
use traffic::conditioner::*;
use traffic::meter::{AfClass, Marker};
use traffic::path::{PathVerdict, TreeShare};
use traffic::plan::*;
use traffic::port::{Limits, Port, Verdict};
use traffic::scheduler::SchedulerKind;
use traffic::tree::{LeafSpec, LinkShape, MultiFieldRule, NodeKind, Tree, TreeNodeSpec, TreeSpec};

const OIF: IfIndex = IfIndex(2);
const KINDS: [SchedulerKind; 4] =
    [SchedulerKind::Hfsc, SchedulerKind::Wf2q, SchedulerKind::Drr, SchedulerKind::Priority];
/// Best effort, and three classes with one flow each.
const CLASSES: [ClassId; 4] = [ClassId::BEST_EFFORT, ClassId(16), ClassId(17), ClassId(18)];

fn flow(n: u16) -> FlowKey {
    let host = |h| IpAddr::V4(Ipv4Addr::new(10, 0, 0, h));
    FlowKey { src: host(1), dst: host(2), protocol: 17, src_port: n, dst_port: 5004, wild: Wild::NONE }
}

fn class(n: usize) -> ClassSpec {
    ClassSpec {
        real_time: (n > 1).then(|| ServiceCurve::linear(Rate::from_kbps(500 * n as u64))),
        link_share: Rate::from_kbps(400 + 300 * n as u64),
        upper_limit: None,
        priority: n as u8,
        queue: QueueSpec { packets: 30, bytes: Bytes::new(1 << 30) },
    }
}

fn conditioner(which: u8) -> ConditionerSpec {
    let (rate, bytes, none) = (Rate::from_kbps, Bytes::new, ConditionerSpec::default());
    let kind = MeterKind::SrTcm { cir: rate(400), cbs: bytes(3_000), ebs: bytes(5_000) };
    let marked = ConditionerSpec {
        meter: Some(MeterSpec { kind, aware: true }),
        marker: AfClass::new(2).map(Marker::af),
        ..none
    };
    let ras = RasSpec { buffer: bytes(40_000), k: Span::from_millis(50), green: true };
    match which {
        0 => none,
        1 => marked,
        2 => {
            let bucket = ShaperSpec::Bucket { rate: rate(900), depth: bytes(3_000), buffer: bytes(12_000) };
            ConditionerSpec { shaper: Some(bucket), ..none }
        }
        _ => {
            let (rates, thresholds) = ([rate(300), rate(800)], [bytes(6_000), bytes(20_000)]);
            ConditionerSpec { shaper: Some(ShaperSpec::SrRas { rates, thresholds, ras }), ..marked }
        }
    }
}

fn both(kind: SchedulerKind, parts: [u8; 4]) -> (Port, Tree) {
    let link = LinkSpec { rate: Rate::from_mbps(10), overhead: 14, mtu: 1500, scheduler: kind };
    let mut port = Port::new(OIF, Limits::default(), SIGNALLING, [3, 4]);
    let mut ops = vec![PlanOp::Link { oif: OIF, spec: link }];
    let mut nodes = Vec::new();
    for (n, &id) in CLASSES.iter().enumerate() {
        let (spec, conditioner) = (class(n), conditioner(parts[n]));
        ops.push(PlanOp::Class { oif: OIF, class: id, spec });
        ops.push(PlanOp::Condition { oif: OIF, class: id, spec: conditioner });
        let bucket = BucketSpec { rate: Rate::INFINITE, depth: Bytes::MAX, min_unit: 0 };
        let entry = FlowSpecEntry { class: id, bucket, shared: None, record: OwnerRecord::EMPTY };
        if n > 0 {
            ops.push(PlanOp::Flow { oif: OIF, flow: flow(n as u16), entry });
        }
        let own = MultiFieldRule { src_ports: Some((n as u16, n as u16)), ..MultiFieldRule::default() };
        let ConditionerSpec { shaper, meter, marker, dropper } = conditioner;
        let rules = if n > 0 { vec![own] } else { Vec::new() };
        let leaf = LeafSpec { rules, shaper, meter, marker, dropper, queue: spec.queue };
        let share = TreeShare::of(kind, &spec, &link);
        nodes.push(TreeNodeSpec { name: n.to_string(), parent: None, share, kind: NodeKind::Leaf(Box::new(leaf)) });
    }
    ops.iter().for_each(|op| port.apply(Time::ZERO, op).unwrap());
    let shape = LinkShape { rate: link.rate, overhead: link.overhead, scheduler: kind };
    (port, Tree::new(TreeSpec { link: shape, nodes }, Time::ZERO, 1).unwrap())
}

proptest! {
    #![proptest_config(chance::cases(200))]

    #[test]
    fn both_send_the_same(
        kind in 0usize..4,
        parts in [0u8..4, 0u8..4, 0u8..4, 0u8..4],
        steps in proptest::collection::vec((0u8..8, 0u16..4, 64u32..1500, 0u64..2_000_000), 1..300),
    ) {
        let (mut port, mut tree) = both(KINDS[kind], parts);
        let mut now = Time::ZERO;
        for (id, &(what, n, len, wait)) in steps.iter().enumerate() {
            now = now + Span::from_nanos(wait);
            if what < 5 {
                let dscp = Dscp(if len % 3 == 0 { 20 } else { 0 });
                let packet = PacketMeta { flow: flow(n), len, dscp, arrival: now, group: None, id: id as u64 };
                let class = CLASSES[usize::from(n)];
                let wanted = match tree.enqueue(now, packet) {
                    PathVerdict::Held => Verdict::Held { class, excess: false },
                    PathVerdict::Queued(_) => Verdict::Queued { class, excess: false },
                    PathVerdict::Dropped(reason) => Verdict::Dropped { class, reason },
                };
                prop_assert_eq!(port.enqueue(now, packet), wanted);
            } else {
                let wanted = tree.dequeue(now).map(|gone| PacketMeta { dscp: gone.dscp, ..gone.packet });
                prop_assert_eq!(port.dequeue(now), wanted);
            }
            let lost = |loss: traffic::path::Loss| (loss.packet.id, loss.why);
            prop_assert_eq!(port.poll_loss().map(|loss| (loss.packet.id, loss.why)), tree.poll_loss().map(lost));
        }
    }
}
