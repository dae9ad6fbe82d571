//! `sluice plane live` on real packets: three namespaces, a sender, a plane and a receiver, joined by two veth pairs.

use linux::capture::Capture;
use linux::clock::Clock;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netns::{Guarded, Namespace};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use terms::Span;

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);
/// UDP payload of a packet of 1,500 bytes.
const PAYLOAD: usize = 1_472;

/// HFSC over 20 Mb/s: what three backlogged classes get is 12, 6 and 2 Mb/s of wire bytes.
const HFSC: &str = r#"
name = "hfsc"
link = { rate = "20mbit", overhead = 14, scheduler = "hfsc" }
[[node]]
name = "a"
rule = [{ protocol = "udp", dst_port = "5001" }]
real_time = "12mbit"
link_share = "12mbit"
queue = { packets = 400, bytes = "800kb" }
[[node]]
name = "b"
rule = [{ protocol = "udp", dst_port = "5002" }]
link_share = "6mbit"
queue = { packets = 400, bytes = "800kb" }
[[node]]
name = "rest"
link_share = "2mbit"
queue = { packets = 400, bytes = "800kb" }
"#;

/// WF2Q+ with a bucket shaper, a rate adaptive shaper with its meter and RIO, and a two-rate meter.
const PARTS: &str = r#"
name = "parts"
link = { rate = "40mbit", overhead = 14, scheduler = "wf2q" }
[[node]]
name = "shaped"
rate = "10mbit"
rule = [{ protocol = "udp", dst_port = "5001" }]
shaper = { kind = "bucket", rate = "3mbit", depth = "3kb", buffer = "600kb" }
queue = { packets = 400, bytes = "800kb" }
[[node]]
name = "metered"
rate = "20mbit"
rule = [{ protocol = "udp", dst_port = "5002" }]
meter = { kind = "trtcm", cir = "2mbit", cbs = "100kb", pir = "6mbit", pbs = "100kb" }
marker = { af = 1 }
queue = { packets = 400, bytes = "800kb" }
[[node]]
name = "rest"
rate = "10mbit"
shaper = { kind = "sr-ras", cir = "2mbit", mir = "5mbit", cir_th = "8kb", mir_th = "32kb", buffer = "64kb", k = "300ms" }
meter = { kind = "srtcm", cir = "2mbit", cbs = "8kb", ebs = "8kb" }
marker = { af = 2 }
queue = { packets = 100, bytes = "150kb" }
[node.dropper]
coupling = "coupled"
green = { min = 40, max = 70, p = 0.02 }
yellow = { min = 20, max = 40, p = 0.05 }
red = { min = 10, max = 20, p = 0.1 }
"#;

/// The three namespaces, gone with this.
struct Triple {
    ends: [Guarded; 3],
    folder: PathBuf,
}

impl Triple {
    /// `None`: not possible here, and said.
    fn new(name: &str) -> Option<Triple> {
        let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
        if !root {
            bench::skipped("network namespaces need root");
            return None;
        }
        let id = std::process::id();
        let ends = ["a", "p", "b"].map(|end| Guarded::create(&format!("live-{name}-{end}-{id}")).unwrap());
        let folder = std::env::temp_dir().join(format!("sluice-live-{name}-{id}"));
        std::fs::create_dir_all(&folder).unwrap();
        let triple = Triple { ends, folder };
        for (end, near, far, address) in [(0, "a0", "pin", SENDER), (2, "b0", "pout", RECEIVER)] {
            let plane = std::fs::File::open(format!("{}/{}", linux::netns::NETNS_DIR, triple.ends[1].name())).unwrap();
            let up = |socket: &mut Socket, name: &str| {
                let index = socket.link_by_name(name).unwrap().index;
                socket.set_link_up(index, true).unwrap();
                index
            };
            triple.ends[end]
                .run(|| {
                    let mut socket = Socket::open().unwrap();
                    socket.add_veth(near, far, Some(plane.as_fd())).unwrap();
                    let index = up(&mut socket, near);
                    socket.add_address(&Address { index, address: IpAddr::V4(address), prefix: 24 }).unwrap();
                })
                .unwrap();
            triple.ends[1].run(|| up(&mut Socket::open().unwrap(), far)).unwrap();
        }
        Some(triple)
    }

    /// Starts a plane on a tree in the middle.
    fn start(&self, tree: &str, more: &[&str]) -> Running {
        let file = self.folder.join("tree.toml");
        std::fs::write(&file, tree).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.args(["plane", "live", file.to_str().unwrap(), "--spin", "0s", "--json"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.ends[1].enter_at_exec(&mut command);
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out }
    }

    /// One whose frames already pass.
    fn forwarding(&self, tree: &str, more: &[&str]) -> Running {
        let ends = ["--in", "pin", "--out", "pout"];
        let running = self.start(tree, &[&ends, more].concat());
        let heard = self.ends[2].run(|| UdpSocket::bind((RECEIVER, 9)).unwrap()).unwrap();
        heard.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let probe = self.ends[0].run(|| UdpSocket::bind((SENDER, 0)).unwrap()).unwrap();
        let passes = |_| {
            let _ = probe.send_to(&[0], (RECEIVER, 9));
            heard.recv(&mut [0]).is_ok()
        };
        assert!((0..600).any(passes), "nothing passes within 30 s");
        running
    }

    /// Sends packets of 1,500 bytes to some ports, each at this rate, until the flag is set.
    fn flood(&self, ports: &[u16], bps: u64) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let sockets: Vec<UdpSocket> = ports
            .iter()
            .map(|port| {
                // Someone listens, or each packet is answered by ICMP.
                let socket = self.ends[0].run(|| UdpSocket::bind((SENDER, 0)).unwrap()).unwrap();
                socket.connect((RECEIVER, *port)).unwrap();
                socket
            })
            .collect();
        let listeners = ports.iter().map(|p| self.ends[2].run(|| UdpSocket::bind((RECEIVER, *p)).unwrap()).unwrap());
        let (listeners, told) = (listeners.collect(), stop.clone());
        let thread = std::thread::spawn(move || {
            let (start, mut sent) = (Instant::now(), 0u64);
            while !told.load(Ordering::Relaxed) {
                let due = (start.elapsed().as_nanos() as u64).saturating_mul(bps) / 12_000 / 1_000_000_000;
                for _ in sent..due.min(sent + 400) {
                    for socket in &sockets {
                        let _ = socket.send(&[7; PAYLOAD]);
                    }
                }
                sent = due;
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Flood { stop, thread: Some(thread), _listeners: listeners }
    }
}

impl Drop for Triple {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    _listeners: Vec<UdpSocket>,
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    /// The next line of counters.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Its end: status, last counters, words.
    fn end(mut self) -> (ExitStatus, Option<Value>, String) {
        let (mut out, mut words) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        let status = self.child.wait().unwrap();
        (status, out.lines().last().map(|line| serde_json::from_str(line).unwrap()), words)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn class<'a>(line: &'a Value, name: &str) -> &'a Value {
    let classes = line["ways"][0]["classes"].as_array().unwrap();
    classes.iter().find(|class| class["name"] == name).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The growth of a count of packets, in packets and IP bytes a second, between two lines.
fn growth(lines: &[Value; 2], of: impl Fn(&Value) -> Value) -> [f64; 2] {
    let seconds = number(&lines[1]["seconds"]) - number(&lines[0]["seconds"]);
    ["packets", "bytes"].map(|what| (number(&of(&lines[1])[what]) - number(&of(&lines[0])[what])) / seconds)
}

/// Bits a second, with so many bytes a packet beside those of IP.
fn bps([packets, bytes]: [f64; 2], overhead: f64) -> f64 {
    8.0 * (bytes + packets * overhead)
}

/// Two lines some seconds apart, between which these classes always had packets waiting.
fn backlogged(running: &mut Running, classes: &[&str]) -> [Value; 2] {
    let waits = |line: &Value| classes.iter().all(|name| number(&class(line, name)["waiting"]["packets"]) > 20.0);
    for _ in 0..5 {
        let first = (0..100).map(|_| running.line()).find(waits).expect("the classes fill up");
        let rest: Vec<Value> = (0..16).map(|_| running.line()).collect();
        if rest.iter().all(waits) {
            return [first, rest.into_iter().last().unwrap()];
        }
    }
    panic!("the sender never kept the queues full");
}

/// Judges windows of some seconds, at most three: a machine that stops for long starves a meter, which has no patience.
fn judged(running: &mut Running, classes: &[&str], wanted: impl Fn(&[Value; 2]) -> Vec<(&'static str, f64, f64)>) {
    let mut off = Vec::new();
    for _ in 0..3 {
        off = wanted(&backlogged(running, classes));
        off.retain(|(_, found, wanted)| (found / wanted - 1.0).abs() > 0.005);
        if off.is_empty() {
            return;
        }
    }
    panic!("more than 0.5 % off in three windows (what, found, wanted, bit/s): {off:?}");
}

fn sent(line: &Value, name: &str) -> Value {
    class(line, name)["sent"].clone()
}

#[test]
fn hfsc_gives_every_class_its_rate() {
    let Some(triple) = Triple::new("hfsc") else { return };
    let mut running = triple.forwarding(HFSC, &["--every", "250ms"]);
    let _flood = triple.flood(&[5001, 5002, 5003], 16_000_000);
    judged(&mut running, &["a", "b", "rest"], |lines| {
        let rate =
            |(name, mbps): (&'static str, f64)| (name, bps(growth(lines, |line| sent(line, name)), 14.0), mbps * 1e6);
        [("a", 12.0), ("b", 6.0), ("rest", 2.0)].map(rate).to_vec()
    });
    assert_eq!(running.line()["ways"][0]["no_buffer"], 0);
}

#[test]
fn shapers_meters_and_markers_do_what_the_tree_says() {
    let Some(triple) = Triple::new("parts") else { return };
    let mut running = triple.forwarding(PARTS, &["--every", "250ms"]);
    let color = |line: &Value, nth: usize, what: &str| class(line, "metered")["colors"][nth][what].clone();
    let flood = triple.flood(&[5001, 5002, 5003], 10_000_000);
    judged(&mut running, &["shaped"], |lines| {
        vec![
            ("the bucket", bps(growth(lines, |line| sent(line, "shaped")), 0.0), 3e6),
            ("green: CIR", bps(growth(lines, |line| color(line, 0, "metered")), 0.0), 2e6),
            ("yellow: PIR less CIR", bps(growth(lines, |line| color(line, 1, "metered")), 0.0), 4e6),
            ("a full rate adaptive shaper: MIR", bps(growth(lines, |line| sent(line, "rest")), 0.0), 5e6),
        ]
    });
    drop(flood);
    let first = quiet(&mut running);
    let mut capture = triple.ends[2].run(|| Capture::udp_to("b0", 5002, Clock::start()).unwrap()).unwrap();
    let flood = triple.flood(&[5002], 10_000_000);
    for _ in 0..6 {
        running.line();
    }
    drop(flood);
    let last = quiet(&mut running);
    let mut seen = [0u64; 64];
    while let Some(frame) = capture.next(Span::from_millis(200)).unwrap() {
        seen[usize::from(frame.head()[1] >> 2)] += 1;
    }
    let grown = |nth: usize| {
        let count = |line: &Value| color(line, nth, "sent")["packets"].as_u64().unwrap();
        count(&last) - count(&first)
    };
    assert_eq!([10, 12, 14].map(|dscp| seen[dscp]), [grown(0), grown(1), grown(2)], "AF11, AF12, AF13 on the wire");
    assert_eq!(seen.iter().sum::<u64>(), grown(0) + grown(1) + grown(2), "and nothing else");
}

/// The counters when nothing waits and nothing comes any more.
fn quiet(running: &mut Running) -> Value {
    let mut last = running.line();
    for _ in 0..200 {
        let next = running.line();
        if next["ways"][0]["inside"] == 0 && next["ways"] == last["ways"] {
            return next;
        }
        last = next;
    }
    panic!("it never became quiet: {last}");
}

/// A sender with segmentation and checksum offload, as veth has: its packets of up to 64 KB are cut and arrive whole.
#[test]
fn tcp_passes_with_all_offloads_on() {
    let Some(triple) = Triple::new("tcp") else { return };
    let tree = HFSC.replace("20mbit", "200mbit").replace("\"2mbit", "\"100mbit");
    let running = triple.forwarding(&tree, &["--delay", "2ms"]);
    let data: Vec<u8> = (0..6_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let listener = triple.ends[2].run(|| TcpListener::bind((RECEIVER, 80)).unwrap()).unwrap();
    let got = std::thread::spawn(move || {
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        got
    });
    let mut stream = triple.ends[0].run(|| TcpStream::connect((RECEIVER, 80)).unwrap()).unwrap();
    let begin = Instant::now();
    stream.write_all(&data).unwrap();
    drop(stream);
    assert!(got.join().unwrap() == data, "every byte in its place");
    assert!(begin.elapsed() > Duration::from_millis(6_000_000 * 8 / 200_000), "not faster than its link");
    running.signal("-TERM");
    let (status, last, words) = running.end();
    let way = &last.unwrap()["ways"][0];
    assert!(status.success() && number(&way["cut"]) > 0.0, "{words} {way}");
    assert_eq!(way["too_long"], 0, "{way}");
}

#[test]
fn an_interface_that_goes_away_ends_it_in_words() {
    let Some(triple) = Triple::new("gone") else { return };
    let running = triple.forwarding(HFSC, &[]);
    let flood = triple.flood(&[5001], 1_000_000);
    triple.ends[1]
        .run(|| {
            let mut socket = Socket::open().unwrap();
            let index = socket.link_by_name("pout").unwrap().index;
            socket.delete_link(index).unwrap();
        })
        .unwrap();
    let (status, last, words) = running.end();
    drop(flood);
    assert_eq!(status.code(), Some(3), "{words}");
    assert!(words.contains("pout: the interface is gone"), "{words}");
    assert!(number(&last.unwrap()["ways"][0]["received"]) > 0.0, "the counters are said");
}

#[test]
fn a_killed_plane_leaves_nothing_and_starts_again() {
    let Some(triple) = Triple::new("kill") else { return };
    // Once packets pass, both pairs have carrier: the links are as they stay.
    let mut before = None;
    for _ in 0..2 {
        let running = triple.forwarding(HFSC, &[]);
        let there = links(&triple.ends[1]);
        running.signal("-KILL");
        let (status, ..) = running.end();
        assert!(!status.success());
        let left = links(&triple.ends[1]);
        assert_eq!(left, there, "the plane changed no link while it ran, and none by its end");
        assert_eq!(*before.get_or_insert(there), left);
    }
}

/// Names, flags and queueing disciplines of the links.
fn links(netns: &Namespace) -> String {
    let mut command = Command::new("ip");
    command.args(["-o", "link", "show"]);
    netns.enter_at_exec(&mut command);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn what_cannot_go_live_is_refused_in_words() {
    let Some(triple) = Triple::new("words") else { return };
    let deep = HFSC.replacen("packets = 400", "packets = 200000", 1).replacen("800kb", "800mb", 1);
    let over = HFSC.replacen("real_time = \"12mbit\"", "real_time = \"21mbit\"", 1);
    for (tree, ends, code, said) in [
        (HFSC, ["pin", "pin"], 3, "pin twice"),
        (HFSC, ["pin", "nowhere"], 3, "nowhere"),
        (HFSC, ["lo", "pin"], 3, "lo is no Ethernet interface"),
        (&deep, ["pin", "pout"], 2, "its queues and shapers may hold 200800 packets"),
        (&over, ["pin", "pout"], 2, "tree.toml:"),
    ] {
        let (status, last, words) = triple.start(tree, &["--in", ends[0], "--out", ends[1]]).end();
        assert_eq!((status.code(), last), (Some(code), None), "{words}");
        assert!(words.contains(said), "{words}");
    }
    let file = triple.folder.join("tree.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["plane", "live", file.to_str().unwrap(), "--in", "a0", "--out", "a0x"]);
    std::fs::write(&file, HFSC).unwrap();
    triple.ends[0].enter_at_exec(&mut command);
    let refused = command.output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(3) && words.contains("a0 has the address 10.88.0.1"), "{words}");
}
