//! Real packets through the plane, judged by counts alone: this machine proves no delay.
//!
//! What is offered, what the map says and what arrives are compared exactly; shares of the link within what a short
//! run allows.

use crate::bed::{Bed, base, bed, entry, flow_op, key, plan_of};
use crate::scratch;
use ::traffic::plan::{BucketSpec, ClassId, Counters, FlowSpecEntry, PlanOp};
use linux::bpf::Hook;
use linux::netlink::Socket;
use linux::plane::KernelPlane;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use terms::{Bytes, FlowKey, Rate};

/// IP and UDP headers.
const HEADERS: u64 = 28;

/// Sends packets of `len` IP bytes at `kbps` (IP) from each socket for `time`; how many each has sent. A thread that
/// comes late makes up for two packets at most: it must not make a burst of its own.
pub fn offer(time: Duration, sources: &[(&UdpSocket, u64, u64)]) -> Vec<u64> {
    offer_watched(time, sources).0
}

/// Also how long the thread was kept from sending, at worst.
fn offer_watched(time: Duration, sources: &[(&UdpSocket, u64, u64)]) -> (Vec<u64>, Duration) {
    let start = Instant::now();
    let (mut last, mut longest) = (Duration::ZERO, Duration::ZERO);
    let mut sent = vec![0u64; sources.len()];
    let mut due = vec![Duration::ZERO; sources.len()];
    while start.elapsed() < time {
        longest = longest.max(start.elapsed() - last);
        last = start.elapsed();
        for (n, (socket, len, kbps)) in sources.iter().enumerate() {
            let gap = Duration::from_micros(len * 8000 / kbps);
            let now = start.elapsed();
            due[n] = due[n].max(now.saturating_sub(2 * gap));
            let payload = vec![0; (len - HEADERS) as usize];
            while due[n] <= now {
                due[n] += gap;
                sent[n] += u64::from(socket.send(&payload).is_ok());
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    (sent, longest)
}

/// Waits until nothing is queued any more.
pub fn drain(bed: &mut Bed) {
    for _ in 0..500 {
        let queued: u32 = bed.socket.classes(bed.oif).expect("classes").iter().map(|class| class.stats.queued).sum();
        if queued == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the queues do not drain");
}

/// How many packets came.
pub fn arrived(socket: &UdpSocket) -> u64 {
    let mut buffer = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count() as u64
}

fn flow(plane: &KernelPlane, bed: &Bed, n: u16) -> Counters {
    plane.flow_counters(bed.oif, &key(n)).expect("map").expect("installed")
}

/// One class's counters.
pub fn class(plane: &mut KernelPlane, bed: &Bed, class: ClassId) -> Counters {
    plane.class_counters(bed.oif, class).expect("netlink").expect("there")
}

#[test]
fn every_packet_is_counted_where_it_belongs() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 1_000));
        plane.apply(&ops).expect("fits");
        let (reserved, other) = (bed.sender(20_001, 5004), bed.sender(20_002, 5004));
        let receiver = bed.receiver(5004);
        let sent = offer(Duration::from_millis(600), &[(&reserved, 500, 900), (&other, 500, 900)]);
        drain(&mut bed);
        let counted = flow(&plane, &bed, 1);
        assert_eq!((counted.packets, counted.bytes), (sent[0], sent[0] * 500));
        assert_eq!((counted.over_packets, counted.over_bytes), (0, 0));
        let controlled = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD);
        assert_eq!((controlled.packets, controlled.bytes), (sent[0], sent[0] * 514), "Ethernet counted by the class");
        let rest = class(&mut plane, &bed, ClassId::BEST_EFFORT);
        assert!((sent[1]..sent[1] + 20).contains(&rest.packets), "{rest:?}: the other flow and the kernel's own");
        let before = class(&mut plane, &bed, ClassId::CONTROL).packets;
        (0..5).for_each(|_| bed.signal());
        drain(&mut bed);
        assert!(class(&mut plane, &bed, ClassId::CONTROL).packets >= before + 5, "signalling has its class");
        assert_eq!(arrived(&receiver), sent[0] + sent[1]);
        let all = plane.counters().expect("counters");
        assert_eq!(all.flows[&(bed.oif, key(1))], counted);
        assert_eq!(all.classes[&(bed.oif, ClassId::CONTROLLED_LOAD)], controlled);
    });
}

#[test]
fn a_flood_does_not_touch_a_reserved_flow() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(3_500);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_200));
        plane.apply(&ops).expect("fits");
        let (video, flood) = (bed.sender(20_001, 5004), bed.sender(20_002, 5005));
        let (screen, sink) = (bed.receiver(5004), bed.receiver(5005));
        let time = Duration::from_secs(2);
        let (mut before, mut tries) = (Counters::default(), 0);
        loop {
            let (sent, longest) = offer_watched(time, &[(&video, 1000, 3_000), (&flood, 1000, 15_000)]);
            drain(&mut bed);
            assert_eq!(arrived(&screen), sent[0], "not one packet of the reserved flow is lost");
            assert_eq!(flow(&plane, &bed, 1).over_packets, 0);
            let rest = class(&mut plane, &bed, ClassId::BEST_EFFORT);
            let dropped = rest.over_packets - before.over_packets;
            before = rest;
            // Work-conserving: the flood got what the video left of 10 Mb/s, but for what its queue held at the end.
            // A sender that slept until the queue was empty says nothing of that.
            let rate = |packets: u64| packets as f64 * 1014.0 * 8.0 / time.as_secs_f64();
            let (share, left) = (rate(arrived(&sink).saturating_sub(100)), 10e6 - rate(sent[0]));
            println!("the flood got {share:.0} of {left:.0} bit/s, slept {longest:?}");
            if longest < Duration::from_millis(40) && rate(sent[1]) > 12e6 {
                assert!(dropped > sent[1] / 5, "the flood had to lose: {dropped} of {}", sent[1]);
                assert!(share > 0.95 * left, "the flood got {share:.0} of {left:.0} bit/s");
                break;
            }
            tries += 1;
            if tries == 10 {
                bench::skipped("this machine is too busy to send a steady flood; its share was not judged");
                break;
            }
        }
    });
}

#[test]
fn excess_is_best_effort_and_hurts_nobody_else() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let mut ops = bed.base(4_500);
        ops.extend([bed.flow(1, ClassId::CONTROLLED_LOAD, 2_000), bed.flow(2, ClassId::CONTROLLED_LOAD, 2_000)]);
        plane.apply(&ops).expect("fits");
        let (greedy, honest, flood) = (bed.sender(20_001, 5004), bed.sender(20_002, 5004), bed.sender(20_003, 5005));
        let (receiver, _sink) = (bed.receiver(5004), bed.receiver(5005));
        let offered = [(&greedy, 1000, 6_000), (&honest, 1000, 1_900), (&flood, 1000, 8_000)];
        let start = Instant::now();
        let sent = offer(Duration::from_secs(2), &offered);
        let most = start.elapsed().as_micros() as u64 * 2 / 8 + 8192;
        drain(&mut bed);
        let (greedy, honest) = (flow(&plane, &bed, 1), flow(&plane, &bed, 2));
        assert_eq!((honest.packets, honest.over_packets), (sent[1], 0), "the second flow is untouched");
        assert_eq!(greedy.packets + greedy.over_packets, sent[0]);
        // 2 Mb/s and a full bucket of 8,192 bytes: a third of its offer, not more.
        assert!(greedy.bytes <= most, "{greedy:?}");
        assert!(greedy.over_packets > 0, "{greedy:?} of {}", sent[0]);
        let controlled = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD);
        assert_eq!(controlled.packets, greedy.packets + honest.packets, "no excess in the reserved class");
        assert_eq!(controlled.over_packets, 0, "and nothing of it is lost");
        assert!(arrived(&receiver) >= greedy.packets + honest.packets);
    });
}

#[test]
fn a_killed_agent_is_not_missed() {
    scratch::in_netns(|| killed(Hook::Best));
}

#[test]
fn nor_before_linux_6_6() {
    scratch::in_netns(|| killed(Hook::Clsact));
}

fn killed(hook: Hook) {
    let mut bed = bed();
    let mut plane = bed.open_by(hook);
    let mut ops = bed.base(3_300);
    ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
    plane.apply(&ops).expect("fits");
    let video = bed.sender(20_001, 5004);
    let screen = bed.receiver(5004);
    let some = Duration::from_millis(300);
    let before = offer(some, &[(&video, 1000, 2_800)])[0];
    let told = plane.read().expect("read");
    // Everything that the process holds is closed, as the kernel does for one that is killed.
    drop(plane);
    let without = offer(some, &[(&video, 1000, 2_800)])[0];
    drain(&mut bed);
    let mut plane = bed.open_by(hook);
    assert_eq!(plane.read(), Ok(told), "flows with their records, classes, link");
    let counted = flow(&plane, &bed, 1);
    assert_eq!((counted.packets, counted.over_packets), (before + without, 0), "counted on, and no packet outside");
    assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, before + without);
    // A change of the adopted is a change in place.
    plane
        .apply(&[bed.class(ClassId::BEST_EFFORT, 5_000, 7), bed.class(ClassId::CONTROLLED_LOAD, 4_800, 2)])
        .expect("fits");
    plane.apply(&[bed.flow(1, ClassId::CONTROLLED_LOAD, 4_000)]).expect("fits");
    let after = offer(some, &[(&video, 1000, 3_800)])[0];
    drain(&mut bed);
    assert_eq!(flow(&plane, &bed, 1).packets, before + without + after);
    assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, before + without + after);
    assert_eq!(arrived(&screen), before + without + after);
}

#[test]
fn a_kill_without_warning_is_survived() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let exe = std::env::current_exe().expect("this test binary");
        let mut child = Command::new(exe)
            .args(["--exact", "kernel::traffic::the_one_that_is_killed", "--nocapture"])
            .env(VICTIM, bed.state.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child in this thread's namespace");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains(INSTALLED))), "the child installs");
        let (video, screen) = (bed.sender(20_001, 5004), bed.receiver(5004));
        let some = Duration::from_millis(200);
        let before = offer(some, &[(&video, 1000, 2_800)])[0];
        child.kill().expect("SIGKILL");
        child.wait().expect("gone");
        let after = offer(some, &[(&video, 1000, 2_800)])[0];
        drain(&mut bed);
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
        assert_eq!(plane.read(), Ok(plan_of(&ops)));
        let counted = flow(&plane, &bed, 1);
        assert_eq!((counted.packets, counted.over_packets), (before + after, 0));
        assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, before + after);
        assert_eq!(arrived(&screen), before + after);
    });
}

/// Names the state directory to the child of the test above.
const VICTIM: &str = "SLUICE_TEST_VICTIM";
/// What the child says when it is ready.
const INSTALLED: &str = "installed";

/// Not a test of its own: the agent's part in the test above, in a process that is killed.
#[test]
fn the_one_that_is_killed() {
    let Some(dir) = std::env::var_os(VICTIM) else { return };
    let oif = Socket::open().and_then(|mut socket| socket.link_by_name("near")).expect("near").index;
    let mut plane = KernelPlane::open(Path::new(&dir)).expect("opens");
    let mut ops = base(oif, 3_300);
    ops.push(flow_op(oif, 1, ClassId::CONTROLLED_LOAD, 3_000));
    plane.apply(&ops).expect("fits");
    println!("{INSTALLED}");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn fragments_and_segments_go_with_their_flow() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let entry = FlowSpecEntry { bucket: DEEP, ..entry(ClassId::CONTROLLED_LOAD, 3_000) };
        let tcp = FlowKey { protocol: 6, src_port: 20_002, ..key(2) };
        let mut ops = bed.base(3_300);
        ops.extend([key(1), tcp].map(|flow| PlanOp::Flow { oif: bed.oif, flow, entry }));
        plane.apply(&ops).expect("fits");
        // A datagram of 4,000 bytes is three fragments: 1,480, 1,480 and 1,048 bytes of payload.
        let (sender, receiver) = (bed.sender(20_001, 5004), bed.receiver(5004));
        for _ in 0..20 {
            sender.send(&[7; 4000]).expect("send");
            std::thread::sleep(Duration::from_millis(2));
        }
        drain(&mut bed);
        let counted = flow(&plane, &bed, 1);
        assert_eq!((counted.packets, counted.bytes), (60, 20 * (4008 + 3 * 20)));
        assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, 60);
        let mut buffer = [0; 8192];
        assert_eq!(std::iter::from_fn(|| receiver.recv(&mut buffer).ok()).count(), 20);
        // A veth hands TCP down in pieces of up to 64 KB; each segment in it is charged, and the kernel's own count
        // of the class, which knows nothing of ours, is the witness.
        let before = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD);
        bed.stream(20_002, 5004, 600_000);
        drain(&mut bed);
        let counted = plane.flow_counters(bed.oif, &tcp).expect("map").expect("installed");
        let after = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD);
        assert_eq!(counted.over_packets, 0);
        assert!(counted.bytes > 600_000, "{counted:?}");
        assert_eq!(after.packets - before.packets, counted.packets);
        assert_eq!(after.bytes - before.bytes, counted.bytes + 14 * counted.packets);
    });
}

#[test]
fn two_processors_share_one_bucket() {
    scratch::in_netns(|| {
        let bed = bed();
        let mut plane = bed.open();
        let bucket = BucketSpec { rate: Rate::from_mbps(80), ..DEEP };
        let bucket = BucketSpec { depth: Bytes::new(100_000), ..bucket };
        let entry = FlowSpecEntry { bucket, ..entry(ClassId::BEST_EFFORT, 0) };
        plane.apply(&[bed.link(), PlanOp::Flow { oif: bed.oif, flow: key(1), entry }]).expect("fits");
        let sender = bed.sender(20_001, 5004);
        let start = Instant::now();
        let sent: u64 = std::thread::scope(|scope| {
            let flood = || (0..30_000).filter(|_| sender.send(&[0; 972]).is_ok()).count() as u64;
            let all: Vec<_> = (0..2).map(|_| scope.spawn(flood)).collect();
            all.into_iter().map(|thread| thread.join().expect("sends")).sum()
        });
        let most = start.elapsed().as_nanos() * 80 / 8000 + 100_000;
        let counted = flow(&plane, &bed, 1);
        assert_eq!(counted.packets + counted.over_packets, sent, "none is counted twice, none forgotten");
        assert_eq!(counted.bytes + counted.over_bytes, sent * 1000);
        assert!(u128::from(counted.bytes) <= most, "{counted:?}: no more than {most} conform");
        assert!(counted.bytes >= 100_000, "{counted:?}: the bucket was full");
    });
}

/// Nothing of a short test exceeds it.
pub const DEEP: BucketSpec = BucketSpec { rate: Rate::from_mbps(10), depth: Bytes::new(100 << 20), min_unit: 64 };
