//! Sentences of RFC 2205 that no other story tells: what `docs/rfc/rfc2205.md` names here.

use crate::story::net::*;
use rsvp::io::{AppCall, AppId, Config, Input};
use std::cell::RefCell;
use std::rc::Rc;
use terms::{Bytes, FlowSpec, IfIndex, Rate, Span, Style};
use wire::{Message, MessageType};

const R: Span = Span::from_secs(30);

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// Class, C-Type and body of an object that nobody here knows.
type Strange = (u8, u8, Vec<u8>);

/// RFC 2205 section 3.10: a Resv that results from several carries what each of them had of unknown classes, every object
/// once, also in its refreshes; what one of them had goes when it goes.
#[test]
fn merged_requests_carry_each_unknown_object_once() {
    let all: [Strange; 3] = [(0xc9, 7, vec![1; 4]), (0xc9, 7, vec![2; 4]), (0xe0, 1, vec![1; 4])];
    for style in [Style::Ff, Style::Se, Style::Wf] {
        let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
        net.announce(0, 3, 3);
        net.run(ms(10));
        let seen: Rc<RefCell<Vec<Vec<Strange>>>> = Rc::default();
        let ears = Rc::clone(&seen);
        net.fate = Box::new(move |_, flight| {
            if let (1, Ok(Message::Resv(m))) = (flight.from, Message::parse(&flight.datagram.bytes)) {
                let carried = m.envelope.forwarded().map(|o| (o.class, o.ctype, o.body.to_vec()));
                ears.borrow_mut().push(carried.collect());
            }
            Fate::Deliver
        });
        let hops = [[10, 0, 1, 77], [10, 0, 1, 78]];
        let ask = |net: &mut Net, which: usize| {
            let extra = vec![all[which].clone(), all[2].clone()];
            net.inject_resv(1, |m| {
                (m.hop.addr, m.style, m.flowspec, m.extra) = (hops[which].into(), style, cl(4 + which as u64), extra);
            });
            net.run(ms(10));
        };
        ask(&mut net, 0);
        assert_eq!(seen.borrow().last(), Some(&vec![all[0].clone(), all[2].clone()]), "{style:?}");
        ask(&mut net, 1);
        let sorted = |seen: &Vec<Vec<Strange>>| {
            let mut last = seen.last().expect("a Resv").clone();
            last.sort();
            last
        };
        assert_eq!(sorted(&seen.borrow()), all, "{style:?}: the union, and nothing twice");
        let before = seen.borrow().len();
        net.run(Span::from_secs(50));
        assert!(seen.borrow().len() > before, "refreshed");
        assert_eq!(sorted(&seen.borrow()), all, "{style:?}: in refreshes too");
        let mut tear = net.downstream_of(1);
        (tear.hop.addr, tear.style) = (hops[1].into(), style);
        net.inject(1, MessageType::ResvTear, &tear);
        net.run(Span::from_secs(50));
        assert_eq!(sorted(&seen.borrow()), [all[0].clone(), all[2].clone()], "{style:?}: what is left");
    }
}

/// RFC 2205 section 3.8: `B_Police_Flag` is also for a flowspec that is neither larger nor smaller than another branch's.
#[test]
fn branches_that_cannot_be_compared_are_both_policed() {
    let mut net = Net::new(false);
    for name in ["s", "r", "a", "b"] {
        net.node(name, config(R));
    }
    for (x, y) in [(0, 1), (1, 2), (1, 3)] {
        net.link(x, y);
    }
    let session = net.group(1);
    net.members(&session, &[2, 3]);
    let sender = net.sends(0, 1, session, 5004, 8);
    net.run(ms(10));
    let branch = |net: &Net, oif| net.nodes[1].env.terms_on(oif).police.branch;
    for node in [2, 3] {
        net.shares(node, session, Style::Se, &[sender], cl(3));
        net.run(ms(20));
    }
    assert_eq!([branch(&net, 2), branch(&net, 3)], [false; 2], "equal");
    let mut deep = tspec(2);
    deep.b = Bytes::new(50_000);
    net.shares(3, session, Style::Se, &[sender], FlowSpec::ControlledLoad(deep));
    net.run(ms(20));
    assert_eq!([branch(&net, 2), branch(&net, 3)], [true; 2], "one has the rate, the other the bucket");
}

/// RFC 2205 section 2.9: the LIH says which interface is meant, whatever interface the Resv comes in on.
#[test]
fn a_request_is_for_the_interface_of_its_handle() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.announce(0, 3, 3);
    net.run(ms(10));
    net.inject_resv(1, |m| m.iif = IfIndex(1));
    net.run(ms(10));
    assert_eq!([net.on(1, 1), net.on(1, 2), net.on(0, 1)], [0, 3, 3]);
}

/// RFC 2205 section 3.1.5: a tear of one previous hop goes no further while another has the path.
#[test]
fn a_tear_stays_here_while_another_hop_has_the_path() {
    let mut net = Net::reserved_line(R, 3);
    let mut other = net.upstream_of(2);
    (other.dst, other.ttl, other.send_ttl) = (other.session.dst, 62, 62);
    let first = other.clone();
    other.hop.addr = [10, 0, 1, 99].into();
    net.inject(2, MessageType::Path, &other);
    net.run(ms(10));
    let since = net.now;
    net.inject(2, MessageType::PathTear, &other);
    net.run(ms(10));
    assert_eq!((net.count("PathTear", since), net.paths()), (0, vec![1; 4]));
    net.inject(2, MessageType::PathTear, &first);
    net.run(ms(10));
    assert_eq!((net.count("PathTear", since), net.paths()), (1, vec![1, 1, 0, 0]), "the last one's goes on");
}

/// RFC 2205 section 3.1.5: what a PathTear takes along sets off neither a Resv nor a ResvErr.
#[test]
fn a_path_tear_sets_off_nothing_but_itself() {
    for style in [Style::Ff, Style::Se, Style::Wf] {
        let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
        let session = net.session_at(3);
        let senders = [1, 2].map(|n| net.sends(0, n, session, 6000 + n as u32, 2));
        net.run(ms(10));
        net.shares(3, session, style, if style == Style::Ff { &senders[..1] } else { &senders }, cl(4));
        net.run(ms(20));
        assert_eq!(net.held(), [4, 4, 4, 0]);
        let since = net.log.len();
        for (sender, app) in senders.into_iter().zip([1, 2]) {
            let app = AppId(app);
            net.tell(0, Input::App(AppCall::SenderGone { app, session, template: sender }));
            net.run(ms(20));
        }
        let said: Vec<_> = net.log[since..].iter().map(|(_, _, _, kind)| *kind).collect();
        assert_eq!((said, net.held()), (vec!["PathTear"; 6], vec![0; 4]), "{style:?}");
    }
}

/// RFC 2205 section 3.1.6: a SCOPE in a ResvTear is ignored.
#[test]
fn a_scope_in_a_tear_is_ignored() {
    let mut net = Net::line(&["snd", "r1", "rcv"], R);
    net.announce(0, 2, 3);
    net.run(ms(10));
    net.inject_resv(1, |m| m.style = Style::Wf);
    net.run(ms(10));
    assert_eq!(net.held(), [3, 3, 0]);
    let mut tear = net.downstream_of(1);
    (tear.style, tear.extra) = (Style::Wf, vec![(7, 1, vec![192, 0, 2, 1])]);
    net.inject(1, MessageType::ResvTear, &tear);
    net.run(ms(10));
    assert_eq!(net.held(), [0; 3], "though it names only a stranger");
}

/// RFC 2205 section 3.5: Kb is configured.
#[test]
fn a_blockade_lasts_as_configured() {
    for factor in [1, 5] {
        let mut net = Net::new(false);
        for name in ["snd", "r1", "rcv"] {
            net.node(name, Config { blockade: factor, ..config(R) });
        }
        net.link_up(1..3);
        net.nodes[0].env.capacity.insert(IfIndex(1), Rate::from_mbps(10));
        net.announce(0, 2, 3);
        net.run(ms(10));
        net.mute(2);
        net.inject_resv(1, |m| m.flowspec = cl(20));
        net.run(ms(10));
        let until = net.engine(1).paths().next().expect("one").blockade.expect("blockaded").1;
        let seconds = until.since(net.now).as_millis().div_ceil(1_000);
        assert_eq!(seconds, 30 * u64::from(factor), "Kb = {factor}");
    }
}

/// Who sent a Resv, and the SCOPE that it has.
type Scope = (usize, Vec<std::net::IpAddr>);

/// RFC 2205 section 3.4 and appendix A.6: a SCOPE is said only where there are several previous hops, and its addresses
/// ascend.
#[test]
fn scopes_ascend_and_are_said_where_they_are_needed() {
    // h1, h2 and h3 behind r1; r1 and h4 before r0; rcv behind r0.
    let mut net = Net::new(false);
    for name in ["h1", "h2", "h3", "r1", "h4", "r0", "rcv"] {
        net.node(name, config(R));
    }
    for (a, b) in [(0, 3), (1, 3), (2, 3), (3, 5), (4, 5), (5, 6)] {
        net.link(a, b);
    }
    let session = net.session_at(6);
    for host in [2, 0, 4, 1] {
        net.sends(host, 1, session, 5004, 1);
        net.run(ms(10));
    }
    let scopes: Rc<RefCell<Vec<Scope>>> = Rc::default();
    let ears = Rc::clone(&scopes);
    net.fate = Box::new(move |_, flight| {
        if let Ok(Message::Resv(m)) = Message::parse(&flight.datagram.bytes) {
            ears.borrow_mut().push((flight.from, m.scope.map(|s| s.iter().collect()).unwrap_or_default()));
        }
        Fate::Deliver
    });
    net.shares(6, session, Style::Wf, &[], cl(1));
    net.run(ms(30));
    let scopes = scopes.borrow();
    let of = |node: usize| {
        scopes.iter().filter(|(from, _)| *from == node).map(|(_, scope)| scope.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(6), [vec![]; 1] as [Vec<std::net::IpAddr>; 1], "one previous hop: nothing to say");
    let three: Vec<_> = [0, 1, 2].map(|host| net.addr(host)).to_vec();
    assert!(three.is_sorted());
    assert!(of(5).contains(&three) && of(5).contains(&vec![net.addr(4)]), "{scopes:?}");
    assert_eq!(net.held(), [1, 1, 1, 1, 1, 1, 0]);
}

/// Who sent what, with which strange objects.
type Carried = (usize, MessageType, Vec<Strange>);

/// RFC 2205 section 3.10: objects of unknown classes 11bbbbbb in a ResvTear, PathErr or ResvErr go on in the message that
/// it sets off, and in no other; those of classes 10bbbbbb do not.
#[test]
fn tears_and_errors_pass_unknown_objects_on() {
    use MessageType::{PathErr, ResvErr, ResvTear};
    let on: Strange = (0xc9, 7, vec![1, 2, 3, 4]);
    let off: Strange = (0x90, 1, vec![5; 4]);
    for style in [Style::Ff, Style::Se, Style::Wf] {
        let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
        net.announce(0, 3, 3);
        net.run(ms(10));
        let seen: Rc<RefCell<Vec<Carried>>> = Rc::default();
        let ears = Rc::clone(&seen);
        net.fate = Box::new(move |_, flight| {
            let m = Message::parse(&flight.datagram.bytes).expect("ours");
            if matches!(m.kind(), PathErr | ResvErr | ResvTear) {
                let strange = m.envelope().objects.filter(|o| o.class > 0x7f);
                let strange = strange.map(|o| (o.class, o.ctype, o.body.to_vec()));
                ears.borrow_mut().push((flight.from, m.kind(), strange.collect()));
            }
            Fate::Deliver
        });
        let say = |net: &mut Net, node, kind, extra: &[Strange]| {
            let mut m = if kind == ResvErr { net.upstream_of(node) } else { net.downstream_of(node) };
            (m.style, m.error.code, m.extra) = (style, 2, extra.to_vec());
            net.inject(node, kind, &m);
            net.run(ms(20));
            seen.borrow_mut().drain(..).collect::<Vec<_>>()
        };
        let both = [off.clone(), on.clone()];
        for (mbps, extra) in [(4, &both[..]), (5, &[])] {
            // One PathErr for each Path.
            net.announce(0, 3, mbps);
            net.run(ms(10));
            let kept: Vec<Strange> = extra.iter().skip(1).cloned().collect();
            let twice = |first, then, kind| [(first, kind, kept.clone()), (then, kind, kept.clone())];
            net.inject_resv(2, |m| m.style = style);
            net.run(ms(20));
            assert_eq!(net.held(), [3, 3, 3, 0], "{style:?}");
            assert_eq!(say(&mut net, 2, PathErr, extra), twice(2, 1, PathErr), "{style:?}");
            assert_eq!(say(&mut net, 1, ResvErr, extra), twice(1, 2, ResvErr), "{style:?}");
            assert_eq!(say(&mut net, 2, ResvTear, extra), twice(2, 1, ResvTear), "{style:?}");
            assert_eq!(net.held(), [0; 4], "{style:?}");
        }
    }
}

/// RFC 2205 section 3.9: a sender that names one of the node's addresses sends Paths by the interface that the routing
/// has for that address, and by no other; one that names the default's by the default.
#[test]
fn a_host_on_two_links_sends_where_its_application_said() {
    let mut net = Net::new(false);
    for name in ["host", "left", "right", "rcv"] {
        net.node(name, config(R));
    }
    for (a, b) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
        net.link(a, b);
    }
    let session = net.session_at(3);
    let [left, right] = [1, 2].map(|index| net.interface(0, index).addresses[0]);
    let gateway = Some(net.interface(2, 1).addresses[0]);
    let way = terms::ports::RouteDecision::Out { oif: IfIndex(2), gateway, source: right };
    net.nodes[0].env.by_source.insert((session.dst, right), way);
    for (src, by) in [(left, 1), (right, 2)] {
        let since = net.log.len();
        let template = terms::FilterSpec { src, src_port: 5004 + by as u32 };
        let app = AppId(by as u64);
        net.tell(0, Input::App(AppCall::Sender { app, session, template, tspec: tspec(1), ttl: 63 }));
        net.run(ms(10));
        let first: Vec<_> =
            net.log[since..].iter().filter(|(_, from, ..)| *from == 0).map(|(_, _, to, _)| *to).collect();
        assert_eq!(first, [by], "{src}");
    }
    assert_eq!(net.paths(), [2, 1, 1, 2]);
}

/// RFC 2205 sections 3.1.5 to 3.1.9: the order of objects is that of a Path or a Resv, and is recommended, not required: each
/// of the seven messages is read as well with its first two objects the other way round.
#[test]
fn the_first_objects_of_every_message_may_change_places() {
    let net = Net::reserved_line(R, 3);
    let mut m = net.upstream_of(1);
    m.confirm = Some(net.addr(3));
    let kinds = [
        MessageType::Path,
        MessageType::Resv,
        MessageType::PathErr,
        MessageType::ResvErr,
        MessageType::PathTear,
        MessageType::ResvTear,
        MessageType::ResvConf,
    ];
    for kind in kinds {
        let bytes = m.bytes(kind);
        let length = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let second = 8 + length(8);
        let third = second + length(second);
        let turned = [&bytes[second..third], &bytes[8..second], &bytes[third..]].concat();
        let turned = wire::Builder::new(kind, 255).sub_message(&turned).finish().unwrap();
        assert_ne!(turned, bytes);
        let read = Message::parse(&turned).unwrap_or_else(|error| panic!("{kind:?}: {error:?}"));
        assert_eq!((read.kind(), read.session()), (kind, Some(m.session)), "{kind:?}");
    }
}
