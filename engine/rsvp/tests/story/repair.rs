//! The way changes: local repair (RFC 2205 section 3.6), new previous hops, interfaces that come and go.

use crate::story::net::*;
use rsvp::io::{AppCall, Config, Event, Gone, Input};
use terms::{IfIndex, Span, Time};

const R: Span = Span::from_secs(30);

/// `snd - r1 - r2 - rcv` and the other way `r1 - r3 - rcv`, with a reservation over r2.
fn diamond(wait: Span) -> Net {
    let mut net = Net::new(false);
    for name in ["snd", "r1", "r2", "rcv", "r3"] {
        net.node(name, Config { repair_wait: wait, ..config(R) });
    }
    for (a, b) in [(0, 1), (1, 2), (2, 3), (1, 4), (4, 3)] {
        net.link(a, b);
    }
    net.announce(0, 3, 3);
    net.run(Span::from_millis(10));
    net.ask(0, 3, cl(3));
    net.run(Span::from_millis(30));
    assert_eq!(net.held(), [3, 3, 3, 0, 0]);
    net
}

/// S3: the route changes between refreshes. After W the Path takes the new way and the Resv follows; r1 never holds the
/// flow on both interfaces, the upstream part is never given up, the old branch expires by itself.
#[test]
fn the_reservation_follows_a_changed_route() {
    for wait in [Span::ZERO, Span::from_secs(2)] {
        let mut net = diamond(wait);
        net.set_link(1, false);
        let (dst, at) = (Some((net.addr(3), 32)), net.now);
        net.tell(1, Input::RouteChanged(dst));
        assert_eq!(net.nodes[1].env.held.len(), 0, "the old interface is free at once");
        net.run_until(at + wait + Span::from_millis(20));
        assert_eq!((net.held(), net.errors(3).len()), (vec![3, 3, 3, 0, 3], 0));
        assert_eq!((net.nodes[1].env.rate_on(2).as_bps(), net.nodes[1].env.rate_on(3).as_bps()), (0, 3_000_000));
        let moved = |e: &Event| matches!(e, Event::Rerouted { oif: Some(IfIndex(3)), .. });
        assert_eq!(net.saw(1, moved), [at]);
        assert_eq!(net.saw(3, |e| matches!(e, Event::PhopChanged { .. })).len(), 1);
        let path_sent = net.log.iter().find(|(t, f, to, k)| *t >= at && (*f, *to, *k) == (1, 4, "Path"));
        assert_eq!(path_sent.map(|l| l.0), Some(at + wait));
        let torn = |e: &Event| matches!(e, Event::ResvRemoved { .. });
        assert!(net.saw(0, torn).is_empty(), "the sending host's reservation was never given up");
        net.run(Span::from_millis(157_500 + 20));
        assert_eq!(net.held(), [3, 3, 0, 0, 3], "the old branch has expired");
        assert_eq!(net.paths(), [1, 1, 0, 1, 1]);
    }
}

/// The old branch, cut off, goes on refreshing until it expires, and then tears: whenever the change comes, the receiver
/// keeps its path, and the reservation ends up on the new way alone.
#[test]
fn a_dying_branch_takes_nothing_with_it() {
    for phase in 0..40 {
        let mut net = diamond(Span::ZERO);
        net.run(Span::from_millis(phase * 1_130));
        net.set_link(1, false);
        let dst = Some((net.addr(3), 32));
        net.tell(1, Input::RouteChanged(dst));
        net.run(Span::from_millis(30));
        for _ in 0..230 {
            net.run(Span::from_secs(1));
            assert_eq!((net.held()[1], net.held()[4], net.paths()[3]), (3, 3, 1), "phase {phase}");
        }
        assert_eq!((net.held(), net.paths()), (vec![3, 3, 0, 0, 3], vec![1, 1, 0, 1, 1]), "phase {phase}");
        assert_eq!(net.heard(3, |u| matches!(u, rsvp::io::Upcall::PathGone { .. })), 0, "phase {phase}");
        net.release(3);
        net.run(Span::from_millis(10));
        assert_eq!(net.held(), [0; 5], "phase {phase}");
    }
}

/// However close to a refresh the change comes, and however long W, what was asked upstream is not given up meanwhile.
#[test]
fn the_upstream_part_is_held_while_the_route_settles() {
    for phase in 0..30 {
        let mut net = diamond(Span::from_secs(10));
        net.run(Span::from_millis(phase * 1_510));
        net.set_link(1, false);
        let dst = Some((net.addr(3), 32));
        net.tell(1, Input::RouteChanged(dst));
        net.run(Span::from_millis(10_030));
        assert_eq!(net.held()[4], 3, "phase {phase}");
        let torn = |e: &Event| matches!(e, Event::ResvRemoved { .. });
        assert!(net.saw(0, torn).is_empty(), "phase {phase}");
    }
}

/// A release while both branches live tears both.
#[test]
fn a_release_reaches_both_branches() {
    let mut net = diamond(Span::ZERO);
    net.set_link(1, false);
    let dst = Some((net.addr(3), 32));
    net.tell(1, Input::RouteChanged(dst));
    net.run(Span::from_millis(30));
    assert_eq!(net.held(), [3, 3, 3, 0, 3]);
    net.release(3);
    net.run(Span::from_millis(10));
    assert_eq!(net.held(), [0; 5]);
}

/// Without a notice, the next Path refresh finds the new way.
#[test]
fn a_refresh_finds_a_changed_route_too() {
    let mut net = diamond(Span::ZERO);
    net.set_link(1, false);
    net.run(Span::from_millis(46_000));
    assert_eq!((net.held()[1], net.held()[4]), (3, 3));
}

/// The new way has no room: the receiver learns it, and nothing stays reserved on the way that is no way any more.
#[test]
fn a_new_way_without_room_is_told_to_the_receiver() {
    let mut net = diamond(Span::ZERO);
    net.nodes[4].env.capacity.values_mut().for_each(|c| *c = terms::Rate::from_mbps(1));
    net.set_link(1, false);
    let dst = Some((net.addr(3), 32));
    net.tell(1, Input::RouteChanged(dst));
    net.run(Span::from_secs(31 + 1));
    assert_eq!((net.errors(3)[0].code, net.errors(3)[0].value), (1, 2));
    assert_eq!(net.held(), [0; 5], "the receiver's tear goes to both previous hops");
}

/// Routes that change for somebody else, or not at all, change nothing.
#[test]
fn a_notice_about_nothing_changes_nothing() {
    let mut net = diamond(Span::ZERO);
    let (before, sent) = (net.digests(), net.log.len());
    for dst in [None, Some((net.addr(3), 32)), Some((net.addr(0), 32))] {
        net.tell(1, Input::RouteChanged(dst));
    }
    assert_eq!((net.digests(), net.log.len()), (before, sent));
}

/// No way at all: the flow's capacity is free at once; when the way comes back, so does the reservation.
#[test]
fn a_way_that_goes_and_comes_back() {
    let mut net = diamond(Span::ZERO);
    net.set_link(1, false);
    net.set_link(3, false);
    net.tell(1, Input::RouteChanged(None));
    assert_eq!(net.held()[1], 0);
    assert_eq!(net.engine(1).paths().next().expect("stays").out, rsvp::OutgoingInterfaces::Nowhere);
    net.run(Span::from_secs(3));
    net.set_link(1, true);
    net.tell(1, Input::RouteChanged(None));
    net.run(Span::from_secs(46));
    assert_eq!((net.held()[..4].to_vec(), net.errors(3).len()), (vec![3, 3, 3, 0], 0));
}

/// S17: the outgoing interface goes down and comes back.
#[test]
fn an_interface_that_goes_takes_its_reservations() {
    let mut net = Net::reserved_line(R, 3);
    let state = net.interface(1, 2);
    net.set_link(1, false);
    net.tell(1, Input::Interface { interface: IfIndex(2), state: None });
    assert_eq!(net.held()[1], 0);
    let why = |e: &Event| matches!(e, Event::ResvRemoved { why: Gone::RouteGone, .. });
    assert_eq!(net.saw(1, why).len(), 1);
    net.set_link(1, true);
    net.tell(1, Input::Interface { interface: IfIndex(2), state: Some(state) });
    net.run(Span::from_secs(46));
    assert_eq!(net.held(), [3, 3, 3, 0]);
}

/// The sending host's own interface goes for good: the application hears that its reservation is gone, after the time
/// that a new way would have had.
#[test]
fn a_sender_without_a_way_hears_that_its_reservation_is_gone() {
    let mut net = Net::reserved_line(R, 3);
    net.set_link(0, false);
    net.tell(0, Input::Interface { interface: IfIndex(1), state: None });
    assert_eq!(net.held()[0], 0);
    let gone = |net: &Net| net.heard(0, |u| matches!(u, rsvp::io::Upcall::ResvGone { .. }));
    net.run(Span::from_millis(29_999));
    assert_eq!(gone(&net), 0);
    net.run(Span::from_millis(1));
    assert_eq!(gone(&net), 1);
}

/// S17: an interface's MTU shrinks: the Path says so after W.
#[test]
fn a_smaller_mtu_is_advertised() {
    let mut net = Net::reserved_line(R, 3);
    let mut state = net.interface(1, 2);
    state.mtu = 1000;
    net.nodes[1].env.mtu = 1000;
    net.tell(1, Input::Interface { interface: IfIndex(2), state: Some(state) });
    net.run(Span::from_millis(10));
    let adspec = net.engine(3).paths().next().expect("one").adspec.expect("sent");
    assert_eq!(adspec.path_mtu, 1000);
    assert_eq!(net.held(), [3, 3, 3, 0], "what was promised stays");
}

/// S18: an interface is deleted and another made with its index, either side of the node: no state of the old one is
/// taken for the new one's, and the reservation is there again after the next refreshes.
#[test]
fn an_interface_number_that_is_used_again() {
    for index in [1, 2] {
        let mut net = Net::reserved_line(R, 3);
        net.recreate(1, index, [10, 77, 0, index as u8].into());
        assert_eq!(net.held()[1], if index == 2 { 0 } else { 3 });
        net.run(Span::from_secs(91));
        assert_eq!(net.held(), [3, 3, 3, 0], "interface {index}");
        net.run(Span::from_secs(200));
        assert_eq!(
            (net.held(), net.resvs()),
            (vec![3, 3, 3, 0], vec![1; 4]),
            "interface {index}: the old one's is gone"
        );
    }
}

/// S4: Paths come from a new previous hop without a tear: it is asked at once, the old one's state is left to expire.
#[test]
fn a_new_previous_hop_is_asked_at_once() {
    let mut net = diamond(Span::ZERO);
    let at = net.now;
    let mut m = net.upstream_of(1);
    m.iif = IfIndex(2);
    m.hop.addr = net.interface(4, 2).addresses[0];
    m.src = net.addr(0);
    (m.session, m.dst) = (net.session_at(3), net.addr(3));
    net.inject(3, wire::MessageType::Path, &m);
    let asked: Vec<_> = net.log.iter().filter(|(t, f, _, k)| *t == at && *f == 3 && *k == "Resv").collect();
    assert_eq!(asked, [&(at, 3, 4, "Resv")]);
}

/// Two previous hops are known: when the present one tears, the path goes back to the other for what is left of its life;
/// when that one has torn before, the path ends.
#[test]
fn a_tear_leaves_the_path_to_the_other_hop_if_there_is_one() {
    for other_tears_first in [false, true] {
        let mut net = diamond(Span::ZERO);
        let life = net.engine(3).paths().next().expect("one").expires;
        let mut old = net.upstream_of(1);
        (old.session, old.dst, old.src) = (net.session_at(3), net.addr(3), net.addr(0));
        (old.iif, old.hop.addr) = (IfIndex(1), net.interface(2, 2).addresses[0]);
        let mut new = old.clone();
        (new.iif, new.hop.addr) = (IfIndex(2), net.interface(4, 2).addresses[0]);
        net.inject(3, wire::MessageType::Path, &new);
        if other_tears_first {
            net.inject(3, wire::MessageType::PathTear, &old);
            assert_eq!(net.paths()[3], 1);
        }
        net.inject(3, wire::MessageType::PathTear, &new);
        let left: Vec<_> = net.engine(3).paths().map(|p| p.expires).collect();
        assert_eq!(left, if other_tears_first { vec![] } else { vec![life] });
    }
}

/// S4: two previous hops take turns at every message. Each is believed, but only the first change in W sets off a Resv.
#[test]
fn previous_hops_that_take_turns_are_damped() {
    let mut net = diamond(Span::from_secs(2));
    net.run(Span::from_secs(3));
    let at = net.now;
    let mut m = net.upstream_of(1);
    m.src = net.addr(0);
    (m.session, m.dst) = (net.session_at(3), net.addr(3));
    for turn in 0..20 {
        let (iif, far, index) = if turn % 2 == 0 { (2, 4, 2) } else { (1, 2, 2) };
        m.iif = IfIndex(iif);
        m.hop.addr = net.interface(far, index).addresses[0];
        net.inject(3, wire::MessageType::Path, &m);
        net.run(Span::from_millis(10));
    }
    assert_eq!(net.log.iter().filter(|(t, f, _, k)| *t >= at && *f == 3 && *k == "Resv").count(), 1);
    let phop = net.engine(3).paths().next().expect("one").origin;
    assert!(matches!(phop, rsvp::Origin::Hop(p) if p.iif == IfIndex(1)), "the last word counts: {phop:?}");
    assert!(at > Time::ZERO);
}

/// A router that does not speak RSVP lies between: the reservation spans it, the Adspec says that it is broken.
#[test]
fn a_hop_that_does_not_speak_rsvp_is_noticed() {
    let mut net = Net::line(&["snd", "r1", "deaf", "r2", "rcv"], R);
    net.mute(2);
    let session = net.session_at(4);
    net.tell(4, Input::App(AppCall::Receiver { app: RECEIVER, session }));
    net.announce(0, 4, 3);
    net.run(Span::from_millis(10));
    assert_eq!(net.saw(3, |e| matches!(e, Event::NonRsvpHop { .. })).len(), 1);
    assert!(net.saw(1, |e| matches!(e, Event::NonRsvpHop { .. })).is_empty());
    let Some((_, _, rsvp::io::Upcall::Path { adspec: Some(adspec), .. })) = net.nodes[4].upcalls.last() else {
        panic!("a path event");
    };
    assert!(adspec.break_bit);
    net.ask(0, 4, cl(3));
    net.run(Span::from_millis(30));
    assert_eq!((net.held(), net.confirms(4).len()), (vec![3, 3, 0, 3, 0], 1));
    net.ask(0, 4, cl(400));
    net.run(Span::from_millis(30));
    assert_eq!((net.held(), net.errors(4).len()), (vec![3, 3, 0, 3, 0], 1));
    net.release(4);
    net.run(Span::from_millis(30));
    assert_eq!(net.held(), [0; 5]);
}
