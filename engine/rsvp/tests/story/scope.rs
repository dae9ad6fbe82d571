//! Wildcard requests and loops: the SCOPE object, RFC 2205 section 3.4.

use crate::story::net::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;
use terms::{IfIndex, Session, Span, Style};
use wire::{Message, MessageType};

const R: Span = Span::from_secs(2);

/// Five routers in a ring, a host on each; every host sends and is a member. Router n is node n, its host node 5 + n;
/// the router's interfaces: 1 to its host, the others along the ring.
fn ring() -> (Net, Session) {
    let mut net = Net::new(false);
    for n in 0..10 {
        net.node(&format!("n{n}"), config(R));
    }
    for (n, next) in (0..5).map(|n| (n, 5 + n)).chain((0..5).map(|n| (n, (n + 1) % 5))) {
        net.link(n, next);
    }
    let session = net.group(7);
    net.members(&session, &[5, 6, 7, 8, 9]);
    for host in 5..10 {
        net.sends(host, 1, session, 5004, 1);
    }
    net.run(Span::from_millis(20));
    assert_eq!(net.paths(), [5; 10]);
    (net, session)
}

/// All SCOPE lists seen in Resv messages, by who sent them to whom; `None`: a Resv without one.
type Scopes = Rc<RefCell<Vec<(usize, usize, Option<BTreeSet<IpAddr>>)>>>;

fn listen(net: &mut Net) -> Scopes {
    let scopes: Scopes = Rc::default();
    let seen = Rc::clone(&scopes);
    net.fate = Box::new(move |_, flight| {
        if let Ok(Message::Resv(m)) = Message::parse(&flight.datagram.bytes) {
            seen.borrow_mut().push((flight.from, flight.to, m.scope.map(|s| s.iter().collect())));
        }
        Fate::Deliver
    });
    scopes
}

/// A wildcard request that goes to several previous hops says to each which senders it is for: those that come from
/// there, and no sender twice.
#[test]
fn each_previous_hop_is_asked_for_its_own_senders() {
    let (mut net, session) = ring();
    let scopes = listen(&mut net);
    net.shares(5, session, Style::Wf, &[], cl(1));
    net.run(Span::from_millis(100));
    let seen = scopes.borrow();
    let from_r0: Vec<_> = seen.iter().filter(|(from, ..)| *from == 0).collect();
    assert_eq!(from_r0.len(), 2, "both ways round the ring: {from_r0:?}");
    let mut all = BTreeSet::new();
    for (_, _, scope) in &from_r0 {
        let scope = scope.as_ref().expect("more than one previous hop: a scope");
        assert!(scope.iter().all(|s| all.insert(*s)), "no sender in two scopes");
    }
    assert_eq!(all, (6..10).map(|host| net.addr(host)).collect(), "all but the receiver's own host");
    // Whoever passes it on narrows it.
    for (from, to, scope) in seen.iter().filter(|(from, ..)| *from < 5) {
        assert!(scope.as_ref().is_some_and(|s| !s.is_empty()), "{from} to {to}");
    }
}

/// A ring does not keep a wildcard reservation alive that nobody asks for any more, not even if every tear is lost: the
/// auto-refresh loop of section 3.4.
#[test]
fn no_reservation_goes_round_in_a_ring() {
    let (mut net, session) = ring();
    (5..10).for_each(|host| net.shares(host, session, Style::Wf, &[], cl(1)));
    net.run(Span::from_millis(200));
    assert_eq!(net.held().iter().sum::<u64>(), 20, "each link in both directions, once");
    net.run(Span::from_secs(60));
    assert_eq!(net.held().iter().sum::<u64>(), 20);
    net.fate = Box::new(|_, flight| match Message::parse(&flight.datagram.bytes) {
        Ok(Message::ResvTear(_)) => Fate::Lose,
        _ => Fate::Deliver,
    });
    (5..10).for_each(|host| net.leaves(host, session));
    // A request goes at most three hops; each forgets it L = 10.5 s after the last refresh.
    net.run(Span::from_secs(4 * 11));
    assert_eq!((net.held().iter().sum::<u64>(), net.resvs().iter().sum::<usize>()), (0, 0));
    let quiet = net.now;
    net.run(Span::from_secs(60));
    assert_eq!(net.count("Resv", quiet), 0);
}

/// P42: a scope with nobody in it, with strangers, with everybody twice; one that is too long is refused.
#[test]
fn odd_scopes() {
    let (mut net, session) = ring();
    let h6 = net.addr(6);
    net.mute(5);
    let mut m = net.downstream_of(1);
    m.hop = wire::RsvpHop { addr: net.addr(5), lih: 1 };
    (m.iif, m.session, m.style, m.flowspec) = (IfIndex(1), session, Style::Wf, cl(1));
    m.dst = net.interface(0, 1).addresses[0];
    let scopes = listen(&mut net);
    let mut with = |net: &mut Net, scope: &[IpAddr]| {
        let v4 = scope.iter().map(|a| match a {
            IpAddr::V4(a) => a.octets(),
            IpAddr::V6(_) => unreachable!("an IPv4 net"),
        });
        m.extra = vec![(7, 1, v4.flatten().collect())];
        scopes.borrow_mut().clear();
        net.inject(0, MessageType::Resv, &m);
        net.run(Span::from_millis(20));
        let seen = scopes.borrow();
        seen.iter().filter(|(from, ..)| *from == 0).map(|(_, _, s)| s.clone()).collect::<Vec<_>>()
    };
    assert_eq!(with(&mut net, &[]), [], "for nobody: kept, and passed on to nobody");
    assert_eq!(with(&mut net, &[[192, 0, 2, 1].into()]), [], "for a stranger");
    assert_eq!(with(&mut net, &[h6, h6, [192, 0, 2, 1].into()]), [Some(BTreeSet::from([h6]))]);
    let before = net.digests();
    let many: Vec<IpAddr> = (0..129u32).map(|n| IpAddr::from((0x0a0a_0000 + n).to_be_bytes())).collect();
    assert_eq!(with(&mut net, &many), []);
    assert_eq!(net.digests(), before, "refused, and nothing changed");
}

/// A ResvErr about a wildcard request goes only to where senders of its scope route (section 3.4).
#[test]
fn an_error_keeps_to_its_scope() {
    let (mut net, session) = ring();
    net.nodes[6].env.capacity.insert(IfIndex(1), terms::Rate::from_mbps(0));
    let errors = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&errors);
    net.fate = Box::new(move |_, flight| {
        if let Ok(Message::ResvErr(m)) = Message::parse(&flight.datagram.bytes) {
            seen.borrow_mut().push((flight.from, flight.to, m.scope.map(|s| s.iter().collect::<Vec<_>>())));
        }
        Fate::Deliver
    });
    net.shares(5, session, Style::Wf, &[], cl(1));
    net.run(Span::from_millis(100));
    let h6 = net.addr(6);
    let seen = errors.borrow();
    assert_eq!(seen.first(), Some(&(6, 1, Some(vec![h6]))), "the host that refuses names itself: {seen:?}");
    assert!(seen.iter().any(|(from, to, _)| (*from, *to) == (0, 5)), "it reaches the receiver: {seen:?}");
    assert!(seen.len() <= 4, "and goes nowhere else: {seen:?}");
    assert!(!net.errors(5).is_empty());
}
