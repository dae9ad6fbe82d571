//! The kernel plane: what the flow program costs a packet as flows grow, and what installing and adopting cost.
//!
//! In a scratch network namespace; without root it says so and measures nothing.

use bench::{Bench, Draw, median, nanos};
use linux::bpf::edge::{RawRule, RawRuleKey};
use linux::bpf::entry::{MAJOR, RawFlow, RawKey, RawState};
use linux::bpf::packet_order::PacketOrder;
use linux::bpf::sys::{SkBuff, test_runs};
use linux::bpf::{EdgeTable, FlowRecogniser, FlowTable, Hook};
use linux::cgroup;
use linux::netlink::Socket;
use linux::plane::KernelPlane;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use terms::{Bytes, Dscp, FlowKey, IfIndex, Rate, SenderGroup, ServiceCurve, Span, WatchedPorts};
use traffic::conditioner::{MeterKind, MeterSpec};
use traffic::edge::{EdgeAt, EdgeMeter, EdgeRule, MultiField, RedPackets, Side};
use traffic::plan::{BucketSpec, ClassId, ClassSpec, FlowSpecEntry, LinkSpec, OwnerRecord, PlanOp, QueueSpec};

const LO: IfIndex = IfIndex(1);

fn main() {
    let bench = Bench::from_args();
    let run = std::thread::spawn(move || {
        // SAFETY: no pointers; only this thread moves.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            eprintln!("SKIPPED: the kernel plane needs root: {}", std::io::Error::last_os_error());
            return;
        }
        program(&bench);
        a_million(&bench);
        recognise(&bench);
        edge(&bench);
        groups(&bench);
        installing(&bench);
    });
    run.join().expect("the benchmark's thread");
}

/// A state directory that goes with its owner.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("sluice-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if linux::bpf::forget(&self.0).is_ok() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

fn key(n: u32) -> FlowKey {
    let [a, b, c, d] = n.to_be_bytes();
    FlowKey {
        src: [10, b, c, d].into(),
        dst: [10, 200, a, 1].into(),
        protocol: 17,
        src_port: 4000,
        dst_port: 5004,
        wild: terms::Wild::NONE,
    }
}

fn entry(class: ClassId) -> FlowSpecEntry {
    FlowSpecEntry {
        class,
        shared: None,
        bucket: BucketSpec { rate: Rate::from_mbps(100_000), depth: Bytes::new(1 << 30), min_unit: 64 },
        record: OwnerRecord::EMPTY,
    }
}

/// An Ethernet frame of a UDP packet of 1,000 IP bytes.
fn frame(flow: &FlowKey) -> Vec<u8> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (flow.src, flow.dst) else { return vec![] };
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 3, 232, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(src.octets());
    frame.extend(dst.octets());
    frame.extend(flow.src_port.to_be_bytes());
    frame.extend(flow.dst_port.to_be_bytes());
    frame.resize(1014, 0);
    frame
}

/// Packets of these flows, in random order.
fn in_random_order(flows: u32, draw: &mut Draw) -> PacketOrder {
    let mut order: Vec<u32> = (0..flows).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, draw.next_u32() as usize % (at + 1));
    }
    let mut packets = PacketOrder::open(flows).expect("the packets load");
    for (number, flow) in (0..).zip(order) {
        let FlowKey { src: IpAddr::V4(src), dst: IpAddr::V4(dst), .. } = key(flow) else { continue };
        packets.set(number, src, dst).expect("there is room");
    }
    packets
}

/// The time that a program takes for a packet of another flow each time, less that of leading the packets past nothing: medians
/// of [`ROUNDS`] rounds in turn, ns. And the latter.
fn beyond_leading(packets: &mut [PacketOrder; 2], frame: &[u8], given: SkBuff, flows: u32) -> [f64; 2] {
    let (mut all, mut leading) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let run = |packets: &mut PacketOrder| {
            let mut context = given;
            f64::from(packets.run(frame, &mut context, flows, flows).expect("runs"))
        };
        leading.push(run(&mut packets[0]));
        all.push(run(&mut packets[1]));
    }
    let leading = median(&mut leading);
    [median(&mut all) - leading, leading]
}

const ROUNDS: usize = 5;

/// Mean of 10,000 runs on each of 64 flows drawn from all; median of the 64. And a packet of each of 60,000 flows in random order.
fn program(bench: &Bench) {
    let names =
        ["flow_program_hot_ns_1e0", "flow_program_hot_ns_1e3", "flow_program_hot_ns_6e4", "flow_program_miss_ns"];
    let random = "flow_program_ns_random_6e4";
    if !names.iter().chain([&random]).any(|name| bench.wants(name)) {
        return;
    }
    let dir = Dir::new("program");
    let mut table = FlowTable::open(&dir.0, linux::bpf::MAX_FLOWS, Hook::Best).expect("the flow program loads");
    let mut draw = Draw::new(2);
    let mut installed = 0;
    let mut cost = |table: &FlowTable, flows: u32, offset: u32| {
        let mut means: Vec<f64> = (0..64)
            .map(|_| {
                let packet = frame(&key(offset + draw.next_u32() % flows));
                let mut context = SkBuff::leaving(LO.0, 0, 0, 0);
                let (_, ns) = test_runs(table.program(), &packet, &mut context, 10_000).expect("test run");
                f64::from(ns)
            })
            .collect();
        median(&mut means)
    };
    for (name, flows) in names.into_iter().zip([1, 1_000, 60_000]) {
        for n in installed..flows {
            let raw = RawFlow::new(n, &entry(ClassId::CONTROLLED_LOAD));
            table.put_state(n, &RawState::full(&raw)).expect("state");
            table.put_flow(&RawKey::new(LO, &key(n)), &raw).expect("flow");
        }
        installed = flows;
        bench.report(name, cost(&table, flows, 0), "ns", 64);
    }
    bench.report("flow_program_miss_ns", cost(&table, 60_000, 100_000), "ns", 64);
    if bench.wants(random) {
        report_random(bench, &table, random, 60_000);
    }
}

/// Packets of so many flows, in random order.
fn report_random(bench: &Bench, table: &FlowTable, name: &str, flows: u32) {
    let mut packets = [3, 3].map(|seed| in_random_order(flows, &mut Draw::new(seed)));
    packets[1].past(table.program()).expect("the packets go there");
    let [ns, leading] = beyond_leading(&mut packets, &frame(&key(0)), SkBuff::leaving(LO.0, 0, 0, 0), flows);
    bench.report(name, ns, "ns", ROUNDS * flows as usize);
    bench.report_beside(name, "packets_led_past_nothing_ns", leading, "ns", ROUNDS * flows as usize);
}

/// With room for 10^6 flows, all of them reserved: a packet of each in random order, and the kernel's memory.
fn a_million(bench: &Bench) {
    const FLOWS: u32 = 1_000_000;
    let (random, memory) = ("flow_program_ns_random_1e6", "flow_map_mb_1e6");
    if !bench.wants(random) && !bench.wants(memory) {
        return;
    }
    let dir = Dir::new("million");
    let mut table = FlowTable::open(&dir.0, FLOWS, Hook::Best).expect("the flow program loads");
    let empty = table.memory().expect("the kernel says it");
    for n in 0..FLOWS {
        let raw = RawFlow::new(n, &entry(ClassId::CONTROLLED_LOAD));
        table.put_state(n, &RawState::full(&raw)).expect("state");
        table.put_flow(&RawKey::new(LO, &key(n)), &raw).expect("flow");
    }
    if bench.wants(random) {
        report_random(bench, &table, random, FLOWS);
    }
    let full = table.memory().expect("the kernel says it");
    bench.report(memory, full as f64 / 1e6, "MB", 1);
    bench.report_beside(memory, "flow_map_empty_mb_1e6", empty as f64 / 1e6, "MB", 1);
}

/// What recognition adds to a packet, 65,536 candidates in random order: to one that no flow claims; to one of a port that no
/// application has; and to one that a flow claims.
fn recognise(bench: &Bench) {
    let name = "ebpf_recognise_ns_65536";
    if !bench.wants(name) {
        return;
    }
    const FLOWS: u32 = 65_536;
    let claimed = u32::from(MAJOR) << 16 | u32::from(ClassId::CONTROLLED_LOAD.0);
    let mut recogniser = FlowRecogniser::open(FLOWS as usize, Span::from_secs(60), [1, 2]).expect("it loads");
    recogniser.watch(&[WatchedPorts { protocol: 17, ports: (5004, 5004), threshold: 1 << 20 }]).expect("ports");
    let mut packets = [4, 4].map(|seed| in_random_order(FLOWS, &mut Draw::new(seed)));
    packets[1].past(recogniser.program()).expect("the packets go there");
    let mut added = |port: u16, priority: u32| {
        let frame = frame(&FlowKey { dst_port: port, ..key(0) });
        let given = SkBuff::leaving(LO.0, priority, 0, 0).read(17, (4000, port));
        beyond_leading(&mut packets, &frame, given, FLOWS)
    };
    added(5004, 0);
    let ([listed, leading], [other, _], [of_a_flow, _]) = (added(5004, 0), added(9, 0), added(5004, claimed));
    let n = ROUNDS * FLOWS as usize;
    bench.report(name, listed, "ns", n);
    bench.report_beside(name, "ebpf_recognise_no_port_ns", other, "ns", n);
    bench.report_beside(name, "ebpf_recognise_claimed_ns", of_a_flow, "ns", n);
    bench.report_beside(name, "packets_led_past_nothing_ns", leading, "ns", n);
}

/// What the edge's program costs beside the flow program: a packet without a premium mark on the way out and in, and one of a
/// rule, medians of 64 means of 10,000 runs. A mark is wiped once, so that is measured by runs of their own, beside the same of
/// a packet without one.
fn edge(bench: &Bench) {
    let names = [
        "edge_program_ns",
        "edge_program_wipe_ns",
        "edge_program_rule_ns",
        "edge_program_in_ns",
        "edge_program_meter_ns",
    ];
    if !names.iter().any(|name| bench.wants(name)) {
        return;
    }
    let dir = Dir::new("edge");
    let _flows = FlowTable::open(&dir.0, 64, Hook::Best).expect("the flow program loads, and mounts the bpffs");
    let mut table = EdgeTable::open(&dir.0, Hook::Best).expect("the edge programs load");
    let at = |side| EdgeAt { interface: LO, side };
    [Side::Ingress, Side::Egress].into_iter().for_each(|side| table.note(at(side), 14).expect("an edge"));
    table.put_kinds(&[]).expect("no rule yet, as the plane says it");
    let run = |table: &EdgeTable, side, mark: Dscp, times| {
        let mut packet = frame(&key(0));
        packet[15] = mark.0 << 2;
        let mut context = SkBuff::leaving(LO.0, 0, 0, 0);
        f64::from(test_runs(table.program(side), &packet, &mut context, times).expect("test run").1)
    };
    let cost = |table: &EdgeTable, side| {
        median(&mut (0..64).map(|_| run(table, side, Dscp::DEFAULT, 10_000)).collect::<Vec<f64>>())
    };
    let alone = |table: &EdgeTable, mark| {
        let round = |_| (0..20_000).map(|_| run(table, Side::Egress, mark, 1)).sum::<f64>() / 20_000.0;
        median(&mut (0..5).map(round).collect::<Vec<f64>>())
    };
    bench.report(names[0], cost(&table, Side::Egress), "ns", 64);
    bench.report(names[3], cost(&table, Side::Ingress), "ns", 64);
    if bench.wants(names[1]) {
        bench.report(names[1], alone(&table, Dscp::EF), "ns", 5 * 20_000);
        let beside = alone(&table, Dscp::DEFAULT);
        bench.report_beside(names[1], "edge_program_single_run_ns", beside, "ns", 5 * 20_000);
    }
    let fields = MultiField::of(0, &key(0));
    let bucket = BucketSpec { rate: Rate::from_mbps(100_000), depth: Bytes::new(1 << 30), min_unit: 64 };
    let rule = RawRule::new(0, &EdgeRule::of_bucket(bucket, Dscp::EF));
    table.put_state(0, &rule.full()).expect("state");
    table.put_rule(&RawRuleKey::new(at(Side::Egress), &fields), &rule).expect("rule");
    table.put_kinds(&[fields.kind()]).expect("kinds");
    bench.report(names[2], cost(&table, Side::Egress), "ns", 64);
    let (rate, burst) = (Rate::from_mbps(100_000), Bytes::new(1 << 30));
    let kind = MeterKind::TrTcm { cir: rate, cbs: burst, pir: rate, pbs: burst };
    let meter = EdgeMeter::new(MeterSpec { kind, aware: true }, RedPackets::Marked).expect("it can work");
    let rule = RawRule::new(0, &EdgeRule { meter: Some(meter), ..EdgeRule::of_bucket(bucket, Dscp::AF11) });
    table.put_rule(&RawRuleKey::new(at(Side::Egress), &fields), &rule).expect("rule");
    bench.report(names[4], cost(&table, Side::Egress), "ns", 64);
}

/// What a control group with a rule adds to a packet of another group at the way out: of a process that is in a group of
/// that depth, so that it is looked up in vain. Both are run alternately, and the difference is reported.
fn groups(bench: &Bench) {
    let (added, with) = ("flow_program_cgroup_ns", "flow_program_cgroup_whole_ns");
    if !bench.wants(added) {
        return;
    }
    let Some(root) = cgroup::for_packets(&cgroup::all_mounted()) else { return };
    let place = root.at.join(format!("sluice-bench-{}", std::process::id()));
    let enter = |dir: &Path| std::fs::write(dir.join("cgroup.procs"), std::process::id().to_string());
    if std::fs::create_dir(&place).is_err() || enter(&place).is_err() {
        return bench::skipped("nobody may make control groups of version 2 here");
    }
    let dir = Dir::new("groups");
    let _flows = FlowTable::open(&dir.0, 64, Hook::Best).expect("the flow program loads, and mounts the bpffs");
    let mut table = EdgeTable::open(&dir.0, Hook::Best).expect("the edge programs load");
    let at = EdgeAt { interface: LO, side: Side::Egress };
    table.note(at, 14).expect("an edge");
    let bucket = BucketSpec { rate: Rate::from_mbps(100), depth: Bytes::new(1 << 20), min_unit: 64 };
    let mut rule = |slot, fields: &MultiField| {
        let raw = RawRule::new(slot, &EdgeRule::of_bucket(bucket, Dscp::EF));
        table.put_state(slot, &raw.full()).expect("state");
        table.put_rule(&RawRuleKey::new(at, fields), &raw).expect("rule");
    };
    // A rule of a five-tuple is there in both cases.
    let others = [MultiField::exactly(&key(1)), MultiField::of_group(SenderGroup { depth: 1, id: 1 })];
    (0..).zip(&others).for_each(|(slot, fields)| rule(slot, fields));
    let kinds = others.map(|fields| fields.kind());
    table.put_groups([1].into_iter()).expect("groups");
    let mut runs = |kinds: &[u8]| {
        table.put_kinds(kinds).expect("kinds");
        let mut context = SkBuff::leaving(LO.0, 0, 0, 0);
        let run = test_runs(table.program(Side::Egress), &frame(&key(0)), &mut context, 10_000);
        f64::from(run.expect("test run").1)
    };
    let (mut without, mut beside): (Vec<f64>, Vec<f64>) = (0..64).map(|_| (runs(&kinds[..1]), runs(&kinds))).unzip();
    let (without, beside) = (median(&mut without), median(&mut beside));
    bench.report(added, beside - without, "ns", 64);
    bench.report_beside(added, with, beside, "ns", 64);
    drop(enter(&root.at).and_then(|()| std::fs::remove_dir(&place)));
}

fn class(oif: IfIndex, class: ClassId, kbps: u64) -> PlanOp {
    let queue = QueueSpec { packets: 100, bytes: Bytes::new(1 << 20) };
    let real_time = Some(ServiceCurve::linear(Rate::from_kbps(kbps)));
    let link_share = Rate::from_kbps(kbps);
    PlanOp::Class { oif, class, spec: ClassSpec { real_time, link_share, upper_limit: None, priority: 2, queue } }
}

/// As the node tells it: the shared class grows, best effort shrinks, the flow comes; every write read back.
fn installing(bench: &Bench) {
    let names = ["plane_install_shared_us", "plane_install_own_us", "plane_adopt_us_1e3"];
    if !names.iter().any(|name| bench.wants(name)) {
        return;
    }
    let dir = Dir::new("plane");
    let mut socket = Socket::open().expect("netlink");
    socket.add_veth("near", "far", None).expect("veth");
    let oif = socket.link_by_name("near").expect("near").index;
    socket.set_link_up(oif, true).expect("up");
    let mut plane = KernelPlane::open(&dir.0).expect("the plane opens");
    let spec = LinkSpec {
        rate: Rate::from_mbps(10),
        overhead: 14,
        mtu: 1500,
        scheduler: traffic::scheduler::SchedulerKind::Htb,
    };
    plane.apply(&[PlanOp::Link { oif, spec }, class(oif, ClassId::BEST_EFFORT, 9_000)]).expect("fits");
    let times = |plane: &mut KernelPlane, ops: &dyn Fn(u32) -> Vec<PlanOp>| {
        let mut all: Vec<f64> = (0..1000)
            .map(|n| {
                let ops = ops(n);
                nanos(|| plane.apply(&ops).expect("fits")) / 1000.0
            })
            .collect();
        median(&mut all)
    };
    let shared = |n: u32| {
        let kbps = u64::from(n) + 1;
        let entry = entry(ClassId::CONTROLLED_LOAD);
        let flow = PlanOp::Flow { oif, flow: key(n), entry };
        vec![class(oif, ClassId::BEST_EFFORT, 9_000 - kbps), class(oif, ClassId::CONTROLLED_LOAD, kbps), flow]
    };
    bench.report("plane_install_shared_us", times(&mut plane, &shared), "us", 1000);
    drop(plane);
    let mut adopted: Vec<f64> = (0..7).map(|_| nanos(|| drop(open(&dir.0))) / 1000.0).collect();
    bench.report("plane_adopt_us_1e3", median(&mut adopted), "us", 7);
    let mut plane = open(&dir.0);
    let own = |n: u32| {
        let id = ClassId(ClassId::FIRST_OWN.0 + n as u16);
        vec![class(oif, id, 1), PlanOp::Flow { oif, flow: key(n), entry: entry(id) }]
    };
    bench.report("plane_install_own_us", times(&mut plane, &own), "us", 1000);
    plane.apply(&[PlanOp::DropLink { oif }]).expect("goes");
}

fn open(dir: &Path) -> KernelPlane {
    KernelPlane::open(dir).expect("the plane opens")
}
