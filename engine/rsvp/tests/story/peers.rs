//! Peers that were not written here, as they were met: what they say that the RFCs hardly mention, and what we make of it.

use crate::story::net::*;
use rsvp::io::{AppCall, Config, Input, Upcall};
use std::cell::RefCell;
use std::rc::Rc;
use terms::guaranteed::received;
use terms::{Adspec, FlowSpec, Span, Tspec};
use wire::{Builder, Message, MessageType};

const R: Span = Span::from_secs(30);

/// A router's sender: M = 2^31 - 1 and m = 0, and the path's MTU in its Adspec alone; another one says that nowhere.
#[test]
fn a_receiver_hears_of_the_least_mtu_of_path_and_link() {
    for (path, least) in [(1_500, 1_500), (1_400, 1_400), (i32::MAX as u32, 1_500)] {
        let mut net = Net::line(&["snd", "rcv"], R);
        let session = net.session_at(1);
        net.tell(1, Input::App(AppCall::Receiver { app: RECEIVER, session }));
        net.inject_path(1, |m| {
            m.tspec = Tspec { m: 0, M: i32::MAX as u32, ..m.tspec };
            m.adspec = Some(Adspec::origin(path));
        });
        let Some((_, _, Upcall::Path { tspec, adspec, own_mtu, .. })) = net.nodes[1].upcalls.pop() else {
            panic!("a path event");
        };
        assert_eq!((tspec.M, own_mtu), (i32::MAX as u32, Some(1_500)));
        let asked = received(&tspec, adspec.map(|a| a.path_mtu), own_mtu);
        assert_eq!((asked.M, asked.m), (least, 0), "path {path}");
    }
    // A sender that names its largest packet is believed.
    let tspec = Tspec { M: 1_000, m: 1_200, ..tspec(3) };
    assert_eq!((received(&tspec, Some(1_500), None).M, received(&tspec, Some(1_500), None).m), (1_000, 1_000));
    assert_eq!(received(&Tspec { M: 0, ..tspec }, None, Some(1_500)).M, 1_500);
    assert_eq!(received(&tspec, None, None).M, 1_000);
}

/// TIME_VALUES has room for 49 days, and state would live for 261: whoever says so fills our tables for good.
#[test]
fn the_period_of_a_neighbour_is_bounded() {
    let longest = Span::from_secs(60);
    let mut net = Net::new(false);
    for name in ["snd", "r1", "rcv"] {
        net.node(name, Config { longest_refresh: longest, ..config(R) });
    }
    net.link_up(1..3);
    net.fate = Box::new(|_, _| Fate::Lose);
    let ages = |m: &mut Forged| m.refresh = Span::from_millis(u64::from(u32::MAX));
    net.inject_path(1, ages);
    net.inject_resv(1, ages);
    assert_eq!((net.paths()[1], net.resvs()[1]), (1, 1));
    let life = Span::from_millis(60 * 5_250);
    net.run(Span::from_nanos(life.as_nanos() - 1));
    assert_eq!((net.paths()[1], net.resvs()[1]), (1, 1), "as long as if it had said the longest");
    net.run(Span::from_nanos(1));
    assert_eq!((net.paths()[1], net.resvs()[1], net.held()[1]), (0, 0, 0), "and not longer");
    assert_eq!(Config::default().longest_refresh, Span::from_secs(3_600), "as docs/rsvp.md says");
}

/// With the flag of refresh reduction, and nothing else of it.
fn flagged(kind: MessageType, bytes: &[u8]) -> Vec<u8> {
    Builder::new(kind, 255).flags(1).sub_message(&bytes[8..]).finish().expect("short")
}

/// A peer sets the Refresh-Reduction-Capable flag and knows neither Bundle nor Ack: it hears each tear once, by itself,
/// and without an object that it might not know.
#[test]
fn who_never_acknowledged_hears_tears_as_rfc_2205_has_them() {
    let mut net = Net::new(false);
    for name in ["snd", "r1", "rcv"] {
        net.node(name, Config { refresh_reduction: true, ..config(R) });
    }
    net.link_up(1..3);
    let heard = Rc::new(RefCell::new(Vec::new()));
    let hears = Rc::clone(&heard);
    net.fate = Box::new(move |_, flight| {
        if flight.to == 0 {
            let message = Message::parse(&flight.datagram.bytes).unwrap();
            hears.borrow_mut().push((message.kind(), message.envelope().message_id.is_some()));
        }
        Fate::Lose
    });
    for port in 1..4 {
        let mut path = net.upstream_of(1);
        path.session.dst_port = port;
        path.dst = path.session.dst;
        let bytes = flagged(MessageType::Path, &path.bytes(MessageType::Path));
        net.inject_bytes(1, &path, &bytes);
        let mut resv = net.downstream_of(1);
        resv.session.dst_port = port;
        resv.refresh = Span::from_secs(10);
        net.inject(1, MessageType::Resv, &resv);
    }
    net.run(Span::from_secs(50));
    assert_eq!((net.resvs()[1], heard.borrow().iter().any(|(kind, _)| *kind == MessageType::Bundle)), (3, false));
    heard.borrow_mut().clear();
    // The receivers have gone: all three reservations end in one moment.
    net.run(Span::from_secs(10));
    assert_eq!(net.resvs()[1], 0);
    assert_eq!(*heard.borrow(), [(MessageType::ResvTear, false); 3]);
}

/// A router confirms with M = 0: nobody is told, and the drop says why.
#[test]
fn a_confirmation_that_tells_nobody_says_why() {
    let mut net = Net::line(&["snd", "r1", "rcv"], R);
    net.announce(0, 2, 3);
    net.run(Span::from_millis(10));
    net.fate = Box::new(|_, _| Fate::Lose);
    net.ask(0, 2, cl(3));
    let mut m = net.upstream_of(2);
    (m.confirm, m.dst) = (Some(net.addr(2)), net.addr(2));
    m.flowspec = FlowSpec::ControlledLoad(Tspec { M: 0, ..tspec(3) });
    net.inject(2, MessageType::ResvConf, &m);
    assert_eq!(net.confirms(2).len(), 0);
    assert_eq!(net.drops(2), ["a ResvConf of less than was asked for: rate, bucket, or largest packet (M)"]);
    m.flowspec = cl(3);
    net.inject(2, MessageType::ResvConf, &m);
    assert_eq!((net.confirms(2).len(), net.drops(2).len()), (1, 1));
    net.inject(2, MessageType::ResvConf, &m);
    assert_eq!(net.drops(2).last().copied(), Some("a ResvConf that no reservation of ours waits for"));
}
