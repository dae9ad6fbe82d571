//! The edge in front of a port: what it lets through is what was reserved, whatever is offered; marks decide the class
//! behind it.

use core::net::{IpAddr, Ipv4Addr};
use terms::book::{MeterForm, MeterTerms};
use terms::signalling::SIGNALLING;
use terms::{Bytes, Dscp, FlowKey, IfIndex, PacketMeta, Rate, SenderGroup, ServiceCurve, Time};
use traffic::conditioner::{MeterKind, MeterSpec};
use traffic::edge::*;
use traffic::plan::*;
use traffic::port::{Limits, Port, PortRefused, Verdict};

const OIF: IfIndex = IfIndex(3);
const OUT: EdgeAt = EdgeAt { interface: OIF, side: Side::Egress };
const IN: EdgeAt = EdgeAt { interface: OIF, side: Side::Ingress };

fn flow(port: u16) -> FlowKey {
    let host = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
    FlowKey { src: host(1), dst: host(2), protocol: 17, src_port: port, dst_port: 5004, wild: terms::Wild::NONE }
}

fn packet(port: u16, len: u32, dscp: Dscp) -> PacketMeta {
    PacketMeta { flow: flow(port), len, dscp, arrival: Time::ZERO, group: None, id: 0 }
}

fn rule(mbps: u64, depth: u64, mark: Dscp) -> EdgeRule {
    EdgeRule::of_bucket(BucketSpec { rate: Rate::from_mbps(mbps), depth: Bytes::new(depth), min_unit: 64 }, mark)
}

fn class(class: ClassId, mbps: u64, priority: u8) -> PlanOp {
    let rate = Rate::from_mbps(mbps);
    let queue = QueueSpec { packets: 100, bytes: Bytes::new(200_000) };
    let real_time = Some(ServiceCurve::linear(rate));
    PlanOp::Class {
        oif: OIF,
        class,
        spec: ClassSpec { real_time, link_share: rate, upper_limit: None, priority, queue },
    }
}

fn port() -> Port {
    let mut port = Port::new(OIF, Limits::default(), SIGNALLING, [1, 2]);
    let ops = [
        PlanOp::Link {
            oif: OIF,
            spec: LinkSpec {
                rate: Rate::from_mbps(10),
                overhead: 14,
                mtu: 1500,
                scheduler: traffic::scheduler::SchedulerKind::Htb,
            },
        },
        class(ClassId::BEST_EFFORT, 3, 7),
        class(ClassId::PREMIUM, 4, 1),
        class(ClassId::BACKGROUND, 3, 3),
        PlanOp::Edge { at: OUT },
        PlanOp::Rule { at: OUT, fields: MultiField::exactly(&flow(1)), rule: rule(3, 8192, Dscp::EF) },
        PlanOp::Rule { at: OUT, fields: MultiField::exactly(&flow(2)), rule: rule(2, 8192, Dscp::AF11) },
    ];
    for op in &ops {
        port.apply(Time::ZERO, op).unwrap();
        port.apply(Time::ZERO, op).unwrap();
    }
    port
}

#[test]
fn what_exceeds_a_rule_is_dropped_and_the_rest_has_its_class() {
    let mut port = port();
    let mut passed = [0u64; 3];
    let end = 10_000;
    // Each flow offers 8 Mb/s: 1,000 bytes a millisecond.
    for ms in 0..end {
        let now = Time::from_nanos(ms * 1_000_000);
        for (n, class) in [(1, ClassId::PREMIUM), (2, ClassId::BACKGROUND), (3, ClassId::BEST_EFFORT)] {
            match port.enqueue(now, packet(n, 1_000, Dscp::EF)) {
                Verdict::Policed => assert_ne!(n, 3, "no rule, no drop"),
                Verdict::Queued { class: found, excess: false } => {
                    assert_eq!(found, class, "flow {n}");
                    passed[n as usize - 1] += 1_000;
                }
                Verdict::Dropped { class: found, .. } => assert_eq!(found, class),
                other => panic!("{other:?}"),
            }
        }
        while port.dequeue(now).is_some() {}
    }
    // What its bucket held, and what has come by the time of the last packet.
    let most = |mbps: u64| mbps * 1_000_000 / 8 * (end - 1) / 1_000 + 8_192;
    for (n, mbps) in [(1, 3), (2, 2)] {
        let counters = port.edge(Side::Egress).unwrap().counters(&MultiField::exactly(&flow(n))).unwrap();
        assert!(counters.bytes <= most(mbps) && counters.bytes + 1_000 > most(mbps), "{counters:?}");
        assert_eq!(counters.packets + counters.over_packets, end);
        assert_eq!(counters.bytes, passed[usize::from(n) - 1]);
    }
    let stripped = port.edge(Side::Egress).unwrap().stripped();
    assert_eq!((stripped.packets, stripped.bytes), (end, end * 1_000), "EF that nobody reserved");
    assert_eq!(port.totals().policed, 2 * end - (passed[0] + passed[1]) / 1_000);
}

#[test]
fn a_core_node_knows_code_points_alone() {
    let mut port = port();
    port.apply(Time::ZERO, &PlanOp::DropEdge { at: OUT }).unwrap();
    let mut class = |dscp| match port.enqueue(Time::ZERO, packet(9, 100, dscp)) {
        Verdict::Queued { class, .. } => class,
        other => panic!("{other:?}"),
    };
    assert_eq!(class(Dscp::EF), ClassId::PREMIUM);
    for af in [Dscp::AF11, Dscp::AF12, Dscp::AF13] {
        assert_eq!(class(af), ClassId::BACKGROUND);
    }
    assert_eq!(class(Dscp(48)), ClassId::BEST_EFFORT);
    port.apply(Time::ZERO, &PlanOp::Class { oif: OIF, class: ClassId(16), spec: spec_of(&port) }).unwrap();
    port.apply(Time::ZERO, &PlanOp::DropClass { oif: OIF, class: ClassId::BACKGROUND }).unwrap();
    let verdict = port.enqueue(Time::ZERO, packet(9, 100, Dscp::AF11));
    assert_eq!(verdict, Verdict::Queued { class: ClassId::BEST_EFFORT, excess: false }, "where the class is not there");
}

fn spec_of(port: &Port) -> ClassSpec {
    port.classes().next().map(|(_, spec)| *spec).unwrap()
}

#[test]
fn the_way_in_is_another_edge_and_what_cannot_be_is_refused() {
    let mut port = port();
    let now = Time::ZERO;
    assert_eq!(port.arrive(now, packet(1, 100, Dscp::EF)), Some(packet(1, 100, Dscp::EF)), "no edge there yet");
    let fields = MultiField { dst_port: Some(5004), ..MultiField::default() };
    let op = PlanOp::Rule { at: IN, fields, rule: rule(1, 100, Dscp(34)) };
    assert_eq!(port.apply(now, &op), Err(PortRefused::NoEdge));
    port.apply(now, &PlanOp::Edge { at: IN }).unwrap();
    port.apply(now, &op).unwrap();
    assert_eq!(port.arrive(now, packet(7, 100, Dscp::EF)), Some(packet(7, 100, Dscp(34))));
    let excess = port.arrive(now, packet(8, 100, Dscp::EF));
    assert_eq!(
        excess,
        Some(packet(8, 100, Dscp::DEFAULT)),
        "they share the rule's bucket, and nothing of others is lost"
    );
    let v6 = Some(IpAddr::from([0; 16]));
    let mixed = MultiField { src: v6, dst: Some(flow(1).dst), ..MultiField::default() };
    let op = PlanOp::Rule { at: IN, fields: mixed, rule: rule(1, 100, Dscp::EF) };
    assert_eq!(port.apply(now, &op), Err(PortRefused::Impossible));
    let mut kinds = ORDER.into_iter().filter(|kind| *kind != fields.kind()).map(|kind| {
        let fields = MultiField::of(kind, &flow(1));
        port.apply(now, &PlanOp::Rule { at: IN, fields, rule: rule(1, 100, Dscp::EF) })
    });
    assert!(kinds.by_ref().take(MOST_KINDS - 1).all(|set| set == Ok(())));
    assert_eq!(kinds.next(), Some(Err(PortRefused::Kinds)));
}

#[test]
fn the_order_of_kinds_is_by_wildcards() {
    let mut sorted: Vec<u8> = (0..32).collect();
    sorted.sort_by_key(|kind: &u8| (kind.count_ones(), *kind));
    // Control groups behind the five-tuple, the deepest first.
    sorted.splice(1..1, (32..64).rev());
    assert_eq!(sorted, ORDER);
}

#[test]
fn a_group_comes_after_the_five_tuple_and_before_wildcards() {
    let now = Time::ZERO;
    let mut edge = Edge::new([1, 2], &[]);
    let group = |depth, id| SenderGroup { depth, id };
    let wide = MultiField { dst: Some(flow(1).dst), ..MultiField::default() };
    let all = [
        (MultiField::exactly(&flow(1)), Dscp(1)),
        (MultiField::of_group(group(2, 70)), Dscp(2)),
        (MultiField::of_group(group(1, 7)), Dscp(3)),
        (wide, Dscp(4)),
    ];
    for (fields, mark) in all {
        assert!(fields.is_possible());
        assert_eq!(MultiField::of(fields.kind(), &fields.key()), fields);
        edge.set(now, fields, rule(1_000_000, 100_000, mark)).unwrap();
    }
    let mut mark = |port, group| match edge.condition(now, &PacketMeta { group, ..packet(port, 100, Dscp(0)) }) {
        Conditioned::Passed(mark) => mark.0,
        Conditioned::Dropped => panic!("dropped"),
    };
    assert_eq!(mark(1, Some(group(2, 70))), 1, "its five-tuple");
    assert_eq!(mark(2, Some(group(2, 70))), 2);
    assert_eq!(mark(2, Some(group(1, 7))), 3);
    assert_eq!(mark(2, Some(group(1, 8))), 4, "a group without a rule");
    assert_eq!(mark(2, Some(group(2, 7))), 4, "of another depth");
    assert_eq!(mark(2, None), 4);
    let not = [group(0, 1), group(32, 1)].map(MultiField::of_group);
    assert!(not.iter().all(|fields| !fields.is_possible()), "the root, and too deep");
    assert!(!MultiField { dst_port: Some(1), ..all[1].0 }.is_possible(), "a group is named alone");
}

/// The finding: one bit a second bound to a protocol alone took everybody's packets away.
#[test]
fn what_exceeds_a_wildcard_is_best_effort_and_signalling_is_nobodys() {
    let mut edge = Edge::new([1, 2], SIGNALLING);
    let bucket = BucketSpec { rate: Rate::from_bps(1), depth: Bytes::new(100), min_unit: 0 };
    let tiny = EdgeRule::of_bucket(bucket, Dscp::EF);
    for protocol in [17, 46] {
        let fields = MultiField { protocol: Some(protocol), ..MultiField::default() };
        edge.set(Time::ZERO, fields, tiny).unwrap();
    }
    edge.set(Time::ZERO, MultiField::exactly(&flow(1)), tiny).unwrap();
    let mut pass = |packet: PacketMeta| edge.condition(Time::ZERO, &packet);
    assert_eq!(pass(packet(9, 100, Dscp::EF)), Conditioned::Passed(Dscp::EF), "conforms");
    for _ in 0..3 {
        assert_eq!(pass(packet(9, 100, Dscp::EF)), Conditioned::Passed(Dscp::DEFAULT), "and what exceeds it goes on");
    }
    assert_eq!(pass(packet(1, 100, Dscp::EF)), Conditioned::Passed(Dscp::EF));
    assert_eq!(pass(packet(1, 100, Dscp::EF)), Conditioned::Dropped, "of one's own conversation it is dropped");
    let rsvp = PacketMeta { flow: FlowKey { protocol: 46, ..flow(1) }, ..packet(1, 100, Dscp(48)) };
    for _ in 0..3 {
        assert_eq!(pass(rsvp), Conditioned::Passed(Dscp(48)));
    }
    let core = packet(3, 100, Dscp::EF);
    let mut edge = Edge::new([1, 2], SIGNALLING);
    assert_eq!(edge.condition_from(Time::ZERO, &core, true), Conditioned::Passed(Dscp::EF));
    assert_eq!(edge.condition_from(Time::ZERO, &core, false), Conditioned::Passed(Dscp::DEFAULT));
}

/// A domain behind an edge with an agreement: it marks what it likes, and more of it than it booked; what goes on as
/// premium is the agreed rate, also where each flow has a rule of its own, and without an agreement nothing is.
#[test]
fn what_a_domain_sends_as_premium_is_the_agreed_rate() {
    let mut port = port();
    let agreed = |mbps: u64, depth| PlanOp::Rule {
        at: IN,
        fields: BehaviourAggregate::Ef.fields(),
        rule: rule(mbps, depth, Dscp::EF),
    };
    for op in [PlanOp::Edge { at: IN }, agreed(2, 8192)] {
        port.apply(Time::ZERO, &op).unwrap();
    }
    let own = PlanOp::Rule { at: IN, fields: MultiField::exactly(&flow(1)), rule: rule(9, 16_384, Dscp::EF) };
    port.apply(Time::ZERO, &own).unwrap();
    let (mut bytes, mut plain) = (0, 0);
    let end = 8_000;
    for ms in 0..end {
        let now = Time::from_nanos(ms * 1_000_000);
        // A flow with a rule, which came without a mark; a lie; another service, about which nothing is agreed.
        for (n, sent) in [(1, Dscp::DEFAULT), (2, Dscp::EF), (3, Dscp::AF12), (4, Dscp::DEFAULT)] {
            match port.arrive(now, packet(n, 1_000, sent)).map(|packet| packet.dscp) {
                Some(Dscp::EF) => bytes += 1_000,
                Some(dscp) => {
                    assert!(n > 2 && dscp == Dscp::DEFAULT, "flow {n}: {dscp:?}");
                    plain += 1;
                }
                None => assert!(n <= 2, "flow {n} is dropped"),
            }
        }
    }
    let most = 2_000_000 / 8 * (end - 1) / 1_000 + 8_192;
    assert!(bytes <= most && bytes + 1_000 > most, "{bytes} of {most}");
    assert_eq!(plain, 2 * end, "what is not premium is not charged");
    let edge = port.edge(Side::Ingress).unwrap();
    let counters = edge.counters(&BehaviourAggregate::Ef.fields()).unwrap();
    assert_eq!((counters.bytes, counters.packets + counters.over_packets), (bytes, 2 * end));
    assert_eq!(edge.stripped().packets, end, "AF12");
    // The agreement is over: the marks are wiped, nothing is dropped.
    let now = Time::from_nanos(9_000_000_000);
    port.apply(now, &agreed(0, 0)).unwrap();
    for n in [1, 2] {
        assert_eq!(port.arrive(now, packet(n, 1_000, Dscp::EF)), Some(packet(n, 1_000, Dscp::DEFAULT)));
    }
    // Signalling is charged to nobody, whatever its mark.
    let rsvp = PacketMeta { flow: FlowKey { protocol: 46, ..flow(9) }, ..packet(9, 1_000, Dscp::EF) };
    port.apply(now, &agreed(1, 0)).unwrap();
    assert_eq!(port.arrive(now, rsvp), Some(PacketMeta { dscp: Dscp::DEFAULT, ..rsvp }));
    let mixed = MultiField { dst_port: Some(1), ..BehaviourAggregate::Ef.fields() };
    let refused = PlanOp::Rule { at: IN, fields: mixed, rule: rule(1, 100, Dscp::EF) };
    assert!(port.apply(now, &refused).is_err(), "an aggregate names no flow");
}

fn meter(terms: MeterTerms, mbps: u64) -> EdgeRule {
    let bucket = BucketSpec { rate: Rate::from_mbps(mbps), depth: Bytes::new(10_000), min_unit: 0 };
    EdgeRule { meter: EdgeMeter::booked(&terms, &bucket), ..EdgeRule::of_bucket(bucket, Dscp::AF11) }
}

/// What is not said of a meter follows from the bucket in whose place it is.
#[test]
fn a_meter_follows_from_the_rate_that_is_booked() {
    let kind = |terms: MeterTerms, mbps| meter(terms, mbps).meter.map(|meter| meter.kind());
    let (cir, cbs) = (Rate::from_mbps(10), Bytes::new(10_000));
    let of = MeterTerms::new;
    assert_eq!(kind(of(MeterForm::SrTcm), 10), Some(MeterKind::SrTcm { cir, cbs, ebs: cbs }));
    let (pir, pbs) = (Rate::from_mbps(20), Bytes::new(20_000));
    assert_eq!(kind(of(MeterForm::TrTcm), 10), Some(MeterKind::TrTcm { cir, cbs, pir, pbs }));
    assert_eq!(kind(of(MeterForm::Rfc4115), 10), Some(MeterKind::Rfc4115 { cir, cbs, eir: cir, ebs: cbs }));
    // A share that has grown beyond the peak is its own peak.
    let peak = of(MeterForm::TrTcm).with_rate(Some(Rate::from_mbps(15)));
    let (pir, pbs) = (Rate::from_mbps(15), Bytes::new(15_000));
    assert_eq!(kind(peak, 10), Some(MeterKind::TrTcm { cir, cbs, pir, pbs }));
    let cir = Rate::from_mbps(16);
    assert_eq!(kind(peak, 16), Some(MeterKind::TrTcm { cir, cbs, pir: cir, pbs: cbs }));
    let said = of(MeterForm::SrTcm).with_bursts(Some(Bytes::new(3_000)), Some(Bytes::new(4_000)));
    assert_eq!(kind(said, 16), Some(MeterKind::SrTcm { cir, cbs: Bytes::new(3_000), ebs: Bytes::new(4_000) }));
    let whole = MeterKind::TswTcm { ctr: cir, ptr: cir, interval: terms::Span::from_millis(1) };
    let refused = EdgeMeter::new(MeterSpec { kind: whole, aware: false }, RedPackets::Excess);
    assert_eq!(refused, Err(BadEdgeMeter::Kind));
}

/// A rule with a meter gives three code points; red ones are in excess unless they are to be marked, and of a rule with an
/// open field they lose the mark. EF has no meter.
#[test]
fn a_meter_marks_by_colour() {
    let terms = MeterTerms::new(MeterForm::SrTcm).with_bursts(Some(Bytes::new(2_000)), Some(Bytes::new(2_000)));
    let open = MultiField { protocol: Some(17), ..MultiField::default() };
    let (red, wiped) = (Conditioned::Passed(Dscp::AF13), Conditioned::Passed(Dscp::DEFAULT));
    for (fields, terms, last) in [
        (MultiField::exactly(&flow(1)), terms, Conditioned::Dropped),
        (open, terms, wiped),
        (open, terms.marking_red(true), red),
        (MultiField::exactly(&flow(1)), terms.marking_red(true), red),
    ] {
        let mut edge = Edge::new([1, 2], SIGNALLING);
        edge.set(Time::ZERO, fields, meter(terms, 1)).unwrap();
        let [green, yellow] = [Dscp::AF11, Dscp::AF12].map(Conditioned::Passed);
        let came = [(); 6].map(|()| edge.condition(Time::ZERO, &packet(1, 1_000, Dscp::AF13)));
        assert_eq!(came, [green, green, yellow, yellow, last, last]);
        let packets = edge.colors(&fields).unwrap().map(|tally| (tally.packets, tally.bytes));
        assert_eq!(packets, [(2, 2_000); 3]);
        let over = edge.counters(&fields).unwrap().over_packets;
        assert_eq!(over, if last == red { 0 } else { 2 });
        // Colour-aware: what comes as red stays red.
        edge.set(Time::ZERO, fields, meter(terms.aware(true), 1)).unwrap();
        let later = Time::from_nanos(1_000_000_000);
        assert_eq!(edge.condition(later, &packet(1, 1_000, Dscp::AF13)), last);
        assert_eq!(edge.condition(later, &packet(1, 1_000, Dscp::AF12)), yellow);
        assert_eq!(edge.condition(later, &packet(1, 1_000, Dscp::DEFAULT)), green, "no colour is green");
    }
    let foreground = EdgeRule { mark: Dscp::EF, ..meter(terms, 1) };
    let op = PlanOp::Rule { at: OUT, fields: open, rule: foreground };
    assert_eq!(port().apply(Time::ZERO, &op), Err(PortRefused::Meter));
}
