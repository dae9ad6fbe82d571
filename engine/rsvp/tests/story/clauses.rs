//! Sentences of RFC 2205 that no other story tells: what `docs/rfc/rfc2205.md` names here.

use crate::net::*;
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
