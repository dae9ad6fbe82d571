//! Setting a reservation up and giving it up: RFC 2205 sections 2 and 3.1, RFC 2209 sections 2.1 to 2.7.

use crate::story::net::*;
use rsvp::io::{AppCall, AppId, Event, Gone, Input, Upcall};
use terms::{FilterSpec, FlowSpec, IfIndex, Rate, Span, Style, Time};

const R: Span = Span::from_secs(30);

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// Path down, Resv up, confirmation down; every hop, the sending host's too, holds the flow before it is confirmed.
#[test]
fn a_reservation_is_set_up_and_confirmed() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.announce(0, 3, 3);
    net.run(ms(10));
    assert_eq!(net.paths(), [1, 1, 1, 1]);
    assert_eq!(net.heard(3, |u| matches!(u, Upcall::Path { .. })), 0, "nobody registered yet");
    assert_eq!(net.held(), [0, 0, 0, 0]);

    let start = net.now;
    net.ask(0, 3, cl(3));
    assert_eq!(net.heard(3, |u| matches!(u, Upcall::Path { .. })), 1, "told on registering");
    net.run(ms(20));
    assert_eq!(net.held(), [3, 3, 3, 0], "the receiver has no outgoing link");
    assert_eq!(net.heard(0, |u| matches!(u, Upcall::Resv { .. })), 1);
    // Three links up, three installations, three links down.
    assert_eq!(net.confirms(3), [(start + ms(9), cl(3))]);
    assert_eq!((net.count("Resv", start), net.count("ResvConf", start)), (3, 3));
    assert_eq!(net.now, Time::ZERO + ms(30));
}

/// The Resv waits for the plane at every hop: nothing goes upstream, and nothing is confirmed, before it is read back.
#[test]
fn nothing_goes_upstream_before_the_plane_has_it() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.announce(0, 3, 3);
    net.run(ms(10));
    net.nodes[1].env.silent = true;
    net.ask(0, 3, cl(3));
    net.run(ms(500));
    assert_eq!(net.held(), [0, 3, 3, 0], "admitted at r1, not yet installed");
    assert_eq!(net.engine(1).traffic_control().next().expect("one").installed, None);
    assert!(net.confirms(3).is_empty());
    net.nodes[1].env.silent = false;
    net.run(ms(10));
    assert_eq!((net.held(), net.confirms(3).len()), (vec![3, 3, 3, 0], 1));
    let tc = net.engine(1).traffic_control().next().expect("one");
    assert_eq!((tc.asked, tc.admitted, tc.installed), (cl(3), cl(3), Some(cl(3))));
}

/// The Adspec is composed at each outgoing interface, the sending host's first (RFC 2210 section 3.3).
#[test]
fn the_adspec_says_what_the_path_can_do() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.nodes[1].env.capacity.insert(IfIndex(2), Rate::from_mbps(10));
    for node in 0..3 {
        net.nodes[node].env.guaranteed.extend([(IfIndex(1), (1500, 100)), (IfIndex(2), (1500, 100))]);
    }
    let session = net.session_at(3);
    net.tell(3, Input::App(AppCall::Receiver { app: RECEIVER, session }));
    net.announce(0, 3, 3);
    net.run(ms(10));
    let Some((_, _, Upcall::Path { adspec: Some(adspec), tspec: t, .. })) = net.nodes[3].upcalls.pop() else {
        panic!("a path event");
    };
    assert_eq!(t, tspec(3));
    assert_eq!((adspec.is_hops, adspec.bandwidth, adspec.path_mtu), (3, Rate::from_mbps(10), 1500));
    assert_eq!((adspec.break_bit, adspec.min_latency), (false, Some(ms(3))));
    let terms = adspec.guaranteed.expect("offered");
    assert_eq!((terms.break_bit, terms.c_tot, terms.d_tot), (false, 4500, 300));
}

#[test]
fn guaranteed_service_is_reserved_where_bounds_are_kept() {
    let mut net = Net::line(&["snd", "r1", "rcv"], R);
    for node in 0..2 {
        net.nodes[node].env.guaranteed.extend([(IfIndex(1), (1500, 100)), (IfIndex(2), (1500, 100))]);
    }
    net.announce(0, 2, 3);
    net.run(ms(10));
    net.ask(0, 2, gs(4));
    net.run(ms(20));
    assert_eq!(net.held(), [4, 4, 0]);
    assert_eq!(net.confirms(2)[0].1, gs(4));
}

#[test]
fn the_same_with_ipv6() {
    let mut net = Net::new(true);
    for name in ["snd", "r1", "r2", "rcv"] {
        net.node(name, config(R));
    }
    net.link_up(1..4);
    net.announce(0, 3, 3);
    net.run(ms(10));
    net.ask(0, 3, cl(3));
    net.run(ms(20));
    assert_eq!((net.held(), net.confirms(3).len()), (vec![3, 3, 3, 0], 1));
    net.release(3);
    net.run(ms(20));
    assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0; 4]));
}

/// A request may come before the Path; it is made when the Path comes, and again when the sender comes back.
#[test]
fn a_request_waits_for_its_sender() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.ask(0, 3, cl(3));
    net.run(ms(10));
    assert_eq!(net.log, [], "nobody to ask");
    net.announce(0, 3, 3);
    net.run(ms(20));
    assert_eq!((net.held(), net.confirms(3).len()), (vec![3, 3, 3, 0], 1));

    net.silence(0, 3);
    net.run(ms(20));
    assert_eq!((net.held(), net.paths(), net.resvs()), (vec![0; 4], vec![0; 4], vec![0, 0, 0, 1]));
    assert_eq!(net.heard(3, |u| matches!(u, Upcall::PathGone { .. })), 1);
    net.announce(0, 3, 3);
    net.run(ms(20));
    assert_eq!(net.held(), [3, 3, 3, 0]);
}

/// ResvTear frees every hop within a one-way delay, and the sender hears of it.
#[test]
fn release_tears_every_hop() {
    let mut net = Net::reserved_line(R, 3);
    let start = net.now;
    net.release(3);
    net.run(ms(3));
    assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0; 4]));
    assert_eq!(net.count("ResvTear", start), 3);
    assert_eq!(net.heard(0, |u| matches!(u, Upcall::ResvGone { .. })), 1);
    assert_eq!(net.paths(), [1, 1, 1, 1], "path state stays");
    net.release(3);
    net.silence(0, 3);
    net.run(ms(10));
    let sessions: Vec<_> = net.nodes.iter().map(|n| n.engine.as_ref().expect("speaks").sessions().count()).collect();
    assert_eq!(sessions, [0; 4], "nothing is left of it anywhere");
}

/// PathTear takes the reservation along; no ResvTear is needed.
#[test]
fn a_sender_that_stops_frees_every_hop() {
    let mut net = Net::reserved_line(R, 3);
    let start = net.now;
    net.silence(0, 3);
    net.run(ms(3));
    assert_eq!((net.held(), net.paths()), (vec![0; 4], vec![0; 4]));
    assert_eq!((net.count("PathTear", start), net.count("ResvTear", start)), (3, 0));
    let why = |e: &Event| matches!(e, Event::ResvRemoved { why: Gone::PathGone, .. });
    assert_eq!(net.saw(1, why).len(), 1);
}

/// An application that ends takes its senders, requests and registrations with it.
#[test]
fn an_application_that_ends_leaves_nothing() {
    for app in [SENDER, RECEIVER] {
        let mut net = Net::reserved_line(R, 3);
        net.tell(if app == SENDER { 0 } else { 3 }, Input::App(AppCall::Release { app, session: None }));
        net.run(ms(10));
        assert_eq!(net.held(), [0; 4], "{app:?}");
        if app == RECEIVER {
            assert_eq!(net.resvs(), [0; 4]);
        }
    }
}

/// Two flows of one session, each with its own reservation (fixed filter).
#[test]
fn two_senders_have_a_reservation_each() {
    let mut net = Net::line(&["snd", "r1", "rcv"], R);
    let session = net.session_at(2);
    let one = net.template_at(0);
    let two = FilterSpec { src_port: 6000, ..one };
    for (app, template, mbps) in [(AppId(7), one, 2), (AppId(8), two, 5)] {
        net.tell(0, Input::App(AppCall::Sender { app, session, template, tspec: tspec(mbps), ttl: 63 }));
    }
    net.run(ms(10));
    let (filters, flowspecs): (&[FilterSpec], _) = (&[one, two], &[cl(2), cl(5)]);
    let (app, style, confirm) = (RECEIVER, Style::Ff, true);
    net.tell(2, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs, confirm }));
    net.run(ms(20));
    assert_eq!((net.held(), net.resvs(), net.confirms(2).len()), (vec![7, 7, 0], vec![2, 2, 2], 2));

    // Asked again for one of them alone, the other ends.
    let (filters, flowspecs): (&[FilterSpec], _) = (&[two], &[cl(5)]);
    net.tell(2, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs, confirm: false }));
    net.run(ms(20));
    assert_eq!((net.held(), net.resvs()), (vec![5, 5, 0], vec![1, 1, 1]));
}

/// Two applications that ask for the same flow share one reservation, the larger.
#[test]
fn two_applications_share_the_larger_request() {
    let mut net = Net::reserved_line(R, 3);
    let (session, filter) = (net.session_at(3), net.template_at(0));
    let (filters, flowspecs): (&[FilterSpec], _) = (&[filter], &[cl(5)]);
    let ask =
        Input::App(AppCall::Reserve { app: AppId(9), session, style: Style::Ff, filters, flowspecs, confirm: true });
    net.tell(3, ask);
    net.run(ms(20));
    assert_eq!(net.held(), [5, 5, 5, 0]);
    net.tell(3, Input::App(AppCall::Release { app: AppId(9), session: Some(session) }));
    net.run(ms(20));
    assert_eq!(net.held(), [3, 3, 3, 0]);
}

/// Guaranteed requests share the larger rate and the smaller slack; a request for another service beside them is refused
/// (error 21, value 1) and changes nothing.
#[test]
fn guaranteed_requests_merge_and_other_services_do_not() {
    let mut net = Net::line(&["snd", "r1", "rcv"], R);
    for node in 0..2 {
        net.nodes[node].env.guaranteed.extend([(IfIndex(1), (1500, 100)), (IfIndex(2), (1500, 100))]);
    }
    net.announce(0, 2, 3);
    net.run(ms(10));
    net.ask(0, 2, gs(4));
    net.run(ms(20));
    let (session, filter) = (net.session_at(2), net.template_at(0));
    let ask = |net: &mut Net, flowspec| {
        let (filters, flowspecs) = (&[filter], &[flowspec]);
        let app = AppId(9);
        net.tell(2, Input::App(AppCall::Reserve { app, session, style: Style::Ff, filters, flowspecs, confirm: true }));
        net.run(ms(20));
    };
    let FlowSpec::Guaranteed(small, mut rspec) = gs(2) else { panic!("guaranteed") };
    (rspec.R, rspec.S) = (Rate::from_mbps(7), ms(5));
    ask(&mut net, FlowSpec::Guaranteed(small, rspec));
    let FlowSpec::Guaranteed(large, _) = gs(4) else { panic!("guaranteed") };
    rspec.S = Span::ZERO;
    let merged = net.engine(0).reservations().next().expect("one").flowspec;
    assert_eq!((merged, net.held()), (FlowSpec::Guaranteed(large, rspec), vec![7, 7, 0]));
    let before = net.digests();
    ask(&mut net, cl(1));
    let error = net.errors(2).pop().expect("told");
    assert_eq!((error.code, error.value), (21, 1));
    assert_eq!(net.digests(), before);
}

/// Sender and receiver on one node: no link, no traffic control, and still an answer.
#[test]
fn a_session_within_one_node() {
    let mut net = Net::line(&["both", "other"], R);
    net.announce(0, 0, 3);
    net.ask(0, 0, cl(3));
    assert_eq!(net.heard(0, |u| matches!(u, Upcall::Resv { .. })), 1);
    assert_eq!((net.confirms(0).len(), net.held(), net.log.len()), (1, vec![0, 0], 0));
}

/// A rate that a float of RFC 2210 cannot hold is rounded up once, and is confirmed as what was asked.
#[test]
fn odd_rates_survive_the_wire() {
    let mut net = Net::line(&["snd", "r1", "rcv"], R);
    net.announce(0, 2, 3);
    net.run(ms(10));
    let mut odd = tspec(3);
    odd.r = Rate::from_bps(123_456_789);
    odd.p = Rate::from_bps(987_654_321);
    (0..2).for_each(|n| net.nodes[n].env.capacity.values_mut().for_each(|c| *c = Rate::from_mbps(1_000)));
    net.ask(0, 2, terms::FlowSpec::ControlledLoad(odd));
    net.run(ms(20));
    let [(_, confirmed)] = net.confirms(2)[..] else { panic!("confirmed once") };
    assert!(confirmed.rate() >= odd.r && confirmed.rate() < Rate::from_bps(123_456_900), "{confirmed:?}");
}
