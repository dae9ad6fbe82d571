//! Flows of a port that are no plain five-tuple, against a list that is searched from its beginning, and buckets that
//! several flows draw from, against one token bucket.

use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;
use std::collections::BTreeMap;
use terms::signalling::SIGNALLING;
use terms::*;
use traffic::bucket::TokenBucket;
use traffic::plan::*;
use traffic::port::{Limits, Port, Verdict};

const OIF: IfIndex = IfIndex(3);

fn port() -> Port {
    let queue = QueueSpec { packets: 60_000, bytes: Bytes::MAX };
    let spec = |rate: u64| ClassSpec {
        real_time: Some(ServiceCurve::linear(Rate::from_mbps(rate))),
        link_share: Rate::from_mbps(rate),
        upper_limit: None,
        priority: 1,
        queue,
    };
    let mut port = Port::new(OIF, Limits::default(), SIGNALLING, [1, 2]);
    let link = LinkSpec {
        rate: Rate::from_mbps(10),
        overhead: 14,
        mtu: 1500,
        scheduler: traffic::scheduler::SchedulerKind::Htb,
    };
    port.apply(Time::ZERO, &PlanOp::Link { oif: OIF, spec: link }).unwrap();
    for (class, rate) in [(ClassId::BEST_EFFORT, 5), (ClassId::CONTROLLED_LOAD, 4)] {
        port.apply(Time::ZERO, &PlanOp::Class { oif: OIF, class, spec: spec(rate) }).unwrap();
    }
    port
}

fn entry(shared: Option<u64>, bucket: BucketSpec) -> FlowSpecEntry {
    FlowSpecEntry { class: ClassId::CONTROLLED_LOAD, bucket, shared: shared.map(BucketId), record: OwnerRecord::EMPTY }
}

/// Few enough that everything meets everything: addresses 0 (any) to 2, ports 0 (none) to 2.
fn some_flow() -> impl Strategy<Value = FlowKey> {
    (0..3u8, 1..3u8, 0..3u16, 0..3u16, prop::bool::ANY).prop_map(|(src, dst, src_port, dst_port, six)| {
        let host =
            |n: u8| if six { IpAddr::from([0, 0, 0, 0, 0, 0, 0, u16::from(n)]) } else { IpAddr::from([0, 0, 0, n]) };
        // A wildcard has no source port; a sender may leave out its own, or both.
        let src_port = if src == 0 || dst_port == 0 { 0 } else { src_port };
        FlowKey { src: host(src), dst: host(dst), protocol: 17, src_port, dst_port, wild: terms::Wild::NONE }
    })
}

fn packet() -> impl Strategy<Value = FlowKey> {
    some_flow().prop_filter("a packet has a sender", |flow| !flow.src.is_unspecified())
}

#[derive(Clone, Debug)]
enum Step {
    Set(FlowKey, Option<u64>, u64),
    Drop(FlowKey),
    Packet(FlowKey, u32, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (some_flow(), prop::option::of(0..3u64), 1..5u64).prop_map(|(flow, shared, kilo)| Step::Set(flow, shared, kilo)),
        1 => some_flow().prop_map(Step::Drop),
        6 => (packet(), 64..1500u32, 0..3_000u64).prop_map(|(flow, len, us)| Step::Packet(flow, len, us)),
    ]
}

/// What a person would write down: flows with the name of their bucket, and buckets by name.
#[derive(Default)]
struct Model {
    flows: BTreeMap<FlowKey, Name>,
    buckets: BTreeMap<Name, TokenBucket>,
}

/// A shared bucket's number, or a flow's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Name {
    Shared(u64),
    Own(FlowKey),
}

impl Model {
    fn set(&mut self, now: Time, flow: FlowKey, shared: Option<u64>, spec: &BucketSpec) {
        let name = shared.map_or(Name::Own(flow), Name::Shared);
        if self.flows.get(&flow) != Some(&name) {
            self.drop(&flow);
        }
        self.flows.insert(flow, name);
        self.buckets.entry(name).or_insert_with(|| TokenBucket::new(spec, now)).change(spec, now);
    }

    fn drop(&mut self, flow: &FlowKey) {
        let Some(name) = self.flows.remove(flow) else { return };
        if !self.flows.values().any(|other| *other == name) {
            self.buckets.remove(&name);
        }
    }

    /// Whether a flow has the packet, and whether it conforms then.
    fn take(&mut self, now: Time, packet: &FlowKey, len: u32) -> Option<bool> {
        let has = |flow: &&FlowKey| {
            (flow.src == packet.src || (flow.src.is_unspecified() && flow.src.is_ipv4() == packet.src.is_ipv4()))
                && flow.dst == packet.dst
                && (flow.src_port == 0 || flow.src_port == packet.src_port)
                && (flow.dst_port == 0 || flow.dst_port == packet.dst_port)
        };
        // A named sender before any sender, then with ports before without.
        let closest = |flow: &&FlowKey| (flow.src.is_unspecified(), flow.dst_port == 0, flow.src_port == 0);
        let flow = self.flows.keys().filter(has).min_by_key(closest)?;
        let name = self.flows[flow];
        self.buckets.get_mut(&name).map(|bucket| bucket.take(now, len))
    }
}

/// A source port of zero is none given (RFC 2205 section A.9): the sender's packets to the port, from any; but half an index
/// of ESP is what it says.
#[test]
fn a_sender_without_a_source_port_has_its_packets_from_any() {
    let flow = |src: &str, protocol, src_port, dst_port| FlowKey {
        src: src.parse().unwrap(),
        dst: "10.0.0.2".parse().unwrap(),
        protocol,
        src_port,
        dst_port,
        wild: Wild::NONE,
    };
    let (open, esp) = (flow("10.0.0.1", 6, 0, 23), flow("10.0.0.1", 50, 0, 23));
    let bucket = BucketSpec { rate: Rate::from_mbps(1), depth: Bytes::new(10_000), min_unit: 1 };
    let mut port = port();
    for flow in [open, esp] {
        port.apply(Time::ZERO, &PlanOp::Flow { oif: OIF, flow, entry: entry(None, bucket) }).unwrap();
    }
    let mut send = |flow| {
        let packet = PacketMeta { flow, len: 100, dscp: terms::Dscp(0), arrival: Time::ZERO, group: None, id: 0 };
        port.enqueue(Time::ZERO, packet);
        [open, esp].map(|flow| port.flow_counters(&flow).unwrap().packets)
    };
    assert_eq!(send(flow("10.0.0.1", 6, 1234, 23)), [1, 0]);
    assert_eq!(send(open), [2, 0]);
    for other in [flow("10.0.0.1", 6, 1234, 24), flow("10.0.0.9", 6, 1234, 23), flow("10.0.0.1", 17, 1234, 23)] {
        assert_eq!(send(other), [2, 0], "{other:?}");
    }
    assert_eq!((send(flow("10.0.0.1", 50, 7, 23)), send(esp)), ([2, 0], [2, 1]));
}

proptest! {
    #![proptest_config(chance::cases(500))]

    #[test]
    fn every_packet_is_charged_to_the_bucket_of_the_closest_flow(steps in prop::collection::vec(step(), 1..120)) {
        let (mut port, mut model, mut now) = (port(), Model::default(), Time::ZERO);
        let (mut known, mut excess) = (0u64, 0u64);
        for step in steps {
            match step {
                Step::Set(flow, shared, kilo) => {
                    let bucket = BucketSpec { rate: Rate::from_kbps(kilo * 500), depth: Bytes::new(kilo * 1_000), min_unit: 64 };
                    port.apply(now, &PlanOp::Flow { oif: OIF, flow, entry: entry(shared, bucket) }).unwrap();
                    model.set(now, flow, shared, &bucket);
                }
                Step::Drop(flow) => {
                    port.apply(now, &PlanOp::DropFlow { oif: OIF, flow }).unwrap();
                    model.drop(&flow);
                }
                Step::Packet(flow, len, us) => {
                    now = now + Span::from_micros(us);
                    let packet = PacketMeta { flow, len, dscp: Dscp(0), arrival: now, group: None, id: 0 };
                    let wanted = match model.take(now, &flow, len) {
                        None => (ClassId::BEST_EFFORT, false),
                        Some(true) => (ClassId::CONTROLLED_LOAD, false),
                        Some(false) => (ClassId::BEST_EFFORT, true),
                    };
                    known += u64::from(wanted != (ClassId::BEST_EFFORT, false));
                    excess += u64::from(wanted.1);
                    let verdict = port.enqueue(now, packet);
                    prop_assert_eq!(verdict, Verdict::Queued { class: wanted.0, excess: wanted.1 }, "{:?}", flow);
                }
            }
            prop_assert_eq!(port.flows().count(), model.flows.len());
        }
        // Every bucket's count is there once, whichever of its flows is asked.
        let mut counted = BTreeMap::new();
        for (flow, name) in &model.flows {
            counted.insert(*name, port.flow_counters(flow).unwrap());
        }
        let sum: u64 = counted.values().map(|c| c.packets + c.over_packets).sum();
        prop_assert!(sum <= known && excess <= known);
    }
}

#[test]
fn a_bucket_goes_with_its_last_flow() {
    let mut port = port();
    let bucket = BucketSpec { rate: Rate::ZERO, depth: Bytes::new(1_000), min_unit: 64 };
    let host = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
    let flow =
        |n| FlowKey { src: host(n), dst: host(9), protocol: 17, src_port: 1, dst_port: 2, wild: terms::Wild::NONE };
    let set = |port: &mut Port, n| {
        port.apply(Time::ZERO, &PlanOp::Flow { oif: OIF, flow: flow(n), entry: entry(Some(4), bucket) }).unwrap();
    };
    let send = |port: &mut Port, n| {
        let packet = PacketMeta { flow: flow(n), len: 600, dscp: Dscp(0), arrival: Time::ZERO, group: None, id: 0 };
        matches!(port.enqueue(Time::ZERO, packet), Verdict::Queued { excess: false, .. })
    };
    set(&mut port, 1);
    set(&mut port, 2);
    assert_eq!([send(&mut port, 1), send(&mut port, 2)], [true, false], "600 of 1,000 are gone for both");
    port.apply(Time::ZERO, &PlanOp::DropFlow { oif: OIF, flow: flow(1) }).unwrap();
    assert!(!send(&mut port, 2), "who stays keeps the level");
    port.apply(Time::ZERO, &PlanOp::DropFlow { oif: OIF, flow: flow(2) }).unwrap();
    set(&mut port, 2);
    assert!(send(&mut port, 2), "a new bucket of the same number is full");
}
