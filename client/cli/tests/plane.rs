//! `sluice plane` as a person or a script runs it: a capture is made here, played through `examples/tree.toml`, and what
//! comes out is read byte by byte.

use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TREE: &str = include_str!("../../../examples/tree.toml");
const EF: u8 = 46;

/// A folder of this test's own, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("sluice-plane-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn sluice(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).arg("plane").args(args).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// An Ethernet frame with a UDP packet of `len` IP bytes; the packet's number is its payload.
fn frame(dst: &str, port: u16, tos: u8, len: usize, number: u32) -> Vec<u8> {
    let dst: IpAddr = dst.parse().unwrap();
    let (src, kind, header): (IpAddr, u16, usize) = match dst {
        IpAddr::V4(_) => (Ipv4Addr::new(10, 9, 9, 9).into(), 0x0800, 20),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST.into(), 0x86dd, 40),
    };
    let mut udp = [1000u16, port, (len - header) as u16, 0].map(u16::to_be_bytes).concat();
    udp.extend(number.to_be_bytes());
    udp.resize(len - header, 0);
    let mut ip = wire::ip::packet(src, dst, 17, 64, false, &udp).unwrap();
    if dst.is_ipv4() {
        ip[1] = tos;
        ip[10..12].fill(0);
        let checksum = wire::checksum::internet(&ip[..20]);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        ip[0] = 0x60 | tos >> 4;
        ip[1] = tos << 4 | ip[1] & 0xf;
    }
    [&[2; 12], &kind.to_be_bytes()[..], &ip].concat()
}

/// Classic pcap, big endian, microseconds.
fn pcap(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65_535, 1].map(u32::to_be_bytes).concat();
    for (us, frame) in frames {
        let words = [(us / 1_000_000) as u32, (us % 1_000_000) as u32, frame.len() as u32, frame.len() as u32];
        file.extend(words.map(u32::to_be_bytes).concat());
        file.extend(frame);
    }
    file
}

/// A packet of the output.
struct Sent {
    nanos: u64,
    port: u16,
    number: u32,
    dscp: u8,
    ecn: u8,
    len: u64,
}

/// Reads the output by hand; asserts that each IPv4 header checksum is right.
fn sent(file: &Path) -> Vec<Sent> {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 1), "nanoseconds, Ethernet");
    let (mut at, mut packets) = (24, Vec::new());
    while at < bytes.len() {
        let length = word(at + 8) as usize;
        let ip = &bytes[at + 16 + 14..at + 16 + length];
        let (tos, header) = match ip[0] >> 4 {
            4 => {
                assert_eq!(wire::checksum::internet(&ip[..20]), 0, "the header checksum was updated");
                (ip[1], 20)
            }
            _ => (ip[0] << 4 | ip[1] >> 4, 40),
        };
        packets.push(Sent {
            nanos: u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)),
            port: u16::from_be_bytes([ip[header + 2], ip[header + 3]]),
            number: u32::from_be_bytes(ip[header + 8..header + 12].try_into().unwrap()),
            dscp: tos >> 2,
            ecn: tos & 3,
            len: ip.len() as u64,
        });
        at += 16 + length;
    }
    packets
}

/// One second: voice of 1 Mb/s, and far too much of the rest. Ports: 5004 voice, 1 gold, 2 silver, 3 and 6 rest.
fn busy() -> Vec<(u64, Vec<u8>)> {
    const START: u64 = 1_000_000_000 * 1_000_000;
    let mut frames = Vec::new();
    for n in 0..1_000u32 {
        let at = START + u64::from(n) * 1_000;
        frames.push((at, frame("10.3.0.1", 5004, 1, 125, n)));
        frames.push((at + 100, frame("10.1.0.1", 1, 2, 750, n)));
        frames.push((at + 200, frame("10.2.0.1", 2, 0, 500, n)));
        frames.push((at + 300, frame("10.3.0.1", 3, 0, 1_000, n)));
        if n % 10 == 0 {
            frames.push((at + 400, frame("2001:db8:2::1", 6, 3, 200, n)));
            frames.push((at + 500, [&[2; 12][..], &[8, 6], &[0; 28]].concat()));
        }
    }
    frames
}

#[test]
fn a_capture_goes_through_the_tree() {
    let scratch = Scratch::new("run");
    let tree = scratch.file("tree.toml", TREE);
    let input = scratch.file("in.pcap", pcap(&busy()));
    let (output, figures) = (scratch.0.join("out.pcap"), scratch.0.join("figures"));
    let args =
        ["run", text(&tree), "--in", text(&input), "--out", text(&output), "--figures", text(&figures), "--json"];
    let ran = sluice(&args);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let packets = sent(&output);
    ordered_and_paced(&packets);
    marked(&packets);
    conforming(&packets);
    counted(&report, &packets);
    for name in ["arrivals", "departures", "delay"] {
        assert!(std::fs::read_to_string(figures.join(format!("{name}.svg"))).unwrap().starts_with("<svg"));
        assert!(std::fs::read(figures.join(format!("{name}.png"))).unwrap().starts_with(b"\x89PNG"));
    }
    let again = scratch.0.join("again.pcap");
    let table = sluice(&["run", text(&tree), "--in", text(&input), "--out", text(&again)]);
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&output).unwrap(), "the same seed, the same packets");
    let table = String::from_utf8(table.stdout).unwrap();
    let voice: Vec<&str> = table.lines().find(|l| l.starts_with("voice")).unwrap().split_whitespace().collect();
    assert_eq!(voice[..9], ["voice", "green", "1000", "125000", "0", "0", "0", "1000", "125000"], "{table}");
}

/// Time never runs backwards, a class's packets keep their order, and no packet starts before the one before has left.
fn ordered_and_paced(packets: &[Sent]) {
    for pair in packets.windows(2) {
        let wire_ns = (pair[0].len + 38) * 800;
        assert!(pair[1].nanos >= pair[0].nanos + wire_ns, "two packets on a 10 Mb/s link at once");
    }
    for port in [5004, 1, 2, 3, 6] {
        let order: Vec<u32> = packets.iter().filter(|p| p.port == port).map(|p| p.number).collect();
        assert!(order.is_sorted_by(|a, b| a < b), "port {port}");
    }
}

fn marked(packets: &[Sent]) {
    let points = |port| packets.iter().filter(move |p| p.port == port).map(|p| (p.dscp, p.ecn));
    assert!(points(5004).all(|p| p == (EF, 1)), "voice conforms; its ECN stays");
    assert!(points(1).all(|(dscp, ecn)| [10, 12, 14].contains(&dscp) && ecn == 2), "gold is AF11, AF12 or AF13");
    assert!(points(1).any(|(dscp, _)| dscp == 10) && points(1).any(|(dscp, _)| dscp != 10));
    assert!(points(2).all(|(dscp, _)| [18, 20, 22].contains(&dscp)), "silver is AF21, AF22 or AF23");
    assert!(points(6).all(|(dscp, ecn)| [18, 20, 22].contains(&dscp) && ecn == 3), "IPv6 too");
    assert!(points(3).all(|p| p == (0, 0)), "the rest has no marker");
}

/// In any window that begins with a packet: green at most CIR x t + CBS at the meter, and all voice within a packet's wait.
fn conforming(packets: &[Sent]) {
    let within = |ports: &[u16], dscp: u8, bps: u64, burst: u64| {
        let green: Vec<&Sent> = packets.iter().filter(|p| ports.contains(&p.port) && p.dscp == dscp).collect();
        assert!(green.len() > 50);
        let mut sum = 0;
        // The queue behind the meter delays; from the start on it only takes away.
        for packet in &green {
            sum += packet.len;
            let t = packet.nanos - green[0].nanos + 1_000_000;
            assert!(sum * 8 <= bps * t / 1_000_000_000 + burst * 8, "{sum} bytes of code point {dscp} in {t} ns");
        }
    };
    within(&[1], 10, 2_000_000, 8_192);
    within(&[2, 6], 18, 1_000_000, 4_096);
    let (silver, first) = (packets.iter().filter(|p| [2, 6].contains(&p.port)), packets[0].nanos);
    let (bytes, last) = silver.fold((0, first), |(sum, _), p| (sum + p.len, p.nanos));
    assert!(bytes * 8 <= 2_000_000 * (last - first) / 1_000_000_000 + 3_072 * 8, "the bucket shapes silver to 2 Mb/s");
    for voice in packets.iter().filter(|p| p.port == 5004) {
        let arrived = 1_000_000_000 * 1_000_000_000 + u64::from(voice.number) * 1_000_000;
        assert!(voice.nanos - arrived <= 1_038 * 800, "voice waits for one packet at most");
    }
}

/// The JSON account agrees with the output, and every packet is in it once.
fn counted(report: &Value, packets: &[Sent]) {
    assert_eq!((report["not_ip"].as_u64(), report["backwards"].as_u64()), (Some(100), Some(0)));
    let expected =
        [("voice", 1_000, &[5004][..]), ("gold", 1_000, &[1]), ("silver", 1_100, &[2, 6]), ("rest", 1_000, &[3])];
    for (class, (name, arrived, ports)) in report["classes"].as_array().unwrap().iter().zip(expected) {
        assert_eq!(class["name"], name);
        assert_eq!(class["arrived"]["packets"].as_u64(), Some(arrived));
        let number = |value: &Value| value["packets"].as_u64().unwrap();
        let (mut gone, mut left) = (number(&class["refused"]), 0);
        for color in class["colors"].as_array().unwrap() {
            left += number(&color["sent"]);
            gone += ["early", "forced", "overflowed", "sent"].iter().map(|way| number(&color[way])).sum::<u64>();
        }
        assert_eq!(gone, arrived, "{name}: {class}");
        assert_eq!(left, packets.iter().filter(|p| ports.contains(&p.port)).count() as u64);
        let bins = class["delay"]["histogram"].as_array().unwrap();
        assert_eq!(bins.iter().map(number).sum::<u64>(), left);
    }
}

#[test]
fn a_tree_that_works_is_described() {
    let scratch = Scratch::new("check");
    let checked = sluice(&["check", text(&scratch.file("tree.toml", TREE))]);
    assert!(checked.status.success());
    let said = "edge: link 10mbit with 38 bytes of overhead a packet, priority; leaves: 4, inner nodes: 1\n";
    assert_eq!(String::from_utf8(checked.stdout).unwrap(), said);
}

#[test]
fn a_mistake_is_told_with_its_line() {
    let scratch = Scratch::new("mistakes");
    let table = [
        ("rate = \"10mbit\"", "rate = \"10mbut\"", 11, "\"mbut\" is no unit of rate"),
        ("rate = \"10mbit\"", "rate = \"0mbit\"", 10, "link: rate is 0bit: allowed is 1bit to 400gbit"),
        ("scheduler = \"wf2q\"", "scheduler = \"wfq\"", 26, "unknown variant `wfq`"),
        ("name = \"silver\"", "name = \"gold\"", 46, "link/gold: the name is there twice"),
        (
            "rate = \"3mbit\"",
            "rate = \"4mbit\"",
            24,
            "link/data: its children's rates sum to 11mbit: allowed is at most its own 10mbit",
        ),
        (
            "parent = \"data\"\nrate = \"1mbit\"",
            "parent = \"date\"\nrate = \"1mbit\"",
            57,
            "there is no node \"date\" to be its parent",
        ),
        ("cir_th = \"8kb\"", "cir_th = \"18kb\"", 34, "link/data/gold: shaper: CIR_th 18kb, PIR_th 16kb"),
        (
            "kind = \"tr-ras\", cir = \"2mbit\", ",
            "kind = \"tr-ras\", ",
            34,
            "the shaper tr-ras needs cir: it takes cir, pir, mir",
        ),
        (
            "kind = \"srtcm\", cir",
            "kind = \"srtcm\", pir = \"1mbit\", cir",
            51,
            "the meter srtcm has no pir: it takes cir, cbs, ebs",
        ),
        ("marker = { af = 2 }", "marker = { af = 5 }", 52, "af is 5: allowed is 1 to 4"),
        ("dscp = \"ef\"", "dscp = \"ff\"", 18, "\"ff\" is no code point"),
        (
            "red = { min = 10, max = 20",
            "red = { min = 20, max = 20",
            39,
            "thresholds 20 and 20: the lower must be below the upper",
        ),
        ("priority = 0", "priority = 0\nquantum = 1", 16, "it states shares of several kinds"),
        ("priority = 0", "quantum = 1500", 16, "it states a quantum, its parent's scheduler priority needs a priority"),
        ("packets = 50, ", "packets = 0, ", 21, "link/voice: queue: packets is 0: allowed is 1 to 1048576"),
        ("\nrule = [{ dst = \"10.1.0.0/16\" }]", "", 56, "2 leaves are without rules"),
    ];
    for (from, to, line, message) in table {
        assert!(TREE.contains(from), "{from}");
        let file = scratch.file("bad.toml", TREE.replacen(from, to, 1));
        let refused = sluice(&["check", text(&file)]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("bad.toml:{line}: ")) && said.contains(message), "line {line}: {said}");
    }
}

#[test]
fn a_capture_that_cannot_be_played_is_refused() {
    let scratch = Scratch::new("captures");
    let tree = scratch.file("tree.toml", TREE);
    let whole = pcap(&busy()[..3]);
    let far = [0xa1b2_3c4du32, 0x0002_0004, 0, 0, 65_535, 1].map(u32::to_be_bytes).concat();
    let arp = pcap(&[(0, [&[2; 12][..], &[8, 6], &[0; 28]].concat())]);
    let cases: [(&[u8], &str); 4] = [
        (b"hello, I am no capture at all", "not a capture file: give a pcap or pcapng file"),
        (&whole[..whole.len() - 5], "the capture is cut off or damaged here (byte"),
        (&far, "there is no IP packet in it"),
        (&arp, "there is no IP packet in it"),
    ];
    let output = scratch.0.join("out.pcap");
    for (bytes, message) in cases {
        let input = scratch.file("in.pcap", bytes);
        let refused = sluice(&["run", text(&tree), "--in", text(&input), "--out", text(&output)]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("in.pcap") && said.contains(message), "{said}");
        assert!(!output.exists(), "nothing is written");
    }
    let missing = sluice(&["run", text(&tree), "--in", "/nowhere/a.pcap", "--out", text(&output)]);
    assert!(String::from_utf8(missing.stderr).unwrap().contains("cannot read /nowhere/a.pcap"));
}
