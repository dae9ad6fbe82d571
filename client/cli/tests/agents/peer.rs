//! An agent with one interface and `auth = "none"`, and a peer that knows RFC 2205 alone: raw bytes, no Router Alert, no
//! extension of any kind.

use crate::bed::{Bed, expect, tspec, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{Answer, Request};
use documents::event::EventDoc;
use documents::rows::{CounterRow, SenderRow};
use documents::session::{FlowSpecDoc, SenderId, SessionId, StyleDoc};
use linux::sockets::{Outgoing, RsvpSockets};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use terms::{Adspec, Bytes, Rate, SenderTemplate, Session, Span, Tspec};
use wire::{Builder, Message, MessageType, RsvpHop};

const AGENT: &str = "10.0.0.1";
const PEER: &str = "10.0.0.2";
const SEND_TTL: u8 = 64;
/// The peer's name for its interface; it must come back as it was.
const LIH: u32 = 0xdead_beef;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pair(name: &str) -> TestbedFile {
    let text = format!(
        "name = \"{name}\"\nauth = \"none\"\nnode = [{{ name = \"a\", kind = \"host\" }}, {{ name = \"p\", kind = \"host\" }}]\n\
         [[link]]\nbetween = [\"a\", \"p\"]\nrate = \"10mbit\"\n"
    );
    TestbedFile::parse("pair.toml".as_ref(), &text).unwrap()
}

fn about(kind: MessageType, port: u16) -> Vec<u8> {
    let session = Session { dst: ip(AGENT), protocol: 17, dst_port: port };
    let template = SenderTemplate { src: ip(PEER), src_port: 4000 };
    let tspec = Tspec { r: Rate::from_kbps(800), b: Bytes::new(64_000), p: Rate::INFINITE, m: 64, M: 1500 };
    let message = Builder::new(kind, SEND_TTL).session(&session).hop(&RsvpHop { addr: ip(PEER), lih: LIH });
    let message = match kind {
        MessageType::Path => message.time_values(Span::from_secs(30)),
        _ => message,
    };
    let message = message.sender_template(&template.into()).sender_tspec(&tspec);
    let message = if kind == MessageType::Path { message.adspec(&Adspec::origin(1500)) } else { message };
    message.finish().unwrap()
}

fn senders(bed: &Bed) -> Vec<SenderRow> {
    match bed.client("a").call(Request::Senders(Default::default())).unwrap() {
        Answer::Senders(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn counters(bed: &Bed) -> Vec<CounterRow> {
    match bed.client("a").call(Request::Counters).unwrap() {
        Answer::Counters(rows) => rows,
        other => panic!("{other:?}"),
    }
}

/// The next message of a type that reaches the peer.
fn next(sockets: &mut RsvpSockets, kind: MessageType) -> Vec<u8> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let mut found = None;
        sockets
            .receive(|message| {
                if message.bytes.get(1) == Some(&kind.number()) {
                    found = Some(message.bytes.to_vec());
                }
            })
            .unwrap();
        if let Some(bytes) = found {
            return bytes;
        }
        assert!(Instant::now() < until, "no {kind:?} came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_peer_that_knows_rfc_2205_alone_is_answered() {
    let Some(bed) = Bed::of(pair) else { return };
    bed.kill("p"); // its place is ours
    let mut peer = bed.netns("p").run(|| RsvpSockets::open().unwrap()).unwrap();
    let send = |peer: &mut RsvpSockets, bytes: &[u8]| {
        let (src, dst) = (ip(PEER), ip(AGENT));
        peer.send(&Outgoing { oif: None, src, dst, ttl: SEND_TTL, router_alert: false, bytes }).unwrap();
    };
    // To the session's destination, which is the agent's address; without Router Alert nothing else would deliver it.
    send(&mut peer, &about(MessageType::Path, 5004));
    let known = wait_for("the Path is taken", || senders(&bed).pop());
    assert_eq!((known.phop, known.non_rsvp_hop), (Some(ip(PEER)), false));

    let mut receiver = bed.client("a");
    let session = SessionId { dst: ip(AGENT), protocol: 17, dst_port: 5004 };
    receiver.call(Request::Receiver { session }).unwrap();
    expect(&mut receiver, "the path", |event| matches!(event, EventDoc::Path { .. }));
    let sender = SenderId { src: ip(PEER), src_port: 4000 };
    let (style, flowspecs) = (StyleDoc::Ff, vec![FlowSpecDoc::ControlledLoad { tspec: tspec(800_000) }]);
    receiver.call(Request::Reserve { session, style, senders: vec![sender], flowspecs, confirm: true }).unwrap();
    let bytes = next(&mut peer, MessageType::Resv);
    let Ok(Message::Resv(resv)) = Message::parse(&bytes) else { panic!("{bytes:02x?}") };
    assert_eq!((resv.session.dst, resv.hop.addr, resv.hop.lih), (ip(AGENT), ip(AGENT), LIH), "LIH comes back");
    assert!(resv.envelope.integrity.is_none(), "nothing that the peer does not know");

    // An ICMP error that quotes a Path for another port is no Path.
    let before: u64 = counters(&bed).iter().map(|row| row.received).sum();
    let quote = wire::ip::packet(ip(AGENT), ip(PEER), 46, 1, false, &about(MessageType::Path, 6000)).unwrap();
    quoted(&bed, &quote);
    std::thread::sleep(Duration::from_millis(200));
    let after: u64 = counters(&bed).iter().map(|row| row.received).sum();
    assert_eq!((senders(&bed).len(), after), (1, before), "a quote is not read");

    send(&mut peer, &about(MessageType::PathTear, 5004));
    wait_for("the PathTear is taken", || senders(&bed).is_empty().then_some(()));
    expect(&mut receiver, "word of it", |event| matches!(event, EventDoc::PathGone { .. }));
}

/// ICMP destination unreachable, protocol unreachable, with a packet quoted, from the peer to the agent.
fn quoted(bed: &Bed, quote: &[u8]) {
    let mut icmp = [&[3, 2, 0, 0, 0, 0, 0, 0][..], quote].concat();
    let sum = wire::checksum::internet(&icmp).to_be_bytes();
    icmp[2..4].copy_from_slice(&sum);
    let hex: String = icmp.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    let program =
        format!("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b'{hex}', ('{AGENT}', 0))");
    bed.run("p", "python3", &["-c", &program]);
}
