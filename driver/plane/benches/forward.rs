//! What a plan of 1,000 HFSC classes adds to forwarding a frame, beside the bare loop on the same pair of interfaces.
//!
//! In a scratch network namespace with two veth pairs: a thread sends, the loop forwards, nobody reads at the end. Bare and
//! plan take turns of a second. Without root it says so and measures nothing.

use bench::{Bench, median};
use linux::clock::Clock;
use linux::frames::{BURST, FrameBuffer, FrameIo, Offload, PacketFrames};
use linux::netlink::Socket;
use linux::netns::Guarded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use terms::{Bytes, FlowKey, IfIndex, Rate, ServiceCurve, Span, Wild};
use traffic::plan::{BucketSpec, ClassId, ClassSpec, FlowSpecEntry, LinkSpec, OwnerRecord, PlanOp, QueueSpec};
use traffic::port::{Limits, Port, SchedulerKind};
use user_plane::link::WireSpec;
use user_plane::pair::FramePair;
use user_plane::way::FrameWay;

const CLASSES: u16 = 1_000;
const OIF: IfIndex = IfIndex(7);
const ROUNDS: usize = 7;

fn main() {
    let bench = Bench::from_args();
    let wanted = ["bare_forward_pps", "plane_user_forward_pps", "bare_forward_64_pps", "plane_user_added_ns"];
    if !wanted.iter().any(|name| bench.wants(name)) {
        return;
    }
    let Ok(netns) = Guarded::create(&format!("fwd-{}", std::process::id())) else {
        bench::skipped("forwarding frames needs root");
        return;
    };
    netns.run(|| run(&bench)).expect("the namespace");
}

fn run(bench: &Bench) {
    let mut socket = Socket::open().expect("netlink");
    for (a, b) in [("ga", "pa"), ("pb", "gb")] {
        socket.add_veth(a, b, None).expect("veth");
        for name in [a, b] {
            let index = socket.link_by_name(name).expect("link").index;
            socket.set_link_up(index, true).expect("up");
        }
    }
    for len in [1_514, 64] {
        let mut rates: [Vec<f64>; 2] = Default::default();
        for _ in 0..ROUNDS {
            for (nth, plan) in [false, true].into_iter().enumerate() {
                rates[nth].push(round(len, plan));
            }
        }
        let [bare, plan] = &mut rates;
        let (bare, plan) = (median(bare), median(plan));
        if len == 64 {
            bench.report("bare_forward_64_pps", bare, "1/s", ROUNDS);
            bench.report("plane_user_added_ns", 1e9 / plan - 1e9 / bare, "ns", ROUNDS);
        } else {
            bench.report("bare_forward_pps", bare, "1/s", ROUNDS);
            bench.report("plane_user_forward_pps", plan, "1/s", ROUNDS);
        }
    }
}

/// Frames a second that pass, over a second.
fn round(len: usize, plan: bool) -> f64 {
    let clock = Clock::start();
    let now = clock.now();
    let there = if plan {
        FrameWay::of_port(port(), None, 32_064, WireSpec::default(), 1_522, now)
    } else {
        FrameWay::new(None, WireSpec::default(), 1_522, now).expect("bare")
    };
    let back = FrameWay::new(None, WireSpec::default(), 1_522, now).expect("bare");
    let ends = ["pa", "pb"].map(|name| PacketFrames::open(name).expect("frames"));
    let mut pair = FramePair::new(ends, [there, back]);
    let stop = Arc::new(AtomicBool::new(false));
    let mut source = PacketFrames::open("ga").expect("frames");
    let told = stop.clone();
    let sender = std::thread::spawn(move || {
        let mut frames: Vec<FrameBuffer> = (0..BURST).map(|_| FrameBuffer::new(1_522)).collect();
        let all: Vec<Vec<u8>> = (0..CLASSES).map(|n| frame(n, len)).collect();
        let mut next = 0;
        while !told.load(Ordering::Relaxed) {
            for buffer in &mut frames {
                assert!(buffer.put(&[&all[next % all.len()]], Offload::default()));
                next += 1;
            }
            let _ = source.send(&frames);
        }
    });
    let mut until = |span: Span| {
        let end = clock.now() + span;
        while clock.now() < end {
            pair.turn(clock.now()).expect("a turn");
        }
        pair.ways()[0].counters().sent
    };
    let (before, begun) = (until(Span::from_millis(200)), clock.now());
    let after = until(Span::from_secs(1));
    let seconds = clock.now().since(begun).as_nanos() as f64 / 1e9;
    stop.store(true, Ordering::Relaxed);
    sender.join().expect("the sender");
    (after - before) as f64 / seconds
}

fn flow(n: u16) -> FlowKey {
    let [src, dst] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Into::into);
    FlowKey { src, dst, protocol: 17, src_port: 9, dst_port: 1 + n, wild: Wild::NONE }
}

fn frame(n: u16, len: usize) -> Vec<u8> {
    let key = flow(n);
    let mut udp = vec![0; len - 14 - 20];
    udp[..2].copy_from_slice(&key.src_port.to_be_bytes());
    udp[2..4].copy_from_slice(&key.dst_port.to_be_bytes());
    let ip = wire::ip::packet(key.src, key.dst, 17, 64, false, &udp).expect("a packet");
    [&[2; 12][..], &[8, 0], &ip].concat()
}

/// 1,000 classes on a link that is faster than the machine.
fn port() -> Port {
    let plain = QueueSpec { packets: 64, bytes: Bytes::MAX };
    let limits = Limits { flows: 2_000, classes: 2_000, packets: 32_000, plain };
    let mut port = Port::new(OIF, limits, terms::signalling::SIGNALLING, [1, 2]);
    let now = Clock::start().now();
    let mut apply = |op| port.apply(now, &op).expect("the plan");
    let link = LinkSpec { rate: Rate::from_mbps(40_000), overhead: 14, mtu: 1500, scheduler: SchedulerKind::Hfsc };
    apply(PlanOp::Link { oif: OIF, spec: link });
    for n in 0..CLASSES {
        let rate = Rate::from_mbps(39);
        let spec = ClassSpec {
            real_time: Some(ServiceCurve::linear(rate)),
            link_share: rate,
            upper_limit: None,
            priority: 1,
            queue: QueueSpec { packets: 20, bytes: Bytes::MAX },
        };
        let class = ClassId(16 + n);
        apply(PlanOp::Class { oif: OIF, class, spec });
        let bucket = BucketSpec { rate: Rate::from_mbps(39), depth: Bytes::new(1 << 20), min_unit: 64 };
        let entry = FlowSpecEntry { class, bucket, shared: None, record: OwnerRecord::EMPTY };
        apply(PlanOp::Flow { oif: OIF, flow: flow(n), entry });
    }
    port
}
