//! The parts together: a queue tree that changes while it sends; and the timing wheel that its shapers wait on.

use super::link::{RATE, SentPacket, service};
use super::{chart, in_ms, line, ms};
use figures::{Chart, Mark, Rgb};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Time};
use traffic::plan::QueueSpec;
use traffic::scheduler::SchedulerClass;
use traffic::tree::{
    LeafSpec, LinkShape, MultiFieldRule, NodeKind, SchedulerKind, ShaperSpec, Tree, TreeEgress, TreeNodeSpec,
    TreeShare, TreeSpec,
};
use wheel::Wheel;

/// Draws voice before data in a group, beside it one class that sends and one that is shaped. Half-way the
/// group's share is halved.
pub fn tree() -> Chart {
    const END: Time = ms(200);
    let rate = |mbps| TreeShare::Rate(Rate::from_mbps(mbps));
    let queue = QueueSpec { packets: 1000, bytes: Bytes::new(1_000_000) };
    let node = |name: &str, parent: Option<&str>, share, kind| TreeNodeSpec {
        name: name.into(),
        parent: parent.map(Into::into),
        share,
        kind,
    };
    let leaf = |port: Option<u16>, shaper| {
        let rules = port
            .map(|port| MultiFieldRule { dst_ports: Some((port, port)), ..MultiFieldRule::default() })
            .into_iter()
            .collect();
        NodeKind::Leaf(Box::new(LeafSpec { rules, shaper, meter: None, marker: None, dropper: None, queue }))
    };
    let shaper = ShaperSpec::Bucket { rate: Rate::from_mbps(1), depth: Bytes::new(1250), buffer: queue.bytes };
    let nodes = vec![
        node("group", None, rate(6), NodeKind::Inner(SchedulerKind::Priority)),
        node("voice", Some("group"), TreeShare::Priority(0), leaf(Some(1), None)),
        node("data", Some("group"), TreeShare::Priority(1), leaf(None, None)),
        node("web", None, rate(2), leaf(Some(3), None)),
        node("backup", None, rate(2), leaf(Some(4), Some(shaper))),
    ];
    let spec = TreeSpec { link: LinkShape { rate: RATE, overhead: 0, scheduler: SchedulerKind::Wf2q }, nodes };
    let mut tree = Tree::new(spec, Time::ZERO, 1).expect("the shares fit");
    let mut sent = Sent(Vec::new());
    let mut free = Time::ZERO;
    for at in (0..200).map(ms) {
        let Ok(then) = tree.serve(free, at, &mut sent);
        free = then;
        if at == ms(100) {
            tree.change_share(at, "group", rate(3)).expect("the shares fit");
        }
        // Voice has 2 Mb/s, the others more than they get.
        let voice = (at.as_nanos() % 5_000_000 == 0).then_some(1);
        for port in voice.into_iter().chain(2..=4) {
            tree.enqueue(at, packet(port, at));
        }
    }
    let Ok(_) = tree.serve(free, END, &mut sent);
    let total = |name| service(&sent.0, SchedulerClass(tree.leaf(name).expect("a leaf of the tree").0), END);
    let mut picture = chart(
        "Queue tree: nodes share with nodes, and change while they send",
        "10 Mb/s: group 6 (3 from 100 ms on), in it voice before data; web 2; backup 2, but shaped to 1",
        "Time (ms)",
        "Sent (kB)",
        vec![
            line("backup", Rgb::AMBER, Mark::Solid, total("backup")),
            line("web", Rgb::RED, Mark::Solid, total("web")),
            line("data", Rgb::BLUE, Mark::Solid, total("data")),
            line("voice", Rgb::GREEN, Mark::Solid, total("voice")),
        ],
    );
    picture.landmark = Some((100.0, "the group's share is halved".into()));
    picture
}

fn packet(port: u16, at: Time) -> PacketMeta {
    let host = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    let flow =
        FlowKey { src: host(1), dst: host(2), protocol: 17, src_port: 1000, dst_port: port, wild: terms::Wild::NONE };
    PacketMeta { flow, len: 1250, dscp: Dscp(0), arrival: at, group: None, id: 0 }
}

/// The sent packets.
struct Sent(Vec<SentPacket>);

impl TreeEgress for Sent {
    type Error = Infallible;

    fn send(&mut self, now: Time, departure: &traffic::tree::Departure) -> Result<Time, Infallible> {
        let end = now + RATE.span_for(Bytes::new(u64::from(departure.packet.len)));
        self.0.push(SentPacket { node: SchedulerClass(departure.leaf.0), len: departure.packet.len, start: now, end });
        Ok(end)
    }
}

/// Draws two bursts of timers and a silence, and the wake-ups that the wheel asks for.
pub fn wheel() -> Chart {
    const TIMERS: u32 = 300;
    let mut wheel = Wheel::new(24, Time::ZERO, TIMERS as usize);
    // Half of them 0 to 15 s ahead, the other half 40 to 55 s, evenly but not in order.
    for timer in 0..TIMERS {
        let spread = u64::from(timer / 2 * 67 % (TIMERS / 2)) * 100;
        wheel.set(timer, ms(spread + u64::from(timer % 2) * 40_000));
    }
    let (mut expired, mut woken) = (vec![(0.0, 0.0)], vec![(0.0, 0.0)]);
    let (mut timers, mut wakes) = (0.0, 0.0);
    while let Some(at) = wheel.wake_at() {
        let seconds = in_ms(at) / 1e3;
        expired.push((seconds, timers));
        woken.push((seconds, wakes));
        wakes += 1.0;
        while wheel.expire(at).is_some() {
            timers += 1.0;
        }
        expired.push((seconds, timers));
        woken.push((seconds, wakes));
    }
    let end = 60.0;
    expired.push((end, timers));
    woken.push((end, wakes));
    chart(
        "Timing wheel: silence costs nothing",
        "Ticks of 2^24 ns (17 ms): 3,576 of them pass. 150 timers expire in the first 15 s and 150 from 40 to 55 s",
        "Time (s)",
        "Counted",
        vec![
            line("timers that expired", Rgb::BLUE, Mark::Solid, expired),
            line("times woken", Rgb::RED, Mark::Solid, woken),
        ],
    )
}
