//! What a plan of 1,000 HFSC classes adds to forwarding a frame, beside the bare loop on the same pair of interfaces.
//!
//! In a scratch network namespace with two veth pairs: the socket of the first is filled, then the loop empties it into the
//! other, where nobody reads. What is measured is the loop's own processor time, in the kernel and outside, so other work on
//! the machine does not count. Bare and plan take turns. Without root it says so and measures nothing.

use bench::{Bench, median};
use linux::clock::Clock;
use linux::frames::{BURST, BurstSent, FrameBuffer, FrameIo, Offload, PacketFrames};
use linux::netlink::Socket;
use linux::netns::Guarded;
use terms::{Bytes, FlowKey, IfIndex, Rate, ServiceCurve, Wild};
use traffic::plan::{BucketSpec, ClassId, ClassSpec, FlowSpecEntry, LinkSpec, OwnerRecord, PlanOp, QueueSpec};
use traffic::port::{Limits, Port, SchedulerKind};
use user_plane::delays::ErrorTerms;
use user_plane::link::WireSpec;
use user_plane::pair::FramePair;
use user_plane::way::FrameWay;

const CLASSES: u16 = 1_000;
const OIF: IfIndex = IfIndex(7);
const ROUNDS: usize = 7;
/// Bursts that fill the socket, and how often in a round.
const BURSTS: usize = 32;
const FILLS: usize = 100;

/// What stands between the two interfaces.
#[derive(Clone, Copy)]
enum Loop {
    /// Nothing.
    Bare,
    /// 1,000 classes.
    Plan,
    /// The same, and each frame's arrival and departure held against a delay bound.
    Watched,
}

fn main() {
    let bench = Bench::from_args();
    let wanted = [
        "bare_forward_pps",
        "plane_user_forward_pps",
        "bare_forward_64_pps",
        "plane_user_added_ns",
        "plane_user_watched_forward_pps",
        "plane_user_watched_added_ns",
    ];
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
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..ROUNDS {
            for (times, kind) in times.iter_mut().zip([Loop::Bare, Loop::Plan, Loop::Watched]) {
                times.push(round(len, kind));
            }
        }
        let [bare, plan, watched] = times.each_mut().map(|times| median(times));
        if len == 64 {
            bench.report("bare_forward_64_pps", 1e9 / bare, "1/s", ROUNDS);
            bench.report("plane_user_added_ns", plan - bare, "ns", ROUNDS);
            bench.report("plane_user_watched_added_ns", watched - bare, "ns", ROUNDS);
        } else {
            bench.report("bare_forward_pps", 1e9 / bare, "1/s", ROUNDS);
            bench.report("plane_user_forward_pps", 1e9 / plan, "1/s", ROUNDS);
            bench.report("plane_user_watched_forward_pps", 1e9 / watched, "1/s", ROUNDS);
        }
    }
}

/// Processor time that a frame takes, ns.
fn round(len: usize, kind: Loop) -> f64 {
    let clock = Clock::start();
    let now = clock.now();
    let terms = ErrorTerms { c: 1_500, d: 25_000 };
    let mut ends = ["pa", "pb"].map(|name| PacketFrames::open(name).expect("frames"));
    let there = match kind {
        Loop::Bare => FrameWay::new(None, WireSpec::default(), 1_522, now).expect("bare"),
        Loop::Plan => FrameWay::of_port(port(), None, 32_064, WireSpec::default(), 1_522, now),
        Loop::Watched => {
            ends = ends.map(|end| end.with_ages().expect("ages"));
            FrameWay::of_port(port(), Some(terms), 32_064, WireSpec::default(), 1_522, now)
        }
    };
    let back = FrameWay::new(None, WireSpec::default(), 1_522, now).expect("bare");
    let mut pair = FramePair::new(ends, [there, back]);
    let mut source = PacketFrames::open("ga").expect("frames");
    let all: Vec<Vec<u8>> = (0..CLASSES).map(|n| frame(n, len)).collect();
    let mut frames: Vec<FrameBuffer> = (0..BURST).map(|_| FrameBuffer::new(1_522)).collect();
    let (mut next, mut spent, mut passed) = (0, 0, 0);
    for fill in 0..=FILLS {
        for _ in 0..BURSTS {
            for buffer in &mut frames {
                assert!(buffer.put(&[&all[next % all.len()]], Offload::default()));
                next += 1;
            }
            assert_eq!(source.send(&frames).expect("sent"), BurstSent::Went(BURST));
        }
        // The kernel may have dropped some on their way into the socket.
        let (begun, before) = (linux::clock::thread_cpu(), pair.ways()[0].counters().sent);
        while pair.turn(clock.now()).expect("a turn").moved > 0 || pair.ways()[0].inside() > 0 {}
        let (ended, after) = (linux::clock::thread_cpu(), pair.ways()[0].counters().sent);
        // The first is a warm-up.
        if fill > 0 {
            (spent, passed) = (spent + ended - begun, passed + after - before);
        }
    }
    assert!(passed * 2 > (FILLS * BURSTS * BURST) as u64, "{passed} frames passed");
    spent as f64 / passed as f64
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
