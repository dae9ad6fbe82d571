//! Killer reservations and the blockade against them: RFC 2205 sections 2.5 and 3.5, RFC 2209 section 2.6.

use crate::story::net::*;
use rsvp::io::Event;
use terms::{IfIndex, Rate, Session, Span, Style, Time};
use wire::MessageType;

const R: Span = Span::from_secs(30);

/// `s - r1 - r2` with receivers a and b behind r2; the sender's link has 10 Mbit/s.
const S: usize = 0;
const R1: usize = 1;
const R2: usize = 2;
const A: usize = 3;
const B: usize = 4;

fn bottleneck() -> (Net, Session) {
    let mut net = Net::new(false);
    for name in ["s", "r1", "r2", "a", "b"] {
        net.node(name, config(R));
    }
    for (x, y) in [(S, R1), (R1, R2), (R2, A), (R2, B)] {
        net.link(x, y);
    }
    net.nodes[S].env.capacity.insert(IfIndex(1), Rate::from_mbps(10));
    let session = net.group(1);
    net.members(&session, &[A, B]);
    net.sends(S, 1, session, 5004, 8);
    settle(&mut net);
    (net, session)
}

fn settle(net: &mut Net) {
    net.run(Span::from_millis(40));
}

/// A receiver that signals by hand and never gives in: what r2 hears from the node behind one of its interfaces.
fn insist(net: &mut Net, oif: u32, session: Session, style: Style, mbps: u64) {
    let mut m = net.downstream_of(R2);
    let node = if oif == 2 { A } else { B };
    m.hop = wire::RsvpHop { addr: net.addr(node), lih: oif };
    (m.iif, m.session, m.style, m.flowspec) = (IfIndex(oif), session, style, cl(mbps));
    m.dst = net.interface(R2, oif).addresses[0];
    net.inject(R2, MessageType::Resv, &m);
}

fn links(net: &Net) -> [u64; 4] {
    [net.on(S, 1), net.on(R1, 2), net.on(R2, 2), net.on(R2, 3)]
}

/// S12, the first killer reservation: a larger request that fails upstream leaves the smaller one that is there, and who
/// asked for the smaller hears nothing of it.
#[test]
fn a_large_request_does_not_take_a_small_one_along() {
    for style in [Style::Ff, Style::Se, Style::Wf] {
        let (mut net, session) = bottleneck();
        let sender = net.template_at(S);
        net.shares(A, session, style, &[sender], cl(3));
        settle(&mut net);
        net.shares(B, session, style, &[sender], cl(20));
        net.run(Span::from_millis(4));
        assert_eq!(links(&net), [3, 20, 3, 20], "{style:?}: on its way");
        settle(&mut net);
        assert_eq!(links(&net), [3, 3, 3, 0], "{style:?}");
        let told: Vec<_> = net.errors(B).iter().map(|e| (e.code, e.in_place, e.not_guilty)).collect();
        assert_eq!((told, net.errors(A).len()), (vec![(1, true, false)], 0));
    }
}

/// S12, the second: who insists on too much does not keep others from less (RFC 2205 section 3.5). The large request is
/// tried again when the blockade is over, and nobody else notices.
#[test]
fn who_insists_on_too_much_keeps_nobody_from_less() {
    for style in [Style::Ff, Style::Se, Style::Wf] {
        let (mut net, session) = bottleneck();
        net.mute(B);
        let sender = net.template_at(S);
        insist(&mut net, 3, session, style, 20);
        settle(&mut net);
        assert_eq!((links(&net), net.errors(A).len()), ([0, 20, 0, 20], 0), "{style:?}: nothing past the failure");
        assert!(net.engine(R2).paths().next().expect("one").blockade.is_some());
        net.shares(A, session, style, &[sender], cl(3));
        settle(&mut net);
        assert_eq!(links(&net), [3, 3, 3, 20], "{style:?}: past the blockade");
        assert_eq!(net.confirms(A).len(), 1);

        let (begin, mut tries) = (net.now, 0);
        while net.now < begin + Span::from_secs(900) {
            insist(&mut net, 3, session, style, 20);
            net.run(Span::from_secs(10));
            tries += usize::from(net.on(S, 1) != 3);
        }
        settle(&mut net);
        assert_eq!((tries, links(&net)), (0, [3, 3, 3, 20]), "{style:?}: always kept");
        assert_eq!(net.errors(A), [], "{style:?}: not guilty, and not told");
        // Tried again once in Kb * R = 90 s and a refresh, not more often.
        let refused = net.saw(S, |e| matches!(e, Event::Refused { .. })).iter().filter(|t| **t > begin).count();
        assert!((6..=10).contains(&refused), "{style:?}: refused {refused} times in 900 s");

        // When there is room, the large one gets it.
        net.nodes[S].env.capacity.insert(IfIndex(1), Rate::from_mbps(100));
        for _ in 0..15 {
            insist(&mut net, 3, session, style, 20);
            net.run(Span::from_secs(10));
        }
        assert_eq!(links(&net), [20, 20, 3, 20], "{style:?}");
    }
}

/// If all requests are blockaded, the least of them is what is asked: it may fit (RFC 2205 section 3.5).
#[test]
fn where_all_are_too_large_the_least_is_tried() {
    let (mut net, session) = bottleneck();
    [A, B].into_iter().for_each(|node| net.mute(node));
    insist(&mut net, 2, session, Style::Wf, 12);
    insist(&mut net, 3, session, Style::Wf, 20);
    settle(&mut net);
    assert_eq!(net.on(S, 1), 0);
    let since = net.now;
    for _ in 0..4 {
        net.run(Span::from_secs(30));
        insist(&mut net, 2, session, Style::Wf, 12);
        insist(&mut net, 3, session, Style::Wf, 20);
    }
    let asked: Vec<_> = net.engine(R1).reservations().map(|r| r.flowspec).collect();
    assert_eq!(asked, [cl(12)], "the least, again and again");
    net.nodes[S].env.capacity.insert(IfIndex(1), Rate::from_mbps(15));
    net.run(Span::from_secs(60));
    assert_eq!(net.on(S, 1), 12);
    let errors = net.count("ResvErr", since);
    assert!(errors < 60, "no storm: {errors} in three minutes");
}

/// A failure of nothing that was there before reaches all who asked; who asked for less is told that it is not to blame,
/// and goes on asking.
#[test]
fn the_innocent_are_told_so() {
    let (mut net, session) = bottleneck();
    let sender = net.template_at(S);
    // Both are merged before the first can arrive.
    net.shares(A, session, Style::Se, &[sender], cl(3));
    net.shares(B, session, Style::Se, &[sender], cl(20));
    net.nodes[R2].env.silent = true;
    net.run(Span::from_millis(5));
    net.nodes[R2].env.silent = false;
    settle(&mut net);
    settle(&mut net);
    assert!(net.errors(B).iter().any(|e| e.code == 1 && !e.not_guilty));
    assert!(net.errors(A).iter().all(|e| e.not_guilty || e.flowspec == Some(cl(3))));
    assert_eq!(links(&net), [3, 3, 3, 0]);
}

/// Kb is configurable, and a blockade that is over is over.
#[test]
fn a_blockade_ends() {
    let (mut net, session) = bottleneck();
    net.mute(B);
    insist(&mut net, 3, session, Style::Ff, 20);
    settle(&mut net);
    let until = net.engine(R1).paths().next().expect("one").blockade.expect("blockaded").1;
    assert!(until > Time::ZERO + Span::from_secs(89) && until < Time::ZERO + Span::from_secs(91));
    net.nodes[S].env.capacity.insert(IfIndex(1), Rate::from_mbps(100));
    net.run(Span::from_secs(60));
    assert_eq!(net.on(S, 1), 20, "a single request is tried with every refresh");
}

/// I28. An error about a sender that a neighbour does not lead to changes nothing.
#[test]
fn a_stranger_cannot_blockade() {
    let (mut net, session) = bottleneck();
    net.shares(A, session, Style::Wf, &[], cl(3));
    settle(&mut net);
    let before = net.digests();
    let mut m = net.upstream_of(R2);
    (m.session, m.style, m.flowspec) = (session, Style::Wf, cl(3));
    m.dst = net.interface(R2, 1).addresses[0];
    let honest = m.hop.addr;
    m.hop.addr = [10, 0, 1, 99].into();
    net.inject(R2, MessageType::ResvErr, &m);
    (m.hop.addr, m.iif) = (honest, IfIndex(2));
    net.inject(R2, MessageType::ResvErr, &m);
    assert!(net.engine(R2).paths().all(|p| p.blockade.is_none()));
    assert_eq!((net.digests(), net.errors(A).len()), (before, 0));
}

/// An error about one sender of a list leaves what is asked for the others of the same previous hop alone: nothing is
/// torn, nothing said anew, before the next refresh.
#[test]
fn an_error_about_one_sender_leaves_the_others() {
    let mut net = Net::line(&["snd", "r1", "rcv"], R);
    let session = net.session_at(2);
    let senders = [1, 2].map(|n| net.sends(0, n, session, 6000 + n as u32, 2));
    settle(&mut net);
    net.shares(2, session, Style::Se, &senders, cl(4));
    settle(&mut net);
    let since = net.now;
    net.mute(2);
    let mut m = net.upstream_of(1);
    (m.session, m.style, m.flowspec, m.template) = (session, Style::Se, cl(4), senders[0]);
    net.inject(1, MessageType::ResvErr, &m);
    assert_eq!(net.count("ResvTear", since) + net.count("Resv", since), 0);
    let asked: Vec<_> = net.engine(1).paths().map(|p| p.request.map(|(f, _)| f)).collect();
    assert_eq!(asked, [Some(cl(4)); 2]);
    net.run(Span::from_secs(60));
    assert_eq!(net.on(0, 1), 4, "and they stay");
}
