//! The queue tree: ns per packet, from classifier to link. `cargo bench -p sluice-traffic --bench tree -- shaped`.
//!
//! Each leaf has a five-tuple of its own, a trTCM, a marker, RIO and a queue; up to a hundred leaves share an inner node by WF2Q+, as
//! the inner nodes share the link of 10 Gb/s. *Drained*: 32 packets of 1,500 bytes come for random leaves, then all go out.
//! *Shaped*: each leaf has a token bucket in front, packets come at 0.9 of the link's rate, wait there, and go out when they may.

use bench::{Bench, Draw};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Span, Time};
use traffic::dropper::{Coupling, RedCurve};
use traffic::meter::{AfClass, Marker};
use traffic::plan::QueueSpec;
use traffic::tree::*;

const RUNS: usize = 7;
const PACKETS: u64 = 1 << 18;
const LEN: u32 = 1500;
const GROUP: u32 = 100;

fn main() {
    let bench = Bench::from_args();
    for leaves in [10, 1_000, 100_000] {
        run(&bench, &format!("tree_{leaves}_drained"), leaves, false);
        run(&bench, &format!("tree_{leaves}_shaped"), leaves, true);
    }
}

fn run(bench: &Bench, name: &str, leaves: u32, shaped: bool) {
    if !bench.wants(name) {
        return;
    }
    let mut tree = Tree::new(spec(leaves, shaped), Time::ZERO, 1).expect("a tree that can work");
    let mut draw = Draw::new(7);
    let order: Vec<FlowKey> = (0..1 << 16).map(|_| flow(draw.next_u32() % leaves)).collect();
    let (mut now, mut next) = (Time::ZERO, 0);
    let gap = Span::from_nanos(if shaped { 1_333 } else { 1_200 });
    let mut packet = move |now| {
        next += 1;
        PacketMeta {
            flow: order[next % order.len()],
            len: LEN,
            dscp: Dscp(0),
            arrival: now,
            group: None,
            id: next as u64,
        }
    };
    bench.time(name, RUNS, PACKETS, || {
        for _ in 0..PACKETS / 32 {
            for _ in 0..32 {
                now = if shaped { now + gap } else { now };
                black_box(tree.enqueue(now, packet(now)));
                if shaped {
                    black_box(tree.dequeue(now));
                }
            }
            while let Some(departure) = tree.dequeue(now) {
                black_box(departure);
                now = if shaped { now } else { now + gap };
            }
            while tree.poll_loss().is_some() {}
        }
    });
}

fn flow(leaf: u32) -> FlowKey {
    let (src, dst) = (Ipv4Addr::from(0x0a00_0000 + leaf), Ipv4Addr::new(192, 0, 2, 1));
    FlowKey {
        src: IpAddr::V4(src),
        dst: IpAddr::V4(dst),
        protocol: 17,
        src_port: 1000,
        dst_port: 5004,
        wild: terms::Wild::NONE,
    }
}

fn spec(leaves: u32, shaped: bool) -> TreeSpec {
    let link = Rate::from_mbps(10_000);
    let own = Rate::from_bps(link.as_bps() / u64::from(leaves.next_multiple_of(GROUP) + GROUP));
    let group = Rate::from_bps(own.as_bps() * u64::from(GROUP));
    let name = |group: u32| format!("group{group}");
    let mut nodes: Vec<TreeNodeSpec> = (0..leaves.div_ceil(GROUP))
        .map(|i| TreeNodeSpec {
            name: name(i),
            parent: None,
            share: TreeShare::Rate(group),
            kind: NodeKind::Inner(SchedulerKind::Wf2q),
        })
        .collect();
    for i in 0..leaves {
        let FlowKey { src, dst, protocol, src_port, dst_port, .. } = flow(i);
        let rule = MultiFieldRule {
            src: Some((src, 32)),
            dst: Some((dst, 32)),
            protocol: Some(protocol),
            src_ports: Some((src_port, src_port)),
            dst_ports: Some((dst_port, dst_port)),
            dscp: None,
        };
        let kind =
            NodeKind::Leaf(Box::new(leaf(Some(rule), Rate::from_bps(link.as_bps() / u64::from(leaves)), shaped)));
        nodes.push(TreeNodeSpec {
            name: format!("leaf{i}"),
            parent: Some(name(i / GROUP)),
            share: TreeShare::Rate(own),
            kind,
        });
    }
    let rest = NodeKind::Leaf(Box::new(leaf(None, link, false)));
    nodes.push(TreeNodeSpec { name: "rest".into(), parent: None, share: TreeShare::Rate(own), kind: rest });
    TreeSpec { link: LinkShape { rate: link, overhead: 0, scheduler: SchedulerKind::Wf2q }, nodes }
}

fn leaf(rule: Option<MultiFieldRule>, rate: Rate, shaped: bool) -> LeafSpec {
    let burst = Bytes::new(10 * u64::from(LEN));
    let curve = |min, max, percent: u32| RedCurve { min, max, max_p: percent * 65_536 / 100, gentle: true };
    let kind = MeterKind::TrTcm { cir: Rate::from_bps(rate.as_bps() / 2), cbs: burst, pir: rate, pbs: burst };
    LeafSpec {
        rules: rule.into_iter().collect(),
        shaper: shaped.then_some(ShaperSpec::Bucket { rate, depth: Bytes::new(3_000), buffer: Bytes::new(90_000) }),
        meter: Some(MeterSpec { kind, aware: false }),
        marker: AfClass::new(1).map(Marker::af),
        dropper: Some(DropperSpec {
            curves: [curve(40, 60, 2), curve(20, 40, 5), curve(10, 20, 10)],
            weight: 8_589_935,
            slot: Span::from_micros(171),
            coupling: Coupling::Coupled,
            unit: QueueUnit::Packets,
        }),
        queue: QueueSpec { packets: 64, bytes: Bytes::new(1 << 20) },
    }
}
