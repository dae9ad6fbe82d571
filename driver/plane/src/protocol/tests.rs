//! Every message comes back as it went, and no bytes panic.

use super::*;
use std::collections::BTreeMap;
use terms::{Bytes, Dscp, Rate, ServiceCurve, WatchedPorts, Wild};
use traffic::conditioner::{ConditionerSpec, DropperSpec, MeterKind, MeterSpec, QueueUnit, RasSpec, ShaperSpec};
use traffic::dropper::{Coupling, RedCurve};
use traffic::edge::{BehaviourAggregate, EdgeAt, EdgeMeter, EdgeRule, MultiField, RedPackets, Side};
use traffic::meter::{AfClass, Marker};
use traffic::plan::{BucketId, BucketSpec, ClassSpec, Counters, FlowSpecEntry, LinkSpec, OwnerRecord, QueueSpec};
use traffic::scheduler::SchedulerKind;

const OIF: IfIndex = IfIndex(7);

fn flow() -> FlowKey {
    let [src, dst] = ["10.0.0.1", "2001:db8::7"].map(|text| text.parse().unwrap());
    FlowKey { src, dst, protocol: 17, src_port: 9, dst_port: 10, wild: Wild { src: 3, dst: 4 } }
}

fn conditioners() -> Vec<ConditionerSpec> {
    let (rate, bytes) = (Rate::from_mbps(2), Bytes::new(3_000));
    let ras = RasSpec { buffer: bytes, k: Span::from_millis(5), green: true };
    let shapers = [
        ShaperSpec::Bucket { rate, depth: bytes, buffer: bytes },
        ShaperSpec::SrRas { rates: [rate; 2], thresholds: [bytes; 2], ras },
        ShaperSpec::TrRas { rates: [rate; 3], thresholds: [bytes; 3], ras },
    ];
    let meters = [
        MeterKind::SrTcm { cir: rate, cbs: bytes, ebs: bytes },
        MeterKind::TrTcm { cir: rate, cbs: bytes, pir: rate, pbs: bytes },
        MeterKind::Rfc4115 { cir: rate, cbs: bytes, eir: rate, ebs: bytes },
        MeterKind::TswTcm { ctr: rate, ptr: rate, interval: Span::from_secs(1) },
    ];
    let curve = RedCurve { min: 1, max: 9, max_p: 77, gentle: true };
    let dropper = DropperSpec {
        curves: [curve; 3],
        weight: 5,
        slot: Span::from_micros(1),
        coupling: Coupling::Decoupled,
        unit: QueueUnit::Bytes,
    };
    let shapers = shapers.map(|shaper| ConditionerSpec { shaper: Some(shaper), ..ConditionerSpec::default() });
    let meters = meters.map(|kind| ConditionerSpec {
        meter: Some(MeterSpec { kind, aware: true }),
        marker: AfClass::new(2).map(Marker::af),
        dropper: Some(dropper),
        shaper: None,
    });
    shapers.into_iter().chain(meters).collect()
}

/// One of each kind.
fn ops() -> Vec<PlanOp> {
    let class = ClassId::FIRST_OWN;
    let bucket = BucketSpec { rate: Rate::from_kbps(9), depth: Bytes::new(77), min_unit: 3 };
    let spec = ClassSpec {
        real_time: Some(ServiceCurve { m1: Rate::from_mbps(3), d: Span::from_millis(2), m2: Rate::from_mbps(1) }),
        link_share: Rate::from_mbps(1),
        upper_limit: None,
        priority: 1,
        queue: QueueSpec { packets: 9, bytes: Bytes::MAX },
    };
    let link = LinkSpec { rate: Rate::from_mbps(10), overhead: 14, mtu: 1500, scheduler: SchedulerKind::Hfsc };
    let record = OwnerRecord([9; OwnerRecord::LEN]);
    let at = EdgeAt { interface: OIF, side: Side::Egress };
    let fields = MultiField { dst_port: Some(3), aggregate: Some(BehaviourAggregate::Af1), ..MultiField::default() };
    let kind = MeterKind::SrTcm { cir: Rate::from_kbps(9), cbs: Bytes::new(77), ebs: Bytes::new(5) };
    let meter = EdgeMeter::new(MeterSpec { kind, aware: true }, RedPackets::Marked).unwrap();
    let mut all = vec![
        PlanOp::Link { oif: OIF, spec: link },
        PlanOp::Class { oif: OIF, class, spec },
        PlanOp::Flow {
            oif: OIF,
            flow: flow(),
            entry: FlowSpecEntry { class, bucket, shared: Some(BucketId(4)), record },
        },
        PlanOp::Edge { at },
        PlanOp::Rule { at, fields, rule: EdgeRule::of_bucket(bucket, Dscp(46)) },
        PlanOp::Rule { at, fields, rule: EdgeRule { meter: Some(meter), ..EdgeRule::of_bucket(bucket, Dscp::AF11) } },
        PlanOp::DropRule { at, fields },
        PlanOp::DropEdge { at },
        PlanOp::DropFlow { oif: OIF, flow: flow() },
        PlanOp::DropCondition { oif: OIF, class },
        PlanOp::DropClass { oif: OIF, class },
        PlanOp::DropLink { oif: OIF },
    ];
    all.extend(conditioners().into_iter().map(|spec| PlanOp::Condition { oif: OIF, class, spec }));
    all
}

fn watch() -> PlaneRequest {
    let ports = vec![WatchedPorts { protocol: 17, ports: (5_000, 5_009), threshold: 5 }];
    let watch = WatchSpec { ports, candidates: 64, quiet: Span::from_secs(32), key: [3, 4] };
    PlaneRequest::Watch { oif: OIF, watch }
}

fn answers() -> Vec<PlaneAnswer> {
    let mut plan = Plan::default();
    ops().iter().take(5).for_each(|op| plan.apply(op));
    let counted = Counters { packets: 1, bytes: 2, over_packets: 3, over_bytes: 4 };
    let counters = PlaneCounters {
        classes: BTreeMap::from([((OIF, ClassId(3)), counted)]),
        flows: BTreeMap::from([((OIF, flow()), counted)]),
        ..PlaneCounters::default()
    };
    let terms = Some(ErrorTerms { c: 1500, d: 25_000 });
    let interfaces = vec![ServedInterface { index: OIF, name: "a0".into(), terms, beyond: 3 }];
    let pair = PairStatus {
        interface: "a0".into(),
        inside: "a0p".into(),
        outside: "eth1".into(),
        down: Some("gone".into()),
        ways: [WayCounters { received: 7, ..WayCounters::default() }; 2],
        inside_now: [1, 2],
        classes: vec![(ClassId(16), ClassDelay { beyond: 3, ..ClassDelay::default() })],
    };
    vec![
        PlaneAnswer::Hello(PlaneHello { version: VERSION, netns: 1 << 40, interfaces }),
        PlaneAnswer::Applied,
        PlaneAnswer::Plan(plan),
        PlaneAnswer::Counters(counters),
        PlaneAnswer::Status(vec![pair]),
        PlaneAnswer::Fault(Fault { what: "no such class", code: 5 }),
        PlaneAnswer::Recognised(RecognisedFlows {
            watching: true,
            flows: vec![flow(); 3],
            arrived: Bytes::new(1 << 40),
        }),
        PlaneAnswer::Silences(vec![(flow(), Span::from_millis(7))]),
    ]
}

#[test]
fn messages_come_back_as_they_went() {
    let hello = PlaneRequest::Hello { version: VERSION };
    let apply = PlaneRequest::Apply(ops());
    let silences = PlaneRequest::Silences { oif: OIF, class: ClassId::MEASURED };
    for request in [
        hello,
        apply,
        PlaneRequest::Read,
        PlaneRequest::Counters,
        PlaneRequest::Status,
        watch(),
        PlaneRequest::TakeRecognised { oif: OIF },
        silences,
    ] {
        let mut bytes = Vec::new();
        send_request(&mut bytes, &request).unwrap();
        assert_eq!(receive_request(&mut bytes.as_slice()).unwrap(), Some(request));
    }
    for answer in answers() {
        let mut bytes = Vec::new();
        send_answer(&mut bytes, &answer).unwrap();
        assert_eq!(receive_answer(&mut bytes.as_slice()).unwrap(), answer);
    }
    assert_eq!(receive_request(&mut [0u8; 0].as_slice()).unwrap(), None);
}

#[test]
fn a_long_answer_comes_in_parts_and_a_long_request_is_not_sent() {
    let many = vec![ops()[2]; 40_000];
    assert!(send_request(&mut Vec::new(), &PlaneRequest::Apply(many.clone())).is_err());
    let mut plan = Plan::default();
    for (n, op) in many.into_iter().enumerate() {
        plan.apply(&ops()[0]);
        let PlanOp::Flow { oif, flow, entry } = op else { unreachable!() };
        plan.apply(&PlanOp::Flow { oif, flow: FlowKey { src_port: n as u16, ..flow }, entry });
    }
    let mut bytes = Vec::new();
    send_answer(&mut bytes, &PlaneAnswer::Plan(plan.clone())).unwrap();
    assert!(bytes.len() > 3 * PART);
    assert_eq!(receive_answer(&mut bytes.as_slice()).unwrap(), PlaneAnswer::Plan(plan));
}

#[test]
fn no_bytes_panic_and_lengths_are_not_believed() {
    let mut bytes = Vec::new();
    send_request(&mut bytes, &PlaneRequest::Apply(ops())).unwrap();
    send_request(&mut bytes, &watch()).unwrap();
    for answer in answers() {
        send_answer(&mut bytes, &answer).unwrap();
    }
    let mut random = 0x5eed_u64;
    println!("seed {random:#x}");
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for _ in 0..20_000 {
        let mut wrong = bytes.clone();
        for _ in 0..1 + draw() % 4 {
            let at = draw() as usize % wrong.len();
            wrong[at] = draw() as u8;
        }
        wrong.truncate(1 + draw() as usize % wrong.len());
        let _ = receive_request(&mut wrong.as_slice());
        let _ = receive_answer(&mut wrong.as_slice());
        let _ = whole::<PlaneAnswer>(&wrong);
        let _ = whole::<PlaneRequest>(&wrong);
    }
    // A list of four billion operations in nine bytes.
    assert!(whole::<PlaneRequest>(&[1, 255, 255, 255, 255, 0, 0, 0, 0]).is_err());
    assert!(receive_request(&mut [255u8, 255, 255, 127, 0].as_slice()).is_err());
}
