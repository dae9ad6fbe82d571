//! Stories of Hello (RFC 3209 section 5): neighbours ask each other which life they are in (`FAULTS` P47).

use crate::story::net::*;
use rsvp::io::{Config, Event, Input, NeighbourNews};
use rsvp::views::HelloState;
use terms::{IfIndex, Span};
use wire::{Builder, HelloObject, Message, MessageType};

const R: Span = Span::from_secs(30);

fn line(hello: Option<Span>) -> Net {
    let mut net = Net::new(false);
    for name in ["snd", "r1", "r2", "rcv"] {
        net.node(name, Config { refresh_reduction: true, hello, ..config(R) });
    }
    net.link_up(1..4);
    net.announce(0, 3, 3);
    net.run(Span::from_millis(50));
    net.ask(0, 3, cl(3));
    net.run(Span::from_millis(100));
    net
}

fn news(net: &Net, node: usize, what: NeighbourNews) -> usize {
    net.saw(node, |e| matches!(e, Event::Neighbour { news, .. } if *news == what)).len()
}

/// A node that comes back with nothing is seen to be another within a Hello interval, and told everything at once.
#[test]
fn a_restart_is_seen_within_an_interval() {
    let mut net = line(Some(Span::from_secs(1)));
    net.run(Span::from_secs(60));
    net.nodes[1].env.held.clear();
    net.restart(1);
    net.run(Span::from_millis(1_100));
    assert_eq!([0, 2].map(|n| news(&net, n, NeighbourNews::Restarted)), [1, 1]);
    assert_eq!((net.paths()[1], net.resvs()[1]), (1, 1));
    net.run(Span::from_secs(60));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    assert_eq!([0, 2].map(|n| news(&net, n, NeighbourNews::Restarted)), [1, 1], "told once");
}

#[test]
fn silence_is_news_and_nothing_more() {
    let mut net = line(Some(Span::from_secs(1)));
    net.run(Span::from_secs(10));
    assert_eq!(news(&net, 0, NeighbourNews::Silent), 0);
    net.fate = Box::new(|_, f| if f.from == 1 && f.to == 0 { Fate::Lose } else { Fate::Deliver });
    net.run(Span::from_secs(5));
    assert_eq!(news(&net, 0, NeighbourNews::Silent), 1);
    assert_eq!(net.held(), [3, 3, 3, 0], "state lives for as long as RSVP lets it");
}

/// Without an interval neighbours are asked once, when first heard, and answer.
#[test]
fn neighbours_are_asked_once() {
    let mut net = line(None);
    net.run(Span::from_secs(600));
    let hellos = net.log.iter().filter(|(_, _, _, k)| *k == "Hello").count();
    assert!((1..=24).contains(&hellos), "{hellos}");
    let since = net.now;
    net.run(Span::from_secs(600));
    assert_eq!(net.count("Hello", since), 0);
}

#[test]
fn strange_hellos_change_nothing() {
    let mut net = line(None);
    net.run(Span::from_secs(60));
    let before = net.engine(1).digest();
    let (here, there) = (net.interface(1, 1).addresses[0], net.interface(0, 1).addresses[0]);
    let mut tell = |request, src_instance, dst_instance, src| {
        let hello = HelloObject { request, src_instance, dst_instance };
        let bytes = Builder::new(MessageType::Hello, 255).flags(1).hello(&hello).finish().unwrap();
        net.tell(1, Input::Message { iif: IfIndex(1), src, dst: here, ttl: 255, bytes: &bytes });
    };
    tell(true, 0, 0, there);
    tell(false, 0, 0, there);
    tell(false, 77, 12_345, there);
    tell(false, 77, 0, there);
    let drops = net.drops(1);
    assert!(drops.contains(&"Hello of no instance") && drops.contains(&"Hello ACK to another life of ours"));
    assert_eq!(news(&net, 1, NeighbourNews::Restarted), 0);
    assert_eq!(net.engine(1).digest(), before);
}

/// A node that is silent is asked no more, and asked again as soon as it says anything.
#[test]
fn who_was_silent_is_asked_again_when_it_is_heard() {
    let mut net = line(Some(Span::from_secs(1)));
    net.run(Span::from_secs(10));
    let state = |net: &Net| net.engine(0).neighbours()[0].2.hello;
    assert_eq!(state(&net), HelloState::Up);
    net.fate = Box::new(|_, f| if f.from == 1 && f.to == 0 { Fate::Lose } else { Fate::Deliver });
    net.run(Span::from_secs(10));
    assert_eq!(state(&net), HelloState::Silent);
    let to_it = |net: &Net, since| {
        net.log.iter().filter(|(at, from, to, k)| *at >= since && (*from, *to, *k) == (0, 1, "Hello")).count()
    };
    let since = net.now;
    net.fate = Box::new(|_, f| if f.from == 1 || f.to == 1 { Fate::Lose } else { Fate::Deliver });
    net.run(Span::from_secs(30));
    assert_eq!(to_it(&net, since), 0, "nobody is asked who never answers");
    net.fate = Box::new(|_, _| Fate::Deliver);
    net.run(Span::from_secs(45));
    assert_eq!((state(&net), news(&net, 0, NeighbourNews::Silent)), (HelloState::Up, 1));
    assert!(to_it(&net, since) > 5, "asked every second again");
    assert_eq!(news(&net, 0, NeighbourNews::Restarted), 0);
    assert_eq!(net.held(), [3, 3, 3, 0]);
}

/// A REQUEST is answered where refresh reduction is off too, without the flag and without a trace.
#[test]
fn without_refresh_reduction_a_request_is_answered_too() {
    let mut net = Net::reserved_line(R, 3);
    let before = net.engine(1).digest();
    let (here, there) = (net.interface(1, 1).addresses[0], net.interface(0, 1).addresses[0]);
    let heard = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = heard.clone();
    net.fate = Box::new(move |_, f| {
        if let Ok(Message::Hello(m)) = Message::parse(&f.datagram.bytes) {
            keep.borrow_mut().push((f.from, m.envelope.header.flags, m.hello));
        }
        Fate::Deliver
    });
    let mut tell = |request, ttl| {
        let hello = HelloObject { request, src_instance: 4711, dst_instance: 0 };
        let bytes = Builder::new(MessageType::Hello, 255).hello(&hello).finish().unwrap();
        net.tell(1, Input::Message { iif: IfIndex(1), src: there, dst: here, ttl, bytes: &bytes });
    };
    tell(true, 254);
    tell(false, 255);
    assert_eq!(heard.borrow().len(), 0, "from beyond a hop, or no question");
    tell(true, 255);
    assert_eq!(heard.borrow().len(), 1);
    let (from, flags, hello) = heard.borrow()[0];
    assert_eq!((from, flags, hello.request, hello.dst_instance), (1, 0, false, 4711));
    assert!(hello.src_instance != 0);
    assert_eq!((net.engine(1).digest(), net.engine(1).neighbours()[0].2.capable), (before, None));
}

/// Whoever invents neighbours on one link leaves room for those on another.
#[test]
fn neighbours_of_one_link_are_limited() {
    let mut net = line(None);
    net.run(Span::from_secs(60));
    let here = net.interface(1, 1).addresses[0];
    let hello = HelloObject { request: true, src_instance: 4711, dst_instance: 0 };
    let bytes = Builder::new(MessageType::Hello, 255).flags(1).hello(&hello).finish().unwrap();
    for n in 0..2_000u32 {
        let src = std::net::Ipv4Addr::from(0x0a63_0000 + n).into();
        net.tell(1, Input::Message { iif: IfIndex(1), src, dst: here, ttl: 255, bytes: &bytes });
    }
    let on = |net: &Net, at| net.engine(1).neighbours().iter().filter(|(i, ..)| *i == IfIndex(at)).count();
    assert_eq!((on(&net, 1), on(&net, 2)), (1_024, 1));
    assert_eq!(net.held(), [3, 3, 3, 0]);
}

/// A REQUEST is answered with both instances, whatever of us the asker believes.
#[test]
fn a_request_is_answered() {
    let mut net = line(None);
    net.run(Span::from_secs(60));
    let (here, there) = (net.interface(1, 1).addresses[0], net.interface(0, 1).addresses[0]);
    let heard = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = heard.clone();
    net.fate = Box::new(move |_, f| {
        if let Ok(Message::Hello(m)) = Message::parse(&f.datagram.bytes) {
            keep.borrow_mut().push(m.hello);
        }
        Fate::Deliver
    });
    let hello = HelloObject { request: true, src_instance: 4711, dst_instance: 99 };
    let bytes = Builder::new(MessageType::Hello, 255).flags(1).hello(&hello).finish().unwrap();
    net.tell(1, Input::Message { iif: IfIndex(1), src: there, dst: here, ttl: 255, bytes: &bytes });
    let heard = heard.borrow();
    assert!(!heard[0].request && heard[0].dst_instance == 4711 && heard[0].src_instance != 0);
}
