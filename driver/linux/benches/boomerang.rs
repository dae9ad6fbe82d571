//! Boomerang's fast path: what a refresh and a new reservation cost the kernel, by test run; each run another session,
//! in random order. The harness (leading prepared messages past an empty place) is measured, printed and subtracted.
//!
//! `xdp_touch_ns_*` beside both: what a program costs that does nothing but look the session's row up in the same table
//! and touch it, one after another: this machine's memory, which no program with such a table goes below.
//!
//! `boomerang_egress_*`: what the program behind the plane's own costs a data packet that leaves: one of a session, one of
//! no session, one that the plane has given a class already (`flow_program_*` of `plane.rs` is what that costs).
//!
//! In a scratch network namespace; without root it says so and measures nothing.

#[path = "../tests/kernel/boomerang/router.rs"]
mod router;

use bench::{Bench, Draw, median};
use linux::boomerang::packet_script::PacketScript;
use linux::boomerang::{FastPath, Hanging, ProgramRules};
use linux::bpf::entry::MAJOR;
use linux::bpf::sys::SkBuff;
use linux::netlink::Socket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use terms::{Bytes, FlowKey, IfIndex, Rate, Span};
use wire::boomerang::{BoomerangRequest, Family, Rates, Selector, TravelDirection};
use wire::ip::Header;

const CLASS: u32 = (MAJOR as u32) << 16 | 4;

/// The fast path of a router, with a state directory that goes with it.
struct Bed {
    path: FastPath,
    west: IfIndex,
    east: IfIndex,
    _dir: Dir,
}

struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        if linux::bpf::forget(&self.0).is_ok() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

fn bed(rows: u32) -> Bed {
    let (west, east) = router::router();
    let dir = std::env::temp_dir().join(format!("sluice-bench-{}-boomerang", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let dir = Dir(dir);
    let path = FastPath::open(&dir.0, rows, [0x5eed, 0xfeed]).expect("the programs load");
    let (burst, burst_least) = (Span::from_millis(100), Bytes::new(8192));
    path.set_rules(&ProgramRules {
        most_refresh: 60,
        burst,
        burst_least,
        min_unit: 128,
        per_source: u32::MAX,
        offset: Span::ZERO,
    });
    for index in [west, east] {
        path.attach(index, Hanging::Native).expect("veth has XDP");
        path.listen(index, true).expect("a small number");
        path.redirect(index, true).expect("a small number");
        path.grow(index, Rate::from_mbps(1_000_000), CLASS).expect("a small number");
    }
    Bed { path, west, east, _dir: dir }
}

/// The frame of a request for flow `n`.
fn frame(n: u32, transaction: u32) -> Vec<u8> {
    let [_, b, c, d] = n.to_be_bytes();
    let (src, dst) = ([10, 10, c, d].into(), [10, 20, b, 1].into());
    let flow = FlowKey { src, dst, protocol: 17, src_port: 4000, dst_port: 5004, wild: terms::Wild::NONE };
    let request = BoomerangRequest {
        leg: TravelDirection::Request,
        id: 7,
        sequence: 1,
        transaction,
        flags: 0,
        refresh: 30,
        key: 1,
        classifier: Selector::of(&flow),
        mask: Selector::exact(Family::V4),
        rates: &[Rates { forward: 1_000, reverse: 0 }],
        policy: 0,
        options: &[],
    };
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    let header = Header { src, dst, protocol: 1, ttl: 64, tos: 0, router_alert: true };
    request.write(&header, &mut frame).expect("fits");
    frame
}

/// Moves the calling thread into a fresh network namespace.
fn unshare() -> bool {
    // SAFETY: no pointers; only this thread moves.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

fn main() {
    let bench = Bench::from_args();
    let run = std::thread::spawn(move || {
        if !unshare() {
            eprintln!("SKIPPED: the fast path needs root: {}", std::io::Error::last_os_error());
            return;
        }
        program(&bench);
        on_links(&bench);
    });
    run.join().expect("the benchmark's thread");
}

const MANY: u32 = 1_000_000;
const FEW: u32 = 1_000;
/// Of the new ones, so many are measured: the last before the table holds all.
const LAST: u32 = 100_000;
const ROWS: u32 = 1 << 20;
const ROUNDS: usize = 9;

/// A random order of the first `count` sessions, as messages of this transaction.
fn line_up(script: &PacketScript, count: u32, transaction: u32, draw: &mut Draw) {
    let mut order: Vec<u32> = (0..count).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, draw.next_u32() as usize % (i + 1));
    }
    for (step, n) in script.steps().iter().zip(order) {
        step.set(&frame(n, transaction));
    }
}

fn program(bench: &Bench) {
    let names = ["boomerang_xdp_refresh_ns", "boomerang_xdp_new_ns", "xdp_touch_ns", EGRESS];
    for (suffix, count, rows) in [("1e3", FEW, ROWS >> 10), ("1e6", MANY, ROWS)] {
        if names.iter().any(|name| bench.wants(&format!("{name}_{suffix}"))) {
            let bench = bench.clone();
            let run = move || {
                assert!(unshare());
                sessions(&bench, suffix, count, rows);
            };
            std::thread::spawn(run).join().expect("the measurement");
        }
    }
}

fn sessions(bench: &Bench, suffix: &str, count: u32, rows: u32) {
    let mut bed = bed(rows);
    let mut script = PacketScript::open(1 << 20).expect("the script loads");
    let mut draw = Draw::new(5);
    let sample = frame(0, 1);
    line_up(&script, count, 1, &mut draw);
    let runs = |script: &mut PacketScript, n: usize| -> f64 {
        let mut all: Vec<f64> =
            (0..n).map(|_| f64::from(script.run(&sample, bed.west, 0, count, MANY).expect("runs"))).collect();
        median(&mut all)
    };
    let own = runs(&mut script, ROUNDS);
    script.past_forwarder().expect("past the forwarder");
    let forward = runs(&mut script, ROUNDS) - own;
    println!("# harness {own} ns a run, subtracted from what follows; bare forwarding by test run {forward} ns");
    script.past(&bed.path).expect("past the program");
    let mut new: Vec<f64> = (0..ROUNDS).map(|_| new(&mut bed, &mut script, count, &mut draw)).collect();
    bench.report(&format!("boomerang_xdp_new_ns_{suffix}"), median(&mut new) - own, "ns", ROUNDS);
    let (mut refresh, mut touch) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u32 {
        line_up(&script, count, 2 + round, &mut draw);
        refresh.push(f64::from(script.run(&sample, bed.west, 0, count, MANY).expect("runs")));
        script.past_touch(&bed.path).expect("past the touch");
        touch.push(f64::from(script.run(&sample, bed.west, 0, count, MANY).expect("runs")));
        script.past(&bed.path).expect("past the program");
    }
    let name = format!("boomerang_xdp_refresh_ns_{suffix}");
    bench.report(&name, median(&mut refresh) - own, "ns", ROUNDS);
    bench.report_beside(&name, &format!("xdp_touch_ns_{suffix}"), median(&mut touch) - own, "ns", ROUNDS);
    assert!(bed.path.total().0 >= enough(count), "refreshes make nothing and lose nothing");
    egress(bench, suffix, &bed, count);
}

const EGRESS: &str = "boomerang_egress_ns";

/// Mean of 10,000 runs on the data packet of each of 64 sessions; median of the 64.
fn egress(bench: &Bench, suffix: &str, bed: &Bed, count: u32) {
    let mut draw = Draw::new(9);
    let mut cost = |offset: u32, priority: u32| {
        let mut means: Vec<f64> = (0..64)
            .map(|_| {
                let packet = data(offset + draw.next_u32() % count);
                let run = |times| {
                    let mut context = SkBuff::leaving(bed.east.0, priority, 0, 0);
                    bed.path.run_egress_often(&packet, &mut context, times).expect("runs")
                };
                // What conforms keeps its class in the next run of one test, and would not be looked at again.
                for _ in 0..32 {
                    run(1);
                }
                f64::from(run(10_000))
            })
            .collect();
        median(&mut means)
    };
    bench.report(&format!("{EGRESS}_{suffix}"), cost(0, 0), "ns", 64);
    bench.report(&format!("boomerang_egress_miss_ns_{suffix}"), cost(MANY, 0), "ns", 64);
    bench.report(&format!("boomerang_egress_classed_ns_{suffix}"), cost(0, CLASS), "ns", 64);
}

/// The frame of a packet of flow `n`: UDP, 1,000 IP bytes.
fn data(n: u32) -> Vec<u8> {
    let [_, b, c, d] = n.to_be_bytes();
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 3, 232, 0, 0, 0, 0, 64, 17, 0, 0, 10, 10, c, d, 10, 20, b, 1]);
    frame.extend([4000u16, 5004].map(u16::to_be_bytes).concat());
    frame.resize(1014, 0);
    frame
}

/// One in a hundred thousand may find both its rows full.
fn enough(count: u32) -> usize {
    (count - count / 100_000) as usize
}

/// From an empty table to `count` sessions; mean ns of the last of them (of all, where there are few), over as many tables
/// as make the clock's own coarseness vanish.
fn new(bed: &mut Bed, script: &mut PacketScript, count: u32, draw: &mut Draw) -> f64 {
    line_up(script, count, 1, draw);
    let sample = frame(0, 1);
    let (measured, tables) = if count > LAST { (LAST, 1) } else { (count, 20) };
    let mut sum = 0.0;
    for _ in 0..tables {
        let later = bed.path.now() + (1 << 24);
        bed.path.sweep(later, usize::MAX);
        bed.path.shrink(bed.east, Rate::INFINITE);
        bed.path.grow(bed.east, Rate::from_mbps(1_000_000), CLASS).expect("grows");
        let before = count - measured;
        if before > 0 {
            script.run(&sample, bed.west, 0, count, before).expect("runs");
        }
        sum += f64::from(script.run(&sample, bed.west, before, count, measured).expect("runs"));
    }
    assert!(bed.path.total().0 >= enough(count), "all were made, but for a few that only user space has room for");
    sum / f64::from(tables)
}

/// Messages a second through two links (veth pairs) and the program between them, sender and all on one processor; in turn
/// with the bare forwarder in the program's place.
fn on_links(bench: &Bench) {
    if !["boomerang_veth_per_s", "xdp_forward_per_s"].iter().any(|name| bench.wants(name)) {
        return;
    }
    let bed = bed(ROWS >> 10);
    let mut socket = Socket::open().expect("netlink");
    let mut peer = |name: &str| socket.link_by_name(name).expect("a peer").index;
    let (near, far) = (peer("wpeer"), peer("epeer"));
    let script = PacketScript::open(64).expect("the script loads");
    let _sink = script.sink(far).expect("veth has XDP");
    let sender = Sender::new(near);
    let frames: Vec<Vec<u8>> = (0..FEW).map(|n| frame(n, 1)).collect();
    let run = |seconds: f64| {
        let (before, start) = (script.arrived().expect("counted"), std::time::Instant::now());
        while start.elapsed().as_secs_f64() < seconds {
            frames.chunks(100).for_each(|some| sender.send(some));
        }
        (script.arrived().expect("counted") - before) as f64 / start.elapsed().as_secs_f64()
    };
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    run(0.2); // every session is there
    for _ in 0..ROUNDS {
        ours.push(run(0.5));
        bed.path.detach(bed.west).expect("detached");
        let forwarder = script.forward(bed.west).expect("veth has XDP");
        bare.push(run(0.5));
        drop(forwarder);
        bed.path.attach(bed.west, Hanging::Native).expect("veth has XDP");
    }
    assert!(bed.path.counts().expect("counts").refreshed as f64 > ours[0] * 0.5, "they were refreshes");
    bench.report("boomerang_veth_per_s", median(&mut ours), "1/s", ROUNDS);
    bench.report_beside("boomerang_veth_per_s", "xdp_forward_per_s", median(&mut bare), "1/s", ROUNDS);
}

/// Puts frames on a link as they are.
struct Sender {
    socket: OwnedFd,
    to: libc::sockaddr_ll,
}

impl Sender {
    fn new(link: IfIndex) -> Sender {
        // SAFETY: the descriptor is checked before it is owned; all-zero is a valid address.
        let (socket, mut to): (OwnedFd, libc::sockaddr_ll) = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            (OwnedFd::from_raw_fd(fd), std::mem::zeroed())
        };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = link.0 as i32;
        to.sll_halen = 6;
        Sender { socket, to }
    }

    fn send(&self, frames: &[Vec<u8>]) {
        let mut to = self.to;
        let mut parts: Vec<libc::iovec> = frames
            .iter()
            .map(|frame| libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() })
            .collect();
        let mut all: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all-zero is a valid header.
                let mut one: libc::mmsghdr = unsafe { std::mem::zeroed() };
                one.msg_hdr.msg_name = (&raw mut to).cast();
                one.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
                one.msg_hdr.msg_iov = part;
                one.msg_hdr.msg_iovlen = 1;
                one
            })
            .collect();
        loop {
            // SAFETY: headers, address, parts and frames outlive the call.
            let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), all.as_mut_ptr(), all.len() as u32, 0) };
            let error = std::io::Error::last_os_error();
            // Whoever takes them is behind: it has this core for a moment.
            match sent {
                1.. => return,
                _ if error.raw_os_error() == Some(libc::ENOBUFS) => std::thread::yield_now(),
                _ => panic!("{error}"),
            }
        }
    }
}
