//! Stories of refresh reduction (RFC 2961): what was said once is refreshed by name, what is lost is said again soon, and
//! who forgot is told again.

use crate::story::net::*;
use rsvp::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable};
use rsvp::io::{Config, Event, Input, NeighbourNews};
use std::cell::RefCell;
use std::rc::Rc;
use terms::{IfIndex, Span};
use wire::objects::{MessageId, MessageIdAck};
use wire::{Builder, Message, MessageType};

const R: Span = Span::from_secs(30);

fn reducing() -> Config {
    Config { refresh_reduction: true, ..config(R) }
}

/// `snd - r1 - r2 - rcv`; who reduces refreshes.
fn line(reducers: [bool; 4]) -> Net {
    let mut net = Net::new(false);
    for (name, refresh_reduction) in ["snd", "r1", "r2", "rcv"].into_iter().zip(reducers) {
        net.node(name, Config { refresh_reduction, ..reducing() });
    }
    net.link_up(1..4);
    net
}

fn reserve(net: &mut Net) {
    net.announce(0, 3, 3);
    net.run(Span::from_millis(50));
    net.ask(0, 3, cl(3));
    net.run(Span::from_millis(100));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    assert_eq!(net.confirms(3).len(), 1);
}

fn restarted(net: &Net, node: usize) -> usize {
    net.saw(node, |e| matches!(e, Event::Neighbour { news: NeighbourNews::Restarted, .. })).len()
}

#[test]
fn states_are_refreshed_by_name() {
    let mut net = line([true; 4]);
    reserve(&mut net);
    // Every neighbour has been heard, every state named and acknowledged.
    net.run(Span::from_secs(60));
    let since = net.now;
    net.run(Span::from_secs(3_600));
    assert_eq!(net.held(), [3, 3, 3, 0], "alive by its name alone");
    assert_eq!(net.confirms(3).len(), 1);
    // 3 Paths and 3 Resvs, every 30 s; every 17th in full.
    for kind in ["Path", "Resv"] {
        assert!((18..=30).contains(&net.count(kind, since)), "{kind}: {}", net.count(kind, since));
    }
    assert!((600..=800).contains(&net.count("Srefresh", since)), "{}", net.count("Srefresh", since));
    let since = net.now;
    net.silence(0, 3);
    net.run(Span::from_millis(10));
    assert_eq!((net.held(), net.paths()), (vec![0; 4], vec![0; 4]), "and gone by one tear");
    assert_eq!(net.count("PathTear", since), 3);
}

/// A neighbour that does not do it is spoken to as RFC 2205 has it: no class that it does not know, no type, no flag less.
#[test]
fn plain_neighbours_hear_nothing_new() {
    for plain in 0..4 {
        let mut reducers = [true; 4];
        reducers[plain] = false;
        let mut net = line(reducers);
        net.fate = Box::new(move |_, flight| {
            if flight.to == plain {
                let message = Message::parse(&flight.datagram.bytes).unwrap();
                assert!(message.session().is_some(), "{:?} to a plain neighbour", message.kind());
                assert!(message.envelope().message_id.is_none() && message.envelope().acks().count() == 0);
            }
            Fate::Deliver
        });
        reserve(&mut net);
        net.run(Span::from_secs(600));
        assert_eq!(net.held(), [3, 3, 3, 0], "{plain}");
        net.silence(0, 3);
        net.run(Span::from_millis(10));
        assert_eq!(net.held(), [0; 4]);
    }
}

/// A neighbour that stops doing it (its flag is gone) gets full refreshes at the next (RFC 2961 section 2).
#[test]
fn a_neighbour_may_stop_doing_it() {
    let mut net = line([true; 4]);
    reserve(&mut net);
    net.run(Span::from_secs(60));
    net.nodes[1].config.refresh_reduction = false;
    net.nodes[1].env.held.clear();
    net.restart(1);
    net.run(Span::from_secs(1_200));
    let since = net.now;
    net.run(Span::from_secs(300));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    let names = net.log.iter().filter(|(t, from, to, k)| *t >= since && *k == "Srefresh" && (*from == 1 || *to == 1));
    assert_eq!(names.count(), 0);
}

/// Each message of the set-up is lost once; nobody waits for a refresh period.
#[test]
fn what_is_lost_is_said_again_soon() {
    for lost in 0..60 {
        let mut net = line([true; 4]);
        reserve(&mut net);
        net.run(Span::from_secs(60));
        let seen = Rc::new(RefCell::new(0));
        let count = seen.clone();
        net.fate = Box::new(move |_, _| {
            *count.borrow_mut() += 1;
            if *count.borrow() == lost { Fate::Lose } else { Fate::Deliver }
        });
        // More is announced and asked; then all is torn down.
        net.announce(0, 3, 5);
        net.run(Span::from_millis(20));
        net.ask(0, 3, cl(5));
        net.run(Span::from_secs(2));
        assert_eq!(net.held(), [5, 5, 5, 0], "message {lost} lost");
        net.silence(0, 3);
        net.run(Span::from_secs(2));
        assert_eq!(net.held(), [0; 4], "message {lost} lost");
        assert_eq!(net.paths(), [0; 4], "message {lost} lost");
        if *seen.borrow() < lost {
            return;
        }
    }
    panic!("a set-up and a tear of more than 60 messages");
}

/// RFC 2961 section 6: after 0.5, 1 and 2 seconds, then no more until the next refresh.
#[test]
fn repetitions_back_off() {
    let mut net = line([true; 4]);
    reserve(&mut net);
    net.run(Span::from_secs(60));
    let times = Rc::new(RefCell::new(Vec::new()));
    let log = times.clone();
    net.fate = Box::new(move |now, flight| {
        let kind = Message::parse(&flight.datagram.bytes).unwrap().kind();
        if flight.from == 0 && flight.to == 1 && kind == MessageType::Path {
            log.borrow_mut().push(now);
            return Fate::Lose;
        }
        Fate::Deliver
    });
    let start = net.now;
    net.announce(0, 3, 4);
    net.run(Span::from_secs(10));
    let after: Vec<u64> = times.borrow().iter().map(|t| t.since(start).as_millis()).collect();
    assert_eq!(after, [0, 500, 1_500], "sent three times in all");
    assert_eq!(net.engine(0).counters().repeated, 2);
    assert_eq!(net.engine(0).counters().unacknowledged, 1);
    net.fate = Box::new(|_, _| Fate::Deliver);
    net.run(Span::from_secs(60));
    assert_eq!(net.engine(1).paths().next().unwrap().tspec, tspec(4), "the refresh is in full, as nobody acknowledged");
}

/// A node loses all it knew. Its neighbours' summaries name what it does not know; it says so, and is told at once.
#[test]
fn a_node_that_forgot_is_told_again_at_once() {
    for node in [1, 2] {
        let mut net = line([true; 4]);
        reserve(&mut net);
        net.run(Span::from_secs(120));
        net.nodes[node].env.held.clear();
        net.restart(node);
        let since = net.now;
        while net.paths()[node] == 0 || net.resvs()[node] == 0 {
            net.run(Span::from_millis(1));
            assert!(net.now.since(since) < Span::from_secs(60));
        }
        // The first word of a neighbour is at most a refresh away; from there it is round trips.
        let first = net.log.iter().find(|(t, from, _, _)| *t >= since && *from == node).map(|(t, ..)| *t).unwrap();
        assert!(net.now.since(first) < Span::from_secs(31), "{:?}", net.now.since(first));
        net.run(Span::from_secs(300));
        assert_eq!(net.held(), [3, 3, 3, 0]);
        assert!(
            (0..4)
                .all(|n| net.saw(n, |e| matches!(e, Event::PathRemoved { .. } | Event::ResvRemoved { .. })).is_empty())
        );
        // Its neighbours saw that it is another.
        assert_eq!([node - 1, node + 1].map(|n| restarted(&net, n) > 0), [true; 2]);
    }
}

/// One summary is answered by NACKs for each unknown name, and these by full messages, with a hundred sessions.
#[test]
fn after_a_restart_a_hundred_sessions_are_back_within_a_moment() {
    let mut net = line([true; 4]);
    for port in 0..100 {
        let mut m = net.upstream_of(1);
        m.dst = m.session.dst;
        m.session.dst_port = 6_000 + port;
        let session = m.session;
        let template = net.template_at(0);
        use rsvp::io::AppCall;
        let call = AppCall::Sender { app: SENDER, session, template, tspec: tspec(1), ttl: 63 };
        net.tell(0, Input::App(call));
        net.run(Span::from_millis(20));
        // The first message from downstream names the neighbour.
        if port == 0 {
            net.ask_port(0, 3, 6_000, cl(1));
            net.run(Span::from_millis(50));
        }
    }
    net.run(Span::from_secs(120));
    assert_eq!(net.paths(), [100; 4]);
    net.nodes[1].env.held.clear();
    net.restart(1);
    let since = net.now;
    while net.paths()[1] == 0 {
        net.run(Span::from_millis(1));
    }
    assert!(net.now.since(since) < R, "somebody refreshes something soon");
    net.run(Span::from_millis(100));
    assert_eq!(net.paths()[1], 100, "all are back, not only what was in the first summary");
}

/// An older tear that comes after a newer Path does not kill it; an older Path does not bring back an older state.
#[test]
fn overtaken_messages_are_ignored() {
    let mut net = line([true; 4]);
    reserve(&mut net);
    net.run(Span::from_secs(60));
    let held_back = Rc::new(RefCell::new(Vec::new()));
    let keep = held_back.clone();
    net.fate = Box::new(move |_, flight| {
        if (flight.from, flight.to) == (0, 1) {
            keep.borrow_mut().push(flight.clone());
            return Fate::Lose;
        }
        Fate::Deliver
    });
    net.announce(0, 3, 4);
    net.silence(0, 3);
    net.announce(0, 3, 6);
    let late: Vec<Flight> = held_back.borrow().clone();
    net.fate = Box::new(|_, _| Fate::Deliver);
    assert_eq!(late.len(), 3);
    for order in [[2, 1, 0], [2, 0, 1]] {
        for i in order {
            let f: &Flight = &late[i];
            let Datagram { src, dst, ttl, ref bytes, .. } = f.datagram;
            net.tell(1, Input::Message { iif: f.iif, src, dst, ttl, bytes });
        }
        assert_eq!(net.engine(1).paths().next().map(|p| p.tspec), Some(tspec(6)), "{order:?}");
    }
    assert!(net.drops(1).iter().filter(|why| why.contains("overtaken")).count() >= 4);
}

use rsvp::io::Datagram;

/// A tear is served before what waits. A repetition of what it tears down, which waited longer, makes no state that
/// nobody would refresh; what is said anew afterwards does.
#[test]
fn a_repetition_that_a_tear_has_overtaken_makes_nothing() {
    let mut net = line([true; 4]);
    reserve(&mut net);
    net.run(Span::from_secs(60));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let keep = seen.clone();
    net.fate = Box::new(move |_, flight| {
        keep.borrow_mut().push(flight.clone());
        Fate::Deliver
    });
    let of = |from: usize, to: usize| -> Vec<Flight> {
        seen.borrow().iter().filter(|flight| (flight.from, flight.to) == (from, to)).cloned().collect()
    };
    // New content of both halves, so that there are full messages; then the tears, and what was before them again.
    net.announce(0, 3, 6);
    net.ask(0, 3, cl(2));
    net.run(Span::from_millis(50));
    let again = |net: &mut Net, flights: Vec<Flight>| {
        assert!(!flights.is_empty());
        let before = net.drops(1).len();
        for f in flights {
            let Datagram { src, dst, ttl, ref bytes, .. } = f.datagram;
            net.tell(1, Input::Message { iif: f.iif, src, dst, ttl, bytes });
        }
        net.run(Span::from_millis(50));
        net.drops(1)[before..].iter().filter(|why| why.contains("overtaken")).count()
    };
    let (paths, requests) = (of(0, 1), of(2, 1));
    net.release(3);
    net.run(Span::from_millis(50));
    assert_eq!((net.paths(), net.held()), (vec![1; 4], vec![0; 4]));
    assert!(again(&mut net, requests) > 0);
    assert_eq!((net.paths(), net.held()), (vec![1; 4], vec![0; 4]));
    net.silence(0, 3);
    net.run(Span::from_millis(50));
    assert!(again(&mut net, paths) > 0);
    assert_eq!(net.paths(), [0; 4]);
    // What is said anew makes its state.
    net.announce(0, 3, 6);
    net.run(Span::from_millis(50));
    net.ask(0, 3, cl(2));
    net.run(Span::from_millis(50));
    assert_eq!((net.paths(), net.held()), (vec![1; 4], vec![2, 2, 2, 0]));
}

/// A stranger's summary, or one of another epoch, prolongs nothing; every name in it is answered once, within bounds.
#[test]
fn names_count_for_their_neighbour_alone() {
    let mut net = line([true; 4]);
    reserve(&mut net);
    net.run(Span::from_secs(60));
    let before = net.engine(1).digest();
    let here = net.interface(1, 1).addresses[0];
    let there = net.interface(0, 1).addresses[0];
    let ids: Vec<u32> = (0..16_000).collect();
    let bytes = Builder::new(MessageType::Srefresh, 255).flags(1).message_id_list(0x00ab_cdef, &ids).finish().unwrap();
    let unknown = net.engine(1).counters().unknown_names;
    let since = net.now;
    let tell = |net: &mut Net, src, bytes: &[u8]| {
        net.tell(1, Input::Message { iif: IfIndex(1), src, dst: here, ttl: 255, bytes });
    };
    tell(&mut net, there, &bytes);
    assert_eq!(net.engine(1).counters().unknown_names - unknown, 16_000);
    assert!(net.log.iter().filter(|(t, from, ..)| *t >= since && *from == 1).count() <= 12, "bounded");
    // A storm of NACKs and acknowledgements for names that we never gave.
    let nack = |i: u32| MessageIdAck { nack: i.is_multiple_of(2), flags: 0, epoch: i, id: i };
    let storm = (0..200).fold(Builder::new(MessageType::Ack, 255).flags(1), |b, i| b.message_id_ack(&nack(i)));
    tell(&mut net, there, &storm.finish().unwrap());
    // A hop that has never been heard.
    tell(&mut net, [10, 0, 0, 200].into(), &bytes);
    assert_eq!(net.engine(1).digest(), before);
}

/// Names wrap (RFC 2961 section 4.5): after 2^32 - 1 comes a small one, and it is newer.
#[test]
fn names_wrap() {
    let mut net = line([true; 4]);
    let forge = |net: &Net, id: u32, mbps: u64, kind: MessageType| {
        let mut m = net.upstream_of(1);
        m.dst = m.session.dst;
        m.tspec = tspec(mbps);
        let bytes = m.bytes(kind);
        let id = MessageId { flags: 1, epoch: 5, id };
        let named = Builder::new(kind, 255).flags(1).message_id(&id).sub_message(&bytes[8..]).finish().unwrap();
        (m, named)
    };
    for (id, mbps) in [(u32::MAX - 1, 1), (u32::MAX, 2), (1, 3), (2, 4)] {
        let (m, bytes) = forge(&net, id, mbps, MessageType::Path);
        net.inject_bytes(1, &m, &bytes);
        assert_eq!(net.engine(1).paths().next().map(|p| p.tspec), Some(tspec(mbps)), "{id}");
    }
    let (m, old) = forge(&net, u32::MAX, 9, MessageType::PathTear);
    net.inject_bytes(1, &m, &old);
    assert_eq!(net.paths()[1], 1, "that tear was older");
    // Another epoch is another life: its numbers begin anew.
    let (m, bytes) = forge(&net, 1, 7, MessageType::PathTear);
    let mut other = bytes.clone();
    other[15] = 6;
    other[2..4].fill(0);
    net.inject_bytes(1, &m, &other);
    assert_eq!(net.paths()[1], 0);
}

/// All of it signed: each message in a Bundle has its own INTEGRITY.
#[test]
fn with_integrity_it_is_the_same() {
    let mut net = Net::new(false);
    let auth = AuthMode::Keys(KeyTable::new(vec![IntegrityKey::new(1, Algorithm::HmacSha256, b"secret")]).unwrap());
    for name in ["snd", "r1", "r2", "rcv"] {
        net.node(name, Config { auth: auth.clone(), ..reducing() });
    }
    net.link_up(1..4);
    net.announce(0, 3, 3);
    net.run(Span::from_millis(100));
    net.ask(0, 3, cl(3));
    net.run(Span::from_secs(120));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    let since = net.now;
    net.fate = Box::new(|_, flight| {
        if let Ok(Message::Bundle(bundle)) = Message::parse(&flight.datagram.bytes) {
            let signed = |m: &[u8]| Message::parse(m).unwrap().envelope().integrity.is_some();
            assert!(bundle.messages().all(signed));
            // A filter that knows refreshes by their type and session cannot see them in a Bundle.
            let keeps_up = |m: &[u8]| matches!(m[1], 1 | 2 | 15);
            assert!(!bundle.messages().any(keeps_up), "Path, Resv and Srefresh go by themselves");
        }
        Fate::Deliver
    });
    net.run(Span::from_secs(600));
    assert!(net.count("Path", since) + net.count("Resv", since) < 20);
    assert!(net.count("Srefresh", since) > 60);
    net.nodes[2].env.held.clear();
    net.restart(2);
    // Whoever speaks first after that may be the receiver, which is asked to come back when there is a path.
    net.run(Span::from_secs(90));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    net.silence(0, 3);
    net.run(Span::from_secs(1));
    assert_eq!(net.held(), [0; 4]);
}

/// Loss of one message in ten, doubling, delay: state never dies, and by the end all agree.
#[test]
fn it_stands_loss_doubling_and_delay() {
    for seed in 0..20u64 {
        let mut net = line([true; 4]);
        reserve(&mut net);
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        net.fate = Box::new(move |_, _| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            match dice % 30 {
                0..3 => Fate::Lose,
                3 | 4 => Fate::Double,
                5 | 6 => Fate::Late(Span::from_millis(dice / 30 % 700)),
                _ => Fate::Deliver,
            }
        });
        for i in 0..30 {
            net.announce(0, 3, 3 + i % 4);
            net.ask(0, 3, cl(3 + i % 4));
            net.run(Span::from_secs(20));
            assert_eq!(net.paths(), [1; 4], "seed {seed}");
        }
        net.fate = Box::new(|_, _| Fate::Deliver);
        net.run(Span::from_secs(120));
        assert_eq!(net.held(), [4, 4, 4, 0], "seed {seed}");
        net.silence(0, 3);
        net.run(Span::from_secs(1));
        assert_eq!((net.held(), net.paths()), (vec![0; 4], vec![0; 4]), "seed {seed}");
    }
}
