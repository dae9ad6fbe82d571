//! Nothing is allocated when a packet comes or goes: meters, droppers, schedulers, shapers, and a tree that has all of them.

#[path = "../../../wheel/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, ServiceCurve, Span, Time};
use traffic::dropper::{Coupling, RedCurve, Rio, RioProfile};
use traffic::meter::*;
use traffic::plan::QueueSpec;
use traffic::queue::{Fifo, Pool, QueueLevel, TwoLevels};
use traffic::scheduler::drr::Drr;
use traffic::scheduler::hfsc::{Curves, Hfsc};
use traffic::scheduler::htb::{Htb, HtbSpec};
use traffic::scheduler::priority::Priority;
use traffic::scheduler::wf2q::Wf2q;
use traffic::scheduler::{Scheduler, SchedulerClass};
use traffic::shaper::{Exponential, NeverGreen, Ras, RateCurve};
use traffic::tree::*;

const LINK: Rate = Rate::from_mbps(100);

fn draw(seed: &mut u64) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as u32
}

fn packet(port: u16, len: u32, arrival: Time) -> PacketMeta {
    let host = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let flow =
        FlowKey { src: host(1), dst: host(2), protocol: 17, src_port: 1000, dst_port: port, wild: terms::Wild::NONE };
    PacketMeta { flow, len, dscp: Dscp(0), arrival, group: None, id: 0 }
}

fn curves() -> [RedCurve; 3] {
    [60, 40, 20].map(|max| RedCurve { min: max / 2, max, max_p: 9_000, gentle: true })
}

#[test]
fn meters_and_droppers() {
    let (r, b) = (Rate::from_mbps(1), Bytes::new(5_000));
    let profile = TrTcm::new(r, b, r, b).unwrap();
    let window = TswTcm::new(r, r, Span::from_millis(100)).unwrap();
    let rio = RioProfile::new(curves(), 1 << 24, Span::from_micros(100), Coupling::Coupled).unwrap();
    let mut states = vec![profile.start(Time::ZERO); 100];
    let mut windows = vec![window.start(Time::ZERO); 100];
    let jobs: Vec<Job> = (0..1_000).map(|i| Job { meter: i % 100, len: 40 + i }).collect();
    let (mut colors, mut queue, mut seed) = (vec![Color::Green; 1_000], Rio::new(), 1);
    let count = allocations(|| {
        meter_batch(&profile, &mut states, Time::from_nanos(7), &jobs, &mut colors, &|_: &TokenCounts| {});
        for (job, color) in jobs.iter().zip(&mut colors) {
            *color = window.meter(&mut windows[job.meter as usize], Time::from_nanos(9), job.len, draw(&mut seed));
            queue.arrival(&rio, Time::from_nanos(9), *color, 1, draw(&mut seed));
            queue.departure(&rio, Time::from_nanos(9), *color, 1);
        }
    });
    assert_eq!(count, 0, "meters and droppers");
}

#[test]
fn two_levels() {
    let (mut queue, mut pool, mut seed, mut lost) = (TwoLevels::new(50), Pool::new(50), 4, 0);
    pool.reserve(50);
    let count = allocations(|| {
        for _ in 0..10_000 {
            let level = if draw(&mut seed).is_multiple_of(3) { QueueLevel::First } else { QueueLevel::Second };
            let offered = queue.push(&mut pool, level, 40 + draw(&mut seed) % 1_460, ());
            lost += u32::from(offered != Ok(None));
            if !draw(&mut seed).is_multiple_of(4) {
                black_box(queue.pop(&mut pool));
            }
        }
    });
    assert_eq!(count, 0, "two levels");
    assert!(lost > 1_000, "the buffer was full: {lost}");
}

/// Bursts for some of the classes, then all go out, over and over.
fn scheduler(name: &str, mut scheduler: impl Scheduler, nodes: &[SchedulerClass]) {
    let last = nodes.iter().map(|node| node.0).max().unwrap();
    let mut queues = vec![Fifo::new(QueueSpec { packets: 64, bytes: Bytes::MAX }); last as usize + 1];
    let mut pool = Pool::new(10_000);
    pool.reserve(10_000);
    let (mut seed, mut now) = (2, Time::ZERO);
    let count = allocations(|| {
        for _ in 0..300 {
            for _ in 0..200 {
                let node = nodes[draw(&mut seed) as usize % nodes.len()];
                let queue = &mut queues[node.0 as usize];
                let was_empty = queue.is_empty();
                let len = 40 + draw(&mut seed) % 1_460;
                if queue.push(&mut pool, len, ()).is_ok() && was_empty {
                    scheduler.backlogged(now, node, len);
                }
            }
            while !pool.is_empty() {
                let Some(node) = scheduler.choose(now) else {
                    now = scheduler.wake_at().expect("something waits").max(now);
                    continue;
                };
                let queue = &mut queues[node.0 as usize];
                let (len, ()) = queue.pop(&mut pool).unwrap();
                scheduler.served(now, node, len, queue.head_bytes(&pool));
                now = now + LINK.span_for(Bytes::new(u64::from(len)));
            }
        }
    });
    assert_eq!(count, 0, "{name}");
}

#[test]
fn schedulers() {
    let rate = |i: u32| Rate::from_kbps(u64::from(i) * 4);
    let mut s = Priority::new();
    let nodes: Vec<SchedulerClass> = (0..200).map(|i| s.add((i % 8) as u8)).collect();
    scheduler("strict priority", s, &nodes);
    let mut s = Wf2q::new(LINK);
    let nodes: Vec<SchedulerClass> = (1..200).map(|i| s.add(rate(i))).collect();
    scheduler("WF2Q+", s, &nodes);
    let mut s = Drr::new();
    let nodes: Vec<SchedulerClass> = (1..200).map(|i| s.add(i * 40)).collect();
    scheduler("DRR", s, &nodes);
    let mut s = Hfsc::new();
    let curve = |i| ServiceCurve::linear(rate(i));
    let limit = |i: u32| i.is_multiple_of(3).then_some(ServiceCurve::linear(Rate::from_mbps(20)));
    let curves = |i| Curves { real_time: Some(curve(i)), link_share: Some(curve(i)), upper_limit: limit(i) };
    let nodes: Vec<SchedulerClass> =
        (1..200).map(|i| s.add(Time::ZERO, SchedulerClass::ROOT, curves(i)).unwrap()).collect();
    scheduler("HFSC", s, &nodes);
    let burst = Bytes::new(1_600);
    let mut s = Htb::new(LINK, burst, Time::ZERO);
    let spec = |i: u32| HtbSpec {
        rate: rate(i),
        ceil: Rate::from_mbps(20),
        burst,
        cburst: burst,
        priority: (i % 3) as u8,
        quantum: 1_500,
    };
    let nodes: Vec<SchedulerClass> = (1..200).map(|i| s.add(Time::ZERO, spec(i))).collect();
    scheduler("HTB", s, &nodes);
}

#[test]
fn shaper() {
    let thresholds = [2_000, 4_000, 8_000].map(Bytes::new);
    let rates = [1, 2, 8].map(Rate::from_mbps);
    let curve = RateCurve::two(rates[0], rates[1], rates[2], thresholds, Bytes::new(90_000), LINK).unwrap();
    let mut ras = Ras::new(curve, Exponential::new(Span::from_millis(100), Time::ZERO));
    let mut pool = Pool::new(5_000);
    pool.reserve(5_000);
    let count = allocations(|| {
        for at in (0..3_000).map(|i| Time::from_nanos(i * 100_000)) {
            ras.enqueue(at, packet(1, 40 + at.as_nanos() as u32 % 1_460, at), &mut pool);
            black_box(ras.release(at, &NeverGreen, &mut pool));
        }
    });
    assert_eq!(count, 0, "rate adaptive shaper");
    assert!(ras.dropped() > 0, "the buffer was full");
}

/// Every part there is: each shaper in turn before a trTCM, RIO and a queue, below every scheduler.
fn leaf(rules: Vec<MultiFieldRule>, shaper: u32) -> LeafSpec {
    let (rate, peak) = (Rate::from_kbps(500), Rate::from_mbps(2));
    let (depth, buffer) = (Bytes::new(3_000), Bytes::new(20_000));
    let ras = |green| RasSpec { buffer, k: Span::from_millis(50), green };
    let shaper = match shaper % 4 {
        0 => None,
        1 => Some(ShaperSpec::Bucket { rate, depth, buffer }),
        n => Some(ShaperSpec::SrRas {
            rates: [rate, peak],
            thresholds: [Bytes::new(2_000), Bytes::new(9_000)],
            ras: ras(n == 3),
        }),
    };
    let kind = MeterKind::TrTcm { cir: rate, cbs: depth, pir: peak, pbs: depth };
    LeafSpec {
        rules,
        shaper,
        meter: Some(MeterSpec { kind, aware: false }),
        marker: AfClass::new(1).map(Marker::af),
        dropper: Some(DropperSpec {
            curves: curves(),
            weight: 1 << 24,
            slot: Span::from_micros(100),
            coupling: Coupling::Coupled,
            unit: QueueUnit::Packets,
        }),
        queue: QueueSpec { packets: 64, bytes: Bytes::new(64_000) },
    }
}

#[test]
fn tree() {
    let mut nodes = Vec::new();
    let below = [SchedulerKind::Priority, SchedulerKind::Wf2q, SchedulerKind::Drr];
    for (i, sharing) in (0u32..).zip(below) {
        let share = TreeShare::Curves(Curves::share(Rate::from_mbps(20)));
        nodes.push(TreeNodeSpec { name: format!("inner{i}"), parent: None, share, kind: NodeKind::Inner(sharing) });
        for j in 0..20u32 {
            let port = (i * 20 + j) as u16;
            let own = |net| Some((net, 32));
            let flow = packet(port, 0, Time::ZERO).flow;
            let mut rule = MultiFieldRule { dst_ports: Some((port, port)), ..MultiFieldRule::default() };
            if j.is_multiple_of(2) {
                rule = MultiFieldRule { src: own(flow.src), dst: own(flow.dst), protocol: Some(17), ..rule };
                rule.src_ports = Some((1000, 1000));
            }
            let share = match sharing {
                SchedulerKind::Priority => TreeShare::Priority(j as u8),
                SchedulerKind::Wf2q => TreeShare::Rate(Rate::from_mbps(1)),
                _ => TreeShare::Quantum(500 + j),
            };
            let rules = if port == 0 { Vec::new() } else { vec![rule] };
            let kind = NodeKind::Leaf(Box::new(leaf(rules, j)));
            nodes.push(TreeNodeSpec { name: format!("leaf{port}"), parent: Some(format!("inner{i}")), share, kind });
        }
    }
    let spec = TreeSpec { link: LinkShape { rate: LINK, overhead: 38, scheduler: SchedulerKind::Hfsc }, nodes };
    let mut tree = Tree::new(spec, Time::ZERO, 1).unwrap();
    let (mut seed, mut now, mut sent, mut lost) = (3, Time::ZERO, 0, 0);
    let count = allocations(|| {
        for _ in 0..100_000 {
            now = now + Span::from_nanos(u64::from(draw(&mut seed) % 130_000));
            let port = (draw(&mut seed) % 70) as u16;
            black_box(tree.enqueue(now, packet(port, 40 + draw(&mut seed) % 1_460, now)));
            black_box(tree.wake_at(now));
            // A link that is too slow, so that queues grow and droppers drop.
            if draw(&mut seed).is_multiple_of(2) {
                sent += u32::from(tree.dequeue(now).is_some());
            }
            while tree.poll_loss().is_some() {
                lost += 1;
            }
        }
    });
    assert_eq!(count, 0, "the tree");
    assert!(sent > 40_000 && lost > 1_000, "{sent} sent, {lost} lost behind a shaper");
}
