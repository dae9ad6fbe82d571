//! Two hosts and a router, every kind of reservation: a row each, all in one testbed, everything traced.
//!
//! A row says style, service, addresses, transport, and what must come of it. Each has a port of its own, so that what
//! one leaves would show in the next. At the end an independent reader goes over every message that was sent.

use crate::bed::{Bed, SLUICE, expect, tspec, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{EventDoc, FlowSpecDoc, Request, ReservationRow, SenderId, SessionId, StyleDoc};
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[derive(Clone, Copy, Debug)]
enum Service {
    ControlledLoad,
    Guaranteed,
}
use Service::{ControlledLoad, Guaranteed};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Family {
    V4,
    V6,
}
use Family::{V4, V6};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Transport {
    Udp,
    Tcp,
    /// A protocol without ports.
    Portless,
    /// ESP, whose senders are told apart by their security parameter index (RFC 2207).
    Esp,
}
use Transport::{Esp, Portless, Tcp, Udp};

/// What must come of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Outcome {
    /// Confirmed, installed at every hop.
    Held,
    /// Refused with this RSVP error code.
    Refused(u8),
}
use Outcome::{Held, Refused};

#[derive(Clone, Copy, Debug)]
struct Row(StyleDoc, Service, Family, Transport, Outcome);

/// This kernel's plane keeps no delay bound that was ever measured: guaranteed service is refused (admission control).
const NO_BOUND: Outcome = Refused(1);

const ROWS: &[Row] = &[
    Row(StyleDoc::Ff, ControlledLoad, V4, Udp, Held),
    Row(StyleDoc::Ff, ControlledLoad, V4, Tcp, Held),
    Row(StyleDoc::Ff, ControlledLoad, V4, Portless, Held),
    Row(StyleDoc::Ff, Guaranteed, V4, Udp, NO_BOUND),
    Row(StyleDoc::Ff, ControlledLoad, V6, Udp, Held),
    Row(StyleDoc::Ff, ControlledLoad, V6, Tcp, Held),
    Row(StyleDoc::Ff, Guaranteed, V6, Udp, NO_BOUND),
    Row(StyleDoc::Se, ControlledLoad, V4, Udp, Held),
    Row(StyleDoc::Se, ControlledLoad, V4, Tcp, Held),
    Row(StyleDoc::Se, Guaranteed, V4, Udp, NO_BOUND),
    Row(StyleDoc::Se, ControlledLoad, V6, Udp, Held),
    Row(StyleDoc::Wf, ControlledLoad, V4, Udp, Held),
    Row(StyleDoc::Wf, ControlledLoad, V4, Portless, Held),
    Row(StyleDoc::Wf, Guaranteed, V4, Udp, NO_BOUND),
    Row(StyleDoc::Wf, ControlledLoad, V6, Udp, Held),
];

/// Sessions of RFC 2207, which tshark does not know.
const SPI_ROWS: &[Row] = &[
    Row(StyleDoc::Ff, ControlledLoad, V4, Esp, Held),
    Row(StyleDoc::Se, ControlledLoad, V4, Esp, Held),
    Row(StyleDoc::Ff, ControlledLoad, V6, Esp, Held),
];

/// Of each of two senders, bit/s.
const RATE: u64 = 300_000;

pub fn three(name: &str) -> TestbedFile {
    let mut text = format!("name = \"{name}\"\nrsvp = {{ refresh = \"1s\" }}\n");
    for (node, kind) in [("a", "host"), ("b", "router"), ("c", "host")] {
        text += &format!("[[node]]\nname = \"{node}\"\nkind = \"{kind}\"\n");
    }
    for (one, other) in [("a", "b"), ("b", "c")] {
        text += &format!("[[link]]\nbetween = [\"{one}\", \"{other}\"]\nrate = \"10mbit\"\n");
    }
    TestbedFile::parse("three.toml".as_ref(), &text).unwrap()
}

impl Row {
    fn session(&self, number: usize) -> SessionId {
        let Row(_, _, family, transport, _) = *self;
        let dst = if family == V4 { "10.0.1.2" } else { "fd5c:1c00:0:1::2" };
        let protocol = match transport {
            Udp => 17,
            Tcp => 6,
            Portless => 200 + number as u8, // without ports, a session is told by its protocol
            Esp => 50,
        };
        let dst_port = if transport == Portless { 0 } else { 5000 + number as u16 };
        SessionId { dst: ip(dst), protocol, dst_port }
    }

    /// Two senders, told apart by their ports; a protocol without ports has one.
    fn senders(&self) -> Vec<SenderId> {
        let src = ip(if self.2 == V4 { "10.0.0.1" } else { "fd5c:1c00::1" });
        let ports: &[u32] = match self.3 {
            Portless => &[0],
            Esp => &[0x1000, 0xffff_fff0],
            Udp | Tcp => &[6000, 6001],
        };
        ports.iter().map(|&src_port| SenderId { src, src_port }).collect()
    }

    fn ask(&self, senders: &[SenderId]) -> (Vec<SenderId>, Vec<FlowSpecDoc>) {
        let tspec = tspec(RATE);
        let flowspec = match self.1 {
            ControlledLoad => FlowSpecDoc::ControlledLoad { tspec },
            Guaranteed => FlowSpecDoc::Guaranteed { tspec, rate_bps: RATE, slack_us: 0 },
        };
        match self.0 {
            StyleDoc::Ff => (senders.to_vec(), vec![flowspec; senders.len()]),
            StyleDoc::Se => (senders.to_vec(), vec![flowspec]),
            StyleDoc::Wf => (Vec::new(), vec![flowspec]),
        }
    }

    /// How many confirmations, or refusals, answer it.
    fn answers(&self, senders: usize) -> usize {
        if self.0 == StyleDoc::Ff { senders } else { 1 }
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A trace of one agent, written while the test runs.
struct Trace {
    file: PathBuf,
    child: Child,
}

impl Trace {
    fn begin(bed: &Bed, node: &str) -> Trace {
        let file = bed.place.join(format!("{node}.pcap"));
        let mut command = Command::new(SLUICE);
        command.args(["rsvp", "trace", "--out", "--pcap"]).arg(&file);
        command.arg("--socket").arg(bed.home(node).join("agent.sock")).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        wait_for("tracing", || std::fs::metadata(&file).ok().filter(|file| file.len() >= 24));
        Trace { file, child }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_kind_of_reservation_holds_or_is_refused_with_the_right_code() {
    let Some(bed) = Bed::of(three) else { return };
    let traces = ["a", "b", "c"].map(|node| Trace::begin(&bed, node));
    for (number, row) in ROWS.iter().enumerate() {
        play(&bed, number, row);
    }
    understood(&bed.place.join("all.pcap"), &traces);
}

#[test]
fn senders_of_esp_are_told_apart_by_their_index() {
    let Some(bed) = Bed::of(three) else { return };
    for (number, row) in SPI_ROWS.iter().enumerate() {
        play(&bed, number, row);
    }
}

fn play(bed: &Bed, number: usize, row: &Row) {
    let (session, senders) = (row.session(number), row.senders());
    let mut sender = bed.client("a");
    for &sender_id in &senders {
        let request = Request::Sender { session, sender: sender_id, tspec: tspec(RATE), ttl: 64 };
        sender.call(request).unwrap_or_else(|error| panic!("{row:?}: {error}"));
    }
    let mut receiver = bed.client("c");
    receiver.call(Request::Receiver { session }).unwrap_or_else(|error| panic!("{row:?}: {error}"));
    for _ in &senders {
        expect(&mut receiver, &format!("{row:?}: a path"), |event| matches!(event, EventDoc::Path { .. }));
    }
    let (filters, flowspecs) = row.ask(&senders);
    let request = Request::Reserve { session, style: row.0, senders: filters, flowspecs, confirm: true };
    receiver.call(request).unwrap_or_else(|error| panic!("{row:?}: {error}"));
    for _ in 0..row.answers(senders.len()) {
        let answered = |event: &EventDoc| matches!(event, EventDoc::Confirm { .. } | EventDoc::Error { .. });
        match expect(&mut receiver, &format!("{row:?}: an answer"), answered).1 {
            EventDoc::Confirm { .. } => assert_eq!(row.4, Held, "{row:?}"),
            EventDoc::Error { code, text, .. } => assert_eq!(row.4, Refused(code), "{row:?}: {text:?}"),
            other => panic!("{row:?}: {other:?}"),
        }
    }
    if row.4 == Held {
        installed(bed, row, &session);
        carried(bed, row, &session, &senders);
    }
    drop((sender, receiver));
    for node in ["a", "b"] {
        wait_for(&format!("{row:?}: nothing is left at {node}"), || none_of(bed, node, &session));
    }
}

fn rows_of(bed: &Bed, node: &str, session: &SessionId) -> Vec<ReservationRow> {
    bed.reservations(node).into_iter().filter(|row| row.session == *session).collect()
}

fn none_of(bed: &Bed, node: &str, session: &SessionId) -> Option<()> {
    let gone = rows_of(bed, node, session).is_empty();
    gone.then_some(())
}

/// Asked, admitted, installed at both hops.
fn installed(bed: &Bed, row: &Row, session: &SessionId) {
    for (node, oif) in [("a", "to-b"), ("b", "to-c")] {
        let rows = rows_of(bed, node, session);
        assert!(!rows.is_empty(), "{row:?}: nothing at {node}");
        for held in rows {
            assert_eq!((held.oif.as_deref(), held.style), (Some(oif), Some(row.0)), "{row:?} at {node}");
            let state = held.installed.as_ref().map(|installed| installed.state.as_str());
            assert_eq!(state, Some("installed"), "{row:?} at {node}: {held:?}");
        }
    }
}

/// Packets of every sender are counted as the reservation's.
fn carried(bed: &Bed, row: &Row, session: &SessionId, senders: &[SenderId]) {
    if !matches!(row.3, Udp | Esp) {
        return;
    }
    for sender in senders {
        if row.3 == Esp {
            esp(bed, session, sender);
            continue;
        }
        let from = (sender.src, sender.src_port as u16);
        let socket = bed.netns("a").run(|| UdpSocket::bind(from).unwrap()).unwrap();
        for _ in 0..5 {
            socket.send_to(&[0; 100], (session.dst, session.dst_port)).unwrap();
        }
    }
    let all = 5 * senders.len() as u64;
    wait_for(&format!("{row:?}: {all} packets are the reservation's"), || {
        let packets = |held: &ReservationRow| held.measured.as_ref().map_or(0, |measured| measured.packets);
        // Flows that share one reservation may share its counter too.
        let counted = rows_of(bed, "b", session).iter().map(packets).collect::<Vec<_>>();
        (counted.iter().sum::<u64>() == all || counted.iter().all(|&n| n == all)).then_some(())
    });
}

/// Five packets of ESP: nothing but the index in their first four bytes is looked at on the way.
fn esp(bed: &Bed, session: &SessionId, sender: &SenderId) {
    let family = if session.dst.is_ipv4() { "AF_INET" } else { "AF_INET6" };
    let program = format!(
        "import socket, struct\ns = socket.socket(socket.{family}, socket.SOCK_RAW, 50)\n\
         for n in range(5): s.sendto(struct.pack('>II', {}, n) + bytes(64), ('{}', 0))",
        sender.src_port, session.dst
    );
    bed.run("a", "python3", &["-c", &program]);
}

/// tshark finds nothing malformed and nothing to remark in what the agents sent.
fn understood(file: &Path, traces: &[Trace]) {
    const HEAD: usize = 24; // of a capture; all three are alike
    let each = traces.iter().map(|trace| std::fs::read(&trace.file).unwrap());
    let all: Vec<u8> =
        each.enumerate().flat_map(|(n, bytes)| bytes[if n == 0 { 0 } else { HEAD }..].to_vec()).collect();
    std::fs::write(file, all).unwrap();
    let fields =
        ["-T", "fields", "-E", "separator=|", "-e", "rsvp.msg", "-e", "_ws.malformed", "-e", "_ws.expert.message"];
    let output = match Command::new("tshark").arg("-n").arg("-r").arg(file).args(fields).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bench::skipped("tshark is not installed, so no independent reader has seen what agents send");
            return;
        }
        Err(error) => panic!("tshark: {error}"),
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() >= 8 * ROWS.len(), "{}: too little was traced:\n{text}", file.display());
    // tshark expects a SESSION in every message; those between neighbours (RFC 2961, 3097, 3209) have none.
    let sessionless = ["12", "13", "15", "20", "25", "26"];
    let strange = text.lines().filter(|line| {
        let said: Vec<&str> = line.split('|').collect();
        let kind = said[0].split(',').next().unwrap_or(""); // of a Bundle, before those in it
        let expected = if sessionless.contains(&kind) { "Unknown session type" } else { "" };
        !(said[1].is_empty() && [expected, ""].contains(&said[2]))
    });
    let strange: Vec<&str> = strange.collect();
    assert_eq!(strange, [""; 0], "{}", file.display());
}

/// A group of IPv6 on a link that two agents share. Routers hear no Path to such a group (docs/scale.md, "Sockets").
#[test]
fn a_group_of_ipv6_is_reserved_for_on_a_link() {
    let Some(bed) = Bed::of(three) else { return };
    let row = Row(StyleDoc::Wf, ControlledLoad, V6, Udp, Held);
    let session = SessionId { dst: ip("ff15::7:7"), protocol: 17, dst_port: 5004 };
    let IpAddr::V6(group) = session.dst else { panic!("{session:?}") };
    bed.run("a", "ip", &["-6", "route", "add", "multicast", "ff15::/16", "dev", "to-b", "table", "local"]);
    let link = bed.run("b", "ip", &["-o", "link", "show", "to-a"]);
    let index: u32 = link.split(':').next().and_then(|number| number.trim().parse().ok()).expect("its number");
    let member = bed.netns("b").run(|| UdpSocket::bind("[::]:5004").unwrap()).unwrap();
    member.join_multicast_v6(&group, index).unwrap();
    let sender_id = row.senders()[0];
    let mut receiver = bed.client("b");
    receiver.call(Request::Receiver { session }).unwrap();
    let mut sender = bed.client("a");
    sender.call(Request::Sender { session, sender: sender_id, tspec: tspec(RATE), ttl: 64 }).unwrap();
    expect(&mut receiver, "a path", |event| matches!(event, EventDoc::Path { .. }));
    let (senders, flowspecs) = row.ask(&[sender_id]);
    receiver.call(Request::Reserve { session, style: row.0, senders, flowspecs, confirm: true }).unwrap();
    expect(&mut receiver, "held", |event| matches!(event, EventDoc::Confirm { .. }));
    let held = rows_of(&bed, "a", &session);
    let state = held.first().and_then(|held| Some((held.oif.as_deref()?, held.installed.as_ref()?.state.as_str())));
    assert_eq!((held.len(), state), (1, Some(("to-b", "installed"))), "{held:?}");
    drop((sender, receiver));
    wait_for("nothing is left", || none_of(&bed, "a", &session));
}

/// A group, over a router with a static multicast route: wildcard and shared-explicit, each to a group of its own.
#[test]
fn groups_are_reserved_for_over_a_multicast_route() {
    let Some(bed) = Bed::of(three) else { return };
    let config = bed.home("b").join("agent.toml");
    let groups = [(StyleDoc::Wf, "239.7.7.7"), (StyleDoc::Se, "239.7.7.8"), (StyleDoc::Ff, "239.7.7.9")];
    let mut text = std::fs::read_to_string(&config).unwrap();
    for (_, group) in groups {
        text += &format!("\n[[multicast_route]]\ngroup = \"{group}\"\nfrom = \"to-a\"\nto = [\"to-c\"]\n");
    }
    std::fs::write(&config, text).unwrap();
    bed.kill("b");
    bed.start("b");
    bed.run("a", "ip", &["route", "add", "239.0.0.0/8", "dev", "to-b"]);
    bed.run("c", "ip", &["route", "add", "239.0.0.0/8", "dev", "to-b"]);
    for (style, group) in groups {
        let row = Row(style, ControlledLoad, V4, Udp, Held);
        let session = SessionId { dst: ip(group), protocol: 17, dst_port: 5004 };
        let (sender_id, IpAddr::V4(to)) = (row.senders()[0], session.dst) else { panic!("{group}") };
        let at = std::net::Ipv4Addr::new(10, 0, 1, 2);
        let member = bed.netns("c").run(|| UdpSocket::bind((to, 5004)).unwrap()).unwrap();
        member.join_multicast_v4(&to, &at).unwrap();
        let mut sender = bed.client("a");
        sender.call(Request::Sender { session, sender: sender_id, tspec: tspec(RATE), ttl: 64 }).unwrap();
        let mut receiver = bed.client("c");
        receiver.call(Request::Receiver { session }).unwrap();
        expect(&mut receiver, &format!("{style:?}: a path"), |event| matches!(event, EventDoc::Path { .. }));
        let (senders, flowspecs) = row.ask(&[sender_id]);
        receiver.call(Request::Reserve { session, style, senders, flowspecs, confirm: true }).unwrap();
        expect(&mut receiver, &format!("{style:?}: held"), |event| matches!(event, EventDoc::Confirm { .. }));
        installed(&bed, &row, &session);
    }
}
