//! The edge's programs against the engine's edge: same packets, same rules, same decisions, same marks, same level, to
//! the last unit; and a plane's edges through batches, failures and kills.

use crate::bed::{self, FAR, NEAR};
use crate::policer::{Dice, LO, OWN, frame};
use crate::scratch::{self, StateDir};
use linux::bpf::edge::{RawRule, RawRuleKey};
use linux::bpf::entry::MAJOR;
use linux::bpf::sys::{SkBuff, test_run_through};
use linux::bpf::{EdgeTable, FlowTable, Hook};
use linux::plane::{FaultInjection, KernelPlane, PlaneDrift};
use std::collections::BTreeMap;
use std::net::IpAddr;
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Time};
use traffic::conditioner::{MeterKind, MeterSpec};
use traffic::edge::{
    BehaviourAggregate, Conditioned, Edge, EdgeAt, EdgeMeter, EdgeRule, MOST_KINDS, MultiField, ORDER, RedPackets, Side,
};
use traffic::plan::{BucketSpec, ClassId, Plan, PlanOp};

const NEXT: i32 = -1;
const DROP: i32 = 2;
pub const AT: EdgeAt = EdgeAt { interface: LO, side: Side::Ingress };

/// The programs, to be run on single packets.
pub struct Bench {
    pub table: EdgeTable,
    _flows: FlowTable,
    _state: StateDir,
}

impl Bench {
    pub fn new() -> Bench {
        let state = StateDir::new();
        let flows = FlowTable::open(state.path(), 64, Hook::Best).expect("the flow program loads");
        let mut table = EdgeTable::open(state.path(), Hook::Best).expect("the edge programs load");
        table.note(AT, 14).expect("an edge");
        Bench { table, _flows: flows, _state: state }
    }

    pub fn install(&mut self, slot: u32, fields: &MultiField, rule: &EdgeRule) {
        let raw = RawRule::new(slot, rule);
        self.table.put_state(slot, &raw.full()).expect("state");
        self.table.put_rule(&RawRuleKey::new(AT, fields), &raw).expect("rule");
    }

    /// The packet behind the edge.
    pub fn pass(&self, side: Side, packet: &[u8]) -> Option<Vec<u8>> {
        self.pass_from(side, packet, 0)
    }

    /// The same of one that came in by an interface; zero: this host sends it.
    fn pass_from(&self, side: Side, packet: &[u8], from: u32) -> Option<Vec<u8>> {
        let mut context = SkBuff::leaving(LO.0, 0, 0, 0).from(from);
        let (verdict, packet) = test_run_through(self.table.program(side), packet, &mut context).expect("test run");
        assert!([NEXT, DROP].contains(&verdict), "{verdict}");
        (verdict == NEXT).then_some(packet)
    }
}

/// A frame of that code point, with a right checksum and both ECN bits set.
pub fn marked(flow: &FlowKey, len: usize, dscp: Dscp) -> Vec<u8> {
    let mut frame = frame(flow, len);
    match flow.src {
        IpAddr::V4(_) => {
            frame[15] = dscp.0 << 2 | 3;
            frame[24..26].fill(0);
            let sum = !checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        IpAddr::V6(_) => {
            frame[14] = 0x60 | dscp.0 >> 2;
            frame[15] = dscp.0 << 6 | 3 << 4;
        }
    }
    frame
}

/// The Internet checksum's sum (RFC 1071): 0xffff of a header whose checksum is right.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    ((sum & 0xffff) + (sum >> 16)) as u16
}

pub fn code_point(frame: &[u8]) -> Dscp {
    match frame[14] >> 4 {
        4 => Dscp(frame[15] >> 2),
        _ => Dscp((frame[14] & 15) << 2 | frame[15] >> 6),
    }
}

pub fn some_flow(dice: &mut Dice) -> FlowKey {
    let v6 = dice.below(4) == 0;
    let host = |n: u64| {
        if v6 { IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n as u16]) } else { IpAddr::from([10, 0, 0, n as u8]) }
    };
    let (src, dst) = (host(1 + dice.below(2)), host(3 + dice.below(2)));
    let protocol = [6, 6, 6, 17, 17, 17, 17, 46][dice.below(8) as usize];
    FlowKey {
        src,
        dst,
        protocol,
        src_port: 4000 + dice.below(2) as u16,
        dst_port: 5004 + dice.below(2) as u16,
        wild: terms::Wild::NONE,
    }
}

fn some_rule(dice: &mut Dice) -> EdgeRule {
    let rate = Rate::from_bps(dice.log(34) << 2);
    let bucket = BucketSpec { rate, depth: Bytes::new(100 + dice.log(20)), min_unit: dice.log(11) as u32 };
    EdgeRule::of_bucket(bucket, [Dscp::EF, Dscp::AF11, Dscp::DEFAULT, Dscp(63)][dice.below(4) as usize])
}

fn kinds_of(rules: &BTreeMap<MultiField, u32>) -> Vec<u8> {
    ORDER.into_iter().filter(|kind| rules.keys().any(|fields| fields.kind() == *kind)).collect()
}

/// The kinds of five-tuples, the closest first; those of control groups are in `groups`.
fn wildcards() -> Vec<u8> {
    ORDER.into_iter().filter(|kind| *kind < 32).collect()
}

#[test]
fn same_packets_same_rules_same_marks_same_level() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let mut dice = Dice(7);
        let mut model = Edge::new([1, 2], terms::signalling::SIGNALLING);
        let mut rules: BTreeMap<MultiField, u32> = BTreeMap::new();
        let (mut dropped, mut unmarked, mut stripped, mut matched) = (0, 0, 0, 0);
        let mut over_before: BTreeMap<u32, u64> = BTreeMap::new();
        for n in 0..20_000 {
            if n % 40 == 0 {
                // A rule more, or another one in place; every so often one less.
                let fields = MultiField::of(wildcards()[dice.below(32) as usize], &some_flow(&mut dice));
                let known = rules.len() as u32;
                let old = rules.get(&fields).copied();
                let rule = some_rule(&mut dice);
                if old.is_some() && dice.below(2) == 0 {
                    rules.remove(&fields);
                    model.remove(&fields);
                    bench.table.remove_rule(&RawRuleKey::new(AT, &fields)).expect("removed");
                } else if let Some(slot) = old {
                    let at = Time::from_nanos(bench.table.state(slot).expect("state").last);
                    model.set(at, fields, rule).expect("room");
                    bench.table.put_rule(&RawRuleKey::new(AT, &fields), &RawRule::new(slot, &rule)).expect("rule");
                } else if known < 200 && model.set(Time::ZERO, fields, rule).is_ok() {
                    rules.insert(fields, n / 40);
                    bench.install(n / 40, &fields, &rule);
                }
                bench.table.put_kinds(&kinds_of(&rules)).expect("kinds");
            }
            let (flow, len) = (some_flow(&mut dice), 60 + dice.below(1440) as u32);
            let dscp = [Dscp::EF, Dscp::AF12, Dscp::DEFAULT, Dscp(48)][dice.below(4) as usize];
            let before: BTreeMap<u32, u64> =
                rules.values().map(|slot| (*slot, bench.table.state(*slot).expect("state").last)).collect();
            let sent = marked(&flow, len as usize, dscp);
            let came = bench.pass(Side::Ingress, &sent);
            // The one bucket whose clock moved is the rule's that had the packet.
            let hit = rules.iter().find(|(_, slot)| bench.table.state(**slot).expect("state").last != before[slot]);
            let now =
                hit.map_or(Time::ZERO, |(_, slot)| Time::from_nanos(bench.table.state(*slot).expect("state").last));
            let verdict = model.condition(now, &PacketMeta { flow, len, dscp, arrival: now, group: None, id: 0 });
            let expected = match verdict {
                Conditioned::Passed(dscp) => Some(marked(&flow, len as usize, dscp)),
                Conditioned::Dropped => None,
            };
            assert!(
                came == expected,
                "packet {n} of {flow:?}: {:?}, expected {verdict:?}",
                came.map(|p| code_point(&p))
            );
            if let Some((fields, slot)) = hit {
                matched += 1;
                assert_eq!(model.counters(fields), Some(bench.table.counters(*slot).expect("counters")), "packet {n}");
            }
            let over = hit.is_some_and(|(fields, slot)| {
                let now = bench.table.counters(*slot).expect("counters").over_packets;
                let before = over_before.insert(*slot, now).unwrap_or(0);
                fields.kind() != 0 && now > before
            });
            unmarked += u64::from(over);
            dropped += u64::from(verdict == Conditioned::Dropped);
            stripped += u64::from(hit.is_none() && dscp.is_premium());
        }
        assert_eq!(model.stripped(), bench.table.stripped(AT).expect("stripped"));
        let many = dropped > 50 && unmarked > 2_000 && stripped > 50 && matched > 5_000;
        assert!(many, "{dropped} {unmarked} {stripped} {matched}: proves nothing");
    });
}

/// Who marks packets premium: a host behind an edge, an interface that nobody looks after, this host itself; and who is
/// believed. Also where the headers make no sense behind the code point.
#[test]
fn a_premium_code_point_needs_somebody_who_answers_for_it() {
    const CORE: u32 = 7;
    const STRANGE: u32 = 9;
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        bench.table.note(EdgeAt { interface: LO, side: Side::Egress }, 14).expect("an edge");
        bench.table.note(EdgeAt { interface: terms::IfIndex(8), side: Side::Ingress }, 14).expect("an edge");
        bench.table.put_kinds(&[]).expect("no rules");
        bench.table.believe(&[terms::IfIndex(CORE)].into()).expect("believed");
        for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let flow = crate::policer::key(src, dst, 17);
            let mut packets = vec![(marked(&flow, 100, Dscp::EF), marked(&flow, 100, Dscp::DEFAULT))];
            if flow.src.is_ipv6() {
                // Destination Options that are longer than the packet (RFC 8200 section 4.6): no header behind them.
                packets = packets
                    .into_iter()
                    .flat_map(|pair| {
                        let mut long = pair.clone();
                        for frame in [&mut long.0, &mut long.1] {
                            (frame[20], frame[54], frame[55]) = (60, 60, 255);
                        }
                        [pair, long]
                    })
                    .collect();
            }
            for (premium, plain) in &packets {
                for (side, from, wiped) in [
                    (Side::Egress, 0, true),
                    (Side::Egress, STRANGE, true),
                    (Side::Egress, CORE, false),
                    (Side::Egress, 8, false),
                    (Side::Ingress, 0, true),
                ] {
                    let came = bench.pass_from(side, premium, from).expect("nothing is dropped");
                    assert_eq!(&came, if wiped { plain } else { premium }, "{src} {side:?} {from}");
                }
            }
            for dscp in [Dscp::AF11, Dscp::AF12, Dscp::AF13] {
                let came = bench.pass(Side::Egress, &marked(&flow, 100, dscp)).expect("passes");
                assert_eq!(code_point(&came), Dscp::DEFAULT, "{dscp:?}");
            }
            for dscp in [Dscp(48), Dscp(34), Dscp(8)] {
                let came = bench.pass(Side::Egress, &marked(&flow, 100, dscp)).expect("passes");
                assert_eq!(code_point(&came), dscp, "not ours to wipe");
            }
        }
        bench.table.believe(&[LO].into()).expect("believed");
        let premium = marked(&crate::policer::key("10.0.0.1", "10.0.0.2", 17), 100, Dscp::EF);
        assert_eq!(bench.pass(Side::Ingress, &premium).as_ref(), Some(&premium), "what comes in by core");
        assert_ne!(bench.pass_from(Side::Egress, &premium, CORE).as_ref(), Some(&premium), "no more");
    });
}

/// The finding: a protocol alone was a rule, and its excess, everybody's packets, was dropped.
#[test]
fn a_wildcard_takes_nobodys_packets_and_no_signalling() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let bucket = BucketSpec { rate: Rate::from_bps(1), depth: Bytes::new(0), min_unit: 0 };
        let tiny = EdgeRule::of_bucket(bucket, Dscp::EF);
        let of = |protocol| MultiField { protocol: Some(protocol), ..MultiField::default() };
        bench.table.put_kinds(&[of(1).kind()]).expect("kinds");
        for (slot, protocol) in [1, 6, 17, 46, 58].into_iter().enumerate() {
            bench.install(slot as u32, &of(protocol), &tiny);
        }
        let pass = |frame: &[u8]| code_point(&bench.pass(Side::Ingress, frame).expect("nothing is dropped"));
        let sent = Dscp(34); // neither wiped nor given by anybody: seen only where no rule has the packet
        for (src, dst, icmp, echoes) in [("10.0.0.1", "10.0.0.2", 1, [0, 8]), ("fd00::1", "fd00::2", 58, [128, 129])] {
            for protocol in [6, 17] {
                let flow = crate::policer::key(src, dst, protocol);
                assert_eq!(pass(&marked(&flow, 100, sent)), Dscp::DEFAULT, "the rule's excess goes on");
            }
            assert_eq!(pass(&marked(&crate::policer::key(src, dst, 46), 100, sent)), sent, "RSVP");
            let typed = |kind: u8, magic: bool| {
                let mut frame = marked(&crate::policer::key(src, dst, icmp), 100, sent);
                let at = if icmp == 1 { 34 } else { 54 };
                frame[at] = kind;
                frame[at + 8..at + 12].copy_from_slice(&(if magic { 0x4711_4711u32 } else { 0 }).to_be_bytes());
                frame
            };
            for kind in (0..=255).filter(|kind| !echoes.contains(kind)) {
                assert_eq!(pass(&typed(kind, false)), sent, "ICMP type {kind} to {dst}");
            }
            for kind in echoes {
                assert_eq!(pass(&typed(kind, false)), Dscp::DEFAULT, "an echo may be reserved");
                assert_eq!(pass(&typed(kind, true)), sent, "Boomerang");
            }
        }
    });
}

#[test]
fn the_closest_rule_has_the_packet() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let flow = FlowKey { protocol: 17, ..some_flow(&mut Dice(1)) };
        let bucket = BucketSpec { rate: Rate::from_mbps(1), depth: Bytes::new(1 << 20), min_unit: 0 };
        // From the widest to the closest: each that comes takes the packet over.
        let order = wildcards();
        for (n, kind) in order.iter().copied().enumerate().rev() {
            bench.table.put_kinds(&order[n..(n + MOST_KINDS).min(order.len())]).expect("kinds");
            bench.install(n as u32, &MultiField::of(kind, &flow), &EdgeRule::of_bucket(bucket, Dscp(n as u8)));
            let came = bench.pass(Side::Ingress, &marked(&flow, 100, Dscp::EF)).expect("passes");
            assert_eq!(code_point(&came), Dscp(n as u8), "kind {kind}");
            assert_eq!(came, marked(&flow, 100, Dscp(n as u8)), "nothing else changed, and the checksum is right");
        }
        // The other side is another edge: there is none.
        assert_eq!(bench.pass(Side::Egress, &marked(&flow, 100, Dscp::EF)), Some(marked(&flow, 100, Dscp::EF)));
    });
}

fn rule(kbps: u64, mark: Dscp) -> EdgeRule {
    EdgeRule::of_bucket(BucketSpec { rate: Rate::from_kbps(kbps), depth: Bytes::new(8192), min_unit: 0 }, mark)
}

fn edge_ops(at: EdgeAt) -> Vec<PlanOp> {
    let exact = MultiField::exactly(&bed::key(1));
    let wide = MultiField { src: Some(NEAR.into()), dst: Some(FAR.into()), ..MultiField::default() };
    vec![
        PlanOp::Edge { at },
        PlanOp::Rule { at, fields: exact, rule: rule(4_000, Dscp::EF) },
        PlanOp::Rule { at, fields: wide, rule: rule(2_000, Dscp::AF11) },
        PlanOp::Rule { at, fields: BehaviourAggregate::Ef.fields(), rule: rule(5_000, Dscp::EF) },
        PlanOp::Rule { at, fields: BehaviourAggregate::Af1.fields(), rule: metered(6_000, 9_000) },
    ]
}

/// A rule with a meter.
fn metered(kbps: u64, peak_kbps: u64) -> EdgeRule {
    let [cir, pir] = [kbps, peak_kbps].map(Rate::from_kbps);
    let kind = MeterKind::TrTcm { cir, cbs: Bytes::new(8192), pir, pbs: Bytes::new(9000) };
    let meter = EdgeMeter::new(MeterSpec { kind, aware: true }, RedPackets::Marked).expect("it can work");
    EdgeRule { meter: Some(meter), ..rule(kbps, Dscp::AF11) }
}

#[test]
fn real_packets_are_policed_marked_and_served_by_their_code_point() {
    for hook in [Hook::Best, Hook::Clsact] {
        scratch::in_netns(move || {
            let bed = bed::bed();
            let mut plane = bed.open_by(hook);
            let mut ops = bed.base(1_000);
            ops[3] = bed.class(ClassId::BEST_EFFORT, 2_000, 7);
            ops.extend([bed.class(ClassId::PREMIUM, 4_200, 1), bed.class(ClassId::BACKGROUND, 2_400, 3)]);
            let at = EdgeAt { interface: bed.oif, side: Side::Egress };
            ops.extend(edge_ops(at));
            plane.apply(&ops).expect("installed");
            let (to, from) = (bed.receiver(5004), [bed.sender(20_001, 5004), bed.sender(20_002, 5004)]);
            let sent = 100;
            for socket in &from {
                for _ in 0..sent {
                    socket.send(&[0; 972]).expect("sent");
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(400));
            let mut came = 0;
            while to.recv(&mut [0; 2048]).is_ok() {
                came += 1;
            }
            let all = plane.counters().expect("counters");
            let of = |fields: MultiField| all.rules[&(at, fields)];
            let exact = of(MultiField::exactly(&bed::key(1)));
            assert_eq!(exact.packets + exact.over_packets, sent);
            assert_eq!(exact.bytes, exact.packets * 1000, "IP bytes");
            // 8,192 bytes are eight packets; a few more while they were sent.
            assert!((8..40).contains(&exact.packets), "{exact:?}");
            let class = |class| all.classes[&(bed.oif, class)].packets;
            assert_eq!(class(ClassId::PREMIUM), exact.packets, "EF has its class");
            let wide = MultiField { src: Some(NEAR.into()), dst: Some(FAR.into()), ..MultiField::default() };
            assert_eq!(class(ClassId::BACKGROUND), of(wide).packets, "AF has its class");
            assert!(came >= exact.packets && of(wide).packets >= 8, "{came} came");
            plane.apply(&[PlanOp::DropEdge { at }, PlanOp::DropLink { oif: bed.oif }]).expect("gone");
            assert_eq!(plane.read(), Ok(Plan::default()), "{hook:?}");
        });
    }
}

#[test]
fn every_write_may_fail_or_be_the_last() {
    scratch::in_netns(|| {
        let at = |side| EdgeAt { interface: LO, side };
        let mut ops = edge_ops(at(Side::Ingress));
        ops.extend(edge_ops(at(Side::Egress)));
        let wanted = bed::plan_of(&ops);
        let change = [
            PlanOp::DropRule { at: at(Side::Ingress), fields: MultiField::exactly(&bed::key(1)) },
            PlanOp::Rule { at: at(Side::Egress), fields: MultiField::exactly(&bed::key(1)), rule: rule(1, Dscp::AF11) },
            PlanOp::Rule { at: at(Side::Egress), fields: BehaviourAggregate::Ef.fields(), rule: rule(2, Dscp::EF) },
            PlanOp::DropRule { at: at(Side::Ingress), fields: BehaviourAggregate::Ef.fields() },
            PlanOp::Rule {
                at: at(Side::Egress),
                fields: BehaviourAggregate::Af1.fields(),
                rule: metered(7_000, 8_000),
            },
            PlanOp::Rule { at: at(Side::Ingress), fields: BehaviourAggregate::Af1.fields(), rule: rule(3, Dscp::AF11) },
            PlanOp::DropEdge { at: at(Side::Ingress) },
        ];
        for n in 0..16 {
            let state = StateDir::new();
            let mut plane = KernelPlane::open(state.path()).expect("opens");
            plane.rig(FaultInjection::FailAfter(n));
            if plane.apply(&ops).is_err() {
                assert_eq!(plane.read(), Ok(Plan::default()), "write {n} failed: nothing is left");
            }
            plane.rig(FaultInjection::None);
            plane.apply(&ops).expect("installed");
            assert_eq!(plane.read(), Ok(wanted.clone()));
            plane.rig(FaultInjection::FailAfter(n));
            if plane.apply(&change).is_err() {
                assert_eq!(plane.read(), Ok(wanted.clone()), "write {n} failed: all is as it was");
            }
            plane.rig(FaultInjection::DieAfter(n));
            let _ = plane.apply(&change);
            drop(plane);
            let mut plane = KernelPlane::open(state.path()).expect("opens again");
            plane.apply(&ops).expect("installed");
            assert_eq!(plane.read(), Ok(wanted.clone()), "killed after write {n}, and made good");
            let gone = [Side::Ingress, Side::Egress].map(|side| PlanOp::DropEdge { at: at(side) });
            plane.apply(&gone).expect("gone");
            assert_eq!(plane.read(), Ok(Plan::default()));
            drop(plane);
            linux::bpf::forget(state.path()).expect("forgotten");
        }
    });
}

#[test]
fn an_edge_outlives_its_agent_and_is_mended() {
    scratch::in_netns(|| {
        let state = StateDir::new();
        let ops = edge_ops(AT);
        let mut plane = KernelPlane::open(state.path()).expect("opens");
        plane.apply(&ops).expect("installed");
        drop(plane);
        let mut plane = KernelPlane::open(state.path()).expect("opens again");
        assert_eq!(plane.read(), Ok(bed::plan_of(&ops)), "found as it was left");
        assert_eq!(plane.reconcile(), Ok(vec![]));
        // Somebody takes the program away.
        let link = state.path().join("bpf").join(linux::bpf::edge::LAYOUT).join("edge_in_1");
        let pinned = linux::bpf::sys::open_pinned(&link).expect("pinned");
        linux::bpf::sys::detach(std::os::fd::AsFd::as_fd(&pinned)).expect("detached");
        assert_eq!(plane.reconcile(), Ok(vec![PlaneDrift::Mended(LO)]));
        assert_eq!(plane.read(), Ok(bed::plan_of(&ops)));
        let impossible =
            MultiField { src: Some(NEAR.into()), dst: Some(IpAddr::from([0; 16])), ..MultiField::default() };
        let refused = plane.apply(&[PlanOp::Rule { at: AT, fields: impossible, rule: rule(1, Dscp::EF) }]);
        assert!(refused.is_err() && plane.read() == Ok(bed::plan_of(&ops)));
    });
}

#[test]
fn code_points_are_classes_where_no_flow_is() {
    scratch::in_netns(|| {
        let mut bench = crate::policer::Bench::new();
        let class = |n: u32| u32::from(MAJOR) << 16 | n;
        for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let flow = crate::policer::key(src, dst, 17);
            for (dscp, expected) in
                [(Dscp::EF, class(5)), (Dscp::AF11, class(6)), (Dscp::AF12, class(6)), (Dscp::AF13, class(6))]
            {
                assert_eq!(bench.send(&marked(&flow, 100, dscp), 0), expected, "{dscp:?}");
            }
            for dscp in [Dscp::DEFAULT, Dscp(8), Dscp(44), Dscp(48), Dscp(63)] {
                assert_eq!(bench.send(&marked(&flow, 100, dscp), 0), 0, "{dscp:?}");
            }
            bench.install(0, &flow, BucketSpec { rate: Rate::ZERO, depth: Bytes::new(100), min_unit: 0 });
            assert_eq!(bench.send(&marked(&flow, 100, Dscp::EF), 0), OWN, "a flow is closer");
            assert_eq!(bench.send(&marked(&flow, 100, Dscp::EF), 0), 0, "and its excess is best effort");
        }
    });
}
