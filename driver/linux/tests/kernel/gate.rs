//! The filter before the signalling sockets: a flood that nobody reads drops what is about a reservation never, and itself always.

use crate::scratch::in_netns;
use linux::netlink::Socket;
use linux::sockets::{IntakeFilter, MessageReceiver, MessageSender, Outgoing, ReceivedMessage};
use std::collections::BTreeSet;
use std::net::IpAddr;
use terms::{IfIndex, Session, Span};
use wire::{Builder, MessageType, RsvpHop};

/// More than the queue has room for.
const FLOOD: u16 = 40_000;
/// As chance would have them.
const SEEDS: [u64; 2] = [0x51ab_03c6_e2f8_9d17, 0xc4ce_b9fe_1a85_ec53];
/// Sessions with a reservation, of each family; by chance another may look like one of them.
const KEPT: u16 = 100;

fn session(v6: bool, port: u16) -> Session {
    let dst: IpAddr = if v6 { "::1".parse().expect("an address") } else { [127, 0, 0, 1].into() };
    Session { dst, protocol: 17, dst_port: port }
}

/// A message about a session, behind as many empty objects; `None`: about none.
fn message(kind: MessageType, about: Option<Session>, signed: bool) -> Vec<u8> {
    let mut build = Builder::new(kind, 63);
    if signed {
        // Key 1, number 1, a digest that only has to be there.
        build = build.raw(4, 1, &[0; 32]);
    }
    if let Some(session) = about {
        build = build.raw(23, 1, &[0; 8]).session(&session).hop(&RsvpHop { addr: session.dst, lih: 1 });
        build = build.time_values(Span::from_secs(30));
    }
    build.finish().expect("short")
}

fn send(sender: &mut MessageSender, v6: bool, bytes: &[u8]) {
    let here = session(v6, 0).dst;
    let out = Outgoing { oif: None, src: here, dst: here, ttl: 63, router_alert: false, bytes };
    sender.push(&out, |failed| panic!("{failed}"));
}

/// All that waits, by bytes.
fn take(receiver: &mut MessageReceiver) -> BTreeSet<(bool, Vec<u8>)> {
    let mut all = BTreeSet::new();
    while receiver.fill().expect("receives") {
        all.extend(receiver.messages().map(|ReceivedMessage { src, bytes, .. }| (src.is_ipv6(), bytes.to_vec())));
    }
    all
}

fn lo() -> IfIndex {
    let mut socket = Socket::open().expect("netlink");
    let lo = socket.link_by_name("lo").expect("lo").index;
    socket.set_link_up(lo, true).expect("up");
    lo
}

/// Floods of messages about other sessions, of errors, of what is between neighbours and of bytes, each larger than the queue:
/// what comes behind them about a reservation is there when somebody reads at last.
#[test]
fn a_flood_that_nobody_reads_loses_nothing_of_a_reservation() {
    in_netns(|| {
        lo();
        let (mut receiver, mut sender) =
            (MessageReceiver::open().expect("sockets"), MessageSender::open().expect("sockets"));
        let mut gate = IntakeFilter::before(&receiver, SEEDS).expect("a filter");
        for v6 in [false, true] {
            (0..KEPT).for_each(|port| gate.keep(&session(v6, port), true));
        }
        for v6 in [false, true] {
            for n in 0..FLOOD {
                let other = Some(session(v6, 1_000 + n));
                let bytes = match n % 4 {
                    0 => message(MessageType::Path, other, false),
                    1 => message(MessageType::PathErr, other, false),
                    2 => message(MessageType::Srefresh, None, false),
                    _ => vec![n as u8; 60],
                };
                send(&mut sender, v6, &bytes);
            }
            for port in 0..KEPT {
                send(&mut sender, v6, &message(MessageType::Path, Some(session(v6, port)), false));
            }
            sender.flush(|failed| panic!("{failed}"));
        }
        let came = take(&mut receiver);
        for v6 in [false, true] {
            let missing = (0..KEPT)
                .filter(|port| !came.contains(&(v6, message(MessageType::Path, Some(session(v6, *port)), false))));
            assert_eq!(missing.count(), 0, "of IPv{}", if v6 { 6 } else { 4 });
        }
        assert_eq!(receiver.dropped(), 0, "the queue itself never was full");
        let dropped = gate.dropped();
        assert!(dropped.link > 10_000 && dropped.rest > 40_000, "{dropped:?}");
        let some = came.iter().filter(|(_, bytes)| bytes.get(1) == Some(&MessageType::Srefresh.number())).count();
        assert!(some > 0 && came.len() > 500, "some of each comes in: {}", came.len());
    });
}

/// Summaries of one address, more than there is room for, leave room for those of another. And a Bundle whose messages are not
/// signed, where they have to be, takes no room of neighbours.
#[test]
fn one_address_leaves_room_for_another() {
    in_netns(|| {
        let lo = lo();
        let (mut receiver, mut sender) =
            (MessageReceiver::open().expect("sockets"), MessageSender::open().expect("sockets"));
        let gate = IntakeFilter::before(&receiver, SEEDS).expect("a filter");
        let from = |sender: &mut MessageSender, src: &str, dst: &str, bytes: &[u8]| {
            let (src, dst) = (src.parse().expect("an address"), dst.parse().expect("an address"));
            sender.push(&Outgoing { oif: None, src, dst, ttl: 63, router_alert: false, bytes }, |failed| {
                panic!("{failed}")
            });
        };
        let summary = message(MessageType::Srefresh, None, true);
        for (dst, who, other) in [("127.0.0.1", "127.0.0.2", "127.0.0.4"), ("::1", "::1", "fd00::3")] {
            gate.emptied();
            (0..FLOOD / 2).for_each(|_| from(&mut sender, who, dst, &summary));
            let came = |receiver: &mut MessageReceiver, src: &str| {
                let mut count = 0;
                while receiver.fill().expect("receives") {
                    count += receiver.messages().filter(|message| message.src.to_string() == src).count();
                }
                count
            };
            sender.flush(|failed| panic!("{failed}"));
            let some = came(&mut receiver, who);
            assert!((1..1_000).contains(&some), "{some} of the flood of {who}");
            (0..100).for_each(|_| from(&mut sender, other, dst, &summary));
            sender.flush(|failed| panic!("{failed}"));
            assert_eq!(came(&mut receiver, other), 100, "{other}: {:?}", gate.dropped());
            // Acknowledgements of an address leave room for its own summaries.
            gate.emptied();
            let ack = message(MessageType::Ack, None, true);
            (0..FLOOD / 2).for_each(|_| from(&mut sender, who, dst, &ack));
            (0..100).for_each(|_| from(&mut sender, who, dst, &summary));
            sender.flush(|failed| panic!("{failed}"));
            let mut summaries = 0;
            while receiver.fill().expect("receives") {
                summaries += receiver.messages().filter(|message| message.bytes == summary).count();
            }
            assert_eq!(summaries, 100, "{who}: {:?}", gate.dropped());
        }
        gate.emptied();
        gate.sign(lo, true);
        let bundle = |signed| {
            let part = message(MessageType::Path, Some(session(false, 9)), signed);
            Builder::new(MessageType::Bundle, 63).sub_message(&part).finish().expect("short")
        };
        let before = gate.dropped();
        (0..FLOOD / 2).for_each(|_| send(&mut sender, false, &bundle(false)));
        sender.flush(|failed| panic!("{failed}"));
        assert_eq!(gate.dropped().link, before.link);
        assert!(gate.dropped().rest > before.rest + 10_000);
        take(&mut receiver);
        send(&mut sender, false, &bundle(true));
        sender.flush(|failed| panic!("{failed}"));
        assert_eq!(take(&mut receiver), BTreeSet::from([(false, bundle(true))]), "a signed one finds room");
    });
}

/// Where messages have to be signed, what is not is no longer kept; and a session that lost its reservation is like others.
#[test]
fn what_is_kept_and_no_longer() {
    in_netns(|| {
        let lo = lo();
        let (mut receiver, mut sender) =
            (MessageReceiver::open().expect("sockets"), MessageSender::open().expect("sockets"));
        let mut gate = IntakeFilter::before(&receiver, SEEDS).expect("a filter");
        let (one, two) = (session(false, 1), session(false, 2));
        (0..3).for_each(|_| gate.keep(&one, true));
        gate.keep(&two, true);
        gate.keep(&two, false);
        gate.sign(lo, true);
        // Nobody has emptied the sockets since: all room for what is not kept is gone.
        (0..FLOOD).for_each(|n| send(&mut sender, false, &n.to_be_bytes().repeat(20)));
        let says = |session, signed| message(MessageType::Path, Some(session), signed);
        for (session, signed) in [(one, false), (one, true), (two, true)] {
            send(&mut sender, false, &says(session, signed));
        }
        send(&mut sender, false, &message(MessageType::Srefresh, None, true));
        sender.flush(|failed| panic!("{failed}"));
        let came = take(&mut receiver);
        assert!(came.contains(&(false, says(one, true))), "signed and of a reservation");
        assert!(came.contains(&(false, message(MessageType::Srefresh, None, true))), "this room was left");
        assert!(!came.contains(&(false, says(one, false))), "not signed");
        assert!(!came.contains(&(false, says(two, true))), "of none");
        gate.sign(lo, false);
        send(&mut sender, false, &says(one, false));
        send(&mut sender, false, &says(two, false));
        sender.flush(|failed| panic!("{failed}"));
        assert_eq!(take(&mut receiver), BTreeSet::from([(false, says(one, false))]), "still no room for others");
        gate.emptied();
        send(&mut sender, false, &says(two, false));
        sender.flush(|failed| panic!("{failed}"));
        assert_eq!(take(&mut receiver), BTreeSet::from([(false, says(two, false))]), "now there is");
    });
}
